"""Hands out slots. Who waits is a question to the table, in the order of priority, then age; who
may run is what ``slots`` knows. Among users of equal priority the one with the fewest running
attempts comes first, so that a thousand jobs of one do not hold up the only job of another.

After the service died soon after a start, the attempts that were open then are suspects: one of
them runs at a time, and nothing else does, until each is cleared by its end or a minute of life.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Literal

import anyio

from jobrunner.actors.slots import Slots
from jobrunner.actors.world import World
from jobrunner.core.job import Snapshot
from jobrunner.core.queries import Waiting
from jobrunner.stages import Stage

CLEARED_AFTER_S = 60.0
AGAIN_S = 1.0
SUSPECTS_MAX = 1024
ROUNDS_MAX = 8
Taken = Literal["took", "moved", "failed"]
Offer = Callable[[str], Awaitable[Taken]]


class Dispatcher:
    """``offer`` gives a job its slot and returns whether it took it, moved on without it, or could
    not be asked now."""

    def __init__(self, world: World, slots: Slots, offer: Offer) -> None:
        self._world = world
        self._slots = slots
        self._offer = offer
        self._nudge = asyncio.Event()
        self._users: Counter[str] = Counter()
        self._suspects: list[str] = []
        self._probation: tuple[str, float] | None = None
        self.backlog = 0
        self.open = True
        world.on_line = self.line_changed

    @property
    def overloaded(self) -> bool:
        most = self._slots.limits.queued_jobs
        return bool(most) and self.backlog >= most

    @property
    def running(self) -> dict[str, str]:
        return self._slots.holders

    def line_changed(self, change: int, user_id: str) -> None:
        self.backlog += change
        self._users[user_id] += change
        if self._users[user_id] <= 0:
            del self._users[user_id]
        if change > 0:
            self._nudge.set()

    def ended(self, job_id: str) -> None:
        """A slot came free."""
        self._release(job_id)
        self._nudge.set()

    def suspect(self, job_ids: list[str]) -> None:
        self._suspects = list(job_ids)

    def why(self, job: Snapshot) -> str:
        """What a job in line waits for."""
        if self._probation is not None or self._suspects:
            return "the attempts that were open when the service died, which start one by one"
        stage = self._stage(job.workflow, job.status, job.job_type)
        return self._slots.lack(job.id, job.user_id, stage) or "its turn, which is next"

    async def run(self) -> None:
        self.backlog = await self._world.reader.line_length()
        self._users = Counter(dict(await self._world.reader.line_users()))
        while True:
            self._nudge.clear()
            failed = await self._serve() if self.open else False
            await self._rest(AGAIN_S if failed else None)

    async def _serve(self) -> bool:
        """Fill the free slots; what does not fit stays where it is, in the table. True when jobs
        are left that could not be asked."""
        while self.open and self._slots.free:
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

    async def _waiting(self) -> list[Waiting]:
        """As many as may run at all, and of more users if there are more who wait."""
        names = tuple(self._world.registry.names())
        if self._probation is not None:
            return []
        if self._suspects and (suspect := await self._next_suspect(names)):
            return [suspect]
        passed, found = set(self._slots.crowded()), list[Waiting]()
        most, full = self._slots.limits.active_jobs, self._full()
        for _ in range(ROUNDS_MAX):
            but_not = tuple(sorted(passed))
            line = await self._world.reader.line(most, names, but_not, full)
            found += line
            passed |= {one.user_id for one in line}
            if len(line) < most or self._users.keys() <= passed:
                break
        return found

    def _full(self) -> tuple[tuple[str, str, str], ...]:
        """Where nobody needs to be called: the stage there has no turn, or no resource, left."""
        stages = self._world.registry.stages.items()
        short = frozenset(name for name, stage in stages if self._slots.short_of(stage))
        return self._world.registry.places(short) if short else ()

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

    def _reserve(self, line: list[Waiting]) -> list[Waiting]:
        """One after the other: the highest priority, the user with the least, the oldest."""
        queues: dict[str, list[Waiting]] = {}
        for one in reversed(line):
            queues.setdefault(one.user_id, []).append(one)
        chosen: list[Waiting] = []
        while queues and self._slots.free:
            user = min(queues, key=lambda user: self._rank(queues[user][-1]))
            one = queues[user].pop()
            if not queues[user]:
                del queues[user]
            stage = self._stage(one.workflow, one.status, one.job_type)
            if not self._slots.lack(one.job_id, one.user_id, stage):
                self._slots.take(one.job_id, one.user_id, stage)
                chosen.append(one)
        return chosen

    def _rank(self, one: Waiting) -> tuple[int, int, int]:
        return -one.priority, self._slots.of_user(one.user_id), one.line_at

    def _stage(self, workflow: str, status: str, job_type: str) -> Stage | None:
        registry = self._world.registry
        return registry.stage(registry.bound_at(workflow, status, job_type))

    async def _give(self, one: Waiting, answers: list[Taken]) -> None:
        taken = await self._offer(one.job_id)
        answers.append(taken)
        if taken != "took":
            self._release(one.job_id)

    def _release(self, job_id: str) -> None:
        self._slots.give_back(job_id)
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
