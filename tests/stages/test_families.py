"""Stages that submit jobs and wait for them, wherever they run, behind real HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner import ChildWorkflow
from jobrunner.config.settings import LimitsSection
from jobrunner.stages import Registry
from tests.whole.clan import jobrunner_clan as clans
from tests.whole.living import Living, living

pytestmark = pytest.mark.anyio
STAGES = (clans.fan_stage, clans.plain_stage, clans.thread_stage, clans.leaf_stage)


@asynccontextmanager
async def clan(folder: Path, child: ChildWorkflow, **limits: int) -> AsyncIterator[Living]:
    registry = Registry()
    for stage in STAGES:
        registry.add(stage)
    registry.add(clans.clan(child))
    assert not registry.refused["workflows"], registry.refused["workflows"]
    async with living(folder, registry, LimitsSection(lag=0, **limits)) as here:
        yield here


CLAN = ChildWorkflow("clan")


async def submitted(here: Living, kind: str, **params: Any) -> str:
    body = {"workflow": "clan", "job_type": kind, "params": params}
    said = await here.ada.post("/jobs", body)
    assert said.status == 201, said
    return str(said.json["id"])


async def children(here: Living, parent: str) -> list[dict[str, Any]]:
    said = await here.ada.get(f"/jobs?parent={parent}&limit=100&order=oldest")
    return list(said.json["jobs"])


async def borne(here: Living, parent: str, least: int) -> list[dict[str, Any]]:
    """The children, as soon as there are so many."""
    with anyio.fail_after(120):
        while len(found := await children(here, parent)) < least:
            await anyio.sleep(0.01)
    return found


async def parked(here: Living, job_id: str) -> dict[str, Any]:
    """What is explained of a parent, as soon as it waits for its children."""
    with anyio.fail_after(120):
        while True:
            told: dict[str, Any] = (await here.ada.get(f"/jobs/{job_id}/explain")).json
            if told["attempt"] and told["attempt"]["status"] == "parked":
                return told
            await anyio.sleep(0.01)


async def credits(here: Living) -> tuple[int, int]:
    said = (await here.ada.get("/credits")).json
    return said["balance"], said["held"]


@pytest.mark.parametrize("kind", ["fan", "plain", "thread"])
async def test_a_stage_submits_jobs_and_goes_on_when_they_have_ended(
    tmp_path: Path, kind: str
) -> None:
    """In the loop, in a process of its own, in a thread: the same words, the same tie both ways."""
    async with clan(tmp_path, CLAN) as here:
        parent = await submitted(here, kind)
        assert (await here.at(parent, "done"))["result"] == {"completed": 3}
        found = await children(here, parent)
        assert {(one["parent"], one["status"]) for one in found} == {(parent, "done")}
        assert len(found) == 3
        ran = (await here.ada.get(f"/jobs/{parent}/attempts")).json["attempts"]
        assert [one["attempt"] for one in ran] == [1], "the wait is part of one attempt"
        assert await credits(here) == (1000 - 4 * 2, 0), "the user pays for each of them"


async def test_a_parent_that_waits_has_no_slot(tmp_path: Path) -> None:
    """One slot in all: with a parent in it its children would never begin."""
    async with clan(tmp_path, CLAN, active_jobs=1, per_user_active=1) as here:
        parent = await submitted(here, "fan", leaves=2, deep=1)
        assert (await here.at(parent, "done"))["result"] == {"completed": 2}


@pytest.mark.parametrize(
    ("does", "policy", "ends"),
    [
        ("fail", {}, {"failed": 3}),
        ("work", {"at_least": 1}, None),
        ("fail", {"until": "first_failure"}, None),
        ("fail", {"at_least": 2, "until": "succeeded"}, None),
    ],
    ids=["all", "at least one", "first failure", "enough that succeed"],
)
async def test_how_many_ends_are_enough(
    tmp_path: Path, does: str, policy: dict[str, Any], ends: dict[str, int] | None
) -> None:
    async with clan(tmp_path, CLAN) as here:
        parent = await submitted(here, "fan", does=does, **policy)
        result = (await here.at(parent, "done"))["result"]
        assert sum(result.values()) == 3
        if ends:
            assert result == ends
        if "at_least" in policy and policy.get("until"):
            assert result.get("failed", 0) >= 2, "two of three cannot succeed any more"


async def test_the_family_is_shown(tmp_path: Path) -> None:
    """What a parent waits for, as a tree; whose child a job is; and the list of its children."""
    gate = tmp_path / "gate"
    async with clan(tmp_path, CLAN) as here:
        parent = await submitted(here, "fan", leaves=2, does="wait", gate=str(gate), deep=1)
        told = await parked(here, parent)
        assert told["waits_for"] == "its children to end: 2 of them are awaited"
        middle = await borne(here, parent, 2)
        for one in middle:
            await parked(here, one["id"])
        told = await parked(here, parent)
        assert told["children"] == 2
        assert told["children_by_status"] == [{"workflow": "clan", "status": "working", "jobs": 2}]
        assert [one["id"] for one in told["children_open"]] == [one["id"] for one in middle]
        assert [one["children"] for one in told["children_open"]] == [2, 2]
        grandchild = told["children_open"][0]["children_open"][0]
        below = (await here.ada.get(f"/jobs/{grandchild['id']}/explain")).json
        assert below["parent"]["id"] == middle[0]["id"]
        assert (await here.eve.get(f"/jobs?parent={parent}")).json["jobs"] == []
        gate.touch()
        await here.at(parent, "done")


async def test_children_are_canceled_with_their_parent(tmp_path: Path) -> None:
    """Through all generations, and their holds are given back."""
    async with clan(tmp_path, CLAN) as here:
        gate = str(tmp_path / "gate")
        parent = await submitted(here, "fan", leaves=2, does="wait", gate=gate, deep=1)
        middle = await borne(here, parent, 2)
        leaves = [leaf for one in middle for leaf in await borne(here, one["id"], 2)]
        assert (await here.ada.post(f"/jobs/{parent}/cancel")).status == 200
        for one in (*middle, *leaves):
            await here.at(one["id"], "canceled")
        assert await credits(here) == (1000, 0)


async def test_children_may_be_left_alone(tmp_path: Path) -> None:
    async with clan(tmp_path, ChildWorkflow("clan", at_end="leave")) as here:
        gate = tmp_path / "gate"
        parent = await submitted(here, "fan", leaves=2, does="wait", gate=str(gate))
        leaves = await borne(here, parent, 2)
        await here.ada.post(f"/jobs/{parent}/cancel")
        refused = await here.ada.delete(f"/jobs/{parent}")
        assert (refused.status, refused.code) == (409, "CHILDREN_OPEN"), (
            "no parent goes before them"
        )
        gate.touch()
        for one in leaves:
            await here.at(one["id"], "done")
        assert (await here.ada.delete(f"/jobs/{parent}")).status == 204


async def test_a_parent_may_have_to_wait_for_its_children(tmp_path: Path) -> None:
    async with clan(tmp_path, ChildWorkflow("clan", at_end="wait")) as here:
        gate = tmp_path / "gate"
        parent = await submitted(here, "fan", leaves=1, does="wait", gate=str(gate))
        leaf = (await borne(here, parent, 1))[0]["id"]
        await parked(here, parent)
        refused = await here.ada.post(f"/jobs/{parent}/cancel")
        assert (refused.status, refused.code) == (409, "CHILDREN_OPEN")
        assert refused.json["children"] == [leaf]
        assert (await here.ada.post(f"/jobs/{leaf}/cancel")).status == 200
        assert (await here.at(parent, "done"))["result"] == {"canceled": 1}


async def test_a_parent_may_pay_for_its_children(tmp_path: Path) -> None:
    async with clan(tmp_path, ChildWorkflow("clan", covered=True)) as here:
        parent = await submitted(here, "fan")
        await here.at(parent, "done")
        assert await credits(here) == (998, 0)
        moved = (await here.ada.get("/credits/history")).json["history"]
        assert {row["job_id"] for row in moved if row["job_id"]} == {parent}
        assert {one["credits"]["cost"] for one in await children(here, parent)} == {0}


async def test_a_child_that_was_deleted_is_not_made_again(tmp_path: Path) -> None:
    """Its parent comes by once more, and learns how it had ended."""
    gate = tmp_path / "gate"
    async with clan(tmp_path, CLAN) as here:
        parent = await submitted(here, "fan", leaves=2, does="wait", gate=str(gate))
        first, second = await borne(here, parent, 2)
        assert (await here.ada.post(f"/jobs/{first['id']}/cancel")).status == 200
        await parked(here, parent)
        assert (await here.ada.delete(f"/jobs/{first['id']}")).status == 204
        gate.touch()
        assert (await here.at(parent, "done"))["result"] == {"completed": 1, "failed": 1}
        assert [one["id"] for one in await children(here, parent)] == [second["id"]]


async def test_what_is_not_declared_is_no_child(tmp_path: Path) -> None:
    async with clan(tmp_path, ChildWorkflow("other")) as here:
        (told,) = here.lines(event="children.unavailable")
        assert "clan declares children of other, not loaded here" in told["detail"]
        parent = await here.at(await submitted(here, "fan"), "failed")
        assert parent["failure_code"] == "CHILD_NOT_DECLARED"
        assert "'clan'" in parent["failure_message"]
