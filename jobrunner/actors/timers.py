"""One timer service over the timers table. It sleeps until the next row is due, reads a window of
due rows, and sends each to its job; the commit of what it causes is what removes the row. So a
timer that its job could not take stays where it is, and needs no memory.

Rows of jobs that are paused or stuck are passed over, and there may be very many: they are read
once, not with every timer that is due. Whatever makes one of them count again says so.

Wall time is what is stored, and wall time may jump: nothing is slept for longer than a minute.
"""

import asyncio
from collections.abc import Awaitable, Callable

import anyio

from jobrunner.actors.shared import World
from jobrunner.core.messages import Fired, Message
from jobrunner.core.questions import DueTimer

WINDOW = 256
SLEEP_MAX_S = 60.0
AGAIN_S = 1.0
PASSED_S = 60.0
NONE_PASSED = -1
NEVER = 2**63 - 1

Tell = Callable[[str, Message], Awaitable[object]]


class Timers:
    """``tell`` gives a message to a job, and raises when the job could not take it now."""

    def __init__(self, world: World, tell: Tell) -> None:
        self._world = world
        self._tell = tell
        self._nudge = asyncio.Event()
        self._next: int | None = None
        self._passed = NONE_PASSED
        self._noted = NEVER
        self._anew_at = 0.0

    def note(self, due_at: int) -> None:
        """Wake the service if this timer, just stored, is the earliest."""
        self._passed = min(self._passed, due_at - 1)
        self._noted = min(self._noted, due_at)
        if self._next is None or due_at < self._next:
            self._next = due_at
            self._nudge.set()

    async def run(self) -> None:
        while True:
            count, left = await self._fire()
            if left:
                await self._world.clock.sleep(AGAIN_S)
            elif count < WINDOW:
                await self._nap()

    async def _fire(self) -> tuple[int, int]:
        """Fire everything due in this window together. Return how many there were, and how many are
        left."""
        self._nudge.clear()
        self._look_anew()
        now, self._noted = self._world.clock.now(), NEVER
        names = tuple(self._world.registry.names())
        due = await self._world.reader.due_timers(now, WINDOW, names, self._passed)
        taken: list[bool] = []
        async with anyio.create_task_group() as group:
            for timer in due:
                group.start_soon(self._send, timer, taken)
        if len(due) < WINDOW and all(taken):
            self._passed = min(now, self._noted - 1)
        return len(due), taken.count(False)

    def _look_anew(self) -> None:
        """Once in a while at all of them: the table is right, whatever was said or not."""
        now = self._world.clock.monotonic()
        if now >= self._anew_at:
            self._passed, self._anew_at = NONE_PASSED, now + PASSED_S

    async def _send(self, timer: DueTimer, taken: list[bool]) -> None:
        try:
            await self._tell(timer.job_id, Fired(timer.purpose, timer.due_at))
        except Exception:  # noqa: BLE001 - it was told where it happened, and is tried again
            taken.append(False)
        else:
            self._world.meter.fired((self._world.clock.now() - timer.due_at) / 1000)
            taken.append(True)

    async def _nap(self) -> None:
        """Sleep until the next row is due, or one is stored that is due sooner: also one that is
        stored while the table is asked, which the answer need not know of."""
        names = tuple(self._world.registry.names())
        self._next = None
        self._next = await self._world.reader.next_timer(names, self._passed)
        seconds = SLEEP_MAX_S
        if self._next is not None:
            seconds = min((self._next - self._world.clock.now()) / 1000, SLEEP_MAX_S)
        if seconds > 0:
            with anyio.move_on_after(seconds):
                await self._nudge.wait()
