"""Questions of the first page of the dashboard. Each question has an index or a bound."""

import sqlite3
from operator import attrgetter

from msgspec.structs import replace

from jobrunner.core.features.overview import Tally
from jobrunner.core.job import Snapshot
from jobrunner.store.rows import SELECT_BRIEF, attempt_of, brief_job, text

Db = sqlite3.Connection
TIMERS_MAX = 10_000

ALL = "SELECT workflow, status, jobs FROM tally WHERE jobs > 0 ORDER BY workflow, status"
OWN = """
    SELECT workflow, status, count(*) FROM
        (SELECT workflow, status FROM jobs WHERE user_id = :user_id ORDER BY id DESC LIMIT :most)
    GROUP BY workflow, status ORDER BY workflow, status
"""
RETRYING = f"""{SELECT_BRIEF} JOIN
    (SELECT job, purpose, due_at FROM timers ORDER BY due_at LIMIT {TIMERS_MAX}) t ON t.job = j.id
    WHERE t.purpose IN ('retry', 'backoff')
        AND (:workflows = '[]' OR j.workflow IN (SELECT value FROM json_each(:workflows)))
    ORDER BY t.due_at LIMIT :limit
"""  # noqa: S608 - a number of our own
LAST_ENDED = """
    SELECT attempt FROM attempts WHERE job = :job AND status = 'ended' ORDER BY serial DESC LIMIT 1
"""
PARKED = f"""{SELECT_BRIEF} JOIN
    (SELECT job FROM attempts INDEXED BY attempts_parked WHERE status = 'parked'
        ORDER BY job LIMIT :limit) t ON t.job = j.id
    ORDER BY j.updated_at
"""  # noqa: S608 - texts of our own
LATELY = f"""{SELECT_BRIEF} WHERE j.kind IN ('settled', 'final') AND j.workflow = :workflow
    AND j.status = :status ORDER BY j.updated_at DESC LIMIT :limit
"""


def tally_of(db: Db, user_id: str | None, most: int) -> Tally:
    """Count jobs by workflow and status: all, or the newest of one user."""
    if user_id is None:
        return tuple(db.execute(ALL))
    return tuple(db.execute(OWN, {"user_id": user_id, "most": most}))


def retrying(db: Db, workflows: tuple[str, ...], limit: int) -> tuple[Snapshot, ...]:
    """List jobs that are tried again, with their last failure: the job itself has none while it may
    still end well."""
    asked = {"workflows": text(workflows), "limit": limit}
    found = map(brief_job, db.execute(RETRYING, asked).fetchall())
    return tuple(_with_failure(db, job) for job in found)


def _with_failure(db: Db, job: Snapshot) -> Snapshot:
    last = db.execute(LAST_ENDED, {"job": job.row}).fetchone()
    attempt = attempt_of(last[0]) if last else None
    if attempt is None or attempt.failure is None or job.failure_code is not None:
        return job
    failure = attempt.failure
    return replace(job, failure_code=failure.code, failure_message=failure.message)


def parked(db: Db, limit: int) -> tuple[Snapshot, ...]:
    """Jobs that await a callback: of those that were made first, who waits longest first."""
    return tuple(map(brief_job, db.execute(PARKED, {"limit": limit})))


def lately(db: Db, places: tuple[tuple[str, str], ...], limit: int) -> tuple[Snapshot, ...]:
    """Jobs that came to rest in these places (workflow, status), the last ones first."""
    found = [
        brief_job(row)
        for workflow, status in places
        for row in db.execute(LATELY, {"workflow": workflow, "status": status, "limit": limit})
    ]
    return tuple(sorted(found, key=attrgetter("updated_at"), reverse=True)[:limit])
