"""Hands out slots. The table knows which jobs wait, in the order of priority, then age; ``slots``
knows which of them may run. Among users of equal priority the one with the fewest running attempts
comes first, and among several of those the one who was called longest ago, so that thousands of
jobs do not hold up the only job of another, whether one user has brought them or many. A job keeps
its slot from one stage to the next unless somebody with a better claim waits for it: so jobs end
sooner, and fewer stand half done.

A slot is taken before its job is asked, and only that job waits for the answer: one that has long
to look at its files holds up its own slot, not those of the others. One that could not be asked
gives its slot back, and is asked again in a second. While there are suspects, one of them runs at a
time and nothing else does.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from heapq import heapify, heappop, heappush

import anyio

from jobrunner.actors.commits import Answer
from jobrunner.actors.features.turns.known_line import InLine
from jobrunner.actors.features.turns.searching import Search
from jobrunner.actors.shared import World
from jobrunner.actors.slots import Slots
from jobrunner.actors.suspects import Suspects
from jobrunner.actors.tasks import Crew
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.turns.in_line import Waiting
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import Message, Start
from jobrunner.stages import Stage

AGAIN_S = 1.0
SUSPECTS_MAX = 1024
Tell = Callable[[str, Message], Awaitable[Answer]]


class Dispatcher:
    """``tell`` gives a job its slot by telling it to start."""

    def __init__(self, world: World, slots: Slots, tell: Tell) -> None:
        self._world = world
        self._slots = slots
        self._tell = tell
        self._nudge = asyncio.Event()
        self._line = InLine()
        self._search = Search(world, slots)
        self._suspects = Suspects(world.clock)
        self._asked: dict[str, None] = {}
        self._answered: set[str] = set()
        self._later: dict[str, float] = {}
        self._around = world.surroundings
        self._around.on_release = self.nudge

    @property
    def backlog(self) -> int:
        """How many jobs wait for a slot."""
        return self._line.count

    @property
    def keeps_waiting(self) -> bool:
        """Say whether somebody in line may have a slot as soon as one is free."""
        return self._line.has_others_than(self._slots.is_crowded)

    @property
    def overloaded(self) -> bool:
        most = self._slots.limits.queued_jobs
        return bool(most) and self.backlog >= most

    @property
    def is_asking(self) -> bool:
        """Say whether jobs that have their slot are being told to start."""
        return bool(self._asked)

    @property
    def running(self) -> dict[str, str]:
        return self._slots.holders

    @property
    def resources(self) -> Mapping[str, tuple[int, int]]:
        return self._slots.resources

    async def begin(self) -> None:
        """Count who waits, before anything changes that."""
        self._line = InLine(await self._world.reader.line_users())

    def line_changed(self, change: int, job: Snapshot) -> None:
        if change > 0:
            self._line.came(job)
            self._nudge.set()
        else:
            self._line.left(job)

    def lend(self, job: Snapshot, definition: Definition) -> frozenset[str]:
        """Name the stages that this job may begin in the slot that it has when its attempt ends:
        none while somebody with a better claim to it waits, or nothing new is to begin."""
        if self._world.draining or self.on_trial:
            return frozenset()
        if self._around.is_held(job.workflow) or not self._world.registry.is_of_today(definition):
            return frozenset()
        claim = job.priority, job.user_id, self._slots.users
        if not self._slots.free and self._line.somebody_before(*claim):
            return frozenset()
        return self._slots.lend(job.id, self._world.registry.stages_of(definition))

    def began(self, job: Snapshot, stage: Stage | None) -> None:
        """Note that a stage begins in the slot of this job."""
        self._line.began(job.user_id)
        if self._slots.begin(job.id, stage):
            self._nudge.set()

    def ended(self, job_id: str) -> None:
        """Look at the line again: a slot came free."""
        self._slots.give_back(job_id)
        self._world.turns.slot_free(job_id)
        self._suspects.ended(job_id)
        if self._line.count or self._suspects:
            self._nudge.set()

    def suspect(self, job_ids: list[str]) -> None:
        """Start these one at a time, and nothing beside them."""
        self._suspects.accuse(job_ids)

    @property
    def on_trial(self) -> bool:
        """Attempts that were open when the service died start one by one, and nothing else."""
        return bool(self._suspects.on_trial or self._suspects)

    def is_asked(self, job_id: str) -> bool:
        """Say whether the job has its slot, and is being told to start."""
        return job_id in self._asked

    def lack(self, job: Snapshot | Waiting, job_id: str, stage: Stage | None) -> str:
        """Name what a job in line is short of; empty when it may run."""
        turns = self._world.turns
        return self._slots.lack(job_id, job.user_id, stage) or turns.lack(job_id, job.turn_key)

    def nudge(self) -> None:
        """Look at the line again: something that was paused, or waited for, goes on."""
        self._nudge.set()

    async def run(self, group: Crew) -> None:
        """``group`` is where jobs are asked: who is asked stays so when this is started again."""
        while True:
            self._nudge.clear()
            now = self._world.clock.monotonic()
            self._later = {job_id: at for job_id, at in self._later.items() if at > now}
            await self._serve(group)
            await self._rest()

    async def _serve(self, group: Crew) -> None:
        """Fill the free slots; what does not fit stays where it is, in the table."""
        while self._slots.free:
            self._answered.clear()
            chosen = await self._chosen()
            if not chosen:
                return
            for one in chosen:
                self._asked[one.job_id] = None
                group.start_soon(self._give, one)

    async def _chosen(self) -> list[Waiting]:
        """Choose the jobs that get a slot now: mostly from the heads of the lines, and from further
        behind where none of the first may run."""
        names = self._world.pauses.startable(self._world.registry.names())
        if self._suspects.on_trial:
            return []
        ready = tuple(name for name in names if not self._around.is_held(name))
        if self._suspects:
            line = await self._world.turns.line(SUSPECTS_MAX, names)
            if left := self._suspects.those_of(line):
                fit = [one for one in left if one.workflow in ready]
                return self._reserve(self._suspects.try_next(fit, self._later))
        near = await self._search.heads(self._line, ready, self._later)
        if chosen := self._reserve(near):
            return chosen
        return self._reserve(await self._search.everybody(self._line, ready, self._later))

    def _reserve(self, line: list[Waiting]) -> list[Waiting]:
        """Reserve slots one after the other: highest priority first, then the user with the fewest,
        then who was called longest ago. Skip jobs that answered since the line was read: that may
        be different now."""
        queues: dict[str, list[Waiting]] = {}
        passed = self._answered.union(self._asked, self._later)
        for one in reversed(line):
            if one.job_id not in passed:
                queues.setdefault(one.user_id, []).append(one)
        best = [(self._rank(queue[-1]), queue) for queue in queues.values()]
        heapify(best)
        chosen: list[Waiting] = []
        while best and self._slots.free and not self._world.draining:
            _, queue = heappop(best)
            one = queue.pop()
            stage = self._stage(one.workflow, one.status, one.job_type)
            if not self.lack(one, one.job_id, stage):
                self._slots.take(one.job_id, one.user_id, stage)
                self._world.turns.take(one)
                self._line.call(one.user_id)
                chosen.append(one)
            if queue and not self._slots.is_crowded(one.user_id):
                heappush(best, (self._rank(queue[-1]), queue))
        return chosen

    def _rank(self, one: Waiting) -> tuple[int, int, int, int, str]:
        """Ids are in the order of age, too: of those who came at once the older is first."""
        running = self._slots.users.get(one.user_id, 0)
        return -one.priority, running, self._line.called(one.user_id), one.line_at, one.job_id

    def _stage(self, workflow: str, status: str, job_type: str) -> Stage | None:
        registry = self._world.registry
        return registry.stage(registry.bound_at(workflow, status, job_type))

    async def _give(self, one: Waiting) -> None:
        """Tell it to start: it takes its slot, moves on without it, or cannot be asked now."""
        try:
            job = (await self._tell(one.job_id, Start())).job
        except Exception:  # noqa: BLE001 - it was told where it happened, and is tried again
            job = None
        self._asked.pop(one.job_id, None)
        self._answered.add(one.job_id)
        if job is None or job.line_at is not None:
            self._later[one.job_id] = self._world.clock.monotonic() + AGAIN_S
            self._suspects.could_not_begin(one.job_id)
        elif job.attempt is not None and job.attempt.status == "running":
            return
        self._line.doubt(one.user_id)
        self.ended(one.job_id)

    async def _rest(self) -> None:
        """Sleep until somebody comes or a slot is free, but not longer than the suspect has to
        live, or than it takes to ask again."""
        due = [*self._later.values()]
        if self._suspects.cleared_at is not None:
            due.append(self._suspects.cleared_at)
        if self._line.count and self._slots.free and (room := self._world.rates.next_at()):
            due.append(room)
        if not due:
            await self._nudge.wait()
            return
        ends = min(due)
        with anyio.move_on_after(max(ends - self._world.clock.monotonic(), 0)) as nap:
            await self._nudge.wait()
        if nap.cancelled_caught and ends == self._suspects.cleared_at:
            self._suspects.clear()
