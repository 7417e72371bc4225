"""GET /jobs/{id}/attempts: what the stages did."""

from typing import Literal

from jobrunner.core.job import Attempt, Failure
from jobrunner.http.frame.endpoint import Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.inputs import RowsQuery, cursor_of, key_of, visible_job
from jobrunner.http.frame.views import reply, view_of


class AttemptEntry(View, frozen=True, kw_only=True):
    state: str
    stage: str
    holder: str | None
    run_id: str
    attempt: int
    status: Literal["due", "running", "parked", "ended"]
    outcome: str | None
    failure_code: str | None
    failure_message: str | None
    started_at: str | None
    ended_at: str | None
    log: list[str]


class AttemptList(View, frozen=True, kw_only=True):
    attempts: list[AttemptEntry]
    next_cursor: str | None


@Endpoint("GET", "/jobs/{id}/attempts", {200: AttemptList}, query=RowsQuery)
async def get_attempts(call: HttpCall) -> HttpReply:
    """List the attempts of a job, with their errors and log lines."""
    job = await visible_job(call)
    query: RowsQuery = call.query
    found = await call.door.reader.attempts(job.id, query.limit, key_of(query.cursor) or 0)
    following = cursor_of(found[-1].serial) if len(found) == query.limit else None
    whole = call.actor.oversees
    entries = [attempt_entry(attempt, whole) for attempt in found]
    return reply(AttemptList(attempts=entries, next_cursor=following))


def attempt_entry(attempt: Attempt, whole: bool = False) -> AttemptEntry:
    """``whole``: with what strangers and libraries said of its failure."""
    failure = attempt.failure or Failure("", "")
    told = failure.detail.splitlines() if whole else []
    return view_of(
        AttemptEntry,
        attempt,
        stage=attempt.runs or attempt.stage,
        holder=attempt.holder or None,
        attempt=attempt.number,
        outcome=attempt.outcome or None,
        failure_code=failure.code or None,
        failure_message=failure.message or None,
        log=[*attempt.log, *told],
    )
