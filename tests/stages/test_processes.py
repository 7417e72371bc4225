"""Stages in processes of their own: what they may do, and what whatever they do costs."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest

from jobrunner.stages import Registry
from tests.stages import unruly
from tests.whole.living import Living, living

pytestmark = pytest.mark.anyio

# What it does, and the failure that it costs its job.
MISDEEDS = {
    "hang": "STAGE_TIMEOUT",
    "spin": "CPU_LIMIT",
    "fork": "STAGE_TIMEOUT",
    "eat": "MEMORY_LIMIT",
    "fill": "FILE_LIMIT",
    "chatter": "OUTPUT_LIMIT",
    "segfault": "STAGE_CRASHED",
    "nonsense": "STAGE_CRASHED",
    "swallow": "STAGE_TIMEOUT",
    "mumble": "STAGE_CRASHED",
    "unstorable": "STAGE_CRASHED",
    "garbage": "STAGE_CRASHED",
    "multiply": "PROCESS_LIMIT",
    "leave": "STAGE_CRASHED",
    "vanish": "STAGE_CRASHED",
}


def registry(limit_s: float = 5, tries: int = 1) -> Registry:
    made = Registry()
    for stage in (unruly.misbehave, unruly.misbehave_in_thread, unruly.misbehave_awaiting):
        made.add_stage(stage)
        name = stage.name.partition(".")[2]
        made.add(unruly.definition_of(name, stage.name, limit_s, tries))
    assert not made.refused, made.refused
    return made


@asynccontextmanager
async def serving(folder: Path, **how: Any) -> AsyncIterator[Living]:
    async with living(folder, registry(**how)) as here:
        yield here


async def submitted(here: Living, does: str, workflow: str = "stage", **params: str) -> str:
    body = {"workflow": workflow, "params": {"does": does, **params}}
    said = await here.admin.post("/jobs", body)
    assert said.status == 201, said
    return str(said.json["id"])


async def over(here: Living, job_id: str) -> Any:
    return await here.at(job_id, "done", "failed", "rejected", "canceled")


async def attempts(here: Living, job_id: str) -> list[dict[str, Any]]:
    return list((await here.admin.get(f"/jobs/{job_id}/attempts")).json["attempts"])


def processes(mark: str) -> list[str]:
    """The command lines of the processes that were started for this mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if mark.encode() in line:
            found.append(line.replace(b"\0", b" ").decode())
    return found


def children() -> list[int]:
    """Of this process, zombies included."""
    return [
        int(child)
        for path in Path("/proc/self/task").glob("*/children")
        for child in path.read_text().split()
    ]


async def nothing_left(mark: str) -> None:
    with anyio.move_on_after(20):
        while processes(mark) or children():
            await anyio.sleep(0.02)
        return
    raise AssertionError((processes(mark), children()))


async def test_a_stage_works_in_a_process_of_its_own(tmp_path: Path) -> None:
    """H24: another process, progress on the way, log lines with the attempt, nothing left."""
    async with serving(tmp_path) as here:
        job = await over(here, await submitted(here, "work", mark="m"))
        assert job["status"] == "done", job
        assert job["result"]["mark"] == "m"
        assert job["result"]["pid"] != os.getpid()
        assert not Path("/proc", str(job["result"]["pid"])).exists()
        only = (await attempts(here, job["id"]))[0]
        assert (only["outcome"], only["log"]) == ("done", ["about to work"])
    assert children() == []
    assert list(Path(tmp_path, "assets", ".scratch").iterdir()) == []


async def test_an_async_stage_may_run_in_a_process(tmp_path: Path) -> None:
    async with serving(tmp_path) as here:
        job = await over(here, await submitted(here, "any", "awaiting", mark="x"))
        assert job["result"] == {"drawn": 7, "name": "x"}, job


async def misbehaving(folder: Path, rounds: int) -> None:
    mark = f"mark-{uuid4()}"
    async with serving(folder) as here:
        deeds = list(MISDEEDS) * rounds
        bad = [(does, await submitted(here, does, mark=mark)) for does in deeds]
        good = [await submitted(here, "work") for _ in range(len(bad))]
        healthy = [(await over(here, job_id))["status"] for job_id in good]
        assert healthy == ["done"] * len(good)
        for does, job_id in bad:
            job = await over(here, job_id)
            tried = await attempts(here, job_id)
            assert job["status"] == "failed", (does, job)
            assert job["failure_code"] == MISDEEDS[does], (does, job)
            assert len(tried) == 1, (does, tried)
            assert job["failure_message"]
            assert job["failed_stage"] == "working"
            assert job["correlation_id"]
        assert (await here.admin.get("/readyz")).status == 200
        await nothing_left(mark)
    assert children() == []


async def test_every_misdeed_costs_one_attempt(tmp_path: Path) -> None:
    """R20 H45 H47 H49 H50 C42: hang, spin, fork, eat memory, fill the disk, print 100 MB, segfault,
    nonsense, and worse, beside healthy jobs that all end well; no process is left."""
    await misbehaving(tmp_path, 1)


@pytest.mark.long
async def test_every_misdeed_twenty_times(tmp_path: Path) -> None:
    await misbehaving(tmp_path, 20)
