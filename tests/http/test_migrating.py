"""Jobs under way, moved to the declaration of today over HTTP and from the terminal."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from jobrunner import Definition, Edge, State
from jobrunner.cli import run
from jobrunner.stages import Registry
from tests.http.fickle import DEFINITION, FUNCTIONS, Params, fickle, work
from tests.http.serving import House, opened
from tests.http.test_renamed import again, done, left_in

pytestmark = pytest.mark.anyio


def second() -> Registry:
    """The next version: ``draft`` is ``sketch``, and ``queued`` is gone."""
    workflow = DEFINITION.workflow
    told = msgspec.json.encode(workflow).replace(b'"draft"', b'"sketch"')
    renamed = msgspec.json.decode(told, type=type(workflow), strict=False)
    states = tuple(
        replace(state, was="draft") if state.name == "sketch" else state
        for state in renamed.states
        if state.name != "queued"
    )
    edges = tuple(edge for edge in renamed.edges if "queued" not in (edge.source, edge.target))
    edges += (
        Edge("sketch", "line", by=("user",)),
        Edge("line", "working", by=("engine",)),
        Edge("line", "canceled", by=("user",)),
    )
    commands = tuple(
        replace(command, walks={"sketch": ("line",)})
        if command.name == "go"
        else replace(command, walks={k: v for k, v in command.walks.items() if k != "queued"})
        for command in renamed.commands
    )
    line = State("line", "queued", onward={"*": "working"})
    changed = replace(renamed, version="2", states=(*states, line), edges=edges, commands=commands)
    registry = Registry()
    registry.add(work)
    registry.add(Definition(changed, FUNCTIONS, {"params": Params}))
    assert not registry.refused["workflows"], registry.refused["workflows"]
    return registry


async def history(house: House, job: str) -> list[Any]:
    found: list[Any] = (await house.admin.get(f"/jobs/{job}/history")).json["history"]
    return found


async def test_jobs_move_where_they_fit_and_others_say_why_not(tmp_path: Path) -> None:
    """One state renamed and one removed: whoever rests in the first moves, the others stay under
    the declaration that they were born under, and go on there."""
    rests, waits, ends = await left_in(tmp_path)
    async with opened(tmp_path, registry=second()) as house:
        house.callers["ada"] = house.caller(await again(house, "ada"))
        dry = await house.admin.post("/admin/upgrades", {"workflow": "fickle", "dry_run": True})
        assert dry.status == 201, dry.raw
        assert (dry.json["status"], dry.json["moved"], dry.json["stay"]) == ("done", 1, 2)
        (stay,) = dry.json["stays"]
        assert stay["why"] == "no state of today is queued, or was; give one `was`"
        assert sorted(stay["examples"]) == sorted([waits, ends])
        assert (await house.ada.get(f"/jobs/{rests}")).json["status"] == "draft"
        said = await house.admin.post("/admin/upgrades", {"workflow": "fickle", "reason": "v2"})
        assert (said.json["moved"], said.json["stay"]) == (1, 2)
        assert said.headers["Location"].endswith(said.json["id"])
        job = (await house.ada.get(f"/jobs/{rests}")).json
        assert (job["status"], job["version"], job["workflow_version"]) == ("sketch", 2, "2")
        last = (await history(house, rests))[-1]
        assert (last["from_status"], last["to_status"]) == ("draft", "sketch")
        assert (last["trigger"], last["actor"]) == ("admin", "admin")
        assert last["reason"].endswith("): v2")
        assert "moved from " in last["reason"]
        await house.admin.post("/admin/workflows/fickle/resume", {})
        assert (await house.ada.post(f"/jobs/{rests}/go")).status == 200
        for job_id in (rests, waits, ends):
            await done(house, job_id)
        again_ = await house.admin.post("/admin/upgrades", {"workflow": "fickle"})
        assert (again_.json["moved"], again_.json["stay"]) == (0, 0)
        first = (await house.admin.get("/admin/upgrades?limit=2")).json
        last_ = f"/admin/upgrades?limit=2&cursor={first['next_cursor']}"
        second_ = (await house.admin.get(last_)).json
        assert [one["moved"] for one in first["upgrades"] + second_["upgrades"]] == [0, 1, 1]
        assert second_["next_cursor"] is None
        audit = (await house.admin.get("/admin/audit")).json["audit"]
        assert [one["event"] for one in audit if one["event"].startswith("upgrade.")] == [
            "upgrade.done",
            "upgrade.ordered",
        ] * 3
        assert (await house.admin.post("/admin/db/check")).json == {"ok": True, "faults": []}


async def test_an_attempt_under_way_is_not_disturbed(tmp_path: Path) -> None:
    async with opened(tmp_path, registry=fickle()) as house:
        held = (await house.ada.submit("fickle"))["id"]
        moved = await house.ada.post(f"/jobs/{held}/transitions", {"to": "outside"})
        assert moved.status == 200, moved.raw
        assert (await house.worker.post(f"/jobs/{held}/claim")).status == 200
    async with opened(tmp_path, registry=second()) as house:
        said = await house.admin.post("/admin/upgrades", {"workflow": "fickle"})
        (stay,) = said.json["stays"]
        assert stay["why"].startswith("an attempt is under way in outside")
        assert stay["examples"] == [held]


async def test_an_unknown_workflow_and_an_unknown_order_are_404(tmp_path: Path) -> None:
    async with opened(tmp_path, registry=fickle()) as house:
        assert (await house.admin.post("/admin/upgrades", {"workflow": "x"})).status == 404
        assert (await house.admin.get("/admin/upgrades/x")).status == 404
        assert (await house.admin.delete("/admin/upgrades/x")).status == 404
        assert (await house.ada.get("/admin/upgrades")).status == 403


async def test_the_terminal_orders_it_and_tells_what_became_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await left_in(tmp_path)
    async with opened(tmp_path, registry=second()) as house:
        monkeypatch.setenv("JOBRUNNER_URL", house.service.url)
        monkeypatch.setenv("JOBRUNNER_TOKEN", house.admin.token or "")

        def typed(*more: str) -> tuple[int, str]:
            return run(["workflow", "migrate", "fickle", *more]), capsys.readouterr().out

        code, out = await anyio.to_thread.run_sync(lambda: typed("--dry-run"))
        assert code == 1, out
        assert "1 jobs would be moved to version 2 (" in out
        assert "2 stay: no state of today is queued, or was; give one `was` (as " in out
        code, out = await anyio.to_thread.run_sync(typed)
        assert "1 jobs were moved to version 2 (" in out


async def test_an_order_for_a_declaration_of_yesterday_is_aborted(tmp_path: Path) -> None:
    """It was cut off, and meanwhile there is another declaration: nobody asked for that one."""
    await left_in(tmp_path)
    async with opened(tmp_path, registry=second()) as house:
        upgrades = house.service.facade.upgrades
        upgrades._at_work = True  # as if the process died before it began
        order = (
            await house.admin.post("/admin/upgrades", {"workflow": "fickle", "dry_run": True})
        ).json
        assert order["status"] == "running"
    async with opened(tmp_path, registry=fickle()) as house:
        with anyio.fail_after(120):
            while (found := (await house.admin.get(f"/admin/upgrades/{order['id']}")).json)[
                "status"
            ] == "running":
                await anyio.sleep(0.02)
        assert (found["status"], found["moved"]) == ("aborted", 0)
