"""Reads of the database fail for a second while jobs run: the service goes on, or it ends and says
why. It is never left there, deaf, with the lock in its hand."""

import errno
from collections import Counter
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import pytest

from tests.whole.failing import READS, Disk, failing_disk
from tests.whole.process import Place, place, until

pytestmark = pytest.mark.anyio

SUBMITTERS, READERS = 4, 2
FAULT_S = 1.0
WITHIN_S = 60
NOTHING = 0
KINDS = {
    "the file": (errno.EIO, "jobs.db", 1),
    "its log": (errno.EIO, "jobs.db-wal", 1),
    "both, now and then": (errno.EIO, "jobs.db", 7),
    "both, short": (NOTHING, "jobs.db", 1),
    "no memory": (errno.ENOMEM, "jobs.db", 3),
    "a stale handle": (errno.ESTALE, "jobs.db", 1),
}


@pytest.mark.parametrize("kind", ["the file", "both, short"])
async def test_reads_that_fail_for_a_second_leave_no_corpse(tmp_path: Path, kind: str) -> None:
    """R18: a short form of the proof below."""
    await survive(tmp_path, kind)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
async def test_reads_that_fail_leave_no_corpse_in_twenty_tries(tmp_path: Path, kind: str) -> None:
    """R18: each kind of fault, twenty times."""
    ends: Counter[str] = Counter()
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        ends[await survive(folder, kind)] += 1
    print(f"\n{kind}: {dict(ends)}")
    assert ends.total() == 20


async def survive(folder: Path, kind: str) -> str:
    error, where, every = KINDS[kind]
    with failing_disk(folder) as disk:
        async with place(folder / "home", credits=1_000_000) as home:
            await home.start(*disk.before)
            async with anyio.create_task_group() as group:
                for number in range(SUBMITTERS + READERS):
                    group.start_soon(load, home, number)
                await busy(home)
                disk.fail(READS, error, where, every)
                await until(lambda: disk.failed > 0 or home.dead())
                mended_at = monotonic() + FAULT_S
                await until(lambda: monotonic() > mended_at)
                disk.mend()
                end = await over(home)
                group.cancel_scope.cancel()
            await judged(home, disk, end)
    return end


async def load(home: Place, number: int) -> None:
    """One client that keeps asking, whatever it is told."""
    count = 0
    while not home.dead():
        count += 1
        if number < SUBMITTERS:
            await home.try_to("POST", "/jobs", order(f"{number}-{count}"))
        else:
            await home.try_to("GET", "/jobs")


def order(key: str) -> dict[str, Any]:
    return {"workflow": "trial", "params": {"does": "work"}, "idempotency_key": key}


async def busy(home: Place) -> None:
    await until(lambda: len(home.log("job.completed")) > 20)


async def over(home: Place) -> str:
    """Whether a job that is submitted now runs to its end, or the process comes to its own."""
    with anyio.move_on_after(WITHIN_S):
        for number in range(1_000_000):
            if home.dead():
                return "ended"
            said = await home.try_to("POST", "/jobs", order(f"after-{number}"))
            if said.status == 201:
                await home.at(said.body["id"], "done")
                return "went on"
    raise AssertionError(f"neither went on nor ended\n{home.said()[-2000:]}")


async def judged(home: Place, disk: Disk, end: str) -> None:
    assert disk.failed > 0, "nothing failed: this proved nothing"
    if end == "went on":
        assert await home.stop() == 0
        assert home.log("service.stopped")
    else:
        assert await home.ended() != 0
        assert home.log("service.failed") or home.log("service.cut")
    assert home.faults() == ()
    await home.start()
    assert await home.stop() == 0
