"""Hands out slots. Who waits is a question to the table, in the order of priority, then age; how
many may run, overall and per user, is what this part knows.

After the service died soon after a start, the attempts that were open then are suspects: one of
them runs at a time, and nothing else does, until each is cleared by its end or a minute of life.
"""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from jobrunner.actors.world import World
from jobrunner.core.queries import Waiting

CLEARED_AFTER_S = 60.0
Offer = Callable[[str], Awaitable[bool]]


class Limits(Struct, frozen=True):
    """How much may run at once, and how much may be due."""

    active_jobs: int = 64
    per_user_active: int = 8
    queued_jobs: int = 100_000


class Dispatcher:
    """``offer`` gives a job its slot and returns whether it took it."""

    def __init__(self, world: World, limits: Limits, offer: Offer) -> None:
        self._world = world
        self._limits = limits
        self._offer = offer
        self._nudge = asyncio.Event()
        self._running: dict[str, str] = {}
        self._suspects: list[str] = []
        self._probation: tuple[str, float] | None = None
        self.backlog = 0
        self.open = True
        world.on_line = self.line_changed

    @property
    def overloaded(self) -> bool:
        return bool(self._limits.queued_jobs) and self.backlog >= self._limits.queued_jobs

    @property
    def running(self) -> dict[str, str]:
        return dict(self._running)

    def line_changed(self, change: int) -> None:
        self.backlog += change
        if change > 0:
            self._nudge.set()

    def ended(self, job_id: str) -> None:
        """A slot came free."""
        self._running.pop(job_id, None)
        if self._probation is not None and self._probation[0] == job_id:
            self._probation = None
        self._nudge.set()

    def suspect(self, job_ids: list[str]) -> None:
        self._suspects = list(job_ids)

    async def run(self) -> None:
        self.backlog = await self._world.reader.line_length()
        while True:
            self._nudge.clear()
            if self.open:
                await self._serve()
            await self._rest()

    async def _serve(self) -> None:
        """Fill the free slots; what does not fit stays where it is, in the table."""
        while self.open and (free := self._free()):
            line = await self._waiting(free)
            took = [await self._give(one) for one in line if self._fits(one)]
            if not any(took):
                return

    def _free(self) -> int:
        return max(self._limits.active_jobs - len(self._running), 0)

    async def _waiting(self, free: int) -> tuple[Waiting, ...]:
        names = tuple(self._world.registry.names())
        if self._suspects or self._probation:
            return await self._next_suspect(names)
        return await self._world.reader.line(free, names, self._saturated())

    async def _next_suspect(self, names: tuple[str, ...]) -> tuple[Waiting, ...]:
        if self._probation is not None:
            return ()
        line = await self._world.reader.line(1024, names)
        first = next((one for one in line if one.job_id in self._suspects), None)
        if first is None:
            self._suspects = []
            return ()
        self._suspects.remove(first.job_id)
        self._probation = (first.job_id, self._world.clock.monotonic() + CLEARED_AFTER_S)
        return (first,)

    def _saturated(self) -> tuple[str, ...]:
        users = list(self._running.values())
        limit = self._limits.per_user_active
        return tuple(sorted({user for user in users if limit and users.count(user) >= limit}))

    def _fits(self, one: Waiting) -> bool:
        users = list(self._running.values())
        limit = self._limits.per_user_active
        return bool(self._free()) and not (limit and users.count(one.user_id) >= limit)

    async def _give(self, one: Waiting) -> bool:
        self._running[one.job_id] = one.user_id
        took = await self._offer(one.job_id)
        if not took:
            self.ended(one.job_id)
            self._nudge.clear()
        return took

    async def _rest(self) -> None:
        """Until somebody comes, a slot is free, or the suspect has lived long enough."""
        if self._probation is None:
            await self._nudge.wait()
            return
        job_id, until = self._probation
        left_s = until - self._world.clock.monotonic()
        if left_s <= 0:
            self._probation = None
            self._nudge.set()
            return
        try:
            async with asyncio.timeout(left_s):
                await self._nudge.wait()
        except TimeoutError:
            self._probation = None
