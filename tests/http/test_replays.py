"""Decisions on record, over HTTP and from the terminal: kept where the settings say so, read by the
job's owner, decided again, carried to another machine."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from jobrunner.actors.features.upgrades import retelling
from jobrunner.cli import replays, run
from jobrunner.config.settings import WorkflowSettings
from jobrunner.core.features.upgrades import upgrades
from jobrunner.store.features.upgrades import replays as replaying
from tests.http.fickle import DEFINITION, fickle
from tests.http.serving import House, opened
from tests.http.test_renamed import again, done

pytestmark = pytest.mark.anyio

ON_RECORD = {"fickle": WorkflowSettings(record="decisions")}
Typed = Callable[..., Any]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """A command, typed beside the running service: its exit code and what it printed."""
    monkeypatch.setattr(replays, "installed", lambda config: fickle())

    async def one(house: House, *arguments: str, token: str | None = None) -> tuple[int, str]:
        monkeypatch.setenv("JOBRUNNER_URL", house.service.url)
        monkeypatch.setenv("JOBRUNNER_TOKEN", token or house.admin.token or "")
        code = await anyio.to_thread.run_sync(run, ["job", *arguments])
        return code, capsys.readouterr().out

    return one


async def lived(house: House) -> str:
    job: str = (await house.ada.submit("fickle", params={"name": "a-secret-name"}))["id"]
    assert (await house.ada.post(f"/jobs/{job}/go", {})).status == 200
    await done(house, job)
    return job


async def test_what_was_decided_is_decided_again(tmp_path: Path, typed: Typed) -> None:
    async with opened(tmp_path, registry=fickle(), workflows=ON_RECORD) as house:
        job = await lived(house)
        said = (await house.ada.get(f"/jobs/{job}/decisions")).json
        assert [one["message"]["type"] for one in said["decisions"]] == [
            "Submit",
            "Do",
            "Start",
            "Ended",
        ]
        assert list(said["declarations"]) == [DEFINITION.digest]
        assert (await house.eve.get(f"/jobs/{job}/decisions")).status == 404
        assert (await house.worker.get(f"/jobs/{job}/decisions")).status == 403
        code, out = await typed(house, "replay", job)
        assert code == 0, out
        assert "4 decisions, each comes out as it did" in out
        code, out = await typed(house, "replay", job, "-o", "json")
        assert [one["differs"] for one in json.loads(out)] == [[]] * 4
        page = (await house.ada.get(f"/jobs/{job}/decisions?limit=3")).json
        rest = (await house.ada.get(f"/jobs/{job}/decisions?cursor={page['next_cursor']}")).json
        assert page["decisions"] + rest["decisions"] == said["decisions"]
        assert rest["declarations"] == {}


async def test_what_is_large_comes_in_pages_and_is_decided_again_in_part(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records lie packed: a user may have written little that is very much when it is read."""
    bound = replaying.decisions.__defaults__
    assert bound is not None
    async with opened(tmp_path, registry=fickle(), workflows=ON_RECORD) as house:
        job = await lived(house)
        path = f"/jobs/{job}/decisions"
        every = (await house.ada.get(path)).json["decisions"]
        monkeypatch.setattr(upgrades, "PAGE_BYTES", 1)
        monkeypatch.setattr(replaying.decisions, "__defaults__", (*bound[:-1], 1))
        pages = [(await house.ada.get(path)).json]
        while cursor := pages[-1]["next_cursor"]:
            pages.append((await house.ada.get(f"{path}?cursor={cursor}")).json)
        assert [page["decisions"] for page in pages] == [*([one] for one in every), []]
        code, out = await typed(house, "replay", job)
        assert (code, "4 decisions, each comes out as it did" in out) == (0, True), out
        told = (await house.ada.post(f"{path}/replay")).json
        assert (len(told["steps"]), told["whole"]) == (4, True)
        monkeypatch.setattr(retelling, "SIZE_MAX", 1)
        told = (await house.ada.post(f"{path}/replay")).json
        assert (len(told["steps"]), told["whole"]) == (1, False)


async def test_singletons_are_on_record_the_one_that_gave_way_too(
    tmp_path: Path, typed: Typed
) -> None:
    wish = {"singleton": {"key": "one", "mode": "replace", "quiet_s": 60}}
    async with opened(tmp_path, registry=fickle(), workflows=ON_RECORD) as house:
        first = (await house.ada.submit("fickle", **wish))["id"]
        second = (await house.ada.submit("fickle", **wish))["id"]
        for job, messages in ((first, ["Submit", "Do"]), (second, ["Submit"])):
            said = (await house.ada.get(f"/jobs/{job}/decisions")).json["decisions"]
            assert [one["message"]["type"] for one in said] == messages
            code, out = await typed(house, "replay", job)
            assert code == 0, out
            assert "each comes out as it did" in out or "it comes out as it did" in out, out


async def test_another_declaration_shows_where_it_would_have_gone(
    tmp_path: Path, typed: Typed
) -> None:
    told = msgspec.json.decode(DEFINITION.encoded)
    for command in told["commands"]:
        if command["name"] == "go":
            command["walks"] = {"draft": ["canceled"]}
    other = tmp_path / "other.json"
    other.write_bytes(msgspec.json.encode(told))
    async with opened(tmp_path, registry=fickle(), workflows=ON_RECORD) as house:
        job = await lived(house)
        code, out = await typed(house, "replay", job, "--workflow", str(other), "-o", "json")
        assert code == 1
        steps = json.loads(out)
        assert steps[0]["differs"] == []
        assert "path" in steps[1]["differs"]
        assert steps[1]["now"]["status"] == "canceled"
        assert steps[2]["differs"] == ["verdict"]
        code, out = await typed(house, "replay", job, "--workflow", str(other))
        assert "4 decisions, 3 would come out otherwise" in out


async def test_the_service_decides_again_and_changes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, registry=fickle(), workflows=ON_RECORD) as house:
        job = await lived(house)
        before = (await house.ada.get(f"/jobs/{job}")).raw
        path = f"/jobs/{job}/decisions/replay"
        said = (await house.ada.post(path)).json
        assert [one["message"] for one in said["steps"]] == ["Submit", "Do", "Start", "Ended"]
        assert [one["differs"] for one in said["steps"]] == [[]] * 4
        assert said["under"] is None
        assert said["whole"]
        own = (await house.ada.get(f"/jobs/{job}/workflow")).json
        assert own["digest"] == DEFINITION.digest
        same = (await house.ada.post(path, {"digest": DEFINITION.digest})).json
        assert same["under"] == own
        assert (await house.ada.post(path, {"digest": "0" * 64})).status == 404
        assert (await house.eve.post(path)).status == 404
        assert (await house.worker.post(path)).status == 403
        assert (await house.ada.get(f"/jobs/{job}")).raw == before


async def test_an_admin_tries_a_declaration_of_its_own(tmp_path: Path) -> None:
    told = msgspec.json.decode(DEFINITION.encoded)
    for command in told["commands"]:
        if command["name"] == "go":
            command["walks"] = {"draft": ["canceled"]}
    async with opened(tmp_path, registry=fickle(), workflows=ON_RECORD) as house:
        job = await lived(house)
        path = f"/jobs/{job}/decisions/replay"
        said = (await house.admin.post(path, {"declaration": told})).json
        assert said["steps"][1]["now"]["status"] == "canceled"
        assert said["steps"][2]["now"] is None
        assert (await house.ada.post(path, {"declaration": told})).code == "FORBIDDEN"
        odd: tuple[Any, ...] = ({}, {"name": 3}, {**told, "states": 7}, {**told, "name": "other"})
        for one in (*odd, {**told, "states": told["states"][:1]}):
            refused = await house.admin.post(path, {"declaration": one})
            assert (refused.status, refused.code) == (422, "INVALID_PARAMS"), one
            assert refused.json["errors"]
        both = await house.admin.post(path, {"declaration": told, "digest": "0" * 64})
        assert both.status == 400
        tried = said["under"]["digest"]
        assert (await house.admin.post(path, {"digest": tried})).status == 404, "nothing is kept"


async def test_a_record_is_carried_elsewhere_and_hides_what_it_should(
    tmp_path: Path, typed: Typed
) -> None:
    whole, bare = tmp_path / "whole.json", tmp_path / "bare.json"
    async with opened(tmp_path, registry=fickle(), workflows=ON_RECORD) as house:
        job = await lived(house)
        assert (await typed(house, "export", job[:20], "--out", str(whole)))[0] == 0
        assert (await typed(house, "export", job, "--redact", "--out", str(bare)))[0] == 0
        assert json.loads((await typed(house, "export", job))[1]) == json.loads(whole.read_text())
    assert "a-secret-name" in whole.read_text()
    assert "a-secret-name" not in bare.read_text()
    for file in (whole, bare):
        code, out = await typed(house, "replay", str(file))
        assert code == 0, out
        assert "4 decisions, each comes out as it did" in out


async def test_without_the_setting_nothing_is_kept(tmp_path: Path, typed: Typed) -> None:
    async with opened(tmp_path, registry=fickle()) as house:
        job = await lived(house)
        assert (await house.ada.get(f"/jobs/{job}/decisions")).json["decisions"] == []
        code, _ = await typed(house, "replay", job)
        assert code == 4
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as db:
        assert db.execute("SELECT count(*) FROM decisions").fetchone() == (0,)


async def test_a_record_that_begins_in_the_middle_begins_with_the_job_as_it_stood(
    tmp_path: Path, typed: Typed
) -> None:
    async with opened(tmp_path, registry=fickle()) as house:
        job = (await house.ada.submit("fickle"))["id"]
    async with opened(tmp_path, registry=fickle(), workflows=ON_RECORD) as house:
        ada = house.caller(await again(house, "ada"))
        assert (await ada.post(f"/jobs/{job}/cancel")).status == 200
        code, out = await typed(house, "replay", job)
        assert code == 0, out
        assert "1 decision, each comes out as it did" in out


async def test_a_record_goes_with_its_job_and_names_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, registry=fickle(), workflows=ON_RECORD) as house:
        house.service.facade.world.surroundings.redaction.learn(["a-secret-name"])
        job = await lived(house)
        said = (await house.ada.get(f"/jobs/{job}/decisions")).raw
        assert b"a-secret-name" not in said
        assert (await house.ada.delete(f"/jobs/{job}")).status == 204
        assert (await house.admin.post("/admin/db/check")).json == {"ok": True, "faults": []}
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as db:
        assert db.execute("SELECT count(*) FROM decisions").fetchone() == (0,)
