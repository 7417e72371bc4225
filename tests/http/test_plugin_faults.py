"""A function of a plugin that raises, or answers what it may not: 503 and nothing made or changed,
its name with the traceback in the log; the engine's own steps put the job aside instead."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest

from tests.http import fickle
from tests.http.fickle import misbehaving
from tests.http.serving import House, Said, opened

pytestmark = pytest.mark.anyio

Asking = Callable[[House, str], Awaitable[Said]]


@pytest.fixture(scope="module")
async def house(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[House]:
    async with opened(tmp_path_factory.mktemp("fickle"), registry=fickle.fickle()) as house:
        yield house


async def born(house: House, _: str) -> Said:
    return await house.ada.post("/jobs", {"workflow": "fickle"})


async def through_its_route(house: House, _: str) -> Said:
    return await house.ada.post("/fickle", {})


async def noted(house: House, job: str) -> Said:
    return await house.ada.post(f"/jobs/{job}/note")


async def gone_on(house: House, job: str) -> Said:
    return await house.ada.post(f"/jobs/{job}/go")


async def edited(house: House, job: str) -> Said:
    return await house.ada.put(f"/jobs/{job}/artifacts/text", {"value": "well"})


async def uploaded(house: House, job: str) -> Said:
    path, sent = f"/jobs/{job}/upload", {"Content-Type": "application/octet-stream"}
    return await house.ada.ask("PUT", path, data=b"file", headers=sent)


async def reported(house: House, job: str) -> Said:
    moved = await house.worker.post(f"/jobs/{job}/transitions", {"to": "outside"})
    assert moved.status == 200 or moved.code == "ILLEGAL_TRANSITION", moved.raw
    report = {"to": "draft", "artifact_updates": {"text": "told"}}
    return await house.worker.post(f"/jobs/{job}/transitions", report)


ASKED: dict[str, Asking] = {
    "birth_guard": born,
    "derive": born,
    "read": through_its_route,
    "identity": noted,
    "command_guard": noted,
    "action": noted,
    "edge_guard": gone_on,
    "edited": edited,
    "upload_guard": uploaded,
    "uploaded": uploaded,
    "sift": reported,
}
WRONG: tuple[Callable[[], Any], ...] = (
    fickle.raising,
    fickle.leaving,
    fickle.waiting,
    lambda: True,
    lambda: False,
    lambda: 0,
    lambda: "no",
    object,
    fickle.odd_report,
    fickle.odd_name,
    fickle.odd_path,
    fickle.unsendable,
)


@pytest.mark.parametrize("deed", WRONG, ids=lambda deed: deed.__name__)
@pytest.mark.parametrize("name", ASKED)
async def test_nothing_follows_from_a_function_that_fails(
    house: House, name: str, deed: Callable[[], Any]
) -> None:
    job = (await house.ada.submit("fickle"))["id"]
    if name == "sift":
        await house.worker.post(f"/jobs/{job}/transitions", {"to": "outside"})
    before = await everything(house, job)
    house.logged.clear()
    with misbehaving(name, deed):
        said = await ASKED[name](house, job)
    assert (said.status, said.code) == (503, "WORKFLOW_UNAVAILABLE"), said.raw
    assert "Retry-After" in said.headers
    assert name in said.json["detail"]
    assert await everything(house, job) == before
    (line,) = [line for line in house.logged if line["event"] == "plugin.fault"]
    assert (line["level"], line["workflow"], line["function"]) == ("error", "fickle", name)
    assert line["traceback"]
    if deed is fickle.raising:
        assert "a bug of its author" in line["traceback"]
        assert "a bug of its author" not in said.json["detail"]
        seen = (await house.admin.get("/overview")).json["system"]["troubles"][0]
        assert (seen["kind"], seen["name"], seen["workflow"]) == ("function", name, "fickle")
    assert (await ASKED[name](house, job)).status < 300


@pytest.mark.parametrize("name", [*ASKED, "pick_up", "answer"])
@pytest.mark.parametrize("how", ["raised", "answered"])
async def test_the_words_of_users_do_not_come_into_the_log(
    house: House, name: str, how: str
) -> None:
    """The kind of the exceptions and their places do."""
    words = "a heron at the weir"
    house.logged.clear()
    job = (await house.ada.submit("fickle"))["id"]
    with misbehaving(name, fickle.quoting(words) if how == "raised" else lambda: words):
        await ASKED.get(name, through_its_route if name == "answer" else gone_on)(house, job)
        with anyio.fail_after(120):
            while not (found := [one for one in house.logged if one["event"] == "plugin.fault"]):
                await anyio.sleep(0.02)
    assert words not in str(house.logged)
    if how == "raised":
        assert found[0]["error"] == "ValueError"
        assert "fickle.py" in found[0]["traceback"]
        assert "in quotes" in found[0]["traceback"]
        assert "KeyError" in found[0]["traceback"]
    else:
        assert "of type str" in found[0]["detail"]


async def everything(house: House, job: str) -> Any:
    count = len((await house.ada.get("/jobs?workflow=fickle&limit=100")).json["jobs"])
    return count, (await house.ada.get(f"/jobs/{job}")).json


@pytest.mark.parametrize("name", ["birth_guard", "command_guard", "edge_guard", "action"])
async def test_a_refusal_that_is_raised_is_a_refusal(house: House, name: str) -> None:
    def refuses() -> Any:
        raise fickle.refusing()

    job = (await house.ada.submit("fickle"))["id"]
    for deed in (fickle.refusing, refuses):
        with misbehaving(name, deed):
            said = await ASKED[name](house, job)
        assert (said.status, said.json["error_code"]) == (409, "NO_FULL_MOON")


@pytest.mark.parametrize("deed", [fickle.raising, fickle.leaving, lambda: True])
@pytest.mark.parametrize("name", ["pick_up", "done_guard"])
async def test_the_engines_own_step_puts_the_job_aside(
    house: House, name: str, deed: Callable[[], Any]
) -> None:
    job = (await house.ada.submit("fickle"))["id"]
    house.logged.clear()
    with misbehaving(name, deed):
        await gone_on(house, job)
        seen = await when(house, job, lambda seen: seen["stuck"])
        assert name in seen["stuck"]["reason"]
    found = [line for line in house.logged if line["event"] == "plugin.fault"]
    assert [line["function"] for line in found] == [name]
    assert not [line for line in house.logged if line["event"] == "actor.crashed"]
    attempts = (await house.ada.get(f"/jobs/{job}/attempts")).json["attempts"]
    assert not [one for one in attempts if one["status"] == "running"]
    released = await house.admin.post(f"/admin/jobs/{job}/release", {})
    assert released.status == 200, released.raw
    await when(house, job, lambda seen: seen["status"] == "done")


async def when(house: House, job: str, true: Callable[[Any], Any]) -> Any:
    with anyio.fail_after(120):
        while True:
            seen = (await house.ada.get(f"/jobs/{job}")).json
            if true(seen):
                return seen
            await anyio.sleep(0.02)


@pytest.mark.parametrize("deed", [fickle.raising, lambda: 7, lambda: {"what": object()}])
async def test_what_was_done_is_told_without_the_words_of_its_route(
    house: House, deed: Callable[[], Any]
) -> None:
    """The job is made before these words are asked for, so nothing else would be true."""
    house.logged.clear()
    with misbehaving("answer", deed):
        said = await through_its_route(house, "")
    assert said.status == 201
    assert "message" not in said.json
    assert (await house.ada.get(f"/jobs/{said.json['id']}")).status == 200
    assert [line["function"] for line in house.logged if line["event"] == "plugin.fault"] == [
        "answer"
    ]
    assert (await through_its_route(house, "")).json["message"] == "well"


async def test_a_key_is_free_again_when_its_job_has_ended_for_good(house: House) -> None:
    """Nothing is left for the old job to walk, and none of its words change."""
    with misbehaving("derive", lambda: ["the same"]):
        old = (await house.ada.submit("fickle"))["id"]
        assert (await house.ada.submit("fickle"))["id"] == old
        await house.ada.post(f"/jobs/{old}/cancel")
        before = (await house.ada.get(f"/jobs/{old}")).json
        new = await born(house, "")
        assert (new.status, new.json["replayed"]) == (201, False)
        assert new.json["id"] != old
        assert (await house.ada.submit("fickle"))["id"] == new.json["id"]
    assert (await house.ada.get(f"/jobs/{old}")).json == before
