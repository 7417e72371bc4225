"""Schedules in a service that is killed again and again: no moment fires twice, none is lost."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.whole.process import PATIENCE_S, Place, place

pytestmark = pytest.mark.anyio
EVERY_S = 1
NAMED = """
[schedules.each]
workflow = "howera"
user = "ada"
every = 1
overlap = "allow"
catch_up = "1h"
catch_up_policy = "each"
[schedules.skip]
workflow = "hello"
user = "ada"
every = 1
[schedules.late]
workflow = "hello"
user = "ada"
every = 1
overlap = "allow"
jitter = 1
"""
JOBS = "SELECT s.schedule, s.mark, j.uid FROM scheduled s JOIN jobs j ON j.id = s.job"
FIRED = "SELECT schedule, mark, job_id FROM firings WHERE outcome = 'fired'"
MADE = "SELECT min(made_at), max(up_to) FROM schedules WHERE name = 'each'"


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.long)])
async def test_whenever_it_is_killed_each_moment_fires_once(kills: int, tmp_path: Path) -> None:
    async with place(tmp_path, more=NAMED, outside=True, credits=10**6) as service:
        await service.start()
        for number in range(kills):
            await until_fired(service, number + 1)
            await service.kill()
            assert service.faults() == ()
            await service.start()
        await until_fired(service, kills + 2)
        assert await service.stop() == 0
        assert service.faults() == ()
        made, fired = rows(service, JOBS), rows(service, FIRED)
        assert sorted(made) == sorted(fired), "each job was written down, and each word is true"
        ((made_at, up_to),) = rows(service, MADE)
        span = range(made_at // (EVERY_S * 1000) + 1, up_to // (EVERY_S * 1000) + 1)
        each = sorted(int(mark) for name, mark, _ in made if name == "each")
        assert each == [number * EVERY_S * 1000 for number in span], "lost, or twice"
        assert {name for name, _, _ in made} == {"each", "skip", "late"}


async def until_fired(service: Place, more: int) -> None:
    """Wait for so many firings after this moment."""
    with anyio.fail_after(PATIENCE_S):
        before = len(rows(service, FIRED))
        while len(rows(service, FIRED)) < before + 1 + more % 3:
            await anyio.sleep(0.02)


def rows(service: Place, question: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{service.database.as_uri()}?mode=ro", uri=True)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        return db.execute(question).fetchall()
