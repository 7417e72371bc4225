"""Answers what a stage asks for about children of its job: to submit one, and how they stand."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct

from jobrunner.actors.commits import Answer
from jobrunner.actors.shared import World
from jobrunner.core.access import ended_as
from jobrunner.core.declaration.offspring import ChildWorkflow
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.families.parentage import JobsAwaited, ParentLink
from jobrunner.core.features.families.relatives import ChildRow
from jobrunner.core.features.tracing import attempt_of
from jobrunner.core.job import Actor, Attempt, Snapshot
from jobrunner.core.messages import Submit
from jobrunner.errors import PermanentFailure, Refused, RetryableFailure
from jobrunner.stages.requests import JobOutcome, JobSubmission

AGAIN = frozenset({"OVERLOADED", "QUOTA_EXCEEDED", "STORAGE_FULL", "DRAINING"})
SubmitJob = Callable[[Submit], Awaitable[Answer]]
BearingOf = Callable[[Snapshot, Attempt], "Bearing"]


class FamilyLimits(Struct, frozen=True):
    """``children`` of one job at most, and ``generations`` below one that a client submitted."""

    children: int = 10_000
    generations: int = 8


class Bearing:
    """The family requests of one attempt of ``job``."""

    def __init__(
        self, world: World, submit: SubmitJob, limits: FamilyLimits, job: Snapshot, attempt: Attempt
    ) -> None:
        self._world = world
        self._submit = submit
        self._limits = limits
        self._job = job
        self._attempt = attempt
        self._borne: int | None = None

    async def submit(self, asked: JobSubmission) -> str:
        """The id of the child that this run knows by its key, which is made if there is none.

        Raises: PermanentFailure, RetryableFailure
        """
        submission = await self._submission(asked)
        try:
            answer = await self._submit(submission)
        except Refused as refused:
            if refused.code == "JOB_GONE":
                return str(refused.extra["job_id"])
            raise _failure(refused, asked) from refused
        if not answer.replayed and self._borne is not None:
            self._borne += 1
        return answer.job.id

    async def is_met(self, awaited: JobsAwaited) -> bool:
        """Say whether enough of them have ended.

        Raises: PermanentFailure, for what is no child of this job.
        """
        found = await self._world.reader.family(self._job.id, awaited.ids)
        if found.known < len(awaited.ids):
            missing = len(awaited.ids) - found.known
            text = f"{missing} of the jobs that it awaits are no children of this job"
            raise PermanentFailure("NOT_ITS_CHILD", text)
        return awaited.is_met(found.well, found.ill)

    async def outcomes(self, ids: tuple[str, ...]) -> tuple[JobOutcome, ...]:
        """Say how these children stand, in the order in which they are asked for."""
        found = await self._world.reader.children_named(self._job.id, ids)
        rows = {one.job_id: one for one in found}
        return tuple(self._outcome(rows[one]) for one in ids if one in rows)

    def _outcome(self, child: ChildRow) -> JobOutcome:
        if child.job is None:
            ended = "completed" if child.well else "failed"
            return JobOutcome(child.job_id, child.key, child.deleted_in, ended, deleted=True)
        job = child.job
        definition = self._world.registry.of(job)
        ended = (ended_as(definition, job.status) or "") if definition else ""
        values = {name: found.value for name, found in job.artifacts.items()}
        return JobOutcome(
            job.id, child.key, job.status, ended, job.result, values,
            job.failure_code or "", job.failure_message or "",
        )  # fmt: skip

    async def _submission(self, asked: JobSubmission) -> Submit:
        job, attempt = self._job, self._attempt
        child = self._named(asked.workflow)
        definition = self._world.registry.current(asked.workflow)
        if definition is None:
            text = f"workflow {asked.workflow} is not loaded"
            raise RetryableFailure("WORKFLOW_UNAVAILABLE", text)
        job_type = asked.job_type or definition.workflow.job_types[0].name
        params = _params(definition, job_type, asked)
        await self._check_room(asked.key)
        return Submit(
            actor=Actor(job.user_id, "user"),
            workflow=asked.workflow,
            job_type=job_type,
            params=params,
            omitted=_omitted(definition, job_type, params, asked.params),
            job_id=self._world.ids.fresh(),
            priority=job.priority if asked.priority is None else asked.priority,
            labels=asked.labels,
            correlation_id=job.correlation_id or job.id,
            traceparent=attempt_of(job, attempt).text,
            parent=self._tie(child, asked.key),
        )

    def _named(self, workflow: str) -> ChildWorkflow:
        definition = self._world.registry.of(self._job)
        declared = definition.workflow.children if definition is not None else ()
        for child in declared:
            if child.workflow == workflow:
                return child
        known = ", ".join(child.workflow for child in declared) or "none"
        text = f"{self._job.workflow} does not declare {workflow!r} among its children: {known}"
        raise PermanentFailure("CHILD_NOT_DECLARED", text)

    def _tie(self, child: ChildWorkflow, key: str) -> ParentLink:
        job, attempt = self._job, self._attempt
        depth = job.parent.depth + 1 if job.parent else 1
        if depth > self._limits.generations:
            text = f"it is {depth - 1} generations below a client's job; [limits] child_generations"
            raise PermanentFailure("TOO_MANY_CHILDREN", text)
        return ParentLink(
            job.id, attempt.run_id, key, attempt.serial, depth, child.at_end, child.covered
        )

    async def _check_room(self, key: str) -> None:
        """Counts once an attempt; what is there already is none too many."""
        job, reader = self._job, self._world.reader
        if self._borne is None:
            self._borne = await reader.family_size(job.id)
        if self._borne < self._limits.children:
            return
        if await reader.child(job.id, self._attempt.run_id, key) is None:
            text = f"the job has {self._borne} children; [limits] children_per_job"
            raise PermanentFailure("TOO_MANY_CHILDREN", text)


def _params(definition: Definition, job_type: str, asked: JobSubmission) -> dict[str, Any]:
    declared = definition.job_types.get(job_type)
    if declared is None:
        text = f"{asked.workflow} has no job type {job_type!r}"
        raise PermanentFailure("UNKNOWN_JOB_TYPE", text)
    try:
        kind = definition.structs[declared.params]
        decoded: dict[str, Any] = msgspec.to_builtins(msgspec.convert(asked.params, kind))
    except msgspec.ValidationError as error:
        text = f"params of child {asked.key!r}: {error}"
        raise PermanentFailure("INVALID_PARAMS", text) from None
    return decoded


def _omitted(
    definition: Definition, job_type: str, params: dict[str, Any], given: Any
) -> tuple[str, ...]:
    if not definition.job_types[job_type].as_given:
        return ()
    return tuple(name for name in params if name not in given)


def _failure(refused: Refused, asked: JobSubmission) -> PermanentFailure | RetryableFailure:
    text = f"child {asked.key!r}: {refused.detail}"
    kind = RetryableFailure if refused.code in AGAIN else PermanentFailure
    return kind(refused.code, text)
