"""Batches against the running service: each submission taken or refused by itself, once."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner import ChildWorkflow
from jobrunner.config.settings import DownloadsSection
from jobrunner.stages import Registry
from tests.http.serving import Caller, House, opened
from tests.http.test_metrics import at, seen, until
from tests.receiving import Receiver, receiving
from tests.whole.clan import jobrunner_clan as clans

pytestmark = pytest.mark.anyio
LEAF = {"workflow": "clan", "job_type": "leaf"}
FAN = {"workflow": "clan", "job_type": "fan"}
WITHERS = LEAF | {"params": {"does": "fail"}}
WRONG = LEAF | {"params": {"leaves": "three"}}


def loaded() -> Registry:
    registry = Registry()
    for stage in (clans.fan_stage, clans.plain_stage, clans.thread_stage, clans.leaf_stage):
        registry.add(stage)
    registry.add(clans.clan(ChildWorkflow("clan")))
    assert not registry.refused["workflows"], registry.refused["workflows"]
    return registry


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as found:
        yield found


@pytest.fixture
async def house(tmp_path: Path, receiver: Receiver) -> AsyncIterator[House]:
    downloads = DownloadsSection(allow_private=(receiver.place,))
    async with opened(tmp_path, downloads=downloads, registry=loaded()) as house:
        yield house


async def sent(caller: Caller, *jobs: Any, **more: Any) -> Any:
    said = await caller.post("/batches", {"jobs": jobs, **more})
    assert said.status in (200, 201), said.raw
    return said.json


async def ended(caller: Caller, batch_id: str) -> Any:
    with anyio.fail_after(120):
        while (told := (await caller.get(f"/batches/{batch_id}")).json)["status"] != "ended":
            await anyio.sleep(0.01)
    return told


def waits(gate: Path) -> dict[str, Any]:
    return LEAF | {"params": {"does": "wait", "gate": str(gate)}}


async def test_each_is_taken_or_refused_by_itself(house: House) -> None:
    told = await sent(house.ada, LEAF, WRONG, LEAF | {"workflow": "none"}, WITHERS)
    codes = [one["error_code"] for one in told["results"]]
    assert codes == [None, "INVALID_PARAMS", "UNKNOWN_WORKFLOW", None]
    assert told["results"][1]["errors"][0]["path"] == "$.params.leaves"
    told = await ended(house.ada, told["id"])
    assert (told["well"], told["ill"], told["refused"], told["left"]) == (1, 1, 2, 0)
    assert told["counts"] == {"done": 1, "failed": 1}
    assert {one["error_code"] for one in told["refusals"]} == {"INVALID_PARAMS", "UNKNOWN_WORKFLOW"}
    listed = (await house.ada.get(f"/jobs?batch={told['id']}")).json["jobs"]
    assert {(one["batch"], one["status"]) for one in listed} == {
        (told["id"], "done"),
        (told["id"], "failed"),
    }


async def test_the_same_call_again_makes_nothing_twice(house: House) -> None:
    first = await sent(house.ada, LEAF, LEAF, WRONG, key="monday")
    again = await sent(house.ada, LEAF, LEAF, WRONG, key="monday")
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert again["id"] == first["id"]
    ids = [[one["job_id"] for one in told["results"]] for told in (first, again)]
    assert ids[0] == ids[1]
    assert [one["replayed"] for one in again["results"]] == [True, True, False]
    assert again["results"][2]["error_code"] == "INVALID_PARAMS"
    assert (await sent(house.eve, LEAF, key="monday"))["id"] != first["id"]


async def test_another_call_under_the_same_key_is_told_so(house: House) -> None:
    """The jobs are those of the first one, and whoever sent other parameters learns it."""
    first = await sent(house.ada, LEAF, LEAF, key="tuesday")
    other = await sent(house.ada, LEAF, WITHERS, key="tuesday")
    assert [one["job_id"] for one in other["results"]] == [
        one["job_id"] for one in first["results"]
    ]
    assert [one.get("idempotency_mismatch") for one in other["results"]] == [None, True]
    assert not any("idempotency_mismatch" in one for one in first["results"])


async def test_many_calls_of_one_key_at_once_are_one(house: House) -> None:
    await house.admin.post("/admin/credits/ada/grant", {"amount": 100, "reason": "many"})
    told: list[Any] = []

    async def send() -> None:
        told.append(await sent(house.ada, *([LEAF] * 20), key="rush"))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(send)
    assert len({one["id"] for one in told}) == 1
    last = await ended(house.ada, told[0]["id"])
    assert (last["well"], last["left"]) == (20, 0)


async def test_an_open_batch_grows_until_it_is_closed(house: House) -> None:
    told = await sent(house.ada, LEAF, open=True)
    path = f"/batches/{told['id']}"
    assert told["status"] == "open"
    more = {"jobs": [LEAF | {"key": "two"}]}
    for replayed in (False, True):
        grown = (await house.ada.post(f"{path}/jobs", more)).json
        assert grown["results"][0]["replayed"] is replayed
    assert (await house.ada.post(f"{path}/close")).json["status"] in ("running", "ended")
    assert (await ended(house.ada, told["id"]))["well"] == 2
    late = (await house.ada.post(f"{path}/jobs", {"jobs": [LEAF]})).json["results"]
    assert late[0]["error_code"] == "BATCH_CLOSED"
    again = (await house.ada.post(f"{path}/jobs", more)).json["results"]
    assert again[0]["replayed"], "what is there is found, also when nothing is added any more"


async def test_the_end_is_told_once(house: House, receiver: Receiver, tmp_path: Path) -> None:
    """In the commit that ends the last job; of a closed batch only."""
    gate = tmp_path / "gate"
    url = receiver.url("/over")
    told = await sent(house.ada, LEAF, WITHERS, WRONG, waits(gate), notify_url=url, key="told")
    assert (await house.ada.get(f"/batches/{told['id']}")).json["status"] == "running"
    await until(house, "batches", 1, status="running")
    found = await seen(house)
    assert at(found, "batch_refusals_total", code="INVALID_PARAMS") == 1
    assert at(found, "batches", status="open") == 0
    fan = FAN | {"params": {"leaves": 2, "does": "wait", "gate": str(gate)}}
    assert (await house.ada.post("/jobs", fan)).status == 201
    await until(house, "parents_waiting", 1)
    assert (await house.admin.get("/answers")).json["answers"] == [], "nobody can answer that"
    await until(house, "batch_jobs_open", 1)
    assert at(await seen(house), "children_open", workflow="clan", kind="active") == 2
    gate.touch()
    last = await ended(house.ada, told["id"])
    with anyio.fail_after(120):
        while not receiver.sent:
            await anyio.sleep(0.01)
    body = receiver.sent[0].json
    assert body["type"] == "batch.ended"
    assert body["timestamp"] == last["ended_at"]
    assert body["data"] == {
        "batch_id": told["id"], "user_id": "ada", "key": "told", "well": 2, "ill": 1, "refused": 1,
    }  # fmt: skip
    failed = (await house.ada.get(f"/jobs?batch={told['id']}&status=failed")).json["jobs"][0]
    assert (await house.ada.post(f"/jobs/{failed['id']}/retry")).status == 200
    await ended(house.ada, told["id"])
    rows = (await house.admin.get("/admin/deliveries")).json["deliveries"]
    assert [row["type"] for row in rows] == ["batch.ended"]


async def test_a_batch_that_closes_after_its_jobs_is_told_too(
    house: House, receiver: Receiver
) -> None:
    told = await sent(house.ada, LEAF, open=True, notify_url=receiver.url("/over"))
    with anyio.fail_after(120):
        while (await house.ada.get(f"/batches/{told['id']}")).json["left"]:
            await anyio.sleep(0.01)
    assert not receiver.sent
    await house.ada.post(f"/batches/{told['id']}/close")
    with anyio.fail_after(120):
        while not receiver.sent:
            await anyio.sleep(0.01)
    assert receiver.sent[0].json["data"]["batch_id"] == told["id"]


async def test_a_batch_that_has_ended_does_not_end_again(house: House, receiver: Receiver) -> None:
    """Its end stays the first one when a job of it is revived and ends once more."""
    told = await sent(house.ada, WITHERS, LEAF, notify_url=receiver.url("/over"))
    last = await ended(house.ada, told["id"])
    failed = (await house.ada.get(f"/jobs?batch={told['id']}&status=failed")).json["jobs"][0]
    assert (await house.ada.post(f"/jobs/{failed['id']}/retry")).status == 200
    with anyio.fail_after(120):
        while (again := (await house.ada.get(f"/batches/{told['id']}")).json)["left"]:
            await anyio.sleep(0.01)
    assert again["ill"] == 1
    assert again["ended_at"] == last["ended_at"]
    rows = (await house.admin.get("/admin/deliveries")).json["deliveries"]
    assert [row["type"] for row in rows] == ["batch.ended"]


async def test_a_batch_is_canceled(house: House, tmp_path: Path) -> None:
    gate = waits(tmp_path / "gate")
    told = await sent(house.ada, *([gate] * 12), open=True)
    said = await house.ada.post(f"/batches/{told['id']}/cancel")
    assert said.status == 202
    last = await ended(house.ada, told["id"])
    assert (last["counts"], last["ill"]) == ({"canceled": 12}, 12)


async def test_those_that_failed_are_done_again(house: House) -> None:
    told = await sent(house.ada, LEAF, WITHERS, WITHERS)
    await ended(house.ada, told["id"])
    path = f"/batches/{told['id']}/rerun"
    again = await house.ada.post(path, {"key": "again"})
    assert again.status == 201
    assert (again.json["rerun_of"], len(again.json["results"])) == (told["id"], 2)
    assert (await ended(house.ada, again.json["id"]))["ill"] == 2
    twice = await house.ada.post(path, {"key": "again"})
    assert (twice.status, twice.json["id"], twice.json["results"]) == (200, again.json["id"], [])
    jobs = (await house.ada.get(f"/jobs?batch={again.json['id']}")).json["jobs"]
    assert len({one["forked_from"] for one in jobs}) == 2


async def test_batches_are_listed_and_forgotten(house: House) -> None:
    made = [(await sent(house.ada, LEAF))["id"] for _ in range(3)]
    page = (await house.ada.get("/batches?limit=2")).json
    rest = (await house.ada.get(f"/batches?limit=2&cursor={page['next_cursor']}")).json
    assert [one["id"] for one in (*page["batches"], *rest["batches"])] == made[::-1]
    assert (await house.eve.get("/batches")).json["batches"] == []
    assert (await house.eve.get(f"/batches/{made[0]}")).status == 404
    assert (await house.eve.get("/batches?user_id=ada")).status == 403
    assert len((await house.admin.get("/batches?user_id=ada")).json["batches"]) == 3
    job = (await ended(house.ada, made[0])) and (
        await house.ada.get(f"/jobs?batch={made[0]}")
    ).json["jobs"][0]
    assert (await house.ada.delete(f"/batches/{made[0]}")).status == 204
    assert (await house.ada.get(f"/batches/{made[0]}")).status == 404
    assert (await house.ada.get(f"/jobs/{job['id']}")).json["batch"] == made[0]
    still = (await sent(house.ada, LEAF, open=True))["id"]
    refused = await house.ada.delete(f"/batches/{still}")
    assert (refused.status, refused.code) == (409, "BATCH_NOT_ENDED")


async def test_a_thousand_in_one_call(house: House) -> None:
    await house.admin.post("/admin/credits/ada/grant", {"amount": 5000, "reason": "many"})
    told = await sent(house.ada, *([LEAF] * 1000))
    assert len({one["job_id"] for one in told["results"]}) == 1000
    too_many = await house.ada.post("/batches", {"jobs": [LEAF] * 1001})
    assert (too_many.status, too_many.code) == (400, "VALIDATION_ERROR")
