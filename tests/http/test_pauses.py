"""Holding back a job, a workflow, a stage; over HTTP, against the running service."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner.stages import Registry
from tests.http.serving import House, definitions, opened

pytestmark = pytest.mark.anyio
IMAGE = {"params": {"prompt": "a lighthouse"}}


def loaded() -> Registry:
    return definitions(names=("cutx", "howera", "image_generation"))


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with opened(tmp_path, registry=loaded()) as house:
        yield house


async def made(house: House, **more: Any) -> Any:
    job = await house.ada.submit("image-generation", **IMAGE, **more)
    return f"/jobs/{job['id']}"


async def test_a_paused_job_names_who_why_and_when(house: House) -> None:
    path = await made(house)
    said = await house.ada.post(f"{path}/pause", {"reason": "wait for the lamp"})
    assert said.status == 200
    paused = said.json["paused"]
    assert (paused["by"], paused["reason"]) == ("ada", "wait for the lamp")
    assert paused["at"].endswith("Z")
    assert said.json["status"] == "queued"
    shown = (await house.ada.get(path)).json
    assert shown["paused"] == paused
    why = (await house.ada.get(f"{path}/explain")).json
    assert "ada paused it: wait for the lamp" in why["waits_for"]
    assert why["paused"]["by"] == "ada"
    audit = (await house.admin.get("/admin/audit")).json["audit"]
    assert ("job.pause", "ada") in [(row["event"], row["actor"]) for row in audit]


async def test_pausing_and_resuming_again_changes_nothing(house: House) -> None:
    path = await made(house)
    first = (await house.ada.post(f"{path}/pause", {"reason": "one"})).json
    again = (await house.admin.post(f"{path}/pause", {"reason": "two"})).json
    assert (again["paused"], again["version"], again["replayed"]) == (
        first["paused"],
        first["version"],
        True,
    )
    on = (await house.ada.post(f"{path}/resume")).json
    assert (on["paused"], on["replayed"]) == (None, False)
    twice = (await house.ada.post(f"{path}/resume")).json
    assert (twice["version"], twice["replayed"]) == (on["version"], True)


async def test_nothing_to_claim_while_it_is_paused(house: House) -> None:
    path = await made(house)
    await house.ada.post(f"{path}/pause", {"reason": "not now"})
    refused = await house.worker.post(f"{path}/claim")
    assert (refused.status, refused.code) == (409, "JOB_PAUSED")
    assert refused.json["paused_by"] == "ada"
    wanted = {"workflow": "image-generation", "wait": 0}
    assert (await house.worker.post("/internal/claims", wanted)).json["claims"] == []
    await house.ada.post(f"{path}/resume")
    assert len((await house.worker.post("/internal/claims", wanted)).json["claims"]) == 1


async def test_what_runs_goes_on_and_is_heard(house: House) -> None:
    """A running attempt finishes and beats; a report of how it went takes its edge."""
    path = await made(house)
    assert (await house.worker.post(f"{path}/claim")).status == 200
    await house.ada.post(f"{path}/pause")
    assert (await house.worker.post(f"{path}/progress", {"progress": 40})).status == 200
    files = [{"asset_type": "image", "url": "https://example.org/1.png"}]
    done = await house.worker.post(f"{path}/transitions", {"to": "completed", "assets": files})
    assert done.status == 200, done.raw
    assert (done.json["status"], done.json["paused"]) == ("completed", None)


async def test_a_cancel_cancels(house: House) -> None:
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}"
    await house.ada.post(f"{path}/pause")
    gone = await house.ada.post(f"{path}/cancel")
    assert gone.status in (200, 202)
    assert gone.json["kind"] in ("final", "settled")
    late = await house.ada.post(f"{path}/pause")
    if gone.json["kind"] == "final":
        assert late.code == "TERMINAL_STATE"


async def test_strangers_and_workers_pause_nothing(house: House) -> None:
    path = await made(house)
    assert (await house.eve.post(f"{path}/pause")).status in (403, 404)
    assert (await house.worker.post(f"{path}/pause")).status == 403
    assert (await house.ada.get(path)).json["paused"] is None


async def test_lists_show_who_is_paused(house: House) -> None:
    one, _ = await made(house), await made(house)
    await house.ada.post(f"{one}/pause")
    found = (await house.ada.get("/jobs?paused=true")).json["jobs"]
    assert [f"/jobs/{job['id']}" for job in found] == [one]


async def test_a_paused_workflow_gives_nothing_out(house: House) -> None:
    path = await made(house)
    admin = "/admin/workflows/image-generation"
    assert (await house.ada.post(f"{admin}/pause")).status == 403
    said = (await house.admin.post(f"{admin}/pause", {"reason": "bad model"})).json
    assert (said["by"], said["reason"], said["replayed"]) == ("admin", "bad model", False)
    again = (await house.admin.post(f"{admin}/pause", {"reason": "other"})).json
    assert (again["reason"], again["replayed"]) == ("bad model", True)
    assert (await house.worker.post(f"{path}/claim")).code == "JOB_PAUSED"
    wanted = {"workflow": "image-generation", "wait": 0}
    assert (await house.worker.post("/internal/claims", wanted)).json["claims"] == []
    why = (await house.ada.get(f"{path}/explain")).json
    assert why["paused"]["what"] == "workflow"
    assert len((await house.admin.get("/admin/pauses")).json["pauses"]) == 1
    assert (await house.admin.post(f"{admin}/resume")).json["replayed"] is False
    assert (await house.admin.post(f"{admin}/resume")).json["replayed"] is True
    assert (await house.worker.post(f"{path}/claim")).status == 200
    assert (await house.admin.post("/admin/workflows/nothing/pause")).status == 404


async def test_whoever_waits_for_work_gets_it_when_it_is_resumed(house: House) -> None:
    await made(house)
    await house.admin.post("/admin/workflows/image-generation/pause")
    got: list[Any] = []

    async def wait() -> None:
        wanted = {"workflow": "image-generation", "wait": 30}
        got.extend((await house.worker.post("/internal/claims", wanted)).json["claims"])

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await house.admin.post("/admin/workflows/image-generation/resume")
    assert len(got) == 1


async def test_pauses_survive_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path, registry=loaded()) as house:
        path = await made(house)
        await house.ada.post(f"{path}/pause", {"reason": "over night"})
        await house.admin.post("/admin/workflows/cutx/pause")
        before = (await house.ada.get(path)).json["paused"]
    async with opened(tmp_path, registry=loaded()) as house:
        assert (await house.admin.get(path)).json["paused"] == before
        pauses = (await house.admin.get("/admin/pauses")).json["pauses"]
        assert [(one["scope"], one["name"]) for one in pauses] == [("workflow", "cutx")]
