"""Lets one moment of a schedule have its effect: a job, or the reason why there is none.

The job is made through the door of every submission, by a key in which schedule and moment stand,
and the word that the moment has fired is written in the transaction of its birth. Whatever was cut
off can be asked for again.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.actors.commits import Answer, ours
from jobrunner.actors.features.submissions import Submissions
from jobrunner.actors.shared import World
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.schedules.schedules import (
    REPLACES,
    MomentDone,
    Overlap,
    Reached,
    Schedule,
    filled,
    job_type_of,
)
from jobrunner.core.instants import text_of
from jobrunner.core.job import Actor, Scheduled, Snapshot
from jobrunner.core.messages import Do, Message, Submit
from jobrunner.errors import OutcomeUnknown, Refused, StorageError
from jobrunner.ports import digest

Ask = Callable[[str, Message], Awaitable[Answer]]
CANONICAL = msgspec.json.Encoder(order="sorted").encode
DETAIL_MAX = 500
OVERLAP = "JOB_ALREADY_RUNNING"


class NotNow(Struct, frozen=True):
    """A moment that could not fire just now. ``job_id`` is the job whose end it waits for; without
    one it is tried again after a moment."""

    code: str
    detail: str
    job_id: str | None = None


class Firings:
    def __init__(self, world: World, submissions: Submissions, ask: Ask) -> None:
        self._world = world
        self._submissions = submissions
        self._ask = ask

    async def fire(
        self, schedule: Schedule, done: MomentDone, last_job: str | None, overlap: Overlap
    ) -> MomentDone | NotNow:
        """Make the job of a moment, or say why there is none; ``last_job`` is the one before.

        Raises: OutcomeUnknown
        """
        if (known := await self._known(done)) is not None:
            return known
        try:
            if open_job := await self._open(last_job, overlap):
                if (over := await self._make_room(schedule, done, open_job, overlap)) is not None:
                    return over
            return await self._made(schedule, done)
        except Refused as refused:
            return await self._refused(done, refused)
        except OutcomeUnknown:
            raise
        except StorageError as fault:
            return NotNow("STORAGE_FULL", str(fault))

    async def _known(self, done: MomentDone) -> MomentDone | None:
        """Find the result of this moment, if there is one that is not to be changed."""
        known = await self._world.reader.firing(done.schedule, done.mark)
        if known is None or (done.how != "due" and known.outcome not in ("fired", "same")):
            return None
        if done.up_to:
            await self._world.commit(Reached(done.schedule, done.up_to))
        return replace(done, outcome="same", job_id=known.job_id, code=known.code)

    async def _refused(self, done: MomentDone, refused: Refused) -> MomentDone | NotNow:
        if refused.status == 503:
            return NotNow(refused.code, refused.detail)
        over = replace(done, outcome="refused", code=refused.code, detail=refused.detail)
        if refused.code == "ALREADY_EXISTS":
            return await self._known(done) or over
        return await self.note(over)

    async def note(self, done: MomentDone) -> MomentDone:
        """Write down what came of a moment that made no job."""
        ours(await self._world.commit(replace(done, detail=done.detail[:DETAIL_MAX])))
        return done

    async def _open(self, last_job: str | None, overlap: Overlap) -> Snapshot | None:
        """Find the job before, if it has not ended and that matters."""
        if last_job is None or overlap == "allow":
            return None
        job = await self._world.reader.job(last_job)
        return None if job is None or job.ended else job

    async def _make_room(
        self, schedule: Schedule, done: MomentDone, before: Snapshot, overlap: Overlap
    ) -> MomentDone | NotNow | None:
        """None, when the job before is over now."""
        text = f"job {before.id} of this schedule is still {before.status}"
        if overlap == "skip":
            return await self.note(replace(done, outcome="skipped", code=OVERLAP, detail=text))
        if overlap == "replace":
            by = Actor(before.user_id, "user")
            reason = f"schedule {schedule.name}: replaced by that of {text_of(done.moment)}"
            answer = await self._ask(before.id, Do(by, REPLACES, {}, reason=reason))
            if answer.job.ended:
                return None
        return NotNow(OVERLAP, text, before.id)

    async def _made(self, schedule: Schedule, done: MomentDone) -> MomentDone:
        """Raises: Refused, StorageError"""
        definition = self._world.registry.current(schedule.workflow)
        if definition is None:
            text = f"workflow {schedule.workflow!r} is not loaded"
            raise Refused("WORKFLOW_UNAVAILABLE", text)
        answer = await self._submissions.submit(self._submission(schedule, definition, done), done)
        made = replace(done, outcome="fired", job_id=answer.job.id)
        if not answer.replayed:
            return made
        known = answer.job.schedule
        same = known is not None and (known.name, known.mark) == (schedule.name, done.mark)
        return await self.note(made if same else replace(made, outcome="same"))

    def _submission(self, schedule: Schedule, definition: Definition, done: MomentDone) -> Submit:
        """Raises: Refused INVALID_PARAMS, UNKNOWN_JOB_TYPE"""
        job_type = job_type_of(schedule, definition)
        if job_type not in definition.job_types:
            text = f"{schedule.workflow} has no job type {job_type!r}"
            raise Refused("UNKNOWN_JOB_TYPE", text)
        params = _params(schedule, definition)
        as_given = definition.job_types[job_type].as_given
        return Submit(
            actor=Actor(schedule.user, "user"),
            workflow=schedule.workflow,
            job_type=job_type,
            params=params,
            job_id=self._world.ids.fresh(),
            key=f"{schedule.name}@{done.mark}",
            body_digest=digest(CANONICAL([schedule.workflow, job_type, params])).hex(),
            priority=schedule.priority,
            labels=schedule.labels,
            notify_url=schedule.notify_url,
            notify_on=schedule.notify_on,
            correlation_id=self._world.ids.fresh(),
            omitted=tuple(name for name in params if name not in schedule.params)
            if as_given
            else (),
            schedule=Scheduled(schedule.name, done.moment, done.mark),
        )


def _params(schedule: Schedule, definition: Definition) -> dict[str, Any]:
    try:
        return filled(schedule, definition)
    except msgspec.ValidationError as error:
        raise Refused("INVALID_PARAMS", str(error)) from None
