"""A stage that takes the whole service down whenever it runs, beside healthy ones: it is found and
stopped, and they all finish."""

import signal
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.whole.process import Place, place

pytestmark = pytest.mark.anyio

CODES = {"die": -signal.SIGKILL, "exit": 7, "spin": 70}
USERS = [f"user-{number}" for number in range(8)]


def ended(home: Place) -> int:
    """How many jobs have, as the file says: what a life logged last goes with it."""
    connection = sqlite3.connect(f"file:{home.database}?mode=ro", uri=True)
    try:
        where = "SELECT count(*) FROM jobs WHERE kind IN ('settled', 'final')"
        return int(connection.execute(where).fetchone()[0])
    finally:
        connection.close()


async def healthy_ones(home: Place, count: int) -> list[Any]:
    """At work, all of them; they end when the gate is opened."""
    params = {"does": "wait", "gate": f"{home.folder}/gate", "diary": f"{home.folder}/diary"}
    made = [
        await home.submit("trial", USERS[number % len(USERS)], params=params)
        for number in range(count)
    ]
    while len(diary(home)) < count:
        assert not home.dead(), home.said()
        await anyio.sleep(0.01)
    return made


def diary(home: Place) -> Counter[str]:
    """How often the stage of each job was executed."""
    file = home.folder / "diary"
    lines = file.read_text().splitlines() if file.exists() else []
    return Counter(line.split()[0] for line in lines)


async def kept_running(home: Place, count: int, code: int) -> int:
    """Started again whenever it is gone, as an init system would; the number of deaths until all
    have ended."""
    deaths = 0
    while ended(home) < count:
        if home.dead():
            assert await home.ended() == code, home.said()
            deaths += 1
            assert deaths <= 2 * count, "nobody stops it"
            home.spawn()
        await anyio.sleep(0.01)
    return deaths


async def poisoned(folder: Path, does: str, count: int) -> None:
    async with place(folder) as home:
        await home.start()
        for name in USERS:
            await home.user(name)
        healthy = await healthy_ones(home, count)
        diary_too = {"does": does, "diary": f"{folder}/diary", "gate": f"{folder}/never"}
        poison = await home.submit("trial", USERS[-1], params=diary_too)
        (folder / "gate").touch()
        began = time.monotonic()
        deaths = await kept_running(home, count + 1, CODES[does])
        took_s = time.monotonic() - began
        await home.ready()
        print(f"{does}: {count} healthy jobs, {deaths} deaths, {took_s:.1f} s")
        stopped = await home.get(f"/jobs/{poison['id']}")
        assert (stopped["status"], stopped["failure_code"]) == ("failed", "STAGE_KILLED_SERVICE")
        executions = diary(home)
        assert executions[poison["id"]] == deaths
        assert deaths in (3, 4), "at the first death it may not have been the only suspect"
        for job in healthy:
            now = await home.get(f"/jobs/{job['id']}")
            assert (now["status"], now["retry_count"]) == ("done", 0)
            assert executions[job["id"]] <= 2, "interrupted by the first death, and by no other"
        assert await home.stop() == 0
        assert home.faults() == ()


@pytest.mark.parametrize("does", ["die", "exit"])
async def test_who_kills_the_service_is_stopped(tmp_path: Path, does: str) -> None:
    """R15: beside seven others, with a signal or without."""
    await poisoned(tmp_path, does, 7)


@pytest.mark.long
@pytest.mark.parametrize("does", ["die", "exit", "spin"])
async def test_who_kills_the_service_is_stopped_beside_63_others(tmp_path: Path, does: str) -> None:
    """R15: also one that never lets go of the loop, until the watchdog ends the process."""
    await poisoned(tmp_path, does, 63)
