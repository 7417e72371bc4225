"""The timer service alone, over a table of this test's own: no timer is late because of another."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest

from jobrunner.actors.shared import World
from jobrunner.actors.timers import AGAIN_S, PASSED_S, Timers
from jobrunner.core.messages import Fired, Message
from jobrunner.core.questions import DueTimer
from jobrunner.errors import StorageFull
from jobrunner.ports import SystemChildren, SystemIds
from jobrunner.stages import Registry

pytestmark = pytest.mark.anyio


class Table:
    """Rows, and the moments at which something happens to them unseen."""

    epoch = 1

    def __init__(self) -> None:
        self.rows: list[DueTimer] = []
        self.paused: set[str] = set()
        self.looked_at = 0
        self.naps = 0
        self.meanwhile: Callable[[], None] = lambda: None

    @property
    def reader(self) -> Any:
        return self

    async def commit(self, unit: Any, then: Any = None) -> Any:
        raise AssertionError("nobody writes here")

    async def due_timers(
        self, now: int, limit: int, names: Any, after: int = -1
    ) -> tuple[DueTimer, ...]:
        due = [row for row in self.rows if after < row.due_at <= now]
        self.looked_at += len(due)
        return tuple(row for row in due if row.job_id not in self.paused)

    async def next_timer(self, names: Any, after: int = -1) -> int | None:
        late = [row for row in self.rows if row.due_at > after and row.job_id not in self.paused]
        self.meanwhile()
        self.naps += 1
        return min((row.due_at for row in late), default=None)


class Clock:
    """It goes on only while somebody sleeps."""

    def __init__(self) -> None:
        self.time_ms = 1_000_000
        self.while_asleep: Callable[[], None] = lambda: None

    def now(self) -> int:
        return self.time_ms

    def monotonic(self) -> float:
        return self.time_ms / 1000

    async def sleep(self, seconds: float) -> None:
        self.while_asleep()
        await anyio.lowlevel.checkpoint()
        self.time_ms += int(seconds * 1000)


class Desk:
    """The service, the jobs it speaks to, and what they were told when."""

    def __init__(self) -> None:
        self.table, self.clock = Table(), Clock()
        self.gone: set[str] = set()
        self.fired: list[tuple[str, int]] = []
        ids, store = SystemIds(self.clock), cast(Any, self.table)
        world = World(store, Registry(), self.clock, ids, lambda *_, **__: None, SystemChildren())
        self.timers = Timers(world, self.tell)

    def store(self, job_id: str, in_s: float) -> None:
        due_at = self.clock.now() + int(in_s * 1000)
        self.table.rows.append(DueTimer(job_id, "retry", due_at))
        self.timers.note(due_at)

    async def tell(self, job_id: str, message: Message) -> None:
        assert isinstance(message, Fired)
        self.table.rows = [row for row in self.table.rows if row.job_id != job_id]
        self.fired.append((job_id, self.clock.now() - message.due_at))
        if job_id in self.gone:
            raise StorageFull("not now")

    async def until_fired(self, job_id: str) -> int:
        """By how much it was late."""
        async with self.running():
            return await self.heard(job_id)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        with anyio.fail_after(120):
            async with anyio.create_task_group() as group:
                group.start_soon(self.timers.run)
                yield
                group.cancel_scope.cancel()

    async def passed_over(self, job_id: str) -> None:
        """It was due and paused when another was fired, and then there was nothing to do."""
        self.store(job_id, 0)
        self.table.paused.add(job_id)
        self.clock.time_ms += 1000
        self.store("due", 0)
        await self.heard("due")
        while not self.table.naps:
            await anyio.lowlevel.checkpoint()
        self.table.paused.clear()

    async def heard(self, job_id: str) -> int:
        while not (late := [by for name, by in self.fired if name == job_id]):
            await anyio.lowlevel.checkpoint()
        return late[0]


def once(act: Callable[[], None]) -> Callable[[], None]:
    acts = [act]
    return lambda: acts.pop()() if acts else None


async def test_a_timer_is_not_late_because_another_could_not_be_taken() -> None:
    """R6: the job of the first was deleted just then; nothing else was due for a long time."""
    desk = Desk()
    desk.gone.add("deleted")
    desk.store("deleted", 0)
    desk.clock.while_asleep = once(lambda: desk.store("next", AGAIN_S))
    assert await desk.until_fired("next") == 0


async def test_a_timer_that_is_stored_while_the_table_is_asked_is_not_overlooked() -> None:
    """R6: the answer is older than the row, and an earlier timer has just been fired."""
    desk = Desk()
    desk.store("first", 0)
    desk.table.meanwhile = once(lambda: desk.store("second", 0))
    assert await desk.until_fired("second") == 0


async def test_timers_of_the_paused_are_looked_at_once() -> None:
    """A hundred thousand of them would hold up whatever is read, with each timer that is due."""
    desk = Desk()
    for number in range(100):
        desk.store(f"paused-{number}", 0)
        desk.table.paused.add(f"paused-{number}")
    async with desk.running():
        for number in range(5):
            desk.clock.time_ms += 1
            desk.store(f"due-{number}", 0)
            await desk.heard(f"due-{number}")
    assert desk.table.looked_at <= 100 + 2 * 5


async def test_a_timer_of_one_who_goes_on_is_found_among_those_passed_over() -> None:
    desk = Desk()
    async with desk.running():
        await desk.passed_over("paused")
        desk.timers.note(desk.table.rows[0].due_at)
        assert await desk.heard("paused") == 1000


async def test_of_those_passed_over_the_table_is_asked_anew_once_in_a_while() -> None:
    """Nobody said that this one goes on, and it does not wait for ever."""
    desk = Desk()
    async with desk.running():
        await desk.passed_over("paused")
        desk.clock.time_ms += int(PASSED_S * 1000)
        desk.store("another", 0)
        assert await desk.heard("paused") == (1 + PASSED_S) * 1000
