"""Owns the actors of jobs: makes one for the first letter, and keeps those that were used lately.

An actor at rest is nothing but the snapshot that was committed last. Keeping it saves reading the
job again. Actors are kept up to ``kept_bytes``; those that were not used for longest go first. A
job that has ended is not kept, nor one that joins a line so long that it would be let go before its
turn, nor a new one that waits for somebody elsewhere, or for a moment, when half of the room is
taken: whoever came before is taken before. For whatever is allocated where such a job lay is in the
processor's cache, and what is kept is not. A job whose actor crashes three times within a minute is
marked stuck, so one bad job costs no other anything.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from jobrunner.actors.actor import SNAPSHOT_BYTES, JobActor
from jobrunner.actors.commits import Answer
from jobrunner.actors.consequences import Consequences
from jobrunner.actors.features.turns.loans import Loans
from jobrunner.actors.shared import World
from jobrunner.actors.tasks import Crew
from jobrunner.core.decide import Verdict
from jobrunner.core.features.bulk import Tick
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import Ended, Message, SetAside, Stop
from jobrunner.errors import (
    JobrunnerError,
    OutcomeUnknown,
    Refused,
    StorageError,
    bug_named,
    bug_told,
)

CANCEL = "cancel"
DEATHS_MAX = 3
DEATHS_WITHIN_S = 60.0
CRASHES_KEPT = 10_000
ROOM_WAIT_S = 5.0
LOOK_AGAIN_S = 0.05
AGAIN_S = 1.0
KEPT_BYTES = 32 * 1024 * 1024


class Supervisor:
    """The way to every job: ``ask`` for those outside, ``tell`` and ``deliver`` for the engine.
    ``kept_bytes`` bounds the snapshots of actors at rest."""

    def __init__(self, world: World, kept_bytes: int = KEPT_BYTES) -> None:
        self._world = world
        self._kept_bytes = kept_bytes
        self._actors: OrderedDict[str, JobActor] = OrderedDict()
        self._at_work: set[str] = set()
        self._weight = 0
        self._crashes: dict[str, deque[float]] = {}
        self._crew: Crew | None = None
        self._make: Callable[[str], JobActor] | None = None
        self._in_line: Callable[[], int] = lambda: 0

    def begin(
        self, crew: Crew, consequences: Consequences, loans: Loans, in_line: Callable[[], int]
    ) -> None:
        """Begin: from now on jobs may be told something, and commits have these consequences.
        ``in_line`` counts who waits for a slot."""
        self._crew, self._in_line = crew, in_line
        self._make = partial(JobActor, world=self._world, consequences=consequences, loans=loans)

    def __len__(self) -> int:
        """How many actors are at work."""
        return len(self._at_work)

    @property
    def letters(self) -> int:
        return sum(len(self._actors[job_id].mailbox) for job_id in self._at_work)

    async def ask(self, job_id: str, message: Message, tick: Tick | None = None) -> Answer:
        """Ask a job from outside; it answers after its commit. A request to stop or to cancel does
        not wait in line.

        Raises: Refused, StorageError
        """
        urgent = isinstance(message, Stop) or getattr(message, "command", "") == CANCEL
        if not urgent and self._actor(job_id).mailbox.full:
            await self._room(job_id)
        return await self._send(job_id, message, inside=urgent, tick=tick)

    def tell(self, job_id: str, message: Message) -> Coroutine[Any, Any, Answer]:
        """Send a message of the engine itself; its mailbox always has room for it."""
        return self._send(job_id, message, inside=True)

    async def deliver(self, job_id: str, message: Message) -> bool:
        """Tell an outcome or a recovery, again and again while the disk is full. An outcome
        that always crashes the actor makes the job stuck; its attempt then ends as interrupted."""
        deaths = 0
        while deaths < DEATHS_MAX:
            try:
                await self.tell(job_id, message)
                return True
            except OutcomeUnknown:
                return False
            except StorageError:
                pass
            except JobrunnerError:
                return False
            except Exception:
                deaths += 1
            await self._world.clock.sleep(AGAIN_S)
        if isinstance(message, Ended) and message.outcome != "interrupted":
            return await self.deliver(job_id, Ended(message.serial, "interrupted"))
        return False

    async def foresee(self, job_id: str, message: Message) -> tuple[Snapshot, Verdict]:
        """Say what a message would lead to, with nothing written."""
        return await self._made(job_id).foresee(message)

    def keep(self, job: Snapshot) -> None:
        """Remember how a job stands, whichever actor it has now, if it will be needed soon."""
        if job.ended:
            self.reread(job.id)
            return
        if (actor := self._actors.get(job.id)) is None:
            if self._is_far(job):
                return
            actor = self._actor(job.id)
        actor.keep(job)
        if actor.weight != actor.weighed:
            self._weigh(actor)

    def kept(self, job_id: str) -> Snapshot | None:
        """The job as it was committed last, if it was heard of lately."""
        actor = self._actors.get(job_id)
        return actor.job if actor is not None else None

    def reread(self, job_id: str) -> None:
        """Let its actor, if it has one, read the row again before it decides."""
        if (actor := self._actors.get(job_id)) is not None:
            actor.forget()
            self._weigh(actor)

    async def _room(self, job_id: str) -> None:
        """Wait a moment for room in the mailbox of this job.

        Raises: Refused
        """
        waited_s = 0.0
        while self._actor(job_id).mailbox.full:
            if waited_s >= ROOM_WAIT_S:
                raise Refused("OVERLOADED", f"too many requests wait for job {job_id}")
            await self._world.clock.sleep(LOOK_AGAIN_S)
            waited_s += LOOK_AGAIN_S

    def _is_far(self, job: Snapshot) -> bool:
        """Say whether half of those who can be kept are before this new job: in the line that it
        joins, or among all who are, where somebody elsewhere begins it, or a moment."""
        if job.line_at is not None:
            return self._in_line() * SNAPSHOT_BYTES > self._kept_bytes // 2
        waits = job.attempt is None or job.attempt.status == "due"
        return waits and self._weight > self._kept_bytes // 2

    def _actor(self, job_id: str) -> JobActor:
        if (actor := self._actors.get(job_id)) is None:
            actor = self._actors[job_id] = self._made(job_id)
        else:
            self._actors.move_to_end(job_id)
        return actor

    def _made(self, job_id: str) -> JobActor:
        assert self._make is not None, "the supervisor has not begun"
        return self._make(job_id)

    async def _send(
        self, job_id: str, message: Message, *, inside: bool, tick: Tick | None = None
    ) -> Answer:
        actor = self._actor(job_id)
        self._at_work.add(job_id)
        try:
            return await actor.receive(message, tick, inside=inside)
        except JobrunnerError:
            raise
        except Exception as bug:
            self._crashed(job_id, bug)
            raise
        finally:
            if self._actors.get(job_id) is actor:
                if not actor.mailbox.open:
                    self._at_work.discard(job_id)
                self._weigh(actor)

    def _weigh(self, actor: JobActor) -> None:
        """Count the bytes that it holds now; where all hold too many, let those idle ones go that
        were not used for longest."""
        self._weight += actor.weight - actor.weighed
        actor.weighed = actor.weight
        if not actor.weight and not actor.mailbox.open:
            self._actors.pop(actor.job_id, None)
        if self._weight > self._kept_bytes:
            self._let_go()

    def _let_go(self) -> None:
        gone = list[str]()
        for actor in self._actors.values():
            if self._weight <= self._kept_bytes:
                break
            if not actor.mailbox.open:
                self._weight -= actor.weighed
                gone.append(actor.job_id)
        for job_id in gone:
            del self._actors[job_id]

    def _crashed(self, job_id: str, bug: Exception) -> None:
        self._world.say("actor.crashed", level="error", job_id=job_id, **bug_told(bug))
        if self._too_often(job_id):
            self._crashes.pop(job_id, None)
            why = f"its actor failed {DEATHS_MAX} times within a minute: {bug_named(bug)}"
            assert self._crew is not None, "the supervisor has not begun"
            self._crew.start_soon(self.deliver, job_id, SetAside(why))

    def _too_often(self, job_id: str) -> bool:
        now = self._world.clock.monotonic()
        crashes = self._crashes.setdefault(job_id, deque(maxlen=DEATHS_MAX))
        crashes.append(now)
        if len(self._crashes) > CRASHES_KEPT:
            self._crashes.pop(next(iter(self._crashes)))
        return len(crashes) == DEATHS_MAX and now - crashes[0] <= DEATHS_WITHIN_S
