"""Jobs that wait for a person cost a row, and nothing else: no memory, and no time at a start."""

import asyncio
import sqlite3
from importlib.metadata import entry_points
from pathlib import Path
from time import monotonic

import pytest

from jobrunner.core.births import born
from jobrunner.core.decision import Decision
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.facts import Facts
from jobrunner.core.job import Actor
from jobrunner.core.messages import Moment, Submit
from jobrunner.core.units import Remember
from jobrunner.ports import SystemClock, SystemIds
from jobrunner.store.store import open_store
from tests.whole.process import Place, place

pytestmark = pytest.mark.anyio

OWNERS = 100
AT_ONCE = 500


async def fill(path: Path, count: int) -> None:
    """Waiting jobs, born as the door would have them, many to a commit."""
    path.parent.mkdir()
    clock = SystemClock()
    ids = SystemIds(clock)
    definition: Definition = entry_points(group="jobrunner.workflows")["howera"].load()
    store = await open_store(str(path), clock=clock)

    def one(number: int) -> Decision:
        owner = Actor(f"user-{number % OWNERS}", "user")
        wanted = Submit(owner, "howera", "video", {}, ids.fresh(), correlation_id=f"c-{number}")
        moment = Moment(clock.now(), ids.fresh(), 0.5, store.epoch)
        decided = born(definition, wanted, Facts(), moment, ())
        assert isinstance(decided, Decision), decided
        return decided

    try:
        await store.commit(declared(definition, clock.now()))
        for first in range(0, count, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, count))
            await asyncio.gather(*(store.commit(one(number)) for number in numbers))
    finally:
        await store.close()


def declared(definition: Definition, now: int) -> Remember:
    workflow = definition.workflow
    states = tuple((state.name, state.kind) for state in workflow.states)
    return Remember(
        definition.digest, workflow.name, workflow.version, definition.encoded, states, now
    )


def resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def waiting(path: Path) -> int:
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as file:
        found = file.execute("SELECT count(*) FROM jobs WHERE status = 'CREATED'").fetchone()[0]
    file.close()
    return int(found)


async def live_with(home: Place, count: int) -> None:
    await fill(home.database, count)
    await home.start()
    first = await home.submit("hello")
    await home.at(first["id"], "greeted")
    at_first = resident_mib(home.pid)
    for query in ("", "?workflow=howera&status=CREATED", "?user_id=user-7&order=oldest"):
        assert len((await home.get(f"/jobs{query}"))["jobs"]) == 20
    asked = resident_mib(home.pid)
    before = monotonic()
    await home.kill()
    await home.start()
    job = await home.submit("hello")
    pause = monotonic() - before
    await home.at(job["id"], "greeted")
    assert not home.log("service.recovered")
    assert waiting(home.database) == count
    assert await home.stop() == 0
    assert home.faults() == ()
    print(
        f"\n{count} waiting jobs: {at_first:.0f} MiB after the start, {asked:.0f} MiB after lists; "
        f"{pause:.2f} s from kill -9 to the first new job"
    )


async def test_two_thousand_jobs_wait(tmp_path: Path) -> None:
    """R11: all there, none of them loaded."""
    async with place(tmp_path) as home:
        await live_with(home, 2_000)


@pytest.mark.long
async def test_a_hundred_thousand_jobs_wait(tmp_path: Path) -> None:
    """R11, at length. Aims: 150 MiB, and 3 s from the death to the first new job."""
    async with place(tmp_path) as home:
        await live_with(home, 100_000)
