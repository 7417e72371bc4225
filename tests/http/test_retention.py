"""What is old enough goes: on an admin's order, with the clock of the service set forward."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from jobrunner.config.settings import RetentionSection, RetentionSettings, WorkflowSettings
from jobrunner.ports import SystemClock, system_ports
from tests.http.serving import Caller, House, opened
from tests.http.uploading import CSV, VIDEO, files, root, send, takers

pytestmark = pytest.mark.anyio
DAY_S = 86_400
KEPT = RetentionSection(ended=30 * DAY_S, keys=60 * DAY_S, files=40 * DAY_S, audit=90 * DAY_S)


class Ahead(SystemClock):
    """Wall time that the test sets forward."""

    days = 0

    def now(self) -> int:
        return super().now() + self.days * DAY_S * 1000


@asynccontextmanager
async def living(
    folder: Path, clock: Ahead, kept: RetentionSection = KEPT, **own: RetentionSettings
) -> AsyncIterator[House]:
    workflows = {name: WorkflowSettings(retention=settings) for name, settings in own.items()}
    ports = replace(system_ports(), clock=clock)
    async with opened(
        folder, ports=ports, registry=takers(), retention=kept, workflows=workflows
    ) as house:
        yield house


@pytest.fixture
def clock() -> Ahead:
    return Ahead()


@pytest.fixture
async def house(tmp_path: Path, clock: Ahead) -> AsyncIterator[House]:
    async with living(tmp_path, clock) as house:
        yield house


async def cancelled(caller: Caller, **more: Any) -> str:
    job_id = str((await caller.submit("howera", **more))["id"])
    assert (await caller.post(f"/jobs/{job_id}/cancel")).status in (200, 202)
    return job_id


async def prune(house: House, *, dry_run: bool = False) -> Any:
    said = await house.admin.post("/admin/db/prune", {"dry_run": dry_run})
    assert said.status == 200, said.raw
    return said.json


def howera(jobs: int) -> list[dict[str, Any]]:
    return [{"workflow": "howera", "status": "CANCELLED", "jobs": jobs}] if jobs else []


async def test_only_what_is_old_enough_goes(house: House, clock: Ahead) -> None:
    old = [await cancelled(house.ada) for _ in range(3)]
    waits = (await house.ada.submit("howera"))["id"]
    clock.days = 20
    young = await cancelled(house.ada)
    clock.days = 31
    foreseen = await prune(house, dry_run=True)
    assert (foreseen["jobs"], foreseen["done"]) == (howera(3), False)
    assert [(await house.ada.get(f"/jobs/{one}")).status for one in old] == [200] * 3
    told = await prune(house)
    assert (told["jobs"], told["done"], told["dry_run"]) == (howera(3), True, False)
    assert [(await house.ada.get(f"/jobs/{one}")).status for one in old] == [404] * 3
    assert [(await house.ada.get(f"/jobs/{one}")).status for one in (waits, young)] == [200] * 2
    assert (await prune(house))["jobs"] == []
    assert (await house.admin.post("/admin/db/check")).json["faults"] == []


async def test_a_key_answers_gone_until_its_tombstone_goes(house: House, clock: Ahead) -> None:
    """And money is what it was all the time."""
    job_id = await cancelled(house.ada, idempotency_key="one")
    before = (await house.ada.get("/credits")).json
    moved = (await house.ada.get("/credits/history")).json
    clock.days = 31
    assert (await prune(house))["jobs"] == howera(1)
    again = await house.ada.post("/jobs", {"workflow": "howera", "idempotency_key": "one"})
    assert (again.status, again.code, again.json["job_id"]) == (410, "JOB_GONE", job_id)
    clock.days = 92
    assert (await prune(house))["keys"] == 1
    again = await house.ada.post("/jobs", {"workflow": "howera", "idempotency_key": "one"})
    assert (again.status, again.json["replayed"]) == (201, False)
    assert (await house.ada.get("/credits")).json == before
    assert (await house.ada.get("/credits/history")).json == moved
    assert (await house.admin.post("/admin/db/check")).json["faults"] == []


async def test_an_order_is_on_record_until_the_audit_is_old_too(house: House, clock: Ahead) -> None:
    await cancelled(house.ada)
    clock.days = 31
    await prune(house, dry_run=True)
    await prune(house)
    (entry,) = await audited(house)
    assert (entry["actor"], entry["fields"]["jobs"]) == ("admin", 1)
    assert entry["fields"]["address"]
    (line,) = [one for one in house.logged if one["event"] == "retention.pruned"]
    assert (line["jobs"], line["actor"]) == (1, "admin")
    text = (await house.admin.get("/metrics")).raw.decode()
    assert 'jobrunner_pruned_total{what="jobs"} 1.0' in text
    clock.days = 31 + 91
    assert (await prune(house))["audit"] > 1
    (entry,) = await audited(house)
    assert entry["fields"]["audit"] > 1, "the order itself is young"


async def audited(house: House) -> list[Any]:
    entries = (await house.admin.get("/admin/audit?limit=100")).json["audit"]
    return [one for one in entries if one["event"] == "retention.pruned"]


async def test_a_status_may_be_kept_longer_and_a_workflow_only_so_many(
    tmp_path: Path, clock: Ahead
) -> None:
    own = RetentionSettings(keep=2, ages={"CANCELLED": 100 * DAY_S})
    async with living(tmp_path, clock, howera=own) as house:
        jobs = [await cancelled(house.ada) for _ in range(5)]
        clock.days = 31
        told = await prune(house, dry_run=True)
        assert told["jobs"] == [{"workflow": "howera", "status": None, "jobs": 3}]
        assert (await prune(house))["jobs"] == howera(3)
        found = [(await house.ada.get(f"/jobs/{one}")).status for one in jobs]
        assert found == [404, 404, 404, 200, 200], "the oldest go"
        clock.days = 101
        assert (await prune(house))["jobs"] == howera(2)


async def test_the_files_of_a_job_go_with_it(house: House, clock: Ahead) -> None:
    job_id = (await house.ada.submit("howera"))["id"]
    said = await send(house.ada, f"/jobs/{job_id}/upload", CSV, VIDEO)
    assert said.status in (200, 201, 202), said.raw
    folder = root(house) / f"ada/{job_id}"
    assert files(house, f"ada/{job_id}") != []
    (folder / "left-behind.csv").write_bytes(b"of no row")
    assert (await house.ada.post(f"/jobs/{job_id}/cancel")).status in (200, 202)
    clock.days = 31
    assert sum(one["jobs"] for one in (await prune(house))["jobs"]) == 1
    assert not folder.exists()
    assert await house.service.store.reader.clearings(9) == ()


async def shelved(house: House, name: str) -> Any:
    said = await send(house.ada, f"/assets?name={name}", CSV, method="POST")
    assert said.status == 201, said.raw
    return said.json


async def test_files_that_no_job_names_go_and_those_that_one_names_stay(
    house: House, clock: Ahead
) -> None:
    unused, used = await shelved(house, "unused.csv"), await shelved(house, "used.csv")
    await house.ada.submit("ss", params={"requirement": f"sums of {used['id']} by month"})
    clock.days = 39
    assert (await prune(house))["files"] == 0
    clock.days = 41
    assert (await prune(house, dry_run=True))["files"] == 2
    assert (await prune(house))["files"] == 1
    assert (await house.ada.get(f"/assets/{unused['id']}")).status == 404
    assert not (root(house) / unused["storage_path"]).exists()
    assert (await house.ada.get(f"/assets/{used['id']}")).status == 200
    assert (root(house) / used["storage_path"]).exists()
    assert (await prune(house, dry_run=True))["files"] == 0, "it is looked for after 40 days again"
    assert (await house.admin.post("/admin/db/check")).json["faults"] == []


async def test_what_is_in_the_file(house: House, clock: Ahead) -> None:
    first = await cancelled(house.ada)
    clock.days = 31
    await house.ada.submit("howera")
    told = (await house.admin.get("/admin/db")).json
    assert told["oldest_job"]["job_id"] == told["oldest_ended"]["job_id"] == first
    assert told["retention"]["jobs"] == howera(1)
    assert (told["jobs"], told["estimated"], told["last_backup_at"]) == (2, False, None)
    assert told["flush_ms"] > 0
    sizes = {one["name"]: one["bytes"] for one in told["tables"]}
    assert {"jobs", "history", "ledger", "tombstones"} <= sizes.keys()
    assert sum(sizes.values()) <= told["pages"] * told["page_bytes"]
    assert sum(sizes.values()) > told["pages"] * told["page_bytes"] // 2
    assert [one["bytes"] for one in told["tables"]] == sorted(sizes.values(), reverse=True)


async def test_unused_room_goes_back(house: House, clock: Ahead) -> None:
    big = {"labels": {"of": "x" * 60}}
    for _ in range(30):
        await cancelled(house.ada, **big)
    clock.days = 31
    await prune(house)
    before = (await house.admin.get("/admin/db")).json
    assert before["free_pages"] > 0
    said = (await house.admin.post("/admin/db/compact")).json
    assert said == {"done": True, "free_pages": 0}
    after = (await house.admin.get("/admin/db")).json
    assert after["free_pages"] == 0
    assert after["pages"] < before["pages"]
    entries = (await house.admin.get("/admin/audit")).json["audit"]
    assert entries[0]["event"] == "store.compacted"
    assert (await house.admin.post("/admin/db/check")).json["faults"] == []


async def test_all_of_this_is_for_admins(house: House) -> None:
    for caller in (house.ada, house.worker):
        assert (await caller.get("/admin/db")).status == 403
        assert (await caller.post("/admin/db/prune")).status == 403
        assert (await caller.post("/admin/db/compact")).status == 403
