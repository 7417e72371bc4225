"""Stages in processes of their own: what they may do, and what whatever they do costs."""

import os
from pathlib import Path
from uuid import uuid4

import pytest

from jobrunner.stages.process.launcher import BEHIND
from tests.stages.house import (
    answer,
    attempt_status,
    attempts,
    children,
    nothing_left,
    over,
    processes,
    serving,
    submitted,
    until,
)
from tests.whole.living import Living
from tests.whole.process import place

pytestmark = pytest.mark.anyio
PLUGIN = Path(__file__).parent / "plugin"


async def test_a_stage_works_in_a_process_of_its_own(tmp_path: Path) -> None:
    """H24: another process, progress on the way, log lines with the attempt, nothing left."""
    async with serving(tmp_path) as here:
        job = await over(here, await submitted(here, "work", mark="m"))
        assert job["status"] == "done", job
        assert job["result"]["mark"] == "m"
        assert job["result"]["pid"] != os.getpid()
        assert job["result"]["nice"] == min(os.nice(0) + BEHIND, 19), "the service goes first"
        assert not Path("/proc", str(job["result"]["pid"])).exists()
        only = (await attempts(here, job["id"]))[0]
        assert (only["outcome"], only["log"]) == ("done", ["about to work"])
    assert children() == []
    assert list(Path(tmp_path, "assets", ".scratch").iterdir()) == []


async def test_an_async_stage_may_run_in_a_process(tmp_path: Path) -> None:
    async with serving(tmp_path) as here:
        job = await over(here, await submitted(here, "any", "awaiting", mark="x"))
        assert job["result"] == {"drawn": 7, "name": "x"}, job


async def ended_by(here: Living, job_id: str, mark: str, how: str) -> None:
    """Its sleepers are there; then it is stopped, and they are not."""
    await until(lambda: len(processes(mark)) >= 12)
    if how == "cancel":
        said = await here.ada.post(f"/jobs/{job_id}/transitions", {"to": "canceled"})
    else:
        said = await here.admin.post(f"/admin/jobs/{job_id}/stop", {"reason": "enough"})
    assert said.status == 200, said
    await nothing_left(mark)


@pytest.mark.parametrize("how", ["cancel", "stop"])
async def test_stopping_a_job_ends_all_that_its_stage_started(tmp_path: Path, how: str) -> None:
    """H35: grandchildren too, in whatever session they hide, and though they are deaf to it."""
    mark = f"mark-{uuid4()}"
    async with serving(tmp_path, limit_s=60) as here:
        body = {"workflow": "stage", "params": {"does": "fork", "mark": mark}}
        job_id = (await here.ada.post("/jobs", body)).json["id"]
        await ended_by(here, job_id, mark, how)
        job = await over(here, job_id)
        assert job["status"] == ("canceled" if how == "cancel" else "failed")
        assert len(await attempts(here, job_id)) == 1


async def test_a_stage_that_comes_back_leaves_nothing_behind(tmp_path: Path) -> None:
    mark = f"mark-{uuid4()}"
    async with serving(tmp_path) as here:
        job = await over(here, await submitted(here, "flee", mark=mark))
        assert job["status"] == "done", job
        assert processes(mark) == []


async def test_a_drain_interrupts_without_spending_an_attempt(tmp_path: Path) -> None:
    """R21: what was under way goes on at the next start."""
    gate = str(tmp_path / "gate")
    async with place(tmp_path, plugins=PLUGIN, drain_s=0.2) as home:
        await home.start()
        job = await home.submit("unruly", params={"does": "wait", "gate": gate})
        await home.at(job["id"], "working")
        assert await home.stop() == 0
        Path(gate).touch()
        await home.start()
        job = await home.at(job["id"], "done")
        tried = (await home.get(f"/jobs/{job['id']}/attempts"))["attempts"]
        assert [one["outcome"] for one in tried] == ["interrupted", "done"]
        assert job["retry_count"] == 0


async def test_the_death_of_the_service_ends_its_stages(tmp_path: Path) -> None:
    """R3: kill -9; the processes it left end by themselves, and the job goes on."""
    mark = f"mark-{uuid4()}"
    async with place(tmp_path, plugins=PLUGIN) as home:
        await home.start()
        job = await home.submit("unruly", params={"does": "fork", "mark": mark})
        await until(lambda: len(processes(mark)) >= 12)
        await home.kill()
        await until(lambda: not processes(mark))
        await home.start()
        await home.at(job["id"], "working")
        assert await home.stop() == 0
        await until(lambda: not processes(mark))
        assert home.faults() == ()


async def test_what_a_stage_finds_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of our environment, what finds programs; its own folder, and nothing on its stdin."""
    monkeypatch.setenv("SECRET_KEY", "hidden")
    async with serving(tmp_path) as here:
        job = await over(here, await submitted(here, "look"))
        found = job["result"]
    assert "SECRET_KEY" not in found["environment"]
    assert "PATH" in found["environment"]
    assert found["environment"]["TMPDIR"] == found["folder"]
    assert not Path(found["folder"]).exists()
    assert (found["stdin"], found["session"]) == ("", True)
    assert found["key"] == f"{job['id']}:working:{job['run_id']}:provider"
    assert 0 < found["left"] <= 60


async def test_progress_a_thousand_times_a_second(tmp_path: Path) -> None:
    """At most one a second is stored, and the last always."""
    async with serving(tmp_path) as here:
        job_id = await submitted(here, "rush")
        job = await over(here, job_id)
        assert job["status"] == "done", job
        assert job["result"]["reported"] > 300
        assert job["progress_message"] == "the last one"
        beats = job["version"]
        assert beats <= 5 + job["result"]["took_s"], job


@pytest.mark.parametrize(
    ("does", "status", "code", "tries"),
    [
        ("retry", "failed", "RATE_LIMITED", 3),
        ("network", "failed", "NETWORK", 3),
        ("never", "failed", "NO_PERMISSION", 1),
        ("refuse", "rejected", "POLICY", 1),
        ("half", "failed", "STAGE_CRASHED", 1),
    ],
)
async def test_failures_by_their_class(
    tmp_path: Path, does: str, status: str, code: str, tries: int
) -> None:
    """I30 I32 I33 H45 H46 H48 H49 H50 H51: retried until the budget is spent, or not at all."""
    async with serving(tmp_path, tries=3) as here:
        job = await over(here, await submitted(here, does))
        assert (job["status"], job["failure_code"]) == (status, code)
        assert len(await attempts(here, job["id"])) == tries
        assert job["failure_message"]
        assert job["failed_stage"] == "working"
        assert job["correlation_id"]


async def test_a_file_and_its_row(tmp_path: Path) -> None:
    async with serving(tmp_path) as here:
        job = await over(here, await submitted(here, "library"))
        assets = (await here.admin.get(f"/jobs/{job['id']}/assets")).json["assets"]
        only = assets[0]
        assert len(assets) == 1
        assert job["artifacts"]["text_uri"] == only["url"]
        assert only["file_size"] == 6
        assert only["storage_path"] == f"admin/{job['id']}/text.txt"
        assert Path(tmp_path, "assets", only["storage_path"]).read_bytes() == b"a text"


async def test_a_stage_awaits_a_callback(tmp_path: Path) -> None:
    """It holds no process meanwhile; runs again from the top, in the same attempt; and what it did
    once is not done twice."""
    async with serving(tmp_path, limit_s=60) as here:
        job_id = await submitted(here, "call_back", mark="ticket")
        parked = await attempt_status(here, job_id, "parked")
        assert children() == []
        assert await answer(here, job_id, "another", 1) == "CALLBACK_UNEXPECTED"
        assert await answer(here, job_id, "ticket", {"url": "x"}) == ""
        job = await over(here, job_id)
        assert job["result"]["answer"] == {"url": "x"}
        assert job["result"]["ticket"] != f"ticket-{job['result']['by']}"
        tried = await attempts(here, job_id)
        assert [one["attempt"] for one in tried] == [parked["attempt"]] == [1]
        assert await answer(here, job_id, "ticket", {"url": "y"}) == "CALLBACK_UNEXPECTED"
