"""How retention does its work: in small steps, after the others, no slower than jobs end."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from jobrunner.actors.keeping.retention import GIVES_WAY_S, Retention
from jobrunner.actors.shared import World
from jobrunner.core.decision import Unit
from jobrunner.core.job import Snapshot
from jobrunner.core.keeping.retention import Prune, RetentionTerms, StepLimits
from jobrunner.ports import SystemChildren, SystemIds
from jobrunner.stages import Registry
from jobrunner.store.store import Store
from tests.store.factory import NOON, birth, job, moved, opened, stored

pytestmark = pytest.mark.anyio
NOW = NOON + 10**9
TERMS = RetentionTerms(ended_s=1)
USUAL = StepLimits().jobs


class Clock:
    """It goes on only while somebody sleeps, or a step is written."""

    def __init__(self) -> None:
        self.time_s = 1000.0
        self.slept: list[float] = []

    def now(self) -> int:
        return NOW

    def monotonic(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time_s += seconds
        await anyio.lowlevel.checkpoint()


class Watched:
    """The store; each write takes so long by the test's clock, and others wait when it says so."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.takes_s = 0.01
        self.steps: list[int] = []
        self.others: Callable[[], int] = lambda: 0
        self.before: Callable[[], Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def commit(self, unit: Unit, then: Any = None) -> Any:
        if isinstance(unit, Prune):
            self.clock.time_s += self.takes_s
            self.steps.append(len(unit.jobs))
            if self.before is not None:
                act, self.before = self.before, None
                await act()
        return await self.store.commit(unit, then)

    def waiting(self) -> int:
        return self.others()


class Bench:
    """A store, a clock, and retention over both."""

    def __init__(self, store: Store) -> None:
        self.clock = Clock()
        self.store = Watched(store, self.clock)
        self.logged: list[str] = []
        ids: Any = SystemIds(self.clock)
        watched: Any = self.store
        self.world = World(watched, Registry(), self.clock, ids, self._log, SystemChildren())
        self.gone: list[str] = []
        self.made = 0
        self.retention = Retention(self.world, TERMS, self.gone.append)

    def _log(self, event: str, **fields: Any) -> None:
        self.logged.append(event)

    async def ended(self, count: int, apart_ms: int, status: str = "done") -> list[Snapshot]:
        jobs = []
        self.made += count
        for number in range(self.made - count, self.made):
            born = await stored(self.store.store, birth(job(number)))
            over = moved(born, status)
            after = structs.replace(over.after, updated_at=NOON + number * apart_ms)
            jobs.append(await stored(self.store.store, structs.replace(over, after=after)))
        return jobs


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with opened(tmp_path) as store:
        yield Bench(store)


async def test_steps_stay_small_while_more_go_than_come(bench: Bench) -> None:
    jobs = await bench.ended(6 * USUAL + 2, apart_ms=100)
    taken = await bench.retention.prune(1000)
    assert (taken.jobs, taken.done) == ({("toy", "done"): 6 * USUAL + 2}, True)
    assert bench.store.steps == [USUAL] * 6 + [2]
    assert sorted(bench.gone) == sorted(one.id for one in jobs)


async def test_steps_grow_while_more_come_than_go(bench: Bench) -> None:
    await bench.ended(64 * USUAL + 1, apart_ms=1)
    bench.store.takes_s = 0.2
    await bench.retention.prune(1000)
    assert bench.store.steps == [USUAL * gear for gear in (1, 2, 4, 8, 16, 32)] + [USUAL + 1]
    bench.store.steps.clear()
    bench.store.takes_s = 0.001
    await bench.ended(60 * USUAL, apart_ms=1000)
    await bench.retention.prune(1000)
    assert bench.store.steps[-2:] == [USUAL, USUAL], "and shrink when they are through"


async def test_it_rests_longer_than_a_step_took(bench: Bench) -> None:
    await bench.ended(3 * USUAL, apart_ms=1000)
    bench.store.takes_s = 0.02
    await bench.retention.prune(1000)
    assert bench.clock.slept[1:] == pytest.approx([0.08, 0.08])


async def test_it_lets_others_write_first_and_not_for_ever(bench: Bench) -> None:
    await bench.ended(1, apart_ms=1)
    left = [3, 2, 1, 0]
    bench.store.others = lambda: left.pop(0) if left else 0
    await bench.retention.prune(1000)
    assert (left, bench.store.steps) == ([], [1])
    await bench.ended(1, apart_ms=1)
    bench.store.others = lambda: 5
    began_s = bench.clock.time_s
    await bench.retention.prune(1000)
    assert bench.store.steps == [1, 1]
    assert bench.clock.time_s - began_s < 3 * GIVES_WAY_S


async def test_one_that_moves_meanwhile_keeps_nobody_from_going(bench: Bench) -> None:
    jobs = await bench.ended(4, apart_ms=1, status="broken")

    async def revive() -> None:
        await stored(bench.store.store, moved(jobs[1], "queued"))

    bench.store.before = revive
    taken = await bench.retention.prune(1000)
    assert (taken.jobs, taken.done) == ({("toy", "broken"): 3}, True)
    assert bench.store.steps == [4, 1, 1, 1, 1]
    revived = await bench.store.reader.job(jobs[1].id)
    assert revived is not None
    assert revived.status == "queued"
    assert await bench.store.store.check() == ()


async def test_it_stops_when_its_time_is_over_and_in_a_drain(bench: Bench) -> None:
    await bench.ended(3 * USUAL, apart_ms=1000)
    taken = await bench.retention.prune(0.01)
    assert (taken.total, taken.done) == (USUAL, False)
    bench.world.draining = True
    taken = await bench.retention.prune(1000)
    assert (taken.total, taken.done) == (0, False)
