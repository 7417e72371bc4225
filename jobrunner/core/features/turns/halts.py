"""Pauses that keep an attempt from starting: of its job, of its workflow, of the stage ahead."""

from jobrunner.core.declaration.workflow import EXTERNAL, Definition
from jobrunner.core.facts import Facts
from jobrunner.core.job import Paused, Snapshot


def halted_by(definition: Definition, job: Snapshot, facts: Facts) -> Paused | None:
    """The pause that keeps an attempt of the house from starting here, whichever it is."""
    if job.paused or facts.halted:
        return job.paused or facts.halted
    halted = facts.halted_stages and stage_ahead(definition, job) in facts.halted_stages
    return Paused("", 0) if halted else None


def stage_ahead(definition: Definition, job: Snapshot) -> str:
    """Name the stage that would run next: that of the open attempt, or the one behind the queue."""
    if job.attempt is not None:
        return job.attempt.stage
    place = job.status
    if job.kind == "queued":
        place = definition.onward_of(job.status, job.job_type) or place
    return definition.stage_of(place, job.job_type) or EXTERNAL
