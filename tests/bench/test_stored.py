"""A file that was made to grow is one that the service could have written."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from jobrunner.bench.stored import Growth, grow
from jobrunner.core.job import Artifact, Asset, HeldLock, Timer
from jobrunner.errors import Misconfigured
from jobrunner.ports import SystemClock
from jobrunner.store.fsck import check_file
from tests.store.factory import (
    NOON,
    attempt,
    birth,
    job,
    keyed,
    moved,
    opened,
    priced,
    stored,
)

pytestmark = pytest.mark.anyio
DUE = NOON + 3_600_000


async def furnish(folder: Path) -> str:
    """Jobs that ended, one with a row in every table; and jobs that wait."""
    async with opened(folder) as store:
        first = await stored(store, keyed(1, "key", labels={"team": "red"}))
        await stored(store, moved(first, "done"))
        second = await stored(store, priced(2))
        made = Artifact("picture", 1, {"file": second.id}, NOON)
        ended = moved(second, "done", "capture", credits="captured", artifacts={"picture": made})
        file = Asset("asset-1", "image", "/a", f"ada/{second.id}/a.png", 5, "f" * 64, NOON)
        worked = attempt(1, status="ended", outcome="done", ended_at=NOON)
        rows = {"artifacts": (made,), "assets": (file,), "attempts": (worked,)}
        await stored(store, structs.replace(ended, **rows))
        at = Timer("run_at", DUE)
        await stored(store, birth(job(3, timers=(at,), run_at=DUE)))
        parked = attempt(1, status="parked", holder="stage", awaits="bell:x", source="bell")
        held = HeldLock("job", "run-4", "stage", 1)
        waits = job(4, status="working", attempt=parked, serial=1, locks=(held,))
        await stored(store, birth(waits, attempts=(parked,)))
        assert await store.check() == ()
    return str(folder / "jobs.db")


def count(path: str, what: str) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute(f"SELECT count(*) FROM {what}").fetchone()[0])


async def test_a_file_of_many_that_have_ended(tmp_path: Path) -> None:
    path = await furnish(tmp_path)
    await grow(path, Growth(20_000))
    assert count(path, "jobs WHERE kind = 'final'") == 20_002
    assert count(path, "artifacts") == count(path, "assets") == 10_001
    assert count(path, "(SELECT DISTINCT user_id FROM jobs)") > 100
    assert count(path, "jobs WHERE user_id = 'user-0000'") > 8_000
    assert check_file(path) == ()


async def test_a_file_of_many_that_wait(tmp_path: Path) -> None:
    path = await furnish(tmp_path)
    start = SystemClock().now() + 1_000_000
    await grow(path, Growth(2_000, waiting=True, due_from=start, per_s=100))
    due = "timers WHERE purpose = 'run_at' AND due_at BETWEEN {} AND {}"
    assert count(path, due.format(start, start + 999)) == 100
    assert count(path, due.format(start, start + 9_999)) == 1_000
    assert count(path, "awaits WHERE open") == 1_001
    assert check_file(path) == ()


async def test_the_service_goes_on_with_it(tmp_path: Path) -> None:
    path = await furnish(tmp_path)
    await grow(path, Growth(100))
    async with opened(tmp_path) as store:
        await stored(store, keyed(5, "another"))
        assert await store.check() == ()


async def test_without_a_pattern_nothing_grows(tmp_path: Path) -> None:
    async with opened(tmp_path):
        pass
    with pytest.raises(Misconfigured, match="is a pattern"):
        await grow(str(tmp_path / "jobs.db"), Growth(5))
