"""Jobs that rest, counted by the indexes that hold them and no others."""

import sqlite3

from jobrunner.core.keeping.census import BatchCensus, Census, OpenChildren, RestingJobs
from jobrunner.core.keeping.retention import RetentionTerms
from jobrunner.store.keeping.retention import due_count

Db = sqlite3.Connection

WORKFLOWS = "SELECT DISTINCT workflow FROM tally ORDER BY workflow"
STUCK = """
    SELECT workflow, count(*), NULL FROM jobs INDEXED BY jobs_stuck
    WHERE stuck IS NOT NULL GROUP BY workflow
"""
PAUSED = """
    SELECT workflow, count(*), NULL FROM jobs INDEXED BY jobs_paused
    WHERE paused = 1 GROUP BY workflow
"""
# One that was put off may be claimed from a later moment on than that of its last change.
UNCLAIMED = """
    SELECT workflow, count(*), min(max(claim_at, updated_at)) FROM jobs INDEXED BY jobs_to_claim
    WHERE claim_at IS NOT NULL AND claim_at <= :now GROUP BY workflow
"""
WAITING = """
    SELECT workflow, count(*), min(updated_at) FROM jobs INDEXED BY jobs_waiting
    WHERE kind = 'waiting' GROUP BY workflow
"""
DEAD = "SELECT count(*), max(at) FROM dead_letters INDEXED BY dead_letters_shown WHERE hidden = 0"

PARENTS = "SELECT count(*) FROM family_waits"
CHILDREN = """
    SELECT c.workflow, j.kind, count(*) FROM children c INDEXED BY children_open
    JOIN jobs j ON j.id = c.job WHERE c.ended = 0 GROUP BY c.workflow, j.kind
"""
# Those that have ended stay for a while (``[retention] batches``), and are looked at, too.
BATCHES = """
    SELECT coalesce(sum(open), 0), coalesce(sum(1 - open), 0), coalesce(sum(unended), 0)
    FROM batches WHERE ended_at IS NULL
"""


def census(db: Db, terms: RetentionTerms, now: int) -> Census:
    """Count in one read. Workflows of which no job rests are there too, with none."""
    db.execute("BEGIN")
    try:
        known = [workflow for (workflow,) in db.execute(WORKFLOWS)]
        dead_letters, dead_letter_at = db.execute(DEAD).fetchone()
        return Census(
            at=now,
            stuck=_resting(db, STUCK, known, now),
            paused=_resting(db, PAUSED, known, now),
            unclaimed=_resting(db, UNCLAIMED, known, now),
            waiting=_resting(db, WAITING, known, now),
            retained=due_count(db, terms, now),
            dead_letters=dead_letters,
            dead_letter_at=dead_letter_at,
            parents=db.execute(PARENTS).fetchone()[0],
            children=tuple(OpenChildren(*row) for row in db.execute(CHILDREN)),
            batches=BatchCensus(*db.execute(BATCHES).fetchone()),
        )
    finally:
        db.execute("ROLLBACK")


def _resting(db: Db, question: str, known: list[str], now: int) -> tuple[RestingJobs, ...]:
    found = {row[0]: RestingJobs(*row) for row in db.execute(question, {"now": now})}
    return tuple(found.get(workflow) or RestingJobs(workflow, 0) for workflow in known)
