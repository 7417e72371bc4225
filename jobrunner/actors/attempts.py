"""Runs the stages of attempts in-process: a task each, known by job and serial number.

The only caller of the stage host. What a stage did is told to the job as a message; a stage whose
attempt was left is cancelled, and whatever it still says is late by its serial number.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import anyio

from jobrunner.actors.attempt_host import AttemptHost
from jobrunner.actors.features.leftovers import clear_leavings
from jobrunner.actors.host_answers import Reach
from jobrunner.actors.shared import World
from jobrunner.actors.stage_input import given
from jobrunner.actors.supervisor import Supervisor
from jobrunner.actors.tasks import Crew
from jobrunner.core.decision import LogLines
from jobrunner.core.engine_events import LOG_LINES_MAX
from jobrunner.core.job import Attempt, Failure, Snapshot
from jobrunner.core.messages import Ended
from jobrunner.errors import JobrunnerError, StorageError
from jobrunner.stages import Stage, run_attempt
from jobrunner.stages.in_loop import run_abandon
from jobrunner.stages.outcomes import failed, places, raised, said
from jobrunner.stages.params import Stale, decoded, kind_of

GRACE_S = 5.0
ABANDON_S = 10.0


class RunningAttempts:
    """``on_end`` is told of each job whose stage has really ended: its slot is free then."""

    def __init__(
        self, world: World, crew: Crew, supervisor: Supervisor, on_end: Callable[[str], None]
    ) -> None:
        self._world = world
        self._crew = crew
        self._supervisor = supervisor
        self._on_end = on_end
        self._running: dict[str, tuple[int, anyio.CancelScope, AttemptHost]] = {}
        self._left: set[tuple[str, int]] = set()
        self._empty = asyncio.Event()

    def __len__(self) -> int:
        return len(self._running)

    def start(self, job: Snapshot, attempt: Attempt) -> None:
        scope = anyio.CancelScope()
        host = AttemptHost(self._world, self._supervisor, job.id, attempt.serial)
        self._running[job.id] = (attempt.serial, scope, host)
        self._world.roster.began(job.id, attempt, self._world.registry.stage(attempt.stage))
        self._crew.start_soon(self._perform, job, attempt, scope, host)

    def stop(self, job_id: str, serial: int) -> None:
        running = self._running.get(job_id)
        if running is not None and running[0] == serial:
            self._left.add((job_id, serial))
            running[1].cancel()
            self._crew.start_soon(self._listened, job_id, serial)

    def abandon(self, job: Snapshot, attempt: Attempt) -> None:
        """The job is over and this attempt was not done: its stage is told, if it wants to know."""
        stage = self._world.registry.stage(attempt.stage)
        if stage is not None and stage.abandon is not None and attempt.started_at is not None:
            self._crew.start_soon(self._abandoned, job, attempt, stage)

    def clear_away(self, job: Snapshot, attempt: Attempt) -> None:
        """Remove the files that an outside worker sent for this attempt and no report took."""
        self._crew.start_soon(clear_leavings, self._world, job, attempt.serial, False)

    async def drain(self, seconds: float) -> None:
        """Let running stages finish for a while, then interrupt what is left. Of a stage that is
        deaf to that, the attempt is written down as interrupted all the same."""
        with anyio.move_on_after(seconds):
            await self._until_empty()
        for _, scope, _ in list(self._running.values()):
            scope.cancel()
        with anyio.move_on_after(GRACE_S):
            await self._until_empty()
        for job_id, (serial, _, _) in list(self._running.items()):
            self._name_the_deaf(job_id, serial)
        with anyio.move_on_after(GRACE_S):
            async with anyio.create_task_group() as group:
                for job_id, (serial, _, host) in list(self._running.items()):
                    ended = host.close(Ended(serial, "interrupted"))
                    group.start_soon(self._supervisor.deliver, job_id, ended)

    async def _listened(self, job_id: str, serial: int) -> None:
        """A stage that was told to stop, and a while later goes on, is named."""
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

    async def _perform(
        self, job: Snapshot, attempt: Attempt, scope: anyio.CancelScope, host: AttemptHost
    ) -> None:
        ended = Ended(attempt.serial, "interrupted")
        clock = self._world.clock
        began_at, began = clock.now(), clock.monotonic()
        try:
            with scope:
                ended = await self._tried(job, attempt, host)
        finally:
            self._world.roster.ended(job.id, attempt)
            span = self._world.span(began_at, clock.monotonic() - began)
            self._world.meter.attempted(job, attempt, ended, span)
            with anyio.CancelScope(shield=True):
                await self._supervisor.deliver(job.id, host.close(ended))
                await self._keep_lines(job, attempt, host)
                if self._running.get(job.id, (0,))[0] == attempt.serial:
                    del self._running[job.id]
                if not self._running:
                    self._empty.set()
                self._on_end(job.id)
                interrupted = ended.outcome == "interrupted"
                await clear_leavings(self._world, job, attempt.serial, interrupted)

    async def _keep_lines(self, job: Snapshot, attempt: Attempt, host: AttemptHost) -> None:
        """An attempt that was left ended before its stage did: what that wrote, to the last line,
        is kept with it all the same. Nothing but the lines is lost if that fails."""
        if (job.id, attempt.serial) not in self._left:
            return
        self._left.discard((job.id, attempt.serial))
        if lines := host.lines:
            with suppress(JobrunnerError):
                clean = self._world.surroundings.redaction
                kept = (*attempt.log, *map(clean, lines))[-LOG_LINES_MAX:]
                await self._world.commit(LogLines(job.id, attempt.serial, kept))

    async def _tried(self, job: Snapshot, attempt: Attempt, host: AttemptHost) -> Ended:
        """A fault around the stage costs what one in it does: this attempt, and nothing else."""
        try:
            ended = await self._run(job, attempt, host)
        except StorageError as fault:
            text = "the store did not take what the stage wanted kept"
            ended = failed("STORAGE", text, retryable=True, detail=said(fault))
        except Exception as fault:  # noqa: BLE001 - whatever it is, it is not the service's
            ended = raised(fault)
        if ended.failure is not None and places(ended.failure.detail):
            self._crashed(job, attempt, ended.failure)
        return ended

    async def _run(self, job: Snapshot, attempt: Attempt, host: AttemptHost) -> Ended:
        stage = self._world.registry.stage(attempt.stage)
        definition = self._world.registry.of(job)
        if stage is None or definition is None:
            return failed("STAGE_UNAVAILABLE", f"stage {attempt.stage!r} is not installed")
        state = definition.states[attempt.state]
        async with (
            given(self._world, job, attempt, definition, stage) as brief,
            anyio.create_task_group() as group,
        ):
            group.start_soon(host.catch_up)
            if stage.runs == "loop":
                group.start_soon(host.live, state.heartbeat_s)
            host.reach, host.silence_s = Reach(self._world, brief), state.heartbeat_s
            kind = kind_of(definition, job)
            ended = await run_attempt(stage, brief, kind, host, self._world.children)
            group.cancel_scope.cancel()
        return ended

    async def _abandoned(self, job: Snapshot, attempt: Attempt, stage: Stage) -> None:
        """After the commit, once, and for a short time: what it does is a courtesy."""
        definition = self._world.registry.of(job)
        if definition is None:
            return
        host = AttemptHost(self._world, self._supervisor, job.id, attempt.serial)
        error = f"it took longer than {ABANDON_S:.0f} s"
        with anyio.move_on_after(ABANDON_S):
            try:
                async with given(self._world, job, attempt, definition, stage) as brief:
                    host.reach = Reach(self._world, brief)
                    kind = kind_of(definition, job)
                    params = decoded(brief.params, kind) if kind else brief.params
                    error = await run_abandon(stage, brief, params, host)
            except (JobrunnerError, Stale, OSError) as fault:
                error = said(fault)
        level = "warning" if error else "info"
        about = {"stage": attempt.stage, "attempt": attempt.number, "error": error}
        self._world.announce("stage.abandoned", job, level, **about)

    def _crashed(self, job: Snapshot, attempt: Attempt, failure: Failure) -> None:
        """A stage raised what nobody foresaw: that is its author's to see, with the place. What the
        exception says stays with the attempt: it may be somebody's words."""
        self._world.announce(
            "stage.crashed",
            job,
            "error",
            state=attempt.state,
            stage=attempt.stage,
            attempt=attempt.number,
            error=failure.message,
            traceback=places(failure.detail),
        )
