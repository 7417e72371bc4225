"""A plugin that renamed things: what old jobs need of them waits, says so, and goes on when they
are back; everything else goes on as before, a cancellation above all."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from jobrunner import Definition, Stage, Workflow
from jobrunner.stages import Registry
from tests.http.fickle import DEFINITION, FUNCTIONS, Params, fickle, work
from tests.http.serving import House, opened

pytestmark = pytest.mark.anyio

RENAMED = ("pick_up", "edge_guard", "action", "fickle.work")


def renamed(names: tuple[str, ...] = RENAMED) -> Registry:
    """The next version of the plugin: the same under other names, as if they had never been."""
    text = DEFINITION.encoded
    for name in names:
        for where in ('"name":"', '"*":"'):
            text = text.replace(f'{where}{name}"'.encode(), f'{where}{name}.new"'.encode())
    workflow = msgspec.json.decode(text.replace(b'"version":"1"', b'"version":"2"'), type=Workflow)
    functions = {f"{k}.new" if k in names else k: function for k, function in FUNCTIONS.items()}
    registry = Registry()
    stage = "fickle.work.new" if "fickle.work" in names else "fickle.work"
    registry.add(Stage(stage, work.run))
    registry.add(Definition(workflow, functions, {"params": Params}))
    assert not registry.refused["workflows"], registry.refused["workflows"]
    return registry


async def left_in(folder: Path) -> tuple[str, str, str]:
    """Jobs of the version before: one that rests, one that waits in line, one to cancel there; and
    one that is over."""
    async with opened(folder, registry=fickle()) as house:
        await house.admin.post("/admin/workflows/fickle/pause", {})
        rests, waits, ends = [(await house.ada.submit("fickle"))["id"] for _ in range(3)]
        for job in (waits, ends):
            assert (await house.ada.post(f"/jobs/{job}/go")).json["status"] == "queued"
        over = (await house.ada.submit("fickle"))["id"]
        assert (await house.ada.post(f"/jobs/{over}/cancel")).json["status"] == "canceled"
    return rests, waits, ends


async def test_renamed_things_hold_up_what_needs_them(tmp_path: Path) -> None:
    rests, waits, ends = await left_in(tmp_path)
    async with opened(tmp_path, registry=renamed()) as house:
        (line,) = [one for one in house.logged if one["event"] == "declaration.outdated"]
        assert line["reasons"] == ["action", "edge_guard", "pick_up", "stage fickle.work"]
        assert line["jobs"] == 3
        house.callers["ada"] = house.caller(await again(house, "ada"))
        await house.admin.post("/admin/workflows/fickle/resume", {})
        seen = (await house.ada.get(f"/jobs/{waits}")).json
        assert seen["stuck"]["missing"] == ["stage fickle.work", "pick_up"]
        told = (await house.ada.get(f"/jobs/{waits}/explain")).json
        assert "fickle.work" in told["waits_for"]
        for command, missing in (("go", "edge_guard"), ("note", "action")):
            before = (await house.ada.get(f"/jobs/{rests}")).json
            said = await house.ada.post(f"/jobs/{rests}/{command}")
            assert (said.status, said.code) == (503, "WORKFLOW_UNAVAILABLE"), said.raw
            assert said.json["missing"] == [missing]
            assert (await house.ada.get(f"/jobs/{rests}")).json == before
        assert (await house.ada.post(f"/jobs/{ends}/cancel")).json["status"] == "canceled"
        assert (await house.ada.delete(f"/jobs/{ends}")).status == 204
        new = (await house.ada.submit("fickle"))["id"]
        assert (await house.ada.post(f"/jobs/{new}/go")).status == 200
        await done(house, new)
        assert (await house.ada.get(f"/jobs/{waits}")).json["status"] == "queued"
    async with opened(tmp_path, registry=fickle()) as house:
        house.callers["ada"] = house.caller(await again(house, "ada"))
        await done(house, waits)
        assert (await house.ada.post(f"/jobs/{rests}/go")).status == 200
        await done(house, rests)


@pytest.mark.parametrize("name", ["pick_up", "done_guard", "fickle.work"])
async def test_an_attempt_is_not_begun_that_could_not_end(tmp_path: Path, name: str) -> None:
    _, waits, _ = await left_in(tmp_path)
    async with opened(tmp_path, registry=renamed((name,))) as house:
        house.callers["ada"] = house.caller(await again(house, "ada"))
        await house.admin.post("/admin/workflows/fickle/resume", {})
        assert (await house.ada.get(f"/jobs/{waits}")).json["stuck"]["missing"][0].endswith(name)
        new = (await house.ada.submit("fickle"))["id"]
        assert (await house.ada.post(f"/jobs/{new}/go")).status == 200
        await done(house, new)
        assert (await house.ada.get(f"/jobs/{waits}")).json["status"] == "queued"
        assert (await house.ada.get(f"/jobs/{waits}/attempts")).json["attempts"] == []
        assert not [one for one in house.logged if one["event"] == "actor.crashed"]


async def test_a_workflow_that_is_gone_is_told_at_the_start(tmp_path: Path) -> None:
    await left_in(tmp_path)
    async with opened(tmp_path, registry=Registry()) as house:
        (line,) = [one for one in house.logged if one["event"] == "workflow.missing"]
        assert (line["level"], line["workflow"], line["jobs"]) == ("error", "fickle", 3)


async def test_an_older_declaration_is_told_while_jobs_need_it(tmp_path: Path) -> None:
    """Once a start; not for what has ended, though it is kept for whoever wants to read it."""
    jobs = await left_in(tmp_path)
    for left in (3, 0):
        async with opened(tmp_path, registry=renamed()) as house:
            told = [one for one in house.logged if one["event"] == "declaration.outdated"]
            assert [one["jobs"] for one in told] == ([left] if left else [])
            assert len(await house.service.store.reader.declarations()) == 2
            ada = house.caller(await again(house, "ada"))
            for job in jobs if left else ():
                assert (await ada.post(f"/jobs/{job}/cancel")).status == 200


async def again(house: House, name: str) -> Any:
    """A token of the same user, in another life of the service."""
    made = await house.admin.post("/admin/tokens", {"name": name, "role": "user"})
    return made.json["token"]


async def done(house: House, job: str) -> None:
    with anyio.fail_after(120):
        while (await house.ada.get(f"/jobs/{job}")).json["status"] != "done":
            await anyio.sleep(0.02)
