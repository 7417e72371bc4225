"""Finds what is due to be removed, by indexes that begin with the oldest, and makes the rows that
remove it.

Whatever hangs on a job goes with it by cascade. Its keys lead to the tombstone from then on,
because they name the job by its public id, until the tombstone goes and takes them along.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any

from jobrunner.core.job import Snapshot
from jobrunner.core.keeping.retention import (
    Expire,
    FileIdle,
    FilesUsed,
    IdleFiles,
    Lot,
    LotCount,
    Naming,
    Overdue,
    Prune,
    RetentionTerms,
    RipeJob,
    RipePage,
    StepLimits,
    before,
)
from jobrunner.core.units import AuditRecord, Forget
from jobrunner.store import statements as sql
from jobrunner.store.features.audit import audit_row
from jobrunner.store.features.bulk import tick_row
from jobrunner.store.features.families.batches import BATCHES_FORGOTTEN
from jobrunner.store.features.schedules.schedule_statements import FIRINGS_FORGOTTEN
from jobrunner.store.rows import FROM_JOBS, SELECT_BRIEF, brief_job, parsed, stands, text
from jobrunner.store.statements import Row, Statement

Db = sqlite3.Connection
UNITS = (Prune, Expire, FilesUsed, FileIdle)
LAST = 2**63 - 1
EXCESS_MAX = 2_000


def _without_oldest(table: str, at: str) -> str:
    oldest = f"SELECT id FROM {table} WHERE {at} < :before ORDER BY {at}, id LIMIT :most"  # noqa: S608 - names of our own
    return f"DELETE FROM {table} WHERE id IN ({oldest})"  # noqa: S608 - names of our own


KEYS_FORGOTTEN = Statement("""DELETE FROM keys WHERE job_id IN
    (SELECT uid FROM tombstones WHERE deleted_at < :before ORDER BY deleted_at, id LIMIT :most)
""")
TOMBSTONES_FORGOTTEN = Statement(_without_oldest("tombstones", "deleted_at"))
ASSET_USED = Statement("UPDATE assets SET used_at = :at WHERE uid = :id AND job IS NULL")
# Jobs are numbered before they are written: so many may come with a number that was passed, where
# those of a whole line let others go first.
ASSET_IDLE = Statement(
    """
    DELETE FROM assets WHERE uid = :id AND job IS NULL AND NOT EXISTS
        (SELECT 1 FROM jobs j JOIN payloads p ON p.job = j.id
         WHERE j.user_id = assets.user_id AND j.id > :looked_to - 16384 AND instr(p.params, :id))
    """,
    missed="missing",
)
AUDIT_FORGOTTEN = Statement(_without_oldest("audit", "at"))
DEAD_LETTERS_FORGOTTEN = Statement(_without_oldest("dead_letters", "at"))
# None of them shares a unit with what it would have to come before.
RETENTION_IN_ORDER = (KEYS_FORGOTTEN, TOMBSTONES_FORGOTTEN, AUDIT_FORGOTTEN,
                      DEAD_LETTERS_FORGOTTEN, ASSET_USED, ASSET_IDLE)  # fmt: skip


def forgotten(forget: Forget) -> Iterator[Row]:
    """A job that somebody deletes, with a record of that."""
    if forget.tick is not None:
        yield tick_row(forget.tick)
    yield from _gone(forget.job, forget.at, forget.folders)
    record = AuditRecord("job.deleted", forget.actor, {"status": forget.job.status})
    yield audit_row(record, forget.at, forget.job.id)


def retention_rows(unit: Prune | Expire | FilesUsed | FileIdle) -> Iterator[Row]:
    match unit:
        case Prune():
            for one in unit.jobs:
                yield from _gone(one.job, unit.at, one.folders)
        case Expire():
            for statement in EXPIRES[unit.of]:
                yield statement.row(before=unit.before, most=unit.most)
        case FilesUsed():
            yield from (ASSET_USED.row(id=one, at=unit.at) for one in unit.asset_ids)
        case FileIdle():
            yield ASSET_IDLE.row(id=unit.asset_id, looked_to=unit.looked_to)
            yield sql.CLEARING.row(folder=unit.folder, at=unit.at)


EXPIRES = {
    "keys": (KEYS_FORGOTTEN, TOMBSTONES_FORGOTTEN),
    "audit": (AUDIT_FORGOTTEN,),
    "dead_letters": (DEAD_LETTERS_FORGOTTEN,),
    "firings": (FIRINGS_FORGOTTEN,),
    "batches": (BATCHES_FORGOTTEN,),
}


def _gone(job: Snapshot, at: int, folders: tuple[str, ...]) -> Iterator[Row]:
    yield sql.TOMBSTONE.row(job=job.row, version=job.version, at=at)
    yield sql.EVENTS_KEPT.row(job=job.row)
    yield sql.JOB_GONE.row(job=job.row)
    yield from (sql.CLEARING.row(folder=folder, at=at) for folder in folders)
    status, in_line = stands(job)
    yield sql.TALLY.row(workflow=job.workflow, status=status, jobs=-1, in_line=-int(in_line))


# ---------------------------------------------------------------- answers


ENDED = "kind IN ('settled', 'final')"
# Where a status is ended in one declaration and not in another, its jobs are counted one by one.
PLACES = f"""
    SELECT t.workflow, t.status, CASE
        WHEN EXISTS (SELECT 1 FROM definitions d JOIN states s ON s.definition = d.id
            WHERE d.name = t.workflow AND s.name = t.status AND NOT s.{ENDED})
        THEN (SELECT count(*) FROM jobs j WHERE j.workflow = t.workflow AND j.status = t.status
            AND j.{ENDED})
        ELSE t.jobs END
    FROM tally t WHERE t.jobs > 0 AND EXISTS (SELECT 1 FROM definitions d
        JOIN states s ON s.definition = d.id
        WHERE d.name = t.workflow AND s.name = t.status AND s.{ENDED})
    ORDER BY t.workflow, t.status
"""  # noqa: S608 - texts of our own
OF_STATUS = f"j.workflow = :workflow AND j.status = :status AND j.{ENDED}"
OLDEST = f"""
    SELECT j.updated_at, j.id FROM jobs j WHERE {OF_STATUS} ORDER BY j.updated_at, j.id LIMIT :most
"""  # noqa: S608 - texts of our own
OLDER = f"SELECT count(*) FROM jobs j WHERE {OF_STATUS} AND j.updated_at < :before"  # noqa: S608
IN_LOT = f"""
    {OF_STATUS} AND j.updated_at BETWEEN :from_at AND :until
        AND (j.updated_at, j.id) > (:from_at, :from_row) AND (j.updated_at, j.id) <= (:until, :row)
    ORDER BY j.updated_at, j.id LIMIT :most
"""
# The reasons to wait: what is to be told of it has not been told yet; a child of it goes on.
WAITS = """(EXISTS (SELECT 1 FROM deliveries w WHERE w.job = j.id AND w.due_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM children w WHERE w.parent = j.id AND w.ended = 0))"""
RIPE = f"""
    {SELECT_BRIEF.partition(FROM_JOBS)[0]}, {WAITS},
        1 + (SELECT count(*) FROM history t WHERE t.job = j.id)
        + (SELECT count(*) FROM attempts t WHERE t.job = j.id)
        + (SELECT count(*) FROM artifacts t WHERE t.job = j.id)
        + (SELECT count(*) FROM assets t WHERE t.job = j.id)
        + (SELECT count(*) FROM events t WHERE t.job = j.id)
        + (SELECT count(*) FROM decisions t WHERE t.job = j.id)
        + (SELECT coalesce(sum(1 + t.tries), 0) FROM deliveries t WHERE t.job = j.id),
        length(j.rest) + coalesce(length(CAST(p.params AS BLOB)), 0)
        + coalesce(length(CAST(p.result AS BLOB)), 0)
        + (SELECT coalesce(sum(length(CAST(t.attempt AS BLOB))), 0) FROM attempts t
            WHERE t.job = j.id)
        + (SELECT coalesce(sum(length(CAST(t.value AS BLOB))), 0) FROM artifacts t
            WHERE t.job = j.id)
        + (SELECT coalesce(sum(length(CAST(t.body AS BLOB))), 0) FROM deliveries t
            WHERE t.job = j.id)
        + (SELECT coalesce(sum(length(t.data)), 0) FROM decisions t WHERE t.job = j.id),
        (SELECT json_group_array(t.storage_path) FROM assets t WHERE t.job = j.id)
    {FROM_JOBS} WHERE {IN_LOT}
"""  # noqa: S608 - texts of our own


COUNT = f"SELECT j.updated_at, j.id FROM jobs j WHERE {IN_LOT}"  # noqa: S608 - texts of our own
RECORDS = {
    "keys": ("tombstones", "deleted_at"),
    "audit": ("audit", "at"),
    "dead_letters": ("dead_letters", "at"),
    "firings": ("firings", "at"),
    "batches": ("batches", "ended_at"),
}
IDLE = """
    assets WHERE job IS NULL AND coalesce(used_at, created_at) < :moment
    ORDER BY coalesce(used_at, created_at)
"""
NAMED = """
    SELECT w.value FROM json_each(:ids) w WHERE EXISTS (
        SELECT 1 FROM jobs j JOIN payloads p ON p.job = j.id
        WHERE j.user_id = :user_id AND j.id > :after AND j.id <= :last
            AND (instr(p.params, w.value) OR EXISTS
                (SELECT 1 FROM artifacts a WHERE a.job = j.id AND instr(a.value, w.value))))
"""


def ended_counts(db: Db) -> tuple[tuple[str, str, int], ...]:
    """How many jobs have ended, by workflow and status."""
    return tuple(db.execute(PLACES))


def due_lots(db: Db, terms: RetentionTerms, now: int) -> tuple[Lot, ...]:
    """List the lots in which at least one job is due; to find none costs the same however many jobs
    there are."""
    ended: dict[str, dict[str, int]] = {}
    for workflow, status, count in ended_counts(db):
        ended.setdefault(workflow, {})[status] = count
    found: dict[tuple[str, str], Lot] = {}
    for workflow, counts in ended.items():
        lots = (*_aged(terms, workflow, counts, now), *_beyond(db, terms, workflow, counts))
        for lot in sorted(lots, key=lambda lot: (lot.until, lot.row)):
            found[workflow, lot.status] = lot
    return tuple(lot for lot in found.values() if counted(db, lot, None, 1).jobs)


def due_count(db: Db, terms: RetentionTerms, now: int) -> int:
    """Count the jobs that would go now, if all were done at once: as many entries of an index are
    read as are too old."""
    aged: dict[str, int] = {}
    counted: dict[str, int] = {}
    for workflow, status, count in ended_counts(db):
        due = 0
        if age_s := terms.age_s(workflow, status):
            about = {"workflow": workflow, "status": status, "before": before(now, age_s)}
            due = db.execute(OLDER, about).fetchone()[0]
        aged[workflow] = aged.get(workflow, 0) + due
        if not terms.spares(workflow, status):
            counted[workflow] = counted.get(workflow, 0) + count - due
    most = {workflow: terms.most(workflow) for workflow in counted}
    beyond = (left - kept for one, left in counted.items() if (kept := most[one]) is not None)
    return sum(aged.values()) + sum(max(many, 0) for many in beyond)


def _aged(terms: RetentionTerms, workflow: str, counts: dict[str, int], now: int) -> Iterator[Lot]:
    for status in counts:
        if age_s := terms.age_s(workflow, status):
            yield Lot(workflow, status, before(now, age_s) - 1, LAST)


def _beyond(db: Db, terms: RetentionTerms, workflow: str, counts: dict[str, int]) -> Iterator[Lot]:
    """The oldest of those that are too many: so many at a time."""
    most = terms.most(workflow)
    counted = [status for status in counts if not terms.spares(workflow, status)]
    excess = 0 if most is None else sum(counts[status] for status in counted) - most
    if excess <= 0:
        return
    many = min(excess, EXCESS_MAX)
    asked = {"workflow": workflow, "most": many}
    oldest = [
        (at, row, status)
        for status in counted
        for at, row in db.execute(OLDEST, {**asked, "status": status})
    ]
    ends = {status: (at, row) for at, row, status in sorted(oldest)[:many]}
    yield from (Lot(workflow, status, at, row, aged=False) for status, (at, row) in ends.items())


def counted(db: Db, lot: Lot, after: tuple[int, int] | None, most: int) -> LotCount:
    """A page of how many there are."""
    found = db.execute(COUNT, _asked(lot, after, most)).fetchall()
    return LotCount(len(found), found[-1] if len(found) == most else None)


def ripe_jobs(db: Db, lot: Lot, after: tuple[int, int] | None, limits: StepLimits) -> RipePage:
    """Pick as many due jobs as fit into a step, oldest first. What hangs on them is looked at one
    by one, so that no more is read than goes."""
    found: list[RipeJob] = []
    held = looked = rows = size = 0
    for row in db.execute(RIPE, _asked(lot, after, limits.jobs)):
        *_, waits, own_rows, own_bytes, paths = row
        job = brief_job(row)
        rows, size = rows + own_rows, size + own_bytes
        if found and (rows > limits.rows or size > limits.bytes):
            return RipePage(tuple(found), after, held)
        looked, after = looked + 1, (job.updated_at, job.row)
        held += waits
        if not waits:
            found.append(RipeJob(job, own_rows, own_bytes, tuple(parsed(paths))))
    return RipePage(tuple(found), after if looked == limits.jobs else None, held)


def _asked(lot: Lot, after: tuple[int, int] | None, most: int) -> dict[str, Any]:
    from_at, from_row = after or (-1, -1)
    about = {"workflow": lot.workflow, "status": lot.status, "until": lot.until, "row": lot.row}
    return about | {"from_at": from_at, "from_row": from_row, "most": most}


def overdue(db: Db, terms: RetentionTerms, now: int, most: int) -> tuple[Overdue, ...]:
    """Kinds of records of which some are due; at most so many are counted."""
    found = []
    for of, moment in terms.records(now).items():
        table, at = RECORDS[of]
        page = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {at} < :before LIMIT :most)"  # noqa: S608 - names of our own
        count = db.execute(page, {"before": moment, "most": most}).fetchone()[0]
        found += [Overdue(of, moment, count)] if count else []
    return tuple(found)


def idle_files(db: Db, moment: int, most: int) -> IdleFiles | None:
    """List idle files of the owner who has the oldest."""
    asked = {"moment": moment, "most": most}
    oldest = db.execute(f"SELECT user_id FROM {IDLE} LIMIT 1", asked).fetchone()  # noqa: S608
    if oldest is None:
        return None
    found = db.execute(
        f"SELECT uid, storage_path FROM {IDLE.replace('ORDER', 'AND user_id = :of ORDER')} "  # noqa: S608
        "LIMIT :most",
        {**asked, "of": oldest[0]},
    )
    return IdleFiles(oldest[0], tuple((uid, path.rpartition("/")[0]) for uid, path in found))


def idle_count(db: Db, moment: int, most: int) -> int:
    """How many files are to be looked for in jobs; at most so many are counted."""
    page = f"SELECT count(*) FROM (SELECT 1 FROM {IDLE} LIMIT :most)"  # noqa: S608 - texts of our own
    return int(db.execute(page, {"moment": moment, "most": most}).fetchone()[0])


def naming(db: Db, user_id: str, asset_ids: tuple[str, ...], after: int, most: int) -> Naming:
    """Looks at a page of the owner's jobs, oldest first."""
    asked = {"user_id": user_id, "ids": text(asset_ids), "after": after, "most": most}
    looked, last = db.execute(
        "SELECT count(*), coalesce(max(id), :after) FROM (SELECT id FROM jobs "
        "WHERE user_id = :user_id AND id > :after ORDER BY id LIMIT :most)",
        asked,
    ).fetchone()
    named = db.execute(NAMED, {**asked, "last": last})
    return Naming(frozenset(one for (one,) in named), last, looked == most)
