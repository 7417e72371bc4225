"""Runs the stages of attempts in this process: a task each, known by job and serial number.

The only caller of the stage host. What a stage did is told to the job as a message; a stage whose
attempt was left is cancelled, and whatever it still says is late by its serial number.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import anyio

from jobrunner.actors.attempt_host import AttemptHost
from jobrunner.actors.dispatcher import Dispatcher
from jobrunner.actors.features.families.bearing import BearingOf
from jobrunner.actors.features.hooks import Hooks
from jobrunner.actors.host_answers import Reach
from jobrunner.actors.keeping.leftovers import Leftovers
from jobrunner.actors.shared import World
from jobrunner.actors.stage_input import given, take_back
from jobrunner.actors.supervisor import Supervisor
from jobrunner.actors.tasks import Crew
from jobrunner.core.declaration.params import kind_of
from jobrunner.core.engine_events import LOG_LINES_MAX
from jobrunner.core.job import Attempt, Failure, Snapshot
from jobrunner.core.messages import Ended
from jobrunner.core.units import LogLines
from jobrunner.errors import JobrunnerError, StorageError
from jobrunner.stages import Given
from jobrunner.stages.outcomes import failed, places, raised, said

GRACE_S = 5.0


class RunningAttempt:
    """A stage at work. It is called off at most once, and only while it is at work: what is done
    about its end is done. While its end is ``being_told``, the commit of that may begin another one
    in its slot: ``then``, with which its task goes on."""

    __slots__ = (
        "_at_work", "_called_off", "attempt", "being_told", "host", "job", "left", "task", "then",
    )  # fmt: skip

    def __init__(self, job: Snapshot, attempt: Attempt, host: AttemptHost) -> None:
        self.job = job
        self.attempt = attempt
        self.host = host
        self.left = False
        self.being_told = False
        self.then: RunningAttempt | None = None
        self._at_work = False
        self._called_off = False
        self.task: asyncio.Task[object] | None = None

    async def ended(self, work: "Callable[[RunningAttempt], Awaitable[Ended]]") -> Ended:
        """Return how it ended, also when it was called off, which may be before it has begun."""
        ended = Ended(self.attempt.serial, "interrupted")
        if self._called_off:
            return ended
        self._at_work = True
        try:
            ended = await work(self)
        except asyncio.CancelledError:
            assert self.task is not None, "who is cancelled is a task"
            self.task.uncancel()
        finally:
            self._at_work = False
        return ended

    def call_off(self) -> None:
        """Asked once: a stage that is deaf to it, or a process that takes its time to go, is not
        disturbed in that."""
        if self._at_work and not self._called_off and self.task is not None:
            self.task.cancel()
        self._called_off = True


class RunningAttempts:
    """Runs attempts, each as a task of ``stages``; what is done beside them are tasks of ``crew``.
    Tells the dispatcher of each stage that begins, and of each job whose stage has really ended:
    its slot is free then."""

    def __init__(
        self,
        world: World,
        crew: Crew,
        stages: Crew,
        supervisor: Supervisor,
        dispatcher: Dispatcher,
        bearing: BearingOf,
    ) -> None:
        self._world = world
        self._bearing = bearing
        self._crew = crew
        self._stages = stages
        self._supervisor = supervisor
        self._dispatcher = dispatcher
        self._hooks = Hooks(world, crew)
        self._leftovers = Leftovers(world)
        self._running: dict[str, RunningAttempt] = {}
        self._empty = asyncio.Event()
        self._is_over = False

    def __len__(self) -> int:
        return len(self._running)

    def start(self, job: Snapshot, attempt: Attempt) -> None:
        run = RunningAttempt(job, attempt, self.host(job, attempt))
        before = self._running.get(job.id)
        self._running[job.id] = run
        stage = self._world.registry.stage(attempt.stage)
        self._world.roster.began(job.id, attempt, stage)
        self._dispatcher.began(job, stage)
        if before is not None and before.being_told:
            before.then, run.task = run, before.task
        else:
            run.task = self._stages.start_soon(self._perform, run)
        if self._is_over:
            run.call_off()

    def stop(self, job_id: str, serial: int) -> None:
        run = self._running.get(job_id)
        if run is not None and run.attempt.serial == serial:
            run.left = True
            run.call_off()
            self._crew.start_soon(self._listened, job_id, serial)

    def clear_away(self, job: Snapshot, attempt: Attempt) -> None:
        """Remove the files that an outside worker sent for this attempt and no report took."""
        self._crew.start_soon(self._leftovers.clear, job, attempt.serial, False)

    def reach(self, brief: Given, job: Snapshot, attempt: Attempt) -> Reach:
        """Make what a stage reaches beyond its brief."""
        return Reach(self._world, brief, self._bearing(job, attempt))

    def host(self, job: Snapshot, attempt: Attempt) -> AttemptHost:
        """Make the host of an attempt's stage."""
        return AttemptHost(self._world, self._crew, self._supervisor, job.id, attempt.serial)

    async def drain(self, seconds: float) -> None:
        """Let running stages finish for a while, then interrupt what is left, and what a commit
        that was under way begins later. Of a stage that is deaf to that, the attempt is still
        written down as interrupted."""
        with anyio.move_on_after(seconds):
            await self._until_empty()
        self._is_over = True
        for run in self._running.values():
            run.call_off()
        with anyio.move_on_after(GRACE_S):
            await self._until_empty()
        for job_id, run in list(self._running.items()):
            self._name_the_deaf(job_id, run.attempt.serial)
        with anyio.move_on_after(GRACE_S):
            async with anyio.create_task_group() as group:
                for job_id, run in list(self._running.items()):
                    ended = run.host.close(Ended(run.attempt.serial, "interrupted"))
                    group.start_soon(self._supervisor.deliver, job_id, ended)

    async def _listened(self, job_id: str, serial: int) -> None:
        """Log a stage that was told to stop, and a while later goes on."""
        await self._world.clock.sleep(GRACE_S)
        self._name_the_deaf(job_id, serial)

    def _name_the_deaf(self, job_id: str, serial: int) -> None:
        if (stage := self._world.roster.deaf(job_id, serial)) is not None:
            detail = "it was told to stop and goes on; it keeps its slot, and a stop of the service"
            self._world.say(
                "stage.deaf", "error", job_id=job_id, stage=stage, detail=f"{detail} waits for it"
            )

    async def _until_empty(self) -> None:
        while self._running:
            self._empty.clear()
            await self._empty.wait()

    async def _perform(self, run: RunningAttempt) -> None:
        """Run it, and after it what begins in its slot. A fault in what follows the end of one does
        not keep the next from beginning."""
        now: RunningAttempt | None = run
        while now is not None:
            try:
                await self._attempted(now)
            except Exception:
                if now.then is not None:
                    now.then.task = self._stages.start_soon(self._perform, now.then)
                raise
            now = now.then

    async def _attempted(self, run: RunningAttempt) -> None:
        job, attempt, clock = run.job, run.attempt, self._world.clock
        began_at, began = clock.now(), clock.monotonic()
        ended = await run.ended(self._tried)
        self._world.roster.ended(job.id, attempt)
        span = self._world.span(began_at, clock.monotonic() - began)
        self._world.meter.attempted(job, attempt, ended, span)
        try:
            run.being_told = True
            await self._supervisor.deliver(job.id, run.host.close(ended))
            run.being_told = False
            if run.left:
                await self._keep_lines(run)
            self._hooks.over(job, attempt, ended, span.seconds)
        finally:
            self._leave(run)
        if self._leftovers.may_be(job, run.host.may_have_saved):
            about = job, attempt.serial, ended.outcome == "interrupted"
            self._stages.start_soon(self._leftovers.clear, *about)

    def over(self, job_id: str, serial: int) -> None:
        """Free the slot of an attempt whose end is decided, ahead of the commit of that: its stage
        is no longer at work."""
        run = self._running.get(job_id)
        if run is not None and run.being_told and run.attempt.serial == serial:
            self._leave(run)

    def _leave(self, run: RunningAttempt) -> None:
        """Free the slot, unless the job's next attempt has it already."""
        if self._running.get(run.job.id) is run:
            del self._running[run.job.id]
            if not self._running:
                self._empty.set()
            self._dispatcher.ended(run.job.id)

    async def _keep_lines(self, run: RunningAttempt) -> None:
        """Store the last lines of a stage whose attempt ended before the stage did. Nothing but the
        lines is lost if that fails."""
        if lines := run.host.lines:
            with suppress(JobrunnerError):
                clean = self._world.surroundings.redaction
                kept = (*run.attempt.log, *map(clean, lines))[-LOG_LINES_MAX:]
                await self._world.commit(LogLines(run.job.id, run.attempt.serial, kept))

    async def _tried(self, run: RunningAttempt) -> Ended:
        """Run it; a fault around the stage costs what one in it does: this attempt, and nothing
        else."""
        try:
            ended = await self._run(run)
        except StorageError as fault:
            text = "the store did not take what the stage wanted kept"
            ended = failed("STORAGE", text, retryable=True, detail=said(fault))
        except Exception as fault:  # noqa: BLE001 - whatever it is, it is not the service's
            ended = raised(fault)
        if ended.failure is not None and places(ended.failure.detail):
            self._crashed(run.job, run.attempt, ended.failure)
        return ended

    async def _run(self, run: RunningAttempt) -> Ended:
        job, attempt, host = run.job, run.attempt, run.host
        stage = self._world.registry.stage(attempt.stage)
        definition = self._world.registry.of(job)
        if stage is None or definition is None:
            return failed("STAGE_UNAVAILABLE", f"stage {attempt.stage!r} is not installed")
        if self._world.registry.hooks and (refused := await self._hooks.before(job, attempt)):
            return refused
        brief = await given(self._world, job, attempt, definition, stage)
        try:
            host.reaching = partial(self.reach, brief, job, attempt)
            host.silence_s = definition.states[attempt.state].heartbeat_s
            if stage.runs == "loop":
                host.live(always=True)
            else:
                host.may_have_saved = True
            kind = kind_of(definition, job)
            place, children = self._world.surroundings, self._world.children
            return host.judged(await place.run(stage, brief, kind, host, children))
        finally:
            await take_back(self._world, brief)

    def _crashed(self, job: Snapshot, attempt: Attempt, failure: Failure) -> None:
        """Log with its place what a stage raised and nobody foresaw: its author has to see it. What
        the exception says stays with the attempt, as it may be somebody's words."""
        about = {"state": attempt.state, "stage": attempt.stage, "attempt": attempt.number}
        why = {"code": failure.code, "error": failure.message, "traceback": places(failure.detail)}
        self._world.announce("stage.crashed", job, "error", **about, **why)
