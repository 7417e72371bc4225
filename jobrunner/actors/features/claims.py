"""Work for outside workers: find what may be claimed, claim it through its actor, or wait.

A worker whose answer was lost asks again under the key of that request, and is given what it was
given then, as long as it holds it. Which that was is in memory alone: after a crash of the service
its lease lapses, as that of any claim of which nobody is heard. In memory is also whose turn it is
among the users of a workflow.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from msgspec import Struct

from jobrunner.actors.commits import Answer
from jobrunner.actors.keeping.objects import INTERRUPTS
from jobrunner.actors.shared import World
from jobrunner.actors.supervisor import Supervisor
from jobrunner.core.features.turns.one_at_a_time import key_ahead
from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.keeping.objects import LACKS_FILES
from jobrunner.core.messages import Claim, Ended
from jobrunner.errors import PluginFault, Refused

LOOK_AGAIN_S = 5.0
SPARE = 8
TRIES = 3
REMEMBERED = 10_000
WIDER = 8  # those in front may all wait for a turn that somebody else has
Runs = tuple[tuple[str, str, str], ...]
Place = tuple[tuple[str, ...], str | None]


class ClaimSearch(Struct, frozen=True):
    """A worker's wish for work: up to ``limit`` claims, or none when ``wait_s`` brings nothing.
    With ``runs`` only jobs whose stage is among these. A worker that is ``gone`` while it waits
    gets nothing."""

    actor: Actor
    workflow: str
    limit: int
    wait_s: float = 0
    statuses: tuple[str, ...] = ()
    job_type: str | None = None
    runs: Runs = ()
    gone: Callable[[], bool] = lambda: False


class _GivenClaims:
    """Remember under which key each worker was given something, for the latest of them."""

    def __init__(self) -> None:
        self._given: OrderedDict[tuple[str, str], tuple[tuple[str, int], ...]] = OrderedDict()
        self._turns: dict[tuple[str, str], list[anyio.Event]] = {}

    def of(self, mark: tuple[str, str]) -> tuple[tuple[str, int], ...]:
        return self._given.get(mark, ())

    def keep(self, mark: tuple[str, str], taken: list[Answer]) -> None:
        if taken:
            self._given[mark] = tuple((one.job.id, one.fields["claim"]) for one in taken)
            if len(self._given) > REMEMBERED:
                self._given.popitem(last=False)

    @asynccontextmanager
    async def in_turn(self, mark: tuple[str, str]) -> AsyncIterator[None]:
        """The repeat of a request waits for the end of it: that one may just be given something."""
        line = self._turns.setdefault(mark, [])
        line.append(over := anyio.Event())
        try:
            for before in line[: line.index(over)]:
                await before.wait()
            yield
        finally:
            over.set()
            line.remove(over)
            if not line:
                self._turns.pop(mark, None)


class Claims:
    def __init__(self, world: World, supervisor: Supervisor) -> None:
        self._world = world
        self._supervisor = supervisor
        self._given = _GivenClaims()
        self._last_user: dict[str, str] = {}

    async def take(self, search: ClaimSearch, key: str = "") -> list[Answer]:
        """Claim work. Under the ``key`` of an earlier request give what that one was given."""
        if not key:
            return await self._taken(search)
        async with self._given.in_turn(mark := (search.actor.badge, key)):
            if again := await self._again(search.actor, mark):
                return again
            taken = await self._taken(search)
            self._given.keep(mark, taken)
            return taken

    async def one(self, job_id: str, asked: Claim) -> Answer:
        """Claim this job, unless another one with its key has the turn. Raises: Refused."""
        with self._world.turns.claiming(job_id, await self._key(job_id)):
            return await self._supervisor.ask(job_id, asked)

    def heard(self, job: Snapshot, said: object) -> None:
        """A worker that could not have a file has given the work back: until the store of objects
        answers, nothing of that workflow is given to anybody."""
        if not isinstance(said, Ended) or said.failure is None:
            return
        if (said.outcome, said.failure.code) == (INTERRUPTS, LACKS_FILES):
            self._world.surroundings.hold_without_files(job.workflow)

    async def _key(self, job_id: str) -> str:
        """The key that the job would work under; where its function fails, deciding says so."""
        job = await self._world.reader.job(job_id) if self._world.turns.are_asked else None
        definition = self._world.registry.of(job) if job is not None else None
        if job is None or definition is None or job.unreadable:
            return ""
        try:
            return key_ahead(definition, job, self._world.clock.now())
        except PluginFault:
            return ""

    async def _again(self, actor: Actor, mark: tuple[str, str]) -> list[Answer]:
        """Give what was given before, where it is still held."""
        found = [
            (await self._world.reader.job(job_id), serial)
            for job_id, serial in self._given.of(mark)
        ]
        held = (_held(job, serial, actor) for job, serial in found if job is not None)
        return [answer for answer in held if answer is not None]

    async def _taken(self, search: ClaimSearch) -> list[Answer]:
        """Take what is there now, else wait for it."""
        places = self._places(search)
        with self._world.watchers.expecting() as arrival:
            taken = await self._now(search, places)
            with anyio.move_on_after(search.wait_s):
                while not (taken or self._world.draining or search.gone()):
                    with anyio.move_on_after(LOOK_AGAIN_S):
                        await arrival.wait()
                    arrival.clear()
                    if search.gone():
                        break
                    with anyio.CancelScope(shield=True):
                        taken = await self._now(search, places)
        return taken

    async def _now(self, search: ClaimSearch, places: list[Place]) -> list[Answer]:
        workflow, around = search.workflow, self._world.surroundings
        if workflow in self._world.pauses.workflows or around.lacks_files(workflow):
            return []
        taken: list[Answer] = []
        for place in places:
            if len(taken) < search.limit:
                taken += await self._there(search, place, search.limit - len(taken))
        return taken

    async def _there(self, search: ClaimSearch, place: Place, limit: int) -> list[Answer]:
        look, asked = limit + SPARE, Claim(search.actor, search.runs)
        for _ in range(TRIES):
            now = self._world.clock.now()
            # A few more than wanted: others may be faster with some of them, or with all.
            last = self._last_user.get(search.workflow, "")
            job_ids = await self._world.reader.claimable(search.workflow, *place, now, look, last)
            if taken := await self._of(job_ids, asked, limit):
                return taken
            if len(job_ids) < look:
                break
            look *= WIDER if self._world.turns.are_asked else 1
        return []

    async def _of(self, job_ids: tuple[str, ...], asked: Claim, limit: int) -> list[Answer]:
        taken: list[Answer] = []
        for job_id in job_ids:
            if len(taken) == limit:
                break
            try:
                answer = await self.one(job_id, asked)
            except Refused:
                continue
            if "lease_until" in answer.fields:
                taken.append(answer)
                self._last_user[answer.job.workflow] = answer.job.user_id
        return taken

    def _places(self, search: ClaimSearch) -> list[Place]:
        """Find where to look: with ``runs`` where jobs of each type rest that lead to these stages,
        in the state itself or in the queue before it."""
        if not search.runs:
            return [(search.statuses, search.job_type)]
        definition = self._world.registry.current(search.workflow)
        if definition is None:
            return []
        found: dict[str, list[str]] = {}
        for state, job_type, _ in search.runs:
            ahead = [
                one.name
                for one in definition.workflow.states
                if one.kind == "queued" and definition.onward_of(one.name, job_type) == state
            ]
            found.setdefault(job_type, []).extend((state, *ahead))
        return [(tuple(sorted(set(names))), job_type) for job_type, names in found.items()]


def _held(job: Snapshot, serial: int, actor: Actor) -> Answer | None:
    """The answer to a claim as it was given, if this worker still holds it."""
    attempt, lease = job.attempt, job.timer("lease")
    if attempt is None or attempt.status != "running" or attempt.serial != serial:
        return None
    if not actor.stands_for(attempt.claimant):
        return None
    lease_until = lease.due_at if lease else None
    fields = {"lease_until": lease_until, "attempt": attempt.number, "claim": serial}
    return Answer(job, fields, replayed=True)
