"""Runs the stages of attempts in the house: a task each, known by job and serial number.

The only caller of the stage host. What a stage did is told to the job as a message; a stage whose
attempt was left is cancelled, and whatever it still says is late by its serial number.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from jobrunner.actors.world import World
from jobrunner.core.job import STAGE, Attempt, Failure, Snapshot
from jobrunner.core.messages import Beat, Ended
from jobrunner.stages import Context, Stage, run_attempt

PROGRESS_EVERY_S = 1.0
GRACE_S = 5.0
Tell = Callable[[str, Ended], Awaitable[object]]
Report = Callable[[str, Beat], Awaitable[object]]


class Performer:
    """``tell`` delivers an outcome and never gives up; ``report`` delivers progress."""

    def __init__(self, world: World, group: TaskGroup, tell: Tell, report: Report) -> None:
        self._world = world
        self._group = group
        self._tell = tell
        self._report = report
        self._running: dict[str, tuple[int, anyio.CancelScope]] = {}
        self._empty = asyncio.Event()
        self.on_end: Callable[[str], None] = lambda job_id: None
        world.on_start = self.start
        world.on_stop = self.stop

    def __len__(self) -> int:
        return len(self._running)

    def start(self, job: Snapshot, attempt: Attempt) -> None:
        scope = anyio.CancelScope()
        self._running[job.id] = (attempt.serial, scope)
        self._group.start_soon(self._perform, job, attempt, scope)

    def stop(self, job_id: str, serial: int) -> None:
        running = self._running.get(job_id)
        if running is not None and running[0] == serial:
            running[1].cancel()

    async def drain(self, seconds: float) -> None:
        """Let running stages finish for a while, then interrupt what is left. Of a stage that is
        deaf to that, the attempt is written down as interrupted all the same."""
        with anyio.move_on_after(seconds):
            await self._until_empty()
        for _, scope in list(self._running.values()):
            scope.cancel()
        with anyio.move_on_after(GRACE_S):
            await self._until_empty()
        for job_id, (serial, _) in list(self._running.items()):
            with anyio.move_on_after(GRACE_S):
                await self._tell(job_id, Ended(serial, "interrupted"))

    async def _until_empty(self) -> None:
        while self._running:
            self._empty.clear()
            await self._empty.wait()

    async def _perform(self, job: Snapshot, attempt: Attempt, scope: anyio.CancelScope) -> None:
        ended = Ended(attempt.serial, "interrupted")
        try:
            with scope:
                ended = await self._run(job, attempt)
        finally:
            with anyio.CancelScope(shield=True):
                await self._tell(job.id, ended)
                if self._running.get(job.id, (0,))[0] == attempt.serial:
                    del self._running[job.id]
                if not self._running:
                    self._empty.set()
                self.on_end(job.id)

    async def _run(self, job: Snapshot, attempt: Attempt) -> Ended:
        stage = self._world.registry.stage(attempt.stage)
        definition = self._world.registry.of(job)
        if stage is None or definition is None:
            text = f"stage {attempt.stage!r} is not installed"
            return Ended(
                attempt.serial,
                "failed",
                failure=Failure("STAGE_UNAVAILABLE", text, retryable=False),
            )
        settings = definition.workflow.settings
        context = self._context(job, attempt, settings)
        async with anyio.create_task_group() as group:
            group.start_soon(self._keep_alive, job.id, definition.states[attempt.state].heartbeat_s)
            ended = await run_attempt(stage, context, attempt.serial)
            group.cancel_scope.cancel()
        if ended.failure is not None and ended.failure.detail:
            self._crashed(job, attempt, ended.failure)
        return ended

    def _crashed(self, job: Snapshot, attempt: Attempt, failure: Failure) -> None:
        """A stage raised what nobody foresaw: that is its author's to see, with the place."""
        self._world.announce(
            "stage.crashed",
            job,
            "error",
            state=attempt.state,
            stage=attempt.stage,
            attempt=attempt.number,
            error=failure.message,
            traceback=failure.detail,
        )

    async def _keep_alive(self, job_id: str, silence_s: float) -> None:
        """A stage in the loop lives as long as its task does; its job is told so now and then."""
        while silence_s:
            await self._world.clock.sleep(silence_s / 4)
            await self._report(job_id, Beat(STAGE))

    def _context(self, job: Snapshot, attempt: Attempt, settings: dict[str, Any]) -> Context:
        return Context(
            job_id=job.id,
            user_id=job.user_id,
            job_type=job.job_type,
            state=attempt.state,
            run_id=attempt.run_id,
            attempt=attempt.number,
            params=job.params,
            artifacts={name: found.value for name, found in job.artifacts.items()},
            settings=settings,
            on_progress=_Throttle(self._world, job.id, self._report),
        )


class _Throttle:
    """At most one report of progress a second is stored; the outcome always is."""

    def __init__(self, world: World, job_id: str, report: Report) -> None:
        self._world = world
        self._job_id = job_id
        self._report = report
        self._last = float("-inf")

    async def __call__(self, percent: int | None, message: str | None) -> None:
        now = self._world.clock.monotonic()
        if now - self._last < PROGRESS_EVERY_S and percent != 100:
            return
        self._last = now
        await self._report(self._job_id, Beat(STAGE, percent, message))


__all__ = ["Performer", "Stage"]
