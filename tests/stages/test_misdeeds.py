"""Everything that a stage in a process of its own should not do, beside healthy jobs of somebody
else: it costs one attempt each, and nobody notices."""

import sqlite3
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest

from tests.stages.house import children_of, processes
from tests.whole.process import Place, place, until

pytestmark = pytest.mark.anyio
PLUGIN = Path(__file__).parent / "plugin"
STILL_S = 300

# What it does, and the failure that it costs its job. Only those that end by their time limit have
# a short one; to the others a busy machine may give its time when it likes.
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


def ended(home: Place) -> int:
    connection = sqlite3.connect(f"file:{home.database}?mode=ro", uri=True)
    try:
        where = "SELECT count(*) FROM jobs WHERE kind = 'final'"
        return int(connection.execute(where).fetchone()[0])
    finally:
        connection.close()


async def all_over(home: Place, count: int) -> None:
    """For as long as it takes, while one job after the other ends."""
    seen, since = -1, time.monotonic()
    while (now := ended(home)) < count:
        assert not home.dead(), home.said()[-2000:]
        if now != seen:
            seen, since = now, time.monotonic()
        assert time.monotonic() - since < STILL_S, f"{now} of {count} ended, and then no more"
        await anyio.sleep(0.05)


async def submitted(home: Place, who: str, does: str, mark: str = "") -> Any:
    brief = MISDEEDS.get(does) == "STAGE_TIMEOUT"
    workflow = "unruly-brief" if brief else "unruly"
    return await home.submit(workflow, who, params={"does": does, "mark": mark})


async def misbehaving(folder: Path, rounds: int) -> None:
    mark = f"mark-{uuid4()}"
    async with place(folder, plugins=PLUGIN) as home:
        await home.start()
        pid = home.pid
        for name in ("mallory", "ada"):
            await home.user(name)
        began = time.monotonic()
        bad = [
            (does, await submitted(home, "mallory", does, mark)) for does in list(MISDEEDS) * rounds
        ]
        good = [await submitted(home, "ada", "work") for _ in bad]
        await all_over(home, len(bad) + len(good))
        print(f"{len(bad)} misdeeds, {len(good)} healthy: {time.monotonic() - began:.0f} s")
        for job in good:
            now = await home.get(f"/jobs/{job['id']}")
            assert (now["status"], now["retry_count"]) == ("done", 0), now
        for does, job in bad:
            await cost_one_attempt(home, does, job["id"])
        await until(lambda: not processes(mark) and not children_of(pid))
        assert (await home.ask("GET", "/readyz")).status == 200
        assert (home.pid, home.lives) == (pid, 1)
        assert await home.stop() == 0
        assert home.faults() == ()


async def cost_one_attempt(home: Place, does: str, job_id: str) -> None:
    job = await home.get(f"/jobs/{job_id}")
    tried = (await home.get(f"/jobs/{job_id}/attempts"))["attempts"]
    assert job["status"] == "failed", (does, job)
    assert job["failure_code"] == MISDEEDS[does], (does, job)
    assert len(tried) == 1, (does, tried)
    assert job["failure_message"]
    assert job["failed_stage"] == "working"
    assert job["correlation_id"]


async def test_every_misdeed_costs_one_attempt(tmp_path: Path) -> None:
    """R20 H45 H47 H49 H50 C42: hang, spin, fork, eat memory, fill the disk, print 100 MB, segfault,
    nonsense, and worse, beside healthy jobs that all end well; no process is left."""
    await misbehaving(tmp_path, 1)


@pytest.mark.long
async def test_every_misdeed_twenty_times(tmp_path: Path) -> None:
    await misbehaving(tmp_path, 20)
