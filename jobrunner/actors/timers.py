"""One timer service over the timers table. It sleeps until the next row is due, reads a window of
due rows, and sends each to its job; the commit of what it causes is what removes the row. So a
timer that its job could not take stays where it is, and needs no memory.

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

Tell = Callable[[str, Message], Awaitable[object]]


class Timers:
    """``tell`` gives a message to a job, and raises when the job could not take it now."""

    def __init__(self, world: World, tell: Tell) -> None:
        self._world = world
        self._tell = tell
        self._nudge = asyncio.Event()
        self._next: int | None = None

    def note(self, due_at: int) -> None:
        """A timer was stored; if it is the earliest, the nap is too long."""
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
        """Everything due in this window, together: how many there were, how many are left."""
        self._nudge.clear()
        names = tuple(self._world.registry.names())
        due = await self._world.reader.due_timers(self._world.clock.now(), WINDOW, names)
        taken: list[bool] = []
        async with anyio.create_task_group() as group:
            for timer in due:
                group.start_soon(self._send, timer, taken)
        return len(due), taken.count(False)

    async def _send(self, timer: DueTimer, taken: list[bool]) -> None:
        try:
            await self._tell(timer.job_id, Fired(timer.purpose, timer.due_at))
        except Exception:  # noqa: BLE001 - it was told where it happened, and is tried again
            taken.append(False)
        else:
            self._world.meter.fired((self._world.clock.now() - timer.due_at) / 1000)
            taken.append(True)

    async def _nap(self) -> None:
        """Until the next row is due, or one is stored that is due sooner: also one that is stored
        while the table is asked, which the answer need not know of."""
        names = tuple(self._world.registry.names())
        self._next = None
        self._next = await self._world.reader.next_timer(names)
        seconds = SLEEP_MAX_S
        if self._next is not None:
            seconds = min((self._next - self._world.clock.now()) / 1000, SLEEP_MAX_S)
        if seconds > 0:
            with anyio.move_on_after(seconds):
                await self._nudge.wait()
