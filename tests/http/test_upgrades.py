"""Jobs under way and a declaration that has changed: what a start says of them, and what ``workflow
check --jobs`` says before it."""

import json
from pathlib import Path

import pytest

from jobrunner.actors.features.upgrades.upgrades import forget_declarations
from jobrunner.cli import run, workflows
from jobrunner.config.settings import WorkflowSettings
from tests.http.fickle import fickle
from tests.http.serving import opened
from tests.http.test_renamed import again, left_in, renamed

pytestmark = pytest.mark.anyio


def check_jobs(folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    (folder / "config.toml").write_text(f"[store]\npath = '{folder}/jobs.db'\n")
    code = run(["workflow", "check", "--jobs", *more, "--config", str(folder / "config.toml")])
    return code, capsys.readouterr().out


async def test_a_check_says_what_becomes_of_the_jobs_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the start, by where they are; a job that has ended is none of them."""
    await left_in(tmp_path)
    monkeypatch.setattr(workflows, "installed", lambda config: fickle())
    code, out = check_jobs(tmp_path, capsys, "fickle")
    assert (code, out.splitlines()[1].strip()) == (
        0,
        "jobs under way: 3 go on, 0 under the old one, 0 stuck",
    )
    monkeypatch.setattr(workflows, "installed", lambda config: renamed(("fickle.work", "action")))
    code, out = check_jobs(tmp_path, capsys)
    assert code == 1
    told = [line.strip() for line in out.splitlines()]
    assert told[:2] == [
        "fickle: jobs would be stuck",
        "jobs under way: 0 go on, 1 under the old one, 2 stuck",
    ]
    assert told[2].startswith("2 jobs in queued (one) of version 1 (")
    assert told[2].endswith("): stuck for want of stage fickle.work")
    assert told[3].startswith("1 job in draft (one) of version 1 (")
    assert "go on under the old one; later stuck in queued for want of stage fickle.work" in told[3]
    (found,) = json.loads(check_jobs(tmp_path, capsys, "-o", "json")[1])
    assert (found["go_on"], found["under_older"], found["stuck"]) == (0, 1, 2)
    assert found["lacks"] == ["stage fickle.work"]


async def test_jobs_of_a_workflow_that_is_gone_would_be_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await left_in(tmp_path)
    registry = type(fickle())()
    monkeypatch.setattr(workflows, "installed", lambda config: registry)
    code, out = check_jobs(tmp_path, capsys)
    assert code == 1
    assert "fickle: jobs would be stuck" in out
    assert "stuck for want of the workflow, which is not loaded" in out


async def test_a_start_says_it_once_for_each_workflow_that_differs(tmp_path: Path) -> None:
    await left_in(tmp_path)
    async with opened(tmp_path, registry=fickle()) as house:
        assert not [one for one in house.logged if one["event"] == "workflow.upgraded"]
    async with opened(tmp_path, registry=renamed(("fickle.work",))) as house:
        (line,) = [one for one in house.logged if one["event"] == "workflow.upgraded"]
        assert (line["workflow"], line["level"], line["lacks"]) == (
            "fickle",
            "warning",
            ["stage fickle.work"],
        )
        assert (line["go_on"], line["under_older"], line["stuck"]) == (0, 1, 2)
        assert not [one for one in house.logged if one["event"] == "declaration.same_version"]


async def test_two_declarations_under_one_version_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``renamed`` without a name to rename says version 2; the next one changes it and keeps it."""
    for names in ((), ("action",)):
        async with opened(tmp_path, registry=renamed(names)) as house:
            told = [one for one in house.logged if one["event"] == "declaration.same_version"]
            assert [one["workflow"] for one in told] == (["fickle"] if names else [])
            await house.ada.submit("fickle")  # else the first one is forgotten
    monkeypatch.setattr(workflows, "installed", lambda config: renamed(("action",)))
    code, out = check_jobs(tmp_path, capsys)
    assert code == 0
    assert "a stored declaration has the same version; give this one another (" in out


async def test_an_older_declaration_is_forgotten_when_no_job_needs_it(tmp_path: Path) -> None:
    """While a job is there that was born under it, ended or not, it stays; with the last one it
    goes, and comes back when it is loaded again."""
    jobs = await left_in(tmp_path)
    async with opened(tmp_path, registry=renamed()) as house:
        store, world = house.service.store, house.service.facade.world
        assert len(await store.reader.declarations()) == 2
        await forget_declarations(world)
        assert len(await store.reader.declarations()) == 2
        ada = house.caller(await again(house, "ada"))
        for job in jobs:
            assert (await ada.post(f"/jobs/{job}/cancel")).status == 200
        for job in [one["id"] for one in (await house.admin.get("/jobs")).json["jobs"]]:
            await forget_declarations(world)
            assert len(await store.reader.declarations()) == 2
            assert (await house.admin.delete(f"/jobs/{job}")).status == 204
        await forget_declarations(world)
        assert len(await store.reader.declarations()) == 1
        assert [one["event"] for one in house.logged].count("declaration.forgotten") == 1
        assert len(world.registry.declared()) == 1
        assert (await house.admin.post("/admin/db/check")).json == {"ok": True, "faults": []}
    async with opened(tmp_path, registry=fickle()) as house:
        assert (await house.admin.submit("fickle"))["status"] == "draft"


async def test_a_decision_on_record_keeps_its_declaration(tmp_path: Path) -> None:
    """The job was moved on, and what it was decided by is still wanted, to decide it again."""
    kept = {"fickle": WorkflowSettings(record="decisions")}
    async with opened(tmp_path, registry=fickle(), workflows=kept) as house:
        job = (await house.ada.submit("fickle"))["id"]
    async with opened(tmp_path, registry=renamed(()), workflows=kept) as house:
        moved = (await house.admin.post("/admin/upgrades", {"workflow": "fickle"})).json
        assert moved["moved"] == 1
        await forget_declarations(house.service.facade.world)
        assert len(await house.service.store.reader.declarations()) == 2
        said = (await house.admin.get(f"/jobs/{job}/decisions")).json
        assert [one["message"]["type"] for one in said["decisions"]] == ["Submit", "Migrate"]
        assert len(said["declarations"]) == 2
