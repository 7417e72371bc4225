"""How many jobs a user has, counted the same way at the door and inside the transaction.

Counting stops at ``most``: whether there are more than the limit is all that matters. A deleted
job still counts as a submission of its minute and day; its tombstone remembers when it was made.
Only jobs of workflows that ask for a quota stand in the two indexes used here. Children are no
submissions of the minute: their parents make them as fast as they work.
"""

import sqlite3

from jobrunner.core.decision import QuotaAssert

MINUTE_MS = 60_000
DAY_MS = 86_400_000

_OPEN = """
    SELECT count(*) FROM (
        SELECT 1 FROM jobs INDEXED BY jobs_open
        WHERE user_id = :user_id AND workflow = :workflow AND quota = 1
            AND kind IN ('waiting', 'queued', 'active')
        LIMIT :most)
"""
_SUBMITTED = """
    SELECT count(*) FROM (
        SELECT 1 FROM jobs INDEXED BY jobs_counted
        WHERE user_id = :user_id AND workflow = :workflow AND quota = 1 AND created_at > :since
        UNION ALL
        SELECT 1 FROM tombstones
        WHERE user_id = :user_id AND workflow = :workflow AND created_at > :since
        LIMIT :most)
"""
_BORN_BY_JOBS = """
    SELECT count(*) FROM children c LEFT JOIN jobs j ON j.id = c.job
    WHERE c.user_id = :user_id AND c.workflow = :workflow AND c.at > :since
        AND (c.job IS NULL OR j.quota = 1)
"""


def open_jobs(connection: sqlite3.Connection, user_id: str, workflow: str, most: int) -> int:
    asked = {"user_id": user_id, "workflow": workflow, "most": most}
    return int(connection.execute(_OPEN, asked).fetchone()[0])


def submitted(
    connection: sqlite3.Connection, user_id: str, workflow: str, since: int, most: int
) -> int:
    asked = {"user_id": user_id, "workflow": workflow, "since": since, "most": most}
    return int(connection.execute(_SUBMITTED, asked).fetchone()[0])


def submitted_by_hand(
    connection: sqlite3.Connection, user_id: str, workflow: str, since: int, most: int
) -> int:
    """Count submissions without those that stages have made."""
    asked = {"user_id": user_id, "workflow": workflow, "since": since}
    born = int(connection.execute(_BORN_BY_JOBS, asked).fetchone()[0])
    return submitted(connection, user_id, workflow, since, most + born) - born


def exceeded(
    connection: sqlite3.Connection, user_id: str, workflow: str, limits: QuotaAssert, now: int
) -> str:
    """The first limit that is overstepped, as a word; empty when none is."""
    scope = connection, user_id, workflow
    minute, day = now - MINUTE_MS, now - DAY_MS
    if limits.open_jobs and open_jobs(*scope, limits.open_jobs + 1) > limits.open_jobs:
        return "open_jobs"
    for name, limit, since, count in (
        ("per_minute", limits.per_minute, minute, submitted_by_hand),
        ("per_day", limits.per_day, day, submitted),
    ):
        if limit and count(*scope, since, limit + 1) > limit:
            return name
    return ""
