"""Families in the file: whose child a job is, what a parent waits for, and who is to be told.

Because of the order of these statements it makes no difference in which order the commits of a
parent and of its children stand in one batch: children turn first, then a wait is counted anew.
"""

from collections.abc import Iterator

from jobrunner.core.decision import Decision
from jobrunner.core.features.families.parentage import JobsAwaited, Kin
from jobrunner.core.features.families.relatives import (
    ChildRow,
    Family,
    FamilyCount,
    Parting,
    WaitOver,
)
from jobrunner.core.job import Snapshot
from jobrunner.store.askable import asks
from jobrunner.store.features.families.batches import STANDS, member_rows
from jobrunner.store.jobs import LAST, Db, job
from jobrunner.store.rows import text
from jobrunner.store.statements import Row, Statement

# Refused when the attempt that submits is over by then: its job's children are all known.
CHILD = Statement(
    """
    INSERT INTO children (parent, job, uid, run_id, key, at_end, ended, user_id, workflow, at)
    SELECT p.id, :job, :uid, :run_id, :key, :at_end, :ended, :user_id, :workflow, :at
    FROM jobs p JOIN attempts a ON a.job = p.id AND a.serial = :serial AND a.status = 'running'
    WHERE p.uid = :parent
    """,
    missed="parent",
    taken="key",
)
CHILD_TURNED = Statement("UPDATE children SET ended = :ended WHERE job = :job")
WAIT_NEARER = Statement("""
    UPDATE family_waits SET due = due - :well - iif(counts_any, :ill, 0), spare = spare - :ill
    WHERE job = (SELECT parent FROM children WHERE job = :job AND awaited = 1)
""")
UNMARKED = Statement("UPDATE children SET awaited = 0 WHERE parent = :job AND awaited = 1")
MARKED = Statement("""
    UPDATE children SET awaited = 1
    WHERE parent = :job AND uid IN (SELECT value FROM json_each(:ids))
""")
WAIT = Statement("""
    INSERT INTO family_waits (job, serial, due, spare, counts_any)
    SELECT :job, :serial,
        :at_least - count(*) FILTER (WHERE ended = 1 OR (:counts_any AND ended = 2)),
        :spare - count(*) FILTER (WHERE ended = 2), :counts_any
    FROM children WHERE parent = :job AND awaited = 1
    ON CONFLICT (job) DO UPDATE SET serial = excluded.serial, due = excluded.due,
        spare = excluded.spare, counts_any = excluded.counts_any
""")
WAIT_OVER = Statement("DELETE FROM family_waits WHERE job = :job")
PARTING = Statement("""
    INSERT INTO partings (job, last, at)
    SELECT parent, max(id), :at FROM children WHERE parent = :job AND ended = 0 GROUP BY parent
    ON CONFLICT (job) DO UPDATE SET last = excluded.last
""")
PARTED = Statement("DELETE FROM partings WHERE job = :job AND last = :last")
FAMILY_IN_ORDER = (CHILD, CHILD_TURNED, WAIT_NEARER, UNMARKED, MARKED, WAIT, WAIT_OVER, PARTING,
                   PARTED)  # fmt: skip


def family_rows(decision: Decision, kin: Kin, after: Snapshot) -> Iterator[Row]:
    """Make the rows of what a decision means to parent and children."""
    yield from member_rows(decision, after, kin)
    if after.parent is not None and decision.before is None:
        yield _born(after, kin)
    elif after.parent is not None and kin.stood != kin.stands:
        yield from _turned(after, kin)
    if kin.awaits is not None:
        yield from _waiting(after, kin.awaits)
    elif kin.goes_on:
        yield WAIT_OVER.row(job=after.row)
    if kin.ends:
        yield PARTING.row(job=after.row, at=after.updated_at)


def _born(child: Snapshot, kin: Kin) -> Row:
    parent = child.parent
    assert parent is not None, f"job {child.id} is nobody's child"
    return CHILD.row(
        parent=parent.job_id, job=child.row, uid=child.id, run_id=parent.run_id, key=parent.key,
        serial=parent.serial, at_end=parent.at_end, ended=STANDS[kin.stands],
        user_id=child.user_id, workflow=child.workflow, at=child.created_at,
    )  # fmt: skip


def _turned(child: Snapshot, kin: Kin) -> Iterator[Row]:
    """Turn a child's row. A settled child may be revived, so it can also take back what it had
    counted for."""
    yield CHILD_TURNED.row(job=child.row, ended=STANDS[kin.stands])
    well = (kin.stands == "well") - (kin.stood == "well")
    ill = (kin.stands == "ill") - (kin.stood == "ill")
    yield WAIT_NEARER.row(job=child.row, well=well, ill=ill)


def _waiting(job: Snapshot, awaited: JobsAwaited) -> Iterator[Row]:
    yield UNMARKED.row(job=job.row)
    yield MARKED.row(job=job.row, ids=text(awaited.ids))
    yield WAIT.row(
        job=job.row, serial=job.serial, at_least=awaited.at_least, spare=awaited.spare,
        counts_any=awaited.counts_any,
    )  # fmt: skip


# ---------------------------------------------------------------- answers


OF_PARENT = "c.parent = (SELECT id FROM jobs WHERE uid = :parent_id)"
NAMED = "c.uid IN (SELECT value FROM json_each(:ids))"


def child(db: Db, parent_id: str, run_id: str, key: str) -> tuple[str, Snapshot | None] | None:
    """Find the child that a run knows by this key; without its job, if that was deleted."""
    found = db.execute(
        f"SELECT c.uid FROM children c WHERE {OF_PARENT} AND c.run_id = :run_id AND c.key = :key",  # noqa: S608
        {"parent_id": parent_id, "run_id": run_id, "key": key},
    ).fetchone()
    return (found[0], job(db, found[0])) if found else None


def family(db: Db, parent_id: str, ids: tuple[str, ...]) -> Family:
    """Count these children of a job by how they stand."""
    asked = {"parent_id": parent_id, "ids": text(ids)}
    found = db.execute(
        "SELECT count(*), count(*) FILTER (WHERE c.ended = 1), "  # noqa: S608
        f"count(*) FILTER (WHERE c.ended = 2) FROM children c WHERE {OF_PARENT} AND {NAMED}",
        asked,
    ).fetchone()
    return Family(*found)


def children_named(db: Db, parent_id: str, ids: tuple[str, ...]) -> tuple[ChildRow, ...]:
    """These children of a job, with their jobs as they stand. They are looked up one by one: a look
    at a few must not read all their siblings, for all of them are looked at in pages."""
    asked = {"parent_id": parent_id, "ids": text(ids)}
    found = db.execute(
        "SELECT c.uid, c.key, c.ended, (SELECT status FROM tombstones WHERE uid = c.uid) "  # noqa: S608
        "FROM (SELECT DISTINCT value FROM json_each(:ids)) AS named "
        f"CROSS JOIN children c ON c.uid = named.value WHERE {OF_PARENT}",
        asked,
    ).fetchall()
    return tuple(
        ChildRow(uid, key, ended == STANDS["well"], gone or "", None if gone else job(db, uid))
        for uid, key, ended, gone in found
    )


def family_size(db: Db, parent_id: str) -> int:
    asked = {"parent_id": parent_id}
    found = db.execute(f"SELECT count(*) FROM children c WHERE {OF_PARENT}", asked)  # noqa: S608
    return int(found.fetchone()[0])


def family_counts(db: Db, parent_id: str) -> tuple[FamilyCount, ...]:
    """Count the children of a job by workflow and status; of deleted ones the status is empty."""
    found = db.execute(
        "SELECT c.workflow, coalesce(j.status, ''), count(*) FROM children c "  # noqa: S608
        f"LEFT JOIN jobs j ON j.id = c.job WHERE {OF_PARENT} GROUP BY 1, 2 ORDER BY 1, 2",
        {"parent_id": parent_id},
    )
    return tuple(FamilyCount(*row) for row in found)


def open_children(
    db: Db, parent_id: str, after: int, limit: int, at_end: str = "", last: int = LAST
) -> tuple[tuple[int, str], ...]:
    """Keys and ids of those that go on, oldest first, from behind a key to the last one."""
    asked = {"parent_id": parent_id, "after": after, "limit": limit, "at_end": at_end, "last": last}
    found = db.execute(
        f"SELECT c.id, c.uid FROM children c WHERE {OF_PARENT} AND c.ended = 0 "  # noqa: S608
        "AND c.id > :after AND c.id <= :last AND (:at_end = '' OR c.at_end = :at_end) "
        "ORDER BY c.id LIMIT :limit",
        asked,
    )
    return tuple(found)


def waits_over(db: Db, after: int, limit: int) -> tuple[WaitOver, ...]:
    """Parents that are to be told, from behind one."""
    found = db.execute(
        "SELECT w.job, j.uid, w.serial FROM family_waits w JOIN jobs j ON j.id = w.job "
        "WHERE (w.due <= 0 OR w.spare <= 0) AND w.job > :after ORDER BY w.job LIMIT :limit",
        {"after": after, "limit": limit},
    )
    return tuple(WaitOver(*row) for row in found)


def partings(db: Db, limit: int) -> tuple[Parting, ...]:
    """Parents that ended before their children, the first to have done so first."""
    found = db.execute(
        "SELECT p.job, p.last, j.uid FROM partings p JOIN jobs j ON j.id = p.job "
        "ORDER BY p.at, p.job LIMIT :limit",
        {"limit": limit},
    )
    return tuple(Parting(*row) for row in found)


class FamilyAnswers:
    """The part of the reader that answers these."""

    child = asks(child)
    family = asks(family)
    children_named = asks(children_named)
    family_size = asks(family_size)
    family_counts = asks(family_counts)
    open_children = asks(open_children)
    waits_over = asks(waits_over)
    partings = asks(partings)
