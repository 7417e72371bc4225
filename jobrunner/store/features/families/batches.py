"""Batches in the file. The commit that ends the last job of one ends the batch, and puts what is to
be told of that into the outbox, beside that job.

In the order of these statements jobs come and end first, then a batch is closed, then it is seen
whether it is over: so the units of one set may stand in any order.
"""

from collections.abc import Iterator

from jobrunner.core.decision import Decision
from jobrunner.core.features.families.batches import (
    Batch,
    BatchClosed,
    BatchCounts,
    BatchForgotten,
    BatchItem,
    BatchRefused,
    BatchUnit,
    NewBatch,
)
from jobrunner.core.features.families.parentage import Kin, Standing
from jobrunner.core.instants import text_of
from jobrunner.core.job import Snapshot
from jobrunner.store.askable import asks
from jobrunner.store.columns import Columns
from jobrunner.store.jobs import LAST, Db, job
from jobrunner.store.statements import Row, Statement, insert

STANDS: dict[Standing, int] = {"": 0, "well": 1, "ill": 2}

BATCH = Statement(
    insert("batches", "uid user_id key open unended notify_url lane rerun_of created_at"),
    taken="exists",
)
BATCHES_FORGOTTEN = Statement("""
    DELETE FROM batches WHERE id IN
        (SELECT id FROM batches WHERE ended_at < :before ORDER BY ended_at LIMIT :most)
""")
# Refused when the batch is closed, or has a job of this key.
BATCH_JOB = Statement(
    """
    INSERT INTO batch_items (batch, key, job, uid, ended)
    SELECT id, :key, :job, :uid, :ended FROM batches WHERE uid = :batch AND open = 1
    ON CONFLICT (batch, key) DO UPDATE SET job = excluded.job, uid = excluded.uid,
        ended = excluded.ended, code = '', detail = '' WHERE batch_items.uid = ''
    """,
    missed="batch",
)
BATCH_TURNED = Statement("UPDATE batch_items SET ended = :ended WHERE job = :job")
BATCH_COUNTED = Statement("UPDATE batches SET unended = unended + :more WHERE uid = :batch")
BATCH_REFUSED = Statement("""
    INSERT INTO batch_items (batch, key, code, detail)
    SELECT id, :key, :code, :detail FROM batches WHERE uid = :batch
    ON CONFLICT (batch, key) DO UPDATE SET code = excluded.code, detail = excluded.detail
        WHERE batch_items.uid = ''
""")
BATCH_CLOSED = Statement(
    "UPDATE batches SET open = 0 WHERE uid = :batch AND open = 1", missed="missing"
)
BATCH_OVER = Statement("""
    UPDATE batches SET ended_at = :at
    WHERE uid = :batch AND open = 0 AND unended = 0 AND ended_at IS NULL
""")
OVER_NOW = "b.uid = :batch AND b.ended_at = :at AND b.notify_url <> ''"
BATCH_ENDPOINT = Statement(f"""
    INSERT INTO endpoints (owner, url) SELECT b.user_id, b.notify_url FROM batches b
    WHERE {OVER_NOW} AND EXISTS (SELECT 1 FROM batch_items i WHERE i.batch = b.id AND i.job > 0)
    ON CONFLICT (owner, url) DO NOTHING
""")  # noqa: S608 - texts of our own
BATCH_TOLD = Statement(f"""
    INSERT INTO deliveries (uid, job, endpoint, owner, lane, type, body, created_at, status, due_at,
        note)
    SELECT b.uid || '-ended', beside, e.id, b.user_id, b.lane, 'batch.ended', json_object(
            'type', 'batch.ended', 'timestamp', :timestamp, 'data', json_object(
                'batch_id', b.uid, 'user_id', b.user_id, 'key', b.key, 'well', well, 'ill', ill,
                'refused', refused)),
        :at, iif(e.disabled_at IS NULL, 'due', 'disabled'), iif(e.disabled_at IS NULL, :at, NULL),
        iif(e.disabled_at IS NULL, '', 'the endpoint is disabled')
    FROM batches b JOIN endpoints e ON e.owner = b.user_id AND e.url = b.notify_url
    JOIN (SELECT batch, max(job) AS beside, sum(ended = 1) AS well, sum(ended = 2) AS ill,
            sum(uid = '') AS refused FROM batch_items
        WHERE batch = (SELECT id FROM batches WHERE uid = :batch)) ON batch = b.id
    WHERE {OVER_NOW} AND beside IS NOT NULL
    ON CONFLICT (uid) DO NOTHING
""")  # noqa: S608 - texts of our own
BATCH_GONE = Statement(
    "DELETE FROM batches WHERE uid = :batch AND ended_at IS NOT NULL AND unended = 0",
    missed="missing",
)
BATCHES_IN_ORDER = (BATCHES_FORGOTTEN, BATCH, BATCH_JOB, BATCH_TURNED, BATCH_COUNTED, BATCH_REFUSED,
                    BATCH_CLOSED, BATCH_OVER, BATCH_ENDPOINT, BATCH_TOLD, BATCH_GONE)  # fmt: skip


def member_rows(decision: Decision, after: Snapshot, kin: Kin) -> Iterator[Row]:
    """Make the rows of a job that comes into its batch, ends, or is revived."""
    link = after.batch
    if link is None:
        return
    ended = STANDS[kin.stands]
    if decision.before is None:
        yield BATCH_JOB.row(batch=link.id, key=link.key, job=after.row, uid=after.id, ended=ended)
        yield BATCH_COUNTED.row(batch=link.id, more=int(not ended))
    elif kin.stood != kin.stands:
        yield BATCH_TURNED.row(job=after.row, ended=ended)
        if more := (not ended) - (not kin.stood):
            yield BATCH_COUNTED.row(batch=link.id, more=more)
            yield from _perhaps_over(link.id, after.updated_at)


def batch_rows(unit: BatchUnit) -> Iterator[Row]:
    match unit:
        case NewBatch():
            yield BATCH.row(
                uid=unit.id, user_id=unit.user_id, key=unit.key, open=1, unended=0,
                notify_url=unit.notify_url, lane=unit.lane, rerun_of=unit.rerun_of,
                created_at=unit.at,
            )  # fmt: skip
        case BatchRefused():
            for key, code, detail in unit.items:
                yield BATCH_REFUSED.row(batch=unit.batch, key=key, code=code, detail=detail)
        case BatchClosed():
            yield BATCH_CLOSED.row(batch=unit.batch)
            yield from _perhaps_over(unit.batch, unit.at)
        case BatchForgotten():
            yield BATCH_GONE.row(batch=unit.batch)


def _perhaps_over(batch_id: str, at: int) -> Iterator[Row]:
    yield BATCH_OVER.row(batch=batch_id, at=at)
    yield BATCH_ENDPOINT.row(batch=batch_id, at=at)
    yield BATCH_TOLD.row(batch=batch_id, at=at, timestamp=text_of(at))


# ---------------------------------------------------------------- answers


BATCHES = Columns(Batch, "batches t", elsewhere={"row": "t.id", "id": "t.uid"}, read={"open": bool})
OF_BATCH = "i.batch = (SELECT id FROM batches WHERE uid = :batch_id)"
ITEM = "SELECT i.key, i.uid, i.code, i.detail FROM batch_items i"


def batch(db: Db, batch_id: str) -> Batch | None:
    return BATCHES.one(db, "WHERE t.uid = :batch_id", batch_id=batch_id)


def batch_of_key(db: Db, user_id: str, key: str) -> Batch | None:
    return BATCHES.one(db, "WHERE t.user_id = :user_id AND t.key = :key", user_id=user_id, key=key)


def batches(db: Db, user_id: str | None, limit: int, after: int | None) -> tuple[Batch, ...]:
    """Newest first."""
    mine = "" if user_id is None else "AND t.user_id = :user_id"
    newest = f"WHERE t.id < :after {mine} ORDER BY t.id DESC LIMIT :limit"
    return BATCHES.all(db, newest, after=after or LAST, user_id=user_id, limit=limit)


def batch_item(db: Db, batch_id: str, key: str) -> tuple[BatchItem, Snapshot | None] | None:
    """The item of a key in a batch, and its job, if that is there."""
    asked = {"batch_id": batch_id, "key": key}
    found = db.execute(f"{ITEM} WHERE {OF_BATCH} AND i.key = :key", asked).fetchone()
    if found is None:
        return None
    item = BatchItem(*found)
    return item, (job(db, item.job_id) if item.job_id else None)


def batch_counts(db: Db, batch_id: str) -> BatchCounts:
    asked = {"batch_id": batch_id}
    well, ill, unended, deleted, refused = db.execute(
        "SELECT count(*) FILTER (WHERE ended = 1), count(*) FILTER (WHERE ended = 2), "  # noqa: S608
        "count(*) FILTER (WHERE ended = 0 AND uid <> ''), "
        "count(*) FILTER (WHERE job IS NULL AND uid <> ''), count(*) FILTER (WHERE uid = '') "
        f"FROM batch_items i WHERE {OF_BATCH}",
        asked,
    ).fetchone()
    by_status = db.execute(
        "SELECT j.status, count(*) FROM batch_items i JOIN jobs j ON j.id = i.job "  # noqa: S608
        f"WHERE {OF_BATCH} GROUP BY j.status ORDER BY j.status",
        asked,
    )
    return BatchCounts(dict(by_status), well, ill, unended, deleted, refused)


def batch_refusals(db: Db, batch_id: str, limit: int) -> tuple[BatchItem, ...]:
    refused = f"{ITEM} WHERE {OF_BATCH} AND i.uid = '' ORDER BY i.key LIMIT :limit"
    return tuple(
        BatchItem(*row) for row in db.execute(refused, {"batch_id": batch_id, "limit": limit})
    )


def batch_jobs(db: Db, batch_id: str, ended: int, after: str, limit: int) -> tuple[str, ...]:
    """List the jobs of a batch in the order of their ids, without deleted ones."""
    found = db.execute(
        f"SELECT i.uid FROM batch_items i WHERE {OF_BATCH} AND i.ended = :ended "  # noqa: S608
        "AND i.job IS NOT NULL AND i.uid > :after ORDER BY i.uid LIMIT :limit",
        {"batch_id": batch_id, "ended": ended, "after": after, "limit": limit},
    )
    return tuple(uid for (uid,) in found)


class BatchAnswers:
    """The part of the reader that answers these."""

    batch = asks(batch)
    batch_of_key = asks(batch_of_key)
    batches = asks(batches)
    batch_item = asks(batch_item)
    batch_counts = asks(batch_counts)
    batch_refusals = asks(batch_refusals)
    batch_jobs = asks(batch_jobs)
