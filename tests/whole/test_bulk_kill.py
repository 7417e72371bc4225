"""A bulk, and pauses, in a service that is killed in the middle."""

from typing import Any

import anyio
import pytest

from tests.whole.process import PATIENCE_S, Place

pytestmark = pytest.mark.anyio
JOBS = 300
KILLS = 3


async def begun(service: Place, bulk_id: str, least: int) -> Any:
    with anyio.fail_after(PATIENCE_S):
        while True:
            told = await service.get(f"/admin/bulk/{bulk_id}")
            if told["done"] >= least or told["status"] != "running":
                return told
            await anyio.sleep(0.005)


@pytest.mark.parametrize("command", ["pause", "cancel", "rerun"])
async def test_a_killed_bulk_goes_on_and_acts_on_each_job_once(
    service: Place, command: str
) -> None:
    """Killed several times: in the end each job was acted on, and none of them twice."""
    jobs = [(await service.submit("howera", who="ada"))["id"] for _ in range(JOBS)]
    if command == "rerun":
        told = (await service.post("/admin/bulk", {"command": "cancel", "ids": jobs})).body
        await begun(service, told["id"], JOBS)
    order = {"command": command, "filter": {"workflow": "howera"}}
    said = await service.post("/admin/bulk", order)
    assert said.status == 202, said
    bulk_id = said.body["id"]
    for number in range(1, KILLS + 1):
        await begun(service, bulk_id, number * JOBS // (KILLS + 2))
        await service.kill()
        assert service.faults() == ()
        await service.start()
    told = await begun(service, bulk_id, JOBS + 1)
    assert (told["status"], told["total"], told["failed"]) == ("done", JOBS, 0)
    if command == "rerun":
        forks = await forked(service)
        assert sorted(forks) == sorted(jobs), "each job was done again, and once"
    else:
        versions = {(await service.get(f"/jobs/{job_id}"))["version"] for job_id in jobs}
        assert versions == {2}
    assert await service.stop() == 0
    assert service.faults() == ()


async def forked(service: Place) -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        page = await service.get(f"/jobs?limit=100&workflow=howera{cursor}")
        found += [job["forked_from"] for job in page["jobs"] if job["forked_from"]]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


async def test_what_was_paused_is_paused_after_a_kill(service: Place) -> None:
    job = await service.submit("howera", who="ada")
    path = f"/jobs/{job['id']}"
    paused = (await service.post(f"{path}/pause", {"reason": "tea"}, who="ada")).body["paused"]
    await service.post("/admin/workflows/cutx/pause", {"reason": "model"})
    await service.kill()
    await service.start()
    assert (await service.get(path))["paused"] == paused
    pauses = (await service.get("/admin/pauses"))["pauses"]
    assert [(one["scope"], one["name"], one["by"]) for one in pauses] == [
        ("workflow", "cutx", "admin")
    ]
    assert (await service.post(f"{path}/resume", {}, who="ada")).body["paused"] is None
    assert service.faults() == ()
