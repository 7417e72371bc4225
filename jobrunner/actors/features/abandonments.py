"""Tells stages that want to know that their job is over, and that what they began was not done."""

from functools import partial

import anyio

from jobrunner.actors.attempts import RunningAttempts
from jobrunner.actors.shared import World
from jobrunner.actors.stage_input import given, take_back
from jobrunner.actors.tasks import Crew
from jobrunner.core.declaration.params import Stale, decoded, kind_of
from jobrunner.core.job import Attempt, Snapshot
from jobrunner.errors import JobrunnerError
from jobrunner.stages import Stage
from jobrunner.stages.in_loop import run_abandon
from jobrunner.stages.outcomes import said

ABANDON_S = 10.0


class Abandonments:
    def __init__(self, world: World, crew: Crew, attempts: RunningAttempts) -> None:
        self._world = world
        self._crew = crew
        self._attempts = attempts

    def note(self, job: Snapshot, attempt: Attempt) -> None:
        """Tell the stage of this attempt, if it wants to know."""
        stage = self._world.registry.stage(attempt.runs or attempt.stage)
        if stage is not None and stage.abandon is not None and attempt.started_at is not None:
            self._crew.start_soon(self._told, job, attempt, stage)

    async def _told(self, job: Snapshot, attempt: Attempt, stage: Stage) -> None:
        """After the commit, once, and for a short time: what it does is a courtesy."""
        error = f"it took longer than {ABANDON_S:.0f} s"
        with anyio.move_on_after(ABANDON_S):
            try:
                error = await self._run(job, attempt, stage)
            except (JobrunnerError, Stale, OSError) as fault:
                error = said(fault)
        level = "warning" if error else "info"
        about = {"stage": attempt.stage, "attempt": attempt.number, "error": error}
        self._world.announce("stage.abandoned", job, level, **about)

    async def _run(self, job: Snapshot, attempt: Attempt, stage: Stage) -> str:
        definition = self._world.registry.of(job)
        if definition is None:
            return "its declaration is not loaded now"
        host = self._attempts.host(job, attempt)
        brief = await given(self._world, job, attempt, definition, stage)
        try:
            host.reaching = partial(self._attempts.reach, brief, job, attempt)
            kind = kind_of(definition, job)
            params = decoded(brief.params, kind) if kind else brief.params
            return await run_abandon(stage, brief, params, host)
        finally:
            with anyio.CancelScope(shield=True):
                await take_back(self._world, brief)
