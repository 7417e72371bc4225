"""One command for many jobs, and doing jobs again, against the running service."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner.core.decision import Clash
from jobrunner.core.features.bulk import Tick, Ticked
from jobrunner.stages import Registry
from tests.http.serving import Caller, House, Said, definitions, opened

pytestmark = pytest.mark.anyio
FIRED = {"to": "failed", "failure_code": "NETWORK", "failure_message": "x", "retryable": False}


def loaded() -> Registry:
    return definitions(names=("cutx", "howera", "image_generation"))


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with opened(tmp_path, registry=loaded()) as house:
        yield house


async def drafts(house: House, count: int) -> list[str]:
    return [(await house.ada.submit("howera", labels={"set": "one"}))["id"] for _ in range(count)]


async def bulk(caller: Caller, command: str, **more: Any) -> Said:
    return await caller.post("/admin/bulk", {"command": command, **more})


async def over(caller: Caller, bulk_id: str) -> Any:
    with anyio.fail_after(120):
        while True:
            said = (await caller.get(f"/admin/bulk/{bulk_id}")).json
            if said["status"] != "running":
                return said
            await anyio.sleep(0.02)


async def transitions(house: House, job_id: str) -> list[str]:
    return [
        row["to_status"]
        for row in (await house.admin.get(f"/jobs/{job_id}/history")).json["history"]
    ]


async def test_a_few_are_done_when_it_answers(house: House) -> None:
    jobs = await drafts(house, 3)
    nobody = "018f0000-0000-7000-8000-000000000000"
    said = await bulk(house.admin, "cancel", ids=[*jobs, nobody, jobs[0]], reason="a mistake")
    assert said.status == 201, said.raw
    told = said.json
    assert (told["status"], told["total"], told["done"], told["failed"]) == ("done", 4, 3, 1)
    assert told["failures"] == [
        {"job_id": nobody, "error_code": "NOT_FOUND", "detail": told["failures"][0]["detail"]}
    ]
    for job_id in jobs:
        assert await transitions(house, job_id) == ["CREATED", "CANCELLED"]
    rows = (await house.admin.get("/admin/audit?limit=100")).json["audit"]
    events = Counter(row["event"] for row in rows)
    assert events["bulk.started"] == events["bulk.done"] == 1
    assert events["job.cancel"] == 3


async def test_a_dry_run_says_what_would_happen_and_does_nothing(house: House) -> None:
    jobs = await drafts(house, 3)
    await house.ada.post(f"/jobs/{jobs[0]}/cancel")
    said = await bulk(house.admin, "cancel", filter={"workflow": "howera"}, dry_run=True)
    assert said.status == 200
    told = said.json
    assert (told["total"], told["examined"], told["outcomes"]) == (
        3,
        3,
        {"TERMINAL_STATE": 1, "done": 2},
    )
    assert [one["job_id"] for one in told["jobs"]] == jobs
    assert [one["to"] for one in told["jobs"]] == [None, "CANCELLED", "CANCELLED"]
    assert (await house.admin.get(f"/jobs/{jobs[1]}")).json["status"] == "CREATED"
    deleting = (await bulk(house.admin, "delete", ids=jobs, dry_run=True)).json
    assert deleting["outcomes"] == {"JOB_NOT_SETTLED": 2, "done": 1}


@pytest.mark.parametrize(
    "order",
    [
        {"command": "cancel"},
        {"command": "cancel", "filter": {}},
        {"command": "cancel", "filter": {"status": []}},
        {"command": "cancel", "ids": []},
        {"command": "cancel", "ids": ["one"], "filter": {"workflow": "howera"}},
        {"command": "vanish", "ids": ["one"]},
        {"command": "pause", "ids": ["one"], "fields": {"why": 1}},
        {"command": "rerun", "ids": ["one"], "fields": {"params": 1}},
    ],
)
async def test_what_is_refused(house: House, order: dict[str, Any]) -> None:
    """An empty filter means every job there is."""
    await drafts(house, 1)
    said = await house.admin.post("/admin/bulk", order)
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")


async def test_it_is_for_admins(house: House) -> None:
    (job,) = await drafts(house, 1)
    for caller in (house.ada, house.worker):
        assert (await bulk(caller, "cancel", ids=[job])).status == 403
    assert (await house.admin.get("/admin/bulk/nothing")).status == 404


async def test_pause_resume_and_delete_by_filter(house: House) -> None:
    jobs = await drafts(house, 2)
    chosen = {"workflow": "howera", "labels": {"set": "one"}, "user_id": "ada"}
    assert (await bulk(house.admin, "pause", filter=chosen)).json["done"] == 2
    again = (await bulk(house.admin, "pause", filter={**chosen, "paused": True})).json
    assert (again["done"], again["satisfied"]) == (0, 2)
    assert (await bulk(house.admin, "resume", filter={"paused": True})).json["done"] == 2
    await house.ada.post(f"/jobs/{jobs[0]}/cancel")
    gone = (await bulk(house.admin, "delete", filter=chosen)).json
    assert (gone["done"], gone["failed"]) == (1, 1)
    assert gone["failures"][0]["error_code"] == "JOB_NOT_SETTLED"
    assert (await house.admin.get(f"/jobs/{jobs[0]}")).status in (404, 410)


async def test_many_are_begun_under_a_handle_and_can_be_aborted(house: House) -> None:
    jobs = await drafts(house, 130)
    said = await bulk(house.admin, "pause", filter={"workflow": "howera"})
    assert said.status == 202
    assert said.json["total"] == 130
    assert said.headers["Location"] == f"/admin/bulk/{said.json['id']}"
    stopped = (await house.admin.delete(f"/admin/bulk/{said.json['id']}")).json
    assert stopped["status"] == "aborted"
    assert stopped["left"] > 0
    told = (await house.admin.get(f"/admin/bulk/{said.json['id']}")).json
    paused = [(await house.admin.get(f"/jobs/{one}")).json["paused"] for one in jobs]
    assert len([one for one in paused if one]) == told["done"]
    later = (await house.admin.delete(f"/admin/bulk/{said.json['id']}")).json
    assert (later["status"], later["done"]) == ("aborted", told["done"])


async def test_it_goes_on_after_a_restart_and_acts_once(tmp_path: Path) -> None:
    """Stopped in the middle, it is finished by the next life; each job was told once."""
    async with opened(tmp_path, registry=loaded()) as house:
        jobs = await drafts(house, 130)
        said = await bulk(house.admin, "rerun", filter={"workflow": "cutx"})
        assert said.json["total"] == 0
        bulk_id = (await bulk(house.admin, "pause", filter={"workflow": "howera"})).json["id"]
    async with opened(tmp_path, registry=loaded()) as house:
        told = await over(house.admin, bulk_id)
        assert (told["status"], told["done"], told["satisfied"]) == ("done", 130, 0)
        for job_id in jobs:
            job = (await house.admin.get(f"/jobs/{job_id}")).json
            assert (job["version"], job["paused"]["by"]) == (2, "admin")


async def test_an_item_that_was_done_is_never_done_again(house: House) -> None:
    """The word that it was done is in the transaction of the act: a second one is a clash."""
    (job,) = await drafts(house, 1)
    done = (await bulk(house.admin, "pause", ids=[job])).json
    store = house.service.facade.world.store
    outcome = await store.commit(Ticked(Tick(done["id"], 0)))
    assert isinstance(outcome, Clash)
    assert outcome.reason == "tick"


# ---------------------------------------------------------------- doing jobs again


async def failed_image(house: House, prompt: str = "a lighthouse") -> Any:
    """Under a key of its own, which is used instead of the derived one."""
    key = f"first-{prompt.replace(' ', '-')}"
    order: dict[str, Any] = {"params": {"prompt": prompt}, "idempotency_key": key}
    job = await house.ada.submit("image-generation", **order)
    await house.worker.post(f"/jobs/{job['id']}/claim")
    said = await house.admin.post(f"/jobs/{job['id']}/transitions", FIRED)
    assert said.json["kind"] in ("final", "settled"), said.raw
    return said.json


async def test_a_rerun_is_a_new_job_of_the_owner_at_the_price_of_one(house: House) -> None:
    """C13: by an admin, it is still the owner's: job, credits and all."""
    old = await failed_image(house)
    before = (await house.ada.get("/credits")).json["balance"]
    said = await house.admin.post(
        f"/jobs/{old['id']}/rerun", {"params": {"prompt": "two lighthouses"}, "reason": "typo"}
    )
    assert said.status == 201, said.raw
    new = said.json
    assert new["forked_from"] == old["id"]
    assert new["user_id"] == "ada"
    assert new["params"]["prompt"] == "two lighthouses"
    after = (await house.ada.get("/credits")).json["balance"]
    assert before - after == new["credits"]["cost"] > 0


async def test_a_rerun_is_checked_like_a_submission(house: House) -> None:
    old = await failed_image(house)
    path = f"/jobs/{old['id']}/rerun"
    said = await house.ada.post(path, {"params": {"prompt": 7}})
    assert (said.status, said.code) == (422, "INVALID_PARAMS")
    assert said.json["errors"][0]["path"] == "$.params.prompt"
    assert (await house.eve.post(path)).status in (403, 404)
    assert (await house.worker.post(path)).status == 403
    live = await house.ada.submit("image-generation", params={"prompt": "another"})
    assert (await house.ada.post(f"/jobs/{live['id']}/rerun")).code == "JOB_NOT_SETTLED"


async def test_who_cannot_pay_gets_402(house: House) -> None:
    old = await failed_image(house)
    path = f"/jobs/{old['id']}/rerun"
    for number in range(100):
        said = await house.ada.post(path, {}, Idempotency_Key=f"again-{number}")
        if said.status != 201:
            break
    assert (said.status, said.code) == (402, "INSUFFICIENT_CREDITS")


async def test_a_client_key_makes_one_job(house: House) -> None:
    old = await failed_image(house)
    path = f"/jobs/{old['id']}/rerun"
    one = await house.ada.post(path, {}, Idempotency_Key="again")
    two = await house.ada.post(path, {}, Idempotency_Key="again")
    assert (one.status, two.status) == (201, 200)
    assert two.json["id"] == one.json["id"]
    assert two.json["replayed"] is True


async def test_many_jobs_done_again(house: House) -> None:
    for number in range(3):
        await failed_image(house, f"lighthouse {number}")
    failed = {"workflow": "image-generation", "status": ["dead_letter"]}
    dry = (await bulk(house.admin, "rerun", filter=failed, dry_run=True)).json
    assert dry["outcomes"] == {"done": 3}
    said = (await bulk(house.admin, "rerun", filter=failed)).json
    assert (said["done"], said["failed"]) == (3, 0), said
    jobs = (await house.ada.get("/jobs")).json["jobs"]
    assert Counter(job["forked_from"] is None for job in jobs) == {True: 3, False: 3}


async def test_the_bulks_of_the_past_are_listed(house: House) -> None:
    first = (await bulk(house.admin, "pause", ids=await drafts(house, 2))).json["id"]
    second = (await bulk(house.admin, "cancel", ids=await drafts(house, 1))).json["id"]
    said = (await house.admin.get("/admin/bulk?limit=1")).json
    assert [one["id"] for one in said["bulks"]] == [second]
    rest = (await house.admin.get(f"/admin/bulk?cursor={said['next_cursor']}")).json
    assert [(one["id"], one["done"], one["command"]) for one in rest["bulks"]] == [
        (first, 2, "pause")
    ]
    assert (await house.ada.get("/admin/bulk")).status == 403
