"""The task that owns actors, and the client functions of this room.

An actor is spawned by the first letter for its job and ends with its last. One that dies of a bug
is started afresh from the row; a job whose actor dies three times within a minute is put aside, so
that one bad job costs nobody else anything.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeVar

import anyio
from msgspec.structs import replace

from jobrunner.actors.actor import JobActor
from jobrunner.actors.attempt_host import Performer
from jobrunner.actors.commits import Announce, Answer, Writer, ours
from jobrunner.actors.dispatcher import Dispatcher, Taken
from jobrunner.actors.features import submissions
from jobrunner.actors.features.bindings import begin_rebinding, rebind
from jobrunner.actors.features.bulk import Bulks
from jobrunner.actors.features.claims import Claims
from jobrunner.actors.features.cleaning import clear, clear_scratch, folders_of, sweep
from jobrunner.actors.features.explain import explain
from jobrunner.actors.features.notifications.sender import Deliveries
from jobrunner.actors.features.notifications.signing import Seals
from jobrunner.actors.features.pauses import Pausing
from jobrunner.actors.features.streams import Follower
from jobrunner.actors.features.webhooks import Hearing, forget_webhooks, hear
from jobrunner.actors.mailbox import Letter
from jobrunner.actors.recovery import recover
from jobrunner.actors.requester import asked
from jobrunner.actors.shared import World
from jobrunner.actors.slots import Limits, Slots
from jobrunner.actors.tasks import Crew
from jobrunner.actors.timers import Timers
from jobrunner.core.access import foreign, unknown
from jobrunner.core.credits import granted_otherwise
from jobrunner.core.decision import Clash, Forget, Grant, Unit, Unshelve
from jobrunner.core.features.bulk import Tick
from jobrunner.core.features.meter import SILENT, Meter
from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.messages import Beat, Ended, Fired, Message, SetAside, Start, Stop, Submit, Told
from jobrunner.core.replies import stale_version
from jobrunner.errors import (
    JobrunnerError,
    OutcomeUnknown,
    Refused,
    StorageError,
    bug_named,
    bug_told,
)
from jobrunner.ports import Children, Clock, Ids
from jobrunner.stages.equipment import Surroundings
from jobrunner.stages.registry import Registry

T = TypeVar("T")
CANCEL = "cancel"
DEATHS_MAX = 3
DEATHS_WITHIN_S = 60.0
ROOM_WAIT_S = 5.0
AGAIN_S = 1.0
CRASHES_KEPT = 10_000
LAST_LETTERS_S = 5.0
KEYS_S = 30 * 86400.0


class Supervisor:
    """Use it as an async context: inside, jobs move; leaving it drains."""

    def __init__(
        self,
        store: Writer,
        definitions: Registry,
        clock: Clock,
        ids: Ids,
        log: Announce,
        children: Children,
        limits: Limits | None = None,
        drain_s: float = 30,
        assets: str = "",
        resources: Mapping[str, int] | None = None,
        keys_s: float = KEYS_S,
        seals: Seals | None = None,
        surroundings: Surroundings | None = None,
        meter: Meter = SILENT,
    ) -> None:
        self.definitions = definitions
        self.draining = False
        self.submitting = 0
        self.unknown: OutcomeUnknown | None = None
        self.failed = asyncio.Event()
        self._drain_s = drain_s
        self._keys_s = keys_s
        self._store = store
        self._world = World(
            store, definitions, clock, ids, log, children, assets, surroundings, meter
        )
        self._world.on_other = self._reread
        self.roster = self._world.roster
        self.faulted = self._world.faulted  # what a failed function of a plugin is to who asked
        self._actors: dict[str, JobActor] = {}
        self._crashes: dict[str, deque[float]] = {}
        self._group: Crew | None = None
        self._timers = Timers(self._world, self._fire)
        slots = Slots(limits or Limits(), resources or {})
        self.bulks = Bulks(self._world, self.ask, self.forget, self.submit, slots.limits)
        self._dispatcher = Dispatcher(self._world, slots, self._offer)
        self._claims = Claims(self._world, self.ask)
        tell = self._world.surroundings.outlets.tell
        self.deliveries = Deliveries(self._world, tell, seals, self.give_up)
        self.pausing = Pausing(self._world.pauses, clock, self.write, self._resumed)

    async def submit(self, submission: Submit, tick: Tick | None = None) -> Answer:
        """A durable job, or the one that this submission made before."""
        busy = self._dispatcher.overloaded
        if self.draining or busy:
            submission = replace(submission, draining=self.draining, overloaded=busy)
        self.submitting += 1
        try:
            return await self._known(submissions.submit(self._world, submission, tick))
        finally:
            self.submitting -= 1

    async def ask(self, job_id: str, message: Message, tick: Tick | None = None) -> Answer:
        """What the job answers to a message from outside, after the commit. To stop a job nobody
        waits in line."""
        urgent = isinstance(message, Stop) or getattr(message, "command", "") == CANCEL
        actor = self._actor(job_id) if urgent else await self._room(job_id)
        return await self._known(self._send(actor, message, inside=urgent, tick=tick))

    async def hear(self, message: Told) -> Hearing:
        """What becomes of a verified webhook, after the commit."""
        return await self._known(hear(self._world, self.ask, message))

    def secrets_of(self, source: str) -> tuple[str, ...]:
        """With which companions sign what they send to this source of webhooks."""
        return self._world.surroundings.secrets_of(source)

    async def claim(
        self,
        actor: Actor,
        workflow: str,
        statuses: tuple[str, ...],
        job_type: str | None,
        limit: int,
        wait_s: float,
    ) -> list[Answer]:
        """Work for an outside worker, at once or as soon as there is some."""
        return await self._claims.take(actor, workflow, statuses, job_type, limit, wait_s)

    async def write(self, unit: Unit) -> None:
        """Something that is about no job's state: credits, tokens, notes."""
        outcome = ours(await self._known(self._store.commit(asked(unit))))
        if isinstance(outcome, Clash):
            code = "ALREADY_EXISTS" if outcome.reason == "exists" else "NOT_FOUND"
            raise Refused(code, outcome.detail or "there is no such thing")

    async def grant(self, unit: Grant) -> bool:
        """Credits for an account. True: they were given before, under the same key.

        Raises: Refused, when that key stands for other credits.
        """
        outcome = ours(await self._known(self._store.commit(asked(unit))))
        if not isinstance(outcome, Clash):
            return False
        before = await self._world.reader.grant(unit.user_id, unit.key)
        assert before is not None, f"a grant clashed: {outcome}"
        if refused := granted_otherwise(unit, before):
            raise refused
        return True

    async def unshelve(self, unit: Unshelve) -> None:
        """Delete a file that is no job's."""
        await self.write(unit)
        await clear(self._world, (unit.folder,))

    async def forget(
        self, job_id: str, actor: Actor, expected: int | None = None, tick: Tick | None = None
    ) -> None:
        """Delete a job that has ended."""
        for _ in range(3):
            job = await self._world.reader.job(job_id)
            if job is None:
                raise unknown(job_id)
            if refused := foreign(self.definitions.of(job), job, actor) or _kept(
                job, actor, expected
            ):
                raise refused
            folders = await folders_of(self._world, job)
            unit = Forget(job, self._world.clock.now(), actor.name, folders, tick)
            if not isinstance(ours(await self._known(self._store.commit(asked(unit)))), Clash):
                self._reread(job_id)
                self._world.announce("job.deleted", job, "info", actor=actor.name)
                await clear(self._world, folders)
                return
        raise Refused("JOB_VERSION_CONFLICT", "others keep changing this job; try again")

    async def changed(self, job: Snapshot, wait_s: float, progress: bool) -> Snapshot:
        """The job as soon as it moved on from what the caller has seen, ended, or time is up."""
        event = self._world.watch(job.id)
        try:
            with anyio.move_on_after(wait_s):
                while True:
                    now = await self._world.reader.job(job.id)
                    if now is None:
                        raise unknown(job.id)
                    if _moved(job, now, progress) or self._world.closing:
                        return now
                    await event.wait()
                    event.clear()
        finally:
            self._world.unwatch(job.id, event)
        return await self._world.reader.job(job.id) or job

    @contextmanager
    def watching(self, job_id: str) -> Iterator[asyncio.Event]:
        """Set as soon as something of this job is committed, or the service is about to stop."""
        event = self._world.watch(job_id)
        try:
            yield event
        finally:
            self._world.unwatch(job_id, event)

    def following(self, user_id: str | None) -> AbstractContextManager[Follower]:
        """The same for all jobs of a user, or of everybody."""
        return self._world.followers.following(user_id)

    async def explain(self, job: Snapshot) -> dict[str, Any]:
        """Why the job is not moving."""
        return await explain(self._world, self._dispatcher, job)

    def stats(self) -> dict[str, int]:
        return {
            "actors": len(self._actors),
            "letters": sum(len(actor.mailbox) for actor in self._actors.values()),
            "running": len(self._dispatcher.running),
            "in_line": self._dispatcher.backlog,
            "strays": self._world.children.strays,
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Supervisor"]:
        """Recover what died, then serve; on leaving take no new work and let stages finish."""
        async with anyio.create_task_group() as tasks:
            group = self._group = Crew(tasks, self._world.clock, self._world.say, self.give_up)
            self._performer = Performer(self._world, group, self._deliver, self._report, self.write)
            self._performer.on_end = self._dispatcher.ended
            await clear_scratch(self._world)
            await self._world.pauses.load(self._world.reader)
            group.start_soon(sweep, self._world)
            changed = await begin_rebinding(self._world)
            suspects = await recover(self._world, self._deliver)
            self._dispatcher.suspect(suspects)
            await rebind(self._world, changed, self._inside)
            group.keep(self._timers.run)
            group.keep(self.bulks.run)
            group.keep(partial(self.deliveries.run, group))
            group.keep(partial(forget_webhooks, self._world, self._keys_s))
            group.keep(partial(self._dispatcher.run, group))
            try:
                yield self
            finally:
                with anyio.CancelScope(shield=True):
                    await self.drain()
                tasks.cancel_scope.cancel()

    async def drain(self) -> None:
        """No new work; running stages get their time; what is left is interrupted and goes on at
        the next start without having spent an attempt."""
        self.draining = True
        self._dispatcher.open = False
        self._world.close()
        await self._performer.drain(0 if self.unknown else self._drain_s)
        await self.deliveries.drain()
        with anyio.move_on_after(LAST_LETTERS_S):
            while self._actors:
                await self._world.clock.sleep(0.01)

    def give_up(self, error: OutcomeUnknown) -> None:
        """Nobody knows what is on disk: stop, and start again from there."""
        if self.unknown is None:
            self._world.say("storage.lost", level="error", detail=str(error))
            self.unknown = error
        self.failed.set()

    async def _known(self, doing: Awaitable[T]) -> T:
        try:
            return await doing
        except OutcomeUnknown as error:
            self.give_up(error)
            raise

    async def _room(self, job_id: str) -> JobActor:
        """The job's actor, when its mailbox has room; the door waits a moment for that."""
        actor = self._actor(job_id)
        waited_s = 0.0
        while actor.mailbox.full:
            if waited_s >= ROOM_WAIT_S:
                raise Refused("OVERLOADED", f"too many requests wait for job {job_id}")
            await self._world.clock.sleep(0.05)
            waited_s += 0.05
            actor = self._actor(job_id)
        return actor

    def _actor(self, job_id: str) -> JobActor:
        return self._actors.get(job_id) or JobActor(job_id, self._world)

    async def _send(
        self, actor: JobActor, message: Message, *, inside: bool, tick: Tick | None = None
    ) -> Answer:
        reply: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        actor.mailbox.put(Letter(message, reply, tick), inside=inside)
        if actor.job_id not in self._actors:
            assert self._group is not None, "the supervisor is not running"
            self._actors[actor.job_id] = actor
            self._group.start_soon(self._own, actor)
        return await reply

    async def _own(self, actor: JobActor) -> None:
        """Run an actor until it has nothing to do; survive its bugs."""
        try:
            while len(actor.mailbox):
                try:
                    await actor.work()
                except Exception as bug:
                    await self._crashed(actor, bug)
        finally:
            del self._actors[actor.job_id]
            actor.abandon()

    async def _crashed(self, actor: JobActor, bug: Exception) -> None:
        actor.forget()
        self._world.say("actor.crashed", level="error", job_id=actor.job_id, **bug_told(bug))
        if not self._too_often(actor.job_id):
            return
        self._crashes.pop(actor.job_id, None)
        letter = Letter(
            SetAside(f"its actor failed {DEATHS_MAX} times within a minute: {bug_named(bug)}"),
            asyncio.get_running_loop().create_future(),
        )
        actor.mailbox.put(letter, inside=True)

    def _too_often(self, job_id: str) -> bool:
        now = self._world.clock.monotonic()
        crashes = self._crashes.setdefault(job_id, deque(maxlen=DEATHS_MAX))
        crashes.append(now)
        if len(self._crashes) > CRASHES_KEPT:
            self._crashes.pop(next(iter(self._crashes)))
        return len(crashes) == DEATHS_MAX and now - crashes[0] <= DEATHS_WITHIN_S

    async def _inside(self, job_id: str, message: Message) -> Answer:
        return await self._send(self._actor(job_id), message, inside=True)

    async def _deliver(self, job_id: str, message: Message) -> bool:
        """An outcome or a recovery: kept in memory and tried again while the disk is full. Of an
        outcome that the actor dies of, the job is put aside; its attempt is over all the same."""
        deaths = 0
        while deaths < DEATHS_MAX:
            try:
                await self._known(self._inside(job_id, message))
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
            return await self._deliver(job_id, Ended(message.serial, "interrupted"))
        return False

    async def _report(self, job_id: str, message: Beat) -> bool:
        """Progress is not worth waiting for a full disk, nor losing an attempt for."""
        try:
            await self._known(self._inside(job_id, message))
        except Exception:
            return False
        return True

    async def _fire(self, job_id: str, message: Fired) -> bool:
        """A timer's row stays until its effect is on disk, so a failure needs no memory."""
        try:
            await self._inside(job_id, message)
        except OutcomeUnknown as error:
            self.give_up(error)
            return False
        except Exception:
            return False
        return True

    async def _offer(self, job_id: str) -> Taken:
        """Give a job its slot; the attempt that starts holds it."""
        try:
            answer = await self._inside(job_id, Start())
        except OutcomeUnknown as error:
            self.give_up(error)
            return "failed"
        except Exception:
            return "failed"
        attempt = answer.job.attempt
        if answer.job.line_at is not None:
            return "failed"
        return "took" if attempt is not None and attempt.status == "running" else "moved"

    def _resumed(self) -> None:
        """Its late timers are looked for, and so is who waits in line or is to be claimed."""
        self._world.on_timer(0)
        self._world.arrived()
        self._dispatcher.nudge()

    def _reread(self, job_id: str) -> None:
        if job_id in self._actors:
            self._actors[job_id].forget()


def _kept(job: Snapshot, actor: Actor, expected_version: int | None) -> Refused | None:
    """Why it may not be deleted."""
    if not actor.roles(job) & {"user", "admin"}:
        return Refused("FORBIDDEN", "deleting a job is for its owner or an admin")
    if refused := stale_version(job, expected_version):
        return refused
    if job.kind in ("settled", "final"):
        return None
    return Refused(
        "JOB_NOT_SETTLED",
        f"the job is {job.status}; it can be deleted when it has ended",
        current_status=job.status,
    )


def _moved(seen: Snapshot, now: Snapshot, progress: bool) -> bool:
    if now.version != seen.version or now.kind in ("settled", "final"):
        return True
    return progress and now.beat != seen.beat


__all__ = ["Ended", "Limits", "Supervisor"]
