"""Hands out slots. Who waits is a question to the table, in the order of priority, then age; how
many may run, overall and per user, is what this part knows.

After the service died soon after a start, the attempts that were open then are suspects: one of
them runs at a time, and nothing else does, until each is cleared by its end or a minute of life.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

import anyio
from msgspec import Struct

from jobrunner.actors.world import World
from jobrunner.core.queries import Waiting

CLEARED_AFTER_S = 60.0
AGAIN_S = 1.0
SUSPECTS_MAX = 1024
Taken = Literal["took", "moved", "failed"]
Offer = Callable[[str], Awaitable[Taken]]


class Limits(Struct, frozen=True):
    """How much may run at once, and how much may be due."""

    active_jobs: int = 64
    per_user_active: int = 8
    queued_jobs: int = 100_000


class Dispatcher:
    """``offer`` gives a job its slot and returns whether it took it, moved on without it, or could
    not be asked now. A slot is free again when the stage's task has ended, not sooner: a stage
    that is deaf to being stopped keeps its slot, and its job's next attempt waits for it."""

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
        self._release(job_id)
        self._nudge.set()

    def suspect(self, job_ids: list[str]) -> None:
        self._suspects = list(job_ids)

    async def run(self) -> None:
        self.backlog = await self._world.reader.line_length()
        while True:
            self._nudge.clear()
            failed = await self._serve() if self.open else False
            await self._rest(AGAIN_S if failed else None)

    async def _serve(self) -> bool:
        """Fill the free slots; what does not fit stays where it is, in the table. True when jobs
        are left that could not be asked."""
        while self.open and self._free():
            chosen = self._reserve(await self._waiting())
            if not chosen:
                return False
            answers: list[Taken] = []
            async with anyio.create_task_group() as group:
                for one in chosen:
                    group.start_soon(self._give, one, answers)
            if "failed" in answers:
                return True
        return False

    def _free(self) -> int:
        return max(self._limits.active_jobs - len(self._running), 0)

    async def _waiting(self) -> tuple[Waiting, ...]:
        """As many as may run at all: some of the first may wait for a slot of their own."""
        names = tuple(self._world.registry.names())
        if self._probation is not None:
            return ()
        if self._suspects and (suspect := await self._next_suspect(names)):
            return (suspect,)
        return await self._world.reader.line(self._limits.active_jobs, names, self._saturated())

    async def _next_suspect(self, names: tuple[str, ...]) -> Waiting | None:
        """None when no suspect is left that waits for a slot."""
        line = await self._world.reader.line(SUSPECTS_MAX, names)
        first = next((one for one in line if one.job_id in self._suspects), None)
        if first is None:
            self._suspects = []
            return None
        self._suspects.remove(first.job_id)
        self._probation = (first.job_id, self._world.clock.monotonic() + CLEARED_AFTER_S)
        return first

    def _saturated(self) -> tuple[str, ...]:
        users = list(self._running.values())
        limit = self._limits.per_user_active
        return tuple(sorted({user for user in users if limit and users.count(user) >= limit}))

    def _reserve(self, line: tuple[Waiting, ...]) -> list[Waiting]:
        chosen = []
        for one in line:
            if self._fits(one):
                self._running[one.job_id] = one.user_id
                chosen.append(one)
        return chosen

    def _fits(self, one: Waiting) -> bool:
        users = list(self._running.values())
        limit = self._limits.per_user_active
        crowded = bool(limit) and users.count(one.user_id) >= limit
        return bool(self._free()) and not crowded and one.job_id not in self._running

    async def _give(self, one: Waiting, answers: list[Taken]) -> None:
        taken = await self._offer(one.job_id)
        answers.append(taken)
        if taken != "took":
            self._release(one.job_id)

    def _release(self, job_id: str) -> None:
        self._running.pop(job_id, None)
        if self._probation is not None and self._probation[0] == job_id:
            self._probation = None

    async def _rest(self, again_s: float | None) -> None:
        """Until somebody comes or a slot is free; not for longer than the suspect has to live, or
        than it takes to ask again."""
        until = self._probation[1] if self._probation is not None else None
        left_s = until - self._world.clock.monotonic() if until is not None else None
        seconds = min((one for one in (left_s, again_s) if one is not None), default=None)
        with anyio.move_on_after(seconds) as nap:
            await self._nudge.wait()
        if nap.cancelled_caught and self._probation is not None and left_s == seconds:
            self._probation = None
