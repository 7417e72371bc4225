"""Each question as one function over a read-only connection.

They run inside one short read transaction per round, so an answer made of several selects is of
one moment. Every select is backed by an index or bounded by a limit.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any

from jobrunner.core.features.pauses import OF_HELD_WORK
from jobrunner.core.job import Attempt, Snapshot
from jobrunner.core.questions import (
    PAGE,
    ArtifactView,
    AssetRow,
    AuditRow,
    Counts,
    Credits,
    DeadLetterRow,
    DoorFacts,
    DoorQuestion,
    DueTimer,
    KnownKey,
    LastLife,
    LedgerRow,
    OpenAttempt,
    Place,
    Token,
    Tombstone,
    Waiting,
)
from jobrunner.store import rows
from jobrunner.store.features import quota

LAST = 2**63 - 1
MOST = 10_000
AHEAD = 1_000

Db = sqlite3.Connection


def job(db: Db, job_id: str) -> Snapshot | None:
    found = db.execute(f"{rows.SELECT_WHOLE} WHERE j.uid = ?", (job_id,)).fetchone()
    if found is None:
        return None
    current = db.execute(
        f"{rows.SELECT_ARTIFACT} WHERE job = ? AND current = 1", (found[rows.ROW],)
    )
    return rows.whole_job(found, current)


def tombstone(db: Db, job_id: str) -> Tombstone | None:
    found = db.execute(
        "SELECT uid, user_id, workflow, status, deleted_at FROM tombstones WHERE uid = ?", (job_id,)
    ).fetchone()
    return Tombstone(*found) if found else None


def attempts(db: Db, job_id: str, limit: int = PAGE, after: int = 0) -> tuple[Attempt, ...]:
    found = db.execute(
        "SELECT a.attempt FROM attempts a JOIN jobs j ON j.id = a.job "
        "WHERE j.uid = ? AND a.serial > ? ORDER BY a.serial LIMIT ?",
        (job_id, after, limit),
    )
    return tuple(filter(None, (rows.attempt_of(stored) for (stored,) in found)))


def assets(db: Db, job_id: str) -> tuple[AssetRow, ...]:
    """Newest first."""
    found = db.execute(f"{rows.SELECT_ASSET} WHERE j.uid = ? ORDER BY a.id DESC", (job_id,))
    return tuple(map(rows.asset_of, found))


def job_assets(db: Db, job_id: str, limit: int, after: int | None) -> tuple[AssetRow, ...]:
    """Newest first."""
    of_job = "WHERE a.job = (SELECT id FROM jobs WHERE uid = ?) AND a.id < ?"
    newest = f"{rows.SELECT_ASSET} {of_job} ORDER BY a.id DESC LIMIT ?"
    found = db.execute(newest, (job_id, after or LAST, limit))
    return tuple(map(rows.asset_of, found))


def clearings(db: Db, limit: int) -> tuple[str, ...]:
    """Folders of what was deleted, whose files may still be there; the oldest first."""
    found = db.execute("SELECT folder FROM clearings ORDER BY at, folder LIMIT ?", (limit,))
    return tuple(folder for (folder,) in found)


def library(db: Db, user_id: str | None, limit: int, after: int | None) -> tuple[AssetRow, ...]:
    """Newest first; of everybody, where no owner is named."""
    whose, named = ("", ()) if user_id is None else ("a.user_id = ? AND", (user_id,))
    found = db.execute(
        f"{rows.SELECT_ASSET} WHERE {whose} a.id < ? ORDER BY a.id DESC LIMIT ?",
        (*named, after or LAST, limit),
    )
    return tuple(map(rows.asset_of, found))


def asset(db: Db, asset_id: str) -> AssetRow | None:
    found = db.execute(f"{rows.SELECT_ASSET} WHERE a.uid = ?", (asset_id,)).fetchone()
    return rows.asset_of(found) if found else None


def named_by(db: Db, row: AssetRow, workflows: tuple[str, ...]) -> bool:
    """Looks at the newest jobs of the file's owner: so many, and no more."""
    asked = (row.user_id, rows.text(workflows), row.asset.id, MOST_JOBS)
    return bool(db.execute(NAMED_BY, asked).fetchone()[0])


def artifact(db: Db, job_id: str, name: str, version: int | None) -> ArtifactView | None:
    """Without a version, the current one."""
    of_name = "WHERE job = (SELECT id FROM jobs WHERE uid = ?) AND name = ?"
    which = "current = 1" if version is None else "version = ?"
    asked = (job_id, name) if version is None else (job_id, name, version)
    found = db.execute(f"{rows.SELECT_ARTIFACT} {of_name} AND {which}", asked).fetchone()
    if found is None:
        return None
    versions = db.execute(
        f"SELECT version, created_at FROM artifacts {of_name} ORDER BY version",  # noqa: S608
        (job_id, name),
    )
    artifact, unreadable = rows.artifact_as_far(found)
    return ArtifactView(artifact, tuple(versions), unreadable)


def event(db: Db, job_id: str, event_id: str) -> tuple[str, str] | None:
    """The event's id and the digest of what it said, also of a job of which only a tombstone is
    left."""
    found: tuple[str, str] | None = db.execute(
        "SELECT e.event_id, e.digest FROM events e JOIN jobs j ON j.id = e.job "
        "WHERE j.uid = ?1 AND e.event_id = ?2 UNION ALL "
        "SELECT e.event_id, e.digest FROM kept_events e JOIN tombstones t ON t.id = e.tombstone "
        "WHERE t.uid = ?1 AND e.event_id = ?2",
        (job_id, event_id),
    ).fetchone()
    return found


def door(db: Db, question: DoorQuestion, initial_credits: int) -> DoorFacts:
    scope = (question.user_id, question.workflow)
    minute = day = opened = 0
    if question.quota:
        opened = quota.open_jobs(db, *scope, MOST)
        minute = quota.submitted(db, *scope, question.now - quota.MINUTE_MS, MOST)
        day = quota.submitted(db, *scope, question.now - quota.DAY_MS, MOST)
    return DoorFacts(
        known=_known(db, scope, question.key_digest),
        derived=_known(db, scope, question.derived_digest),
        balance=credits_of(db, question.user_id, initial_credits).balance,
        open_jobs=opened,
        last_minute=minute,
        last_day=day,
    )


def _known(db: Db, scope: tuple[str, str], digest: str | None) -> KnownKey | None:
    if digest is None:
        return None
    found = db.execute(
        "SELECT job_id, body_digest FROM keys WHERE user_id = ? AND workflow = ? AND digest = ?",
        (*scope, digest),
    ).fetchone()
    return KnownKey(found[0], found[1], job(db, found[0])) if found else None


def credits_of(db: Db, user_id: str, initial_credits: int) -> Credits:
    """Who has no account yet has what an account starts with."""
    found = db.execute(
        "SELECT user_id, balance, held FROM accounts WHERE user_id = ?", (user_id,)
    ).fetchone()
    return Credits(*found) if found else Credits(user_id, initial_credits, 0)


def ledger(db: Db, user_id: str, limit: int, after: int | None) -> tuple[LedgerRow, ...]:
    """Newest first."""
    found = db.execute(
        f"{rows.SELECT_LEDGER} WHERE user_id = ? AND id < ? ORDER BY id DESC LIMIT ?",
        (user_id, after or LAST, limit),
    )
    return tuple(LedgerRow(*row) for row in found)


def grant(db: Db, user_id: str, key: str) -> LedgerRow | None:
    """What was given under this key."""
    entry = "SELECT entry FROM grant_keys WHERE user_id = ? AND key = ?"
    found = db.execute(f"{rows.SELECT_LEDGER} WHERE id = ({entry})", (user_id, key)).fetchone()
    return LedgerRow(*found) if found else None


def audit(db: Db, limit: int, after: int | None) -> tuple[AuditRow, ...]:
    """Newest first."""
    found = db.execute(
        f"{rows.SELECT_AUDIT} WHERE id < ? ORDER BY id DESC LIMIT ?", (after or LAST, limit)
    )
    return tuple(map(rows.audit_of, found))


def dead_letters(db: Db, limit: int, after: int | None, hidden: bool) -> tuple[DeadLetterRow, ...]:
    """Newest first; ``hidden`` shows also those that are kept off the review list."""
    found = db.execute(
        f"{rows.SELECT_DEAD_LETTER} WHERE id < ? AND hidden <= ? ORDER BY id DESC LIMIT ?",
        (after or LAST, int(hidden), limit),
    )
    return tuple(map(rows.dead_letter_of, found))


MOST_JOBS = 10_000
NAMED_BY = """
    SELECT EXISTS (
        SELECT 1 FROM (
            SELECT id FROM jobs
            WHERE user_id = ?1 AND workflow IN (SELECT value FROM json_each(?2))
            ORDER BY id DESC LIMIT ?4) j
        WHERE EXISTS (SELECT 1 FROM payloads p WHERE p.job = j.id AND instr(p.params, ?3))
            OR EXISTS (SELECT 1 FROM artifacts a WHERE a.job = j.id AND instr(a.value, ?3)))
"""
TOKENS = "SELECT id, name, role, created_at, expires_at, revoked_at, workflows FROM tokens"
SUCCEEDED = """
    WITH RECURSIVE line (id) AS (
        SELECT token FROM successions WHERE successor = ?
        UNION SELECT s.token FROM line JOIN successions s ON s.successor = line.id)
    SELECT id FROM line ORDER BY id
"""


def token(db: Db, digest: bytes) -> Token | None:
    """Also one that was revoked or has expired: whoever asks looks at its times."""
    found = db.execute(f"{TOKENS} WHERE digest = ?", (digest,)).fetchone()
    if found is None:
        return None
    replaced = tuple(one for (one,) in db.execute(SUCCEEDED, (found[0],)))
    return _token_of(found, replaced)


def tokens(db: Db) -> tuple[Token, ...]:
    return tuple(map(_token_of, db.execute(f"{TOKENS} ORDER BY created_at, id")))


def _token_of(row: tuple[Any, ...], replaced: tuple[str, ...] = ()) -> Token:
    workflows = tuple(rows.parsed(row[6]))
    return Token(row[0], row[1], row[2], row[3], row[4], row[5], workflows, replaced)


TIMERS = """
    FROM timers t CROSS JOIN jobs j ON j.id = t.job
    WHERE t.due_at <= ?1 AND j.stuck IS NULL AND j.workflow IN (SELECT value FROM json_each(?2))
        AND ((j.paused = 0 AND j.workflow NOT IN (SELECT name FROM pauses WHERE scope = 'workflow'))
            OR t.purpose IN (SELECT value FROM json_each(?4)))
    ORDER BY t.due_at LIMIT ?3
"""
AT_ONCE = rows.text(sorted(OF_HELD_WORK))


def due_timers(db: Db, now: int, limit: int, workflows: tuple[str, ...]) -> tuple[DueTimer, ...]:
    """Earliest first. A stuck job keeps its timers until it is released; one that is
    paused keeps those that are not of work somebody holds until it is resumed."""
    asked = (now, rows.text(workflows), limit, AT_ONCE)
    found = db.execute(f"SELECT j.uid, t.purpose, t.due_at {TIMERS}", asked)
    return tuple(DueTimer(*row) for row in found)


def next_timer(db: Db, workflows: tuple[str, ...]) -> int | None:
    asked = (LAST, rows.text(workflows), 1, AT_ONCE)
    found = db.execute(f"SELECT t.due_at {TIMERS}", asked).fetchone()
    return int(found[0]) if found else None


def line(
    db: Db,
    limit: int,
    workflows: tuple[str, ...],
    but_not: tuple[str, ...] = (),
    not_at: tuple[tuple[str, str, str], ...] = (),
) -> tuple[Waiting, ...]:
    """Highest priority first, then who waits longest."""
    found = db.execute(
        "SELECT uid, user_id, workflow, status, job_type, priority, line_at FROM jobs "
        "WHERE line_at IS NOT NULL AND stuck IS NULL AND paused = 0 "
        "AND workflow IN (SELECT value FROM json_each(?)) "
        "AND user_id NOT IN (SELECT value FROM json_each(?)) "
        "AND (? = '[]' OR json_array(workflow, status, job_type) NOT IN "
        "(SELECT value FROM json_each(?))) "
        "ORDER BY priority DESC, line_at, id LIMIT ?",
        (rows.text(workflows), rows.text(but_not), rows.text(not_at), rows.text(not_at), limit),
    )
    return tuple(Waiting(*row) for row in found)


def line_users(db: Db) -> tuple[tuple[str, int], ...]:
    found = db.execute(
        "SELECT user_id, count(*) FROM jobs "
        "WHERE line_at IS NOT NULL AND stuck IS NULL AND paused = 0 "
        "GROUP BY user_id"
    )
    return tuple(found)


def place(db: Db, job: Snapshot, workflows: tuple[str, ...]) -> Place:
    """Nobody counts a long line to its end: what a job wants to know is whether it is soon."""
    found = db.execute(
        "SELECT count(*) FROM (SELECT 1 FROM jobs "
        "WHERE line_at IS NOT NULL AND stuck IS NULL AND paused = 0 "
        "AND priority >= ?1 AND (priority > ?1 OR (line_at, id) < (?2, ?3)) "
        "AND workflow IN (SELECT value FROM json_each(?4)) "
        "ORDER BY priority DESC, line_at, id LIMIT ?5)",
        (job.priority, job.line_at, job.row, rows.text(workflows), AHEAD + 1),
    )
    ahead = int(found.fetchone()[0])
    return Place(min(ahead, AHEAD), ahead <= AHEAD)


def line_length(db: Db) -> int:
    return int(db.execute("SELECT coalesce(sum(in_line), 0) FROM tally").fetchone()[0])


def claimable(
    db: Db, workflow: str, statuses: tuple[str, ...], job_type: str | None, now: int, limit: int
) -> tuple[str, ...]:
    """Highest priority first, then the oldest; without statuses, in any."""
    found = [
        row
        for status in statuses or _statuses(db, workflow)
        for row in _claimable(db, workflow, status, job_type, now, limit)
    ]
    return tuple(uid for _, _, uid in sorted(found)[:limit])


def _statuses(db: Db, workflow: str) -> Iterator[str]:
    found = db.execute("SELECT status FROM tally WHERE workflow = ? AND jobs > 0", (workflow,))
    return (status for (status,) in found.fetchall())


def _claimable(
    db: Db, workflow: str, status: str, job_type: str | None, now: int, limit: int
) -> list[Any]:
    return db.execute(
        "SELECT -priority, id, uid FROM jobs "
        "WHERE workflow = ?1 AND status = ?2 AND claim_at IS NOT NULL AND claim_at <= ?3 "
        "AND (?4 IS NULL OR job_type = ?4) ORDER BY priority DESC, id LIMIT ?5",
        (workflow, status, now, job_type, limit),
    ).fetchall()


def open_attempts(db: Db, epoch: int) -> tuple[OpenAttempt, ...]:
    found = db.execute(
        "SELECT j.uid, a.serial, coalesce(a.attempt ->> 'started_at', 0), "
        "coalesce(a.attempt ->> 'stage', '') "
        "FROM attempts a JOIN jobs j ON j.id = a.job "
        "WHERE a.status = 'running' AND a.epoch < ? AND a.holder = 'stage' "
        "ORDER BY a.job, a.serial",
        (epoch,),
    )
    return tuple(OpenAttempt(*row) for row in found)


def last_life(db: Db, epoch: int) -> LastLife | None:
    """Of the process that left attempts running, else of the one before this: a command that
    opened the file in between is not what died."""
    found = db.execute(
        "SELECT started_at, seen_at, ended_at FROM lives WHERE epoch = coalesce("
        "(SELECT max(epoch) FROM attempts "
        "WHERE status = 'running' AND epoch < ?1 AND holder = 'stage'), "
        "(SELECT max(epoch) FROM lives WHERE epoch < ?1))",
        (epoch,),
    ).fetchone()
    return LastLife(*found) if found else None


def declarations(db: Db) -> tuple[tuple[str, str, bytes], ...]:
    """Name, digest and data of every declaration ever stored, oldest first."""
    return tuple(db.execute("SELECT name, digest, data FROM definitions ORDER BY id"))


def under_way(db: Db, digests: tuple[str, ...]) -> dict[str, int]:
    """How many jobs of these declarations have not ended; none is not told. Looks at every job."""
    found = db.execute(
        "SELECT d.digest, count(*) FROM jobs j JOIN definitions d ON d.id = j.definition "
        "WHERE j.kind IN ('waiting', 'queued', 'active') "
        "AND d.digest IN (SELECT value FROM json_each(?)) GROUP BY d.id",
        (rows.text(digests),),
    )
    return dict(found)


def counts(db: Db) -> Counts:
    found = db.execute(
        "SELECT workflow, status, jobs FROM tally WHERE jobs > 0 ORDER BY workflow, status"
    ).fetchall()
    timers = db.execute("SELECT count(*) FROM timers").fetchone()[0]
    return Counts(tuple(found), line_length(db), int(timers))
