"""One claim, from its brief to its outcome: the stage, its lease, its limits, and its end."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
from msgspec import Struct

from jobrunner.client import AsyncClient, BriefRecord, CallerError, ClaimRecord
from jobrunner.client.talks import asking
from jobrunner.core.features.redaction import Redaction, redacted
from jobrunner.core.job import Failure
from jobrunner.core.messages import Ended
from jobrunner.errors import JobrunnerError
from jobrunner.files.library import made_empty, tidy
from jobrunner.ports import Ports
from jobrunner.stages import Given, run_attempt
from jobrunner.stages.equipment import Surroundings, laid_over
from jobrunner.stages.outcomes import crashed, failed, raised
from jobrunner.stages.process.code import is_stale
from jobrunner.work.abilities import Abilities
from jobrunner.work.far_host import FarHost
from jobrunner.work.line import ClaimLost, is_held

BEAT_S = 15.0
LOOK_S = 30.0
TICK_S = 1.0
GIVEN_BACK = Failure("INTERRUPTED", "the worker was told to stop, and gave the work back")


class Equipment(Struct, frozen=True):
    """Everything that all claims of this process share. ``folder`` is its own on the disk."""

    client: AsyncClient
    ports: Ports
    around: Surroundings
    abilities: Abilities
    folder: str
    floor: int
    own_settings: dict[str, Any]
    log: Callable[..., None]


class OneClaim:
    def __init__(self, equipment: Equipment, claimed: ClaimRecord) -> None:
        assert claimed.brief is not None, "who says what it runs is told all about it"
        self._with = equipment
        self._claimed = claimed
        self._brief: BriefRecord = claimed.brief
        self.stage = equipment.abilities.stage(self._brief.stage)
        self._given = self._told()
        ports, around = equipment.ports, equipment.around
        self._host = FarHost(
            equipment.client, ports, around, claimed, self._given, partial(self.stop, None)
        )
        self._task: asyncio.Task[Ended] | None = None
        self._stopped = False
        self._instead: Ended | None = None
        self._over = False

    def stop(self, instead: Ended | None) -> None:
        """End the stage, once. ``instead`` is told in the place of its own end; None tells
        nothing, for nobody wants to hear it."""
        if not self._stopped:
            self._stopped, self._instead = True, instead
            if self._task is not None:
                self._task.cancel()

    def give_back(self) -> None:
        self.stop(Ended(0, "interrupted", failure=GIVEN_BACK))

    async def run(self) -> None:
        """Returns when nothing of the stage is left, and the service knows how it ended."""
        began = self._host.monotonic()
        watches = [self._beat, self._look, self._limit]
        try:
            async with anyio.create_task_group() as group:
                for watch in watches:
                    group.start_soon(watch)
                ended = await self._ended()
                await self._tell(ended)
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._host.block(partial(tidy, self._given.root))
        took_s = round(self._host.monotonic() - began, 3)
        how = ended.outcome if ended is not None else "lost"
        self._say("stage.ended", outcome=how, seconds=took_s)
        if is_stale(self.stage):
            detail = "its code has changed since the start; restart this worker"
            self._say("stage.changed", level="error", detail=detail)

    async def _ended(self) -> Ended | None:
        """How it ended; None where the claim was lost meanwhile."""
        self._task = asyncio.ensure_future(self._ran())
        if self._stopped:
            self._task.cancel()
        done, _ = await asyncio.wait({self._task})
        task = done.pop()
        if self._stopped:
            return self._instead
        return task.result()

    async def _ran(self) -> Ended:
        definition = self._with.abilities.definition
        declared = definition.job_types.get(self._given.job_type)
        kind = definition.structs.get(declared.params) if declared else None
        children = self._with.ports.children
        await self._host.block(partial(made_empty, self._given.scratch))
        try:
            ended = await run_attempt(self.stage, self._given, kind, self._host, children)
            return self._host.judged(ended)
        except Exception as fault:  # noqa: BLE001 - whatever it is, it costs this attempt alone
            return raised(fault)

    async def _tell(self, ended: Ended | None) -> None:
        if ended is None:
            return
        clean: Redaction = self._with.around.redaction
        said = redacted(ended, clean)
        assert isinstance(said, Ended)
        try:
            await self._host.tell(said)
        except ClaimLost as lost:
            self._say("claim.lost", level="warning", detail=str(lost))
        except CallerError as refused:
            self._say("outcome.refused", level="error", code=refused.code, detail=refused.detail)
            await self._crash(refused)

    async def _crash(self, refused: CallerError) -> None:
        """An end that the service does not take is the stage's fault, as it would be there."""
        text = f"what the stage returned is not taken: {refused.code}"
        try:
            await self._host.tell(crashed(text, refused.detail))
        except (ClaimLost, JobrunnerError) as again:
            self._say("claim.lost", level="warning", detail=str(again))

    async def _beat(self) -> None:
        """Say at most once a second what is new, and at least every few seconds that it goes on."""
        clock, told = self._with.ports.clock, self._host.monotonic()
        while True:
            await clock.sleep(TICK_S)
            if self._host.late or self._host.monotonic() - told >= BEAT_S:
                told = self._host.monotonic()
                try:
                    await self._host.beat()
                except CallerError as refused:
                    self._lost(refused.detail)
                    return
                except JobrunnerError:
                    continue

    async def _look(self) -> None:
        """Hear at once when the job is cancelled, or somebody takes the work away."""
        client, seen = self._with.client, self._claimed.job
        while True:
            try:
                seen = await client.hold(asking.changed(seen, wait_s=LOOK_S))
            except CallerError as refused:
                self._lost(refused.detail)
                return
            except JobrunnerError:
                await self._with.ports.clock.sleep(TICK_S)
                continue
            if not is_held(seen, self._claimed):
                self._lost(f"the job is {seen.status} by now")
                return

    async def _limit(self) -> None:
        """Watch the clocks of the stage, as the service does for its own."""
        clock, began, place = self._with.ports.clock, self._host.monotonic(), self._brief.state
        limit_s, silence_s = self._brief.seconds, self._brief.silence_s
        while limit_s or silence_s:
            await clock.sleep(TICK_S)
            if limit_s and self._host.monotonic() - began > limit_s:
                text = f"the stage of {place} took longer than it may"
                self.stop(failed("STAGE_TIMEOUT", text, retryable=True))
                return
            quiet_s = 0.0 if self.stage.runs == "loop" else self._host.silent_s
            if silence_s and quiet_s > silence_s:
                text = f"no sign of life from the attempt in {place}"
                self.stop(failed("HEARTBEAT_LOST", text, retryable=True))
                return

    def _lost(self, why: str) -> None:
        if not self._stopped and self._task is not None and not self._task.done():
            self._say("claim.lost", level="warning", detail=why)
            self.stop(None)

    def _told(self) -> Given:
        job, brief = self._claimed.job, self._brief
        root = os.path.join(self._with.folder, f"{job.id}-{self._claimed.claim}")
        settings = self._with.around.settings_of(
            job.workflow, laid_over(brief.settings, self._with.own_settings)
        )
        return Given(
            job_id=job.id,
            workflow=job.workflow,
            user_id=job.user_id,
            job_type=job.job_type,
            state=brief.state,
            run_id=self._claimed.run_id,
            attempt=self._claimed.attempt,
            params=brief.params,
            artifacts=brief.artifacts,
            settings=settings,
            kept=brief.kept,
            answers=brief.answers,
            seconds=brief.seconds,
            root=root,
            folder=f"{job.user_id}/{job.id}",
            number=brief.number,
            scratch=os.path.join(root, ".scratch"),
            base_url=brief.base_url,
            floor=self._with.floor,
            traceparent=brief.traceparent,
            away=brief.files,
        )

    def _say(self, event: str, level: str = "info", **fields: Any) -> None:
        about = {"job_id": self._claimed.job.id, "stage": self.stage.name}
        self._with.log(event, level=level, **about, attempt=self._claimed.attempt, **fields)
