"""The stage that a failure names, in the words that a workflow allows."""

from jobrunner.core.declaration.workflow import State
from jobrunner.core.draft import Draft
from jobrunner.core.job import Failure


def named(draft: Draft, failure: Failure) -> Failure:
    """Name the stage in which a failure happened, in the words that the workflow allows."""
    allowed = draft.definition.workflow.failed_stages
    stage = failure.stage or draft.job.status
    if allowed and stage not in allowed:
        stage = _next_stage(draft, allowed)
    return Failure(
        failure.code,
        failure.message,
        stage,
        failure.retryable,
        failure.retry_after_s,
        failure.detail,
    )


def unnamed(state: State) -> str:
    """Make the code of a failure that leads here and was given none, whoever tells of it."""
    return {"partial": "PARTIAL", "rejected": "REJECTED", "expired": "EXPIRED"}.get(
        state.ends, "FAILED"
    )


def _next_stage(draft: Draft, allowed: tuple[str, ...]) -> str:
    """Name the stage that would have come next, for a job that fails at rest."""
    table, seen, ahead = draft.definition.table, {draft.job.status}, [draft.job.status]
    while ahead:
        status = ahead.pop(0)
        if status in allowed:
            return status
        fresh = [target for target in table.get(status, {}) if target not in seen]
        seen.update(fresh)
        ahead.extend(fresh)
    return allowed[-1]
