"""Owns the actors of jobs: spawns one for the first letter, restarts one that dies of a bug.

An actor ends with its last letter. A job whose actor dies three times within a minute is marked
stuck, so that one bad job costs nobody else anything.
"""

import asyncio
from collections import deque

from jobrunner.actors.actor import JobActor
from jobrunner.actors.commits import Answer
from jobrunner.actors.consequences import Consequences
from jobrunner.actors.mailbox import Envelope
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


class Supervisor:
    """The way to every job: ``ask`` for those outside, ``tell`` and ``deliver`` for the engine."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._actors: dict[str, JobActor] = {}
        self._crashes: dict[str, deque[float]] = {}
        self._crew: Crew | None = None
        self._consequences: Consequences | None = None

    def begin(self, crew: Crew, consequences: Consequences) -> None:
        """From now on actors run, as tasks of this crew; commits have these consequences."""
        self._crew = crew
        self._consequences = consequences

    def __len__(self) -> int:
        return len(self._actors)

    @property
    def letters(self) -> int:
        return sum(len(actor.mailbox) for actor in self._actors.values())

    async def ask(self, job_id: str, message: Message, tick: Tick | None = None) -> Answer:
        """Ask a job from outside; it answers after its commit. A request to stop or to cancel does
        not wait in line.

        Raises: Refused, StorageError
        """
        urgent = isinstance(message, Stop) or getattr(message, "command", "") == CANCEL
        actor = self._actor(job_id) if urgent else await self._with_room(job_id)
        return await self._send(actor, message, inside=urgent, tick=tick)

    async def tell(self, job_id: str, message: Message) -> Answer:
        """Send a message of the engine itself; its mailbox always has room for it."""
        return await self._send(self._actor(job_id), message, inside=True)

    async def deliver(self, job_id: str, message: Message) -> bool:
        """Tell an outcome or a recovery, again and again while the disk is full. If handling an
        outcome crashes the actor, the job is stuck; the attempt still counts as ended."""
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
        return await self._spawned(job_id).foresee(message)

    def reread(self, job_id: str) -> None:
        """Let its actor, if it has one, read the row again before it decides."""
        if job_id in self._actors:
            self._actors[job_id].forget()

    async def _with_room(self, job_id: str) -> JobActor:
        """The job's actor, as soon as its mailbox has room; whoever asks waits a moment for that.

        Raises: Refused
        """
        actor = self._actor(job_id)
        waited_s = 0.0
        while actor.mailbox.full:
            if waited_s >= ROOM_WAIT_S:
                raise Refused("OVERLOADED", f"too many requests wait for job {job_id}")
            await self._world.clock.sleep(LOOK_AGAIN_S)
            waited_s += LOOK_AGAIN_S
            actor = self._actor(job_id)
        return actor

    def _actor(self, job_id: str) -> JobActor:
        return self._actors.get(job_id) or self._spawned(job_id)

    def _spawned(self, job_id: str) -> JobActor:
        assert self._consequences is not None, "the supervisor has not begun"
        return JobActor(job_id, self._world, self._consequences)

    async def _send(
        self, actor: JobActor, message: Message, *, inside: bool, tick: Tick | None = None
    ) -> Answer:
        reply: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        actor.mailbox.put(Envelope(message, reply, tick), inside=inside)
        if actor.job_id not in self._actors:
            assert self._crew is not None, "the supervisor has not begun"
            self._actors[actor.job_id] = actor
            self._crew.start_soon(self._own, actor)
        return await reply

    async def _own(self, actor: JobActor) -> None:
        """Run an actor until it has nothing to do; survive its bugs."""
        try:
            while len(actor.mailbox):
                try:
                    await actor.work()
                except Exception as bug:
                    self._crashed(actor, bug)
        finally:
            del self._actors[actor.job_id]
            actor.abandon()

    def _crashed(self, actor: JobActor, bug: Exception) -> None:
        actor.forget()
        self._world.say("actor.crashed", level="error", job_id=actor.job_id, **bug_told(bug))
        if not self._too_often(actor.job_id):
            return
        self._crashes.pop(actor.job_id, None)
        why = f"its actor failed {DEATHS_MAX} times within a minute: {bug_named(bug)}"
        nobody = asyncio.get_running_loop().create_future()
        actor.mailbox.put(Envelope(SetAside(why), nobody), inside=True)

    def _too_often(self, job_id: str) -> bool:
        now = self._world.clock.monotonic()
        crashes = self._crashes.setdefault(job_id, deque(maxlen=DEATHS_MAX))
        crashes.append(now)
        if len(self._crashes) > CRASHES_KEPT:
            self._crashes.pop(next(iter(self._crashes)))
        return len(crashes) == DEATHS_MAX and now - crashes[0] <= DEATHS_WITHIN_S
