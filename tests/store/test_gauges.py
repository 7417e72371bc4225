"""How things stand, against questions that read every row."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jobrunner.ports import SystemClock
from jobrunner.store.gauges import gauges
from jobrunner.store.store import open_store

pytestmark = pytest.mark.anyio

JOB = {
    "definition": 1,
    "workflow": "w",
    "job_type": "t",
    "user_id": "u",
    "status": "q",
    "kind": "queued",
    "version": 1,
    "beat": 0,
    "progress": 0,
    "quota": 0,
    "created_at": 1,
    "updated_at": 1,
    "cost": 0,
    "credits": "none",
    "rest": "{}",
}
DEFINITION = """
    INSERT INTO definitions (id, name, digest, version, data, stored_at)
    VALUES (1, 'w', 'd', '1', x'00', 1)
"""
SLOW = (
    "SELECT min(line_at) FROM jobs NOT INDEXED WHERE line_at > 0 AND stuck IS NULL AND paused = 0"
)


async def made(path: Path) -> None:
    store = await open_store(str(path), clock=SystemClock())
    await store.close()


def put(db: sqlite3.Connection, number: int, **more: object) -> None:
    row = JOB | {"uid": f"{number:036d}", "priority": 0} | more
    holes = ", ".join("?" * len(row))
    db.execute(f"INSERT INTO jobs ({', '.join(row)}) VALUES ({holes})", tuple(row.values()))


async def test_who_waits_longest_whatever_the_priorities(tmp_path: Path) -> None:
    """The ones that are stuck or paused do not wait."""
    await made(tmp_path / "jobs.db")
    luck = random.Random(3)
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as db:
        db.execute(DEFINITION)
        assert gauges(db).line_at is None
        for number in range(400):
            how: dict[str, object] = {
                "priority": luck.randint(-100, 100),
                "line_at": luck.randint(10, 10**6),
            }
            how |= luck.choice(({}, {}, {"stuck": "x"}, {"paused": 1}, {"line_at": None}))
            put(db, number, **how)
            if number % 20 == 0:
                assert gauges(db).line_at == db.execute(SLOW).fetchone()[0], number


async def test_the_rest_is_counted_and_measured(tmp_path: Path) -> None:
    await made(tmp_path / "jobs.db")
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as db:
        db.execute(DEFINITION)
        put(db, 1)
        (row,) = db.execute("SELECT id FROM jobs").fetchone()
        for serial, status in enumerate(("parked", "parked", "running", "ended", "due"), 1):
            db.execute(
                "INSERT INTO attempts (job, serial, status, holder, epoch, attempt) "
                "VALUES (?, ?, ?, 'stage', 1, '{}')",
                (row, serial, status),
            )
        for purpose, due_at in (("limit", 70), ("deadline", 50)):
            db.execute("INSERT INTO timers VALUES (?, ?, ?)", (row, purpose, due_at))
        found = gauges(db)
    assert (found.parked, found.running, found.due_at) == (2, 1, 50)
    assert (found.deliveries, found.endpoints_failing, found.endpoints_disabled) == (0, 0, 0)
    assert found.file_bytes == (tmp_path / "jobs.db").stat().st_size
