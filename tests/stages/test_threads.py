"""Stages in threads: bounded, fenced when their time is over, and seen when they will not go."""

import os
from pathlib import Path

import pytest

from tests.stages.house import attempts, over, serving, submitted, until

pytestmark = pytest.mark.anyio


async def test_a_thread_works(tmp_path: Path) -> None:
    async with serving(tmp_path) as here:
        job = await over(here, await submitted(here, "work", "thread", mark="m"))
        assert job["result"] == {"pid": os.getpid(), "nice": os.nice(0), "mark": "m"}
        failed = await over(here, await submitted(here, "mumble", "thread"))
        assert failed["failure_code"] == "STAGE_CRASHED"
        left = await over(here, await submitted(here, "leave", "thread"))
        assert left["failure_code"] == "STAGE_CRASHED"


async def test_a_fenced_thread_is_over_at_its_next_word(tmp_path: Path) -> None:
    """Its attempt is over by the clock; the next sign of life ends it."""
    async with serving(tmp_path, limit_s=60, thread_s=0.2) as here:
        job = await over(here, await submitted(here, "wait", "thread", gate=str(tmp_path / "no")))
        assert job["failure_code"] == "STAGE_TIMEOUT"
        await until(lambda: here.service.facade.stats()["running"] == 0)
        assert (await here.admin.get("/readyz")).status == 200


async def test_four_threads_that_do_not_end_are_a_fault(tmp_path: Path) -> None:
    """R20: they keep their slots, their late results are refused, and readiness says so."""
    gate = tmp_path / "gate"
    async with serving(tmp_path, limit_s=60, thread_s=0.2) as here:
        try:
            jobs = [await submitted(here, "deaf", "thread", gate=str(gate)) for _ in range(4)]
            for job_id in jobs:
                assert (await over(here, job_id))["failure_code"] == "STAGE_TIMEOUT"
            assert here.service.facade.stats()["running"] == 4
            ready = await here.admin.get("/readyz")
            assert ready.status == 503
            assert b"threads" in ready.raw
            healthy = await over(here, await submitted(here, "work"))
            assert healthy["status"] == "done"
        finally:
            gate.touch()
        await until(lambda: here.service.facade.stats()["running"] == 0)
        assert (await here.admin.get("/readyz")).status == 200
        for job_id in jobs:
            assert (await over(here, job_id))["status"] == "failed"
            assert len(await attempts(here, job_id)) == 1
