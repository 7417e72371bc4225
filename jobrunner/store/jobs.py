"""Each question as one function over a read-only connection.

They run inside one short read transaction per round, so an answer made of several selects is of
one moment. Every select is backed by an index or bounded by a limit.
"""

import sqlite3

from jobrunner.core.features.pauses import OF_HELD_WORK
from jobrunner.core.job import Attempt, Snapshot
from jobrunner.core.questions import (
    PAGE,
    ArtifactView,
    AssetRow,
    Counts,
    Credits,
    DoorFacts,
    DoorQuestion,
    DueTimer,
    KnownKey,
    LastLife,
    OpenAttempt,
    Tombstone,
)
from jobrunner.store import rows
from jobrunner.store.before import digest_before
from jobrunner.store.columns import Columns
from jobrunner.store.features import quota

LAST = 2**63 - 1
MOST = 10_000

Db = sqlite3.Connection


def job(db: Db, job_id: str) -> Snapshot | None:
    of_id = f"{rows.SELECT_WHOLE} WHERE j.uid = :job_id"
    found = db.execute(of_id, {"job_id": job_id}).fetchone()
    if found is None:
        return None
    current = rows.ARTIFACT.select("WHERE t.job = :job AND t.current = 1")
    return rows.whole_job(found, db.execute(current, {"job": found[rows.ROW]}))


TOMBSTONE = Columns(Tombstone, "tombstones t", elsewhere={"job_id": "t.uid"})


def tombstone(db: Db, job_id: str) -> Tombstone | None:
    return TOMBSTONE.one(db, "WHERE t.uid = :job_id", job_id=job_id)


def attempts(db: Db, job_id: str, limit: int = PAGE, after: int = 0) -> tuple[Attempt, ...]:
    """Oldest first, from behind this serial number."""
    found = db.execute(
        "SELECT a.attempt FROM attempts a JOIN jobs j ON j.id = a.job "
        "WHERE j.uid = :job_id AND a.serial > :after ORDER BY a.serial LIMIT :limit",
        {"job_id": job_id, "after": after, "limit": limit},
    )
    return tuple(filter(None, (rows.attempt_of(stored) for (stored,) in found)))


def assets(db: Db, job_id: str) -> tuple[AssetRow, ...]:
    """Newest first."""
    return rows.ASSET.all(db, "WHERE j.uid = :job_id ORDER BY t.id DESC", job_id=job_id)


def job_assets(db: Db, job_id: str, limit: int, after: int | None) -> tuple[AssetRow, ...]:
    """Newest first."""
    of_job = "WHERE t.job = (SELECT id FROM jobs WHERE uid = :job_id) AND t.id < :after"
    newest = f"{of_job} ORDER BY t.id DESC LIMIT :limit"
    return rows.ASSET.all(db, newest, job_id=job_id, after=after or LAST, limit=limit)


def clearings(db: Db, limit: int) -> tuple[str, ...]:
    """Folders of what was deleted, whose files may still be there; the oldest first."""
    oldest = "SELECT folder FROM clearings ORDER BY at, folder LIMIT :limit"
    return tuple(folder for (folder,) in db.execute(oldest, {"limit": limit}))


def artifact(db: Db, job_id: str, name: str, version: int | None) -> ArtifactView | None:
    """Read one version of an artifact, by default the current one."""
    of_name = "WHERE t.job = (SELECT id FROM jobs WHERE uid = :job_id) AND t.name = :name"
    which = "t.current = 1" if version is None else "t.version = :version"
    asked = {"job_id": job_id, "name": name, "version": version}
    found = db.execute(rows.ARTIFACT.select(f"{of_name} AND {which}"), asked).fetchone()
    if found is None:
        return None
    versions = f"SELECT version, created_at FROM artifacts t {of_name} ORDER BY version"  # noqa: S608
    artifact, unreadable = rows.artifact_as_far(found)
    return ArtifactView(artifact, tuple(db.execute(versions, asked)), unreadable)


def event(db: Db, job_id: str, event_id: str) -> tuple[str, str] | None:
    """The event's id and the digest of what it said, also of a job of which only a tombstone is
    left."""
    found: tuple[str, str] | None = db.execute(
        "SELECT e.event_id, e.digest FROM events e JOIN jobs j ON j.id = e.job "
        "WHERE j.uid = :job_id AND e.event_id = :event_id UNION ALL "
        "SELECT e.event_id, e.digest FROM kept_events e JOIN tombstones t ON t.id = e.tombstone "
        "WHERE t.uid = :job_id AND e.event_id = :event_id",
        {"job_id": job_id, "event_id": event_id},
    ).fetchone()
    return found


def door(db: Db, question: DoorQuestion, initial_credits: int) -> DoorFacts:
    scope = (question.user_id, question.workflow)
    minute = day = opened = 0
    if question.quota:
        opened = quota.open_jobs(db, *scope, MOST)
        minute = quota.submitted_by_hand(db, *scope, question.now - quota.MINUTE_MS, MOST)
        day = quota.submitted(db, *scope, question.now - quota.DAY_MS, MOST)
    return DoorFacts(
        known=_known(db, *scope, question.key_digest),
        derived=_known(db, *scope, question.derived_digest),
        singleton=_known(db, *scope, question.singleton_digest),
        balance=credits_of(db, question.user_id, initial_credits).balance,
        open_jobs=opened,
        last_minute=minute,
        last_day=day,
    )


def _known(db: Db, user_id: str, workflow: str, digest: str | None) -> KnownKey | None:
    if digest is None:
        return None
    found = db.execute(
        "SELECT job_id, body_digest FROM keys "
        "WHERE user_id = ? AND workflow = ? AND digest IN (?, ?)",
        (user_id, workflow, digest, digest_before(digest)),
    ).fetchone()
    return KnownKey(found[0], found[1], job(db, found[0])) if found else None


CREDITS = Columns(Credits, "accounts t")


def credits_of(db: Db, user_id: str, initial_credits: int) -> Credits:
    """Read an account; one that is not there yet has what an account starts with."""
    found = CREDITS.one(db, "WHERE t.user_id = :user_id", user_id=user_id)
    return found or Credits(user_id, initial_credits, 0)


AT_ONCE = rows.text(sorted(OF_HELD_WORK))
TIMER = Columns(
    DueTimer, "timers t CROSS JOIN jobs j ON j.id = t.job", elsewhere={"job_id": "j.uid"}
)
DUE = """
    WHERE t.due_at > :after AND t.due_at <= :now AND j.stuck IS NULL
        AND j.workflow IN (SELECT value FROM json_each(:workflows))
        AND ((j.paused = 0 AND j.workflow NOT IN (SELECT name FROM pauses WHERE scope = 'workflow'))
            OR t.purpose IN (SELECT value FROM json_each(:at_once)))
    ORDER BY t.due_at LIMIT :limit
"""


def due_timers(
    db: Db, now: int, limit: int, workflows: tuple[str, ...], after: int = -1
) -> tuple[DueTimer, ...]:
    """Earliest first. A stuck job keeps its timers until it is released; one that is
    paused keeps those that are not of work somebody holds until it is resumed."""
    span = {"after": after, "now": now, "limit": limit}
    return TIMER.all(db, DUE, **span, workflows=rows.text(workflows), at_once=AT_ONCE)


def next_timer(db: Db, workflows: tuple[str, ...], after: int = -1) -> int | None:
    span = {"after": after, "now": LAST, "limit": 1}
    found = TIMER.one(db, DUE, **span, workflows=rows.text(workflows), at_once=AT_ONCE)
    return found.due_at if found else None


def line_length(db: Db) -> int:
    return int(db.execute("SELECT coalesce(sum(in_line), 0) FROM tally").fetchone()[0])


OPEN = Columns(
    OpenAttempt,
    "attempts t INDEXED BY attempts_running JOIN jobs j ON j.id = t.job",
    elsewhere={
        "job_id": "j.uid",
        "started_at": "coalesce(t.attempt ->> 'started_at', 0)",
        "stage": "coalesce(t.attempt ->> 'stage', '')",
    },
)


def open_attempts(db: Db, epoch: int) -> tuple[OpenAttempt, ...]:
    in_process = "t.status = 'running' AND t.epoch < :epoch AND t.holder = 'stage'"
    return OPEN.all(db, f"WHERE {in_process} ORDER BY t.job, t.serial", epoch=epoch)


LIFE = Columns(LastLife, "lives t")


def last_life(db: Db, epoch: int) -> LastLife | None:
    """Read the life that left attempts running, else the one before this: a command that opened the
    file in between is not what died."""
    return LIFE.one(
        db,
        "WHERE t.epoch = coalesce((SELECT max(epoch) FROM attempts "
        "WHERE status = 'running' AND epoch < :epoch AND holder = 'stage'), "
        "(SELECT max(epoch) FROM lives WHERE epoch < :epoch))",
        epoch=epoch,
    )


def declarations(db: Db) -> tuple[tuple[str, str, bytes], ...]:
    """Name, digest and data of every declaration ever stored, oldest first."""
    return tuple(db.execute("SELECT name, digest, data FROM definitions ORDER BY id"))


def counts(db: Db) -> Counts:
    found = db.execute(
        "SELECT workflow, status, jobs FROM tally WHERE jobs > 0 ORDER BY workflow, status"
    ).fetchall()
    timers = db.execute("SELECT count(*) FROM timers").fetchone()[0]
    return Counts(tuple(found), line_length(db), int(timers))
