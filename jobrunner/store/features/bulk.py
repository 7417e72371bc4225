"""Bulks in the file: their orders, their items and how each ended."""

import sqlite3
from collections.abc import Iterator

import msgspec
from msgspec import structs

from jobrunner.core.features.bulk import (
    Bulk,
    BulkItem,
    BulkTurned,
    MoreItems,
    NewBulk,
    Orders,
    Tick,
    Ticked,
)
from jobrunner.core.units import AuditRecord
from jobrunner.store import statements as sql
from jobrunner.store.askable import asks
from jobrunner.store.columns import Columns
from jobrunner.store.features import statements as beside
from jobrunner.store.features.audit import audit_row
from jobrunner.store.rows import text
from jobrunner.store.statements import Row

LAST = 2**63 - 1
KEPT_MS = 30 * 86_400_000

Db = sqlite3.Connection


def bulk_rows(unit: NewBulk | MoreItems | BulkTurned | Ticked) -> Iterator[Row]:
    match unit:
        case NewBulk():
            yield beside.BULK_OLD.row(before=unit.at - KEPT_MS)
            yield beside.BULK.row(
                uid=unit.id, orders=text(unit.orders), actor=unit.actor, created_at=unit.at
            )
        case MoreItems():
            for place, job_id in enumerate(unit.job_ids, unit.first):
                yield beside.BULK_ITEM.row(bulk=unit.bulk, place=place, job_id=job_id)
        case BulkTurned():
            over = unit.status in ("done", "aborted")
            ended_at = unit.at if over else None
            yield beside.BULK_TURNED.row(bulk=unit.bulk, status=unit.status, ended_at=ended_at)
            event = "bulk.started" if unit.status == "running" else f"bulk.{unit.status}"
            said = {"bulk": unit.bulk, "command": unit.command, "total": unit.total}
            yield audit_row(AuditRecord(event, unit.actor, said), unit.at)
        case Ticked():
            yield tick_row(unit.tick)


def tick_row(tick: Tick) -> Row:
    return sql.TICK.row(**structs.asdict(tick))


# ---------------------------------------------------------------- questions


_orders = msgspec.json.Decoder(Orders)
BULK = Columns(
    Bulk,
    "bulks t LEFT JOIN bulk_items i ON i.bulk = t.id",
    elsewhere={
        "id": "t.uid",
        "total": "count(i.place)",
        "done": "coalesce(sum(i.outcome = 'done'), 0)",
        "satisfied": "coalesce(sum(i.outcome = 'satisfied'), 0)",
        "failed": "coalesce(sum(i.outcome = 'failed'), 0)",
    },
    read={"orders": _orders.decode},
)
ITEMS = "bulk_items t JOIN bulks b ON b.id = t.bulk"
ITEM = Columns(BulkItem, ITEMS, without=("outcome", "code", "detail"))
ENDED_ITEM = Columns(BulkItem, ITEMS)


def bulk(db: Db, bulk_id: str) -> Bulk | None:
    return BULK.one(db, "WHERE t.uid = :bulk_id GROUP BY t.id", bulk_id=bulk_id)


def bulk_list(db: Db, limit: int, after: int | None) -> tuple[tuple[int, Bulk], ...]:
    """List bulks with their keys, newest first, from behind this one."""
    asked = {"limit": limit, "after": LAST if after is None else after}
    page = "SELECT id, uid FROM bulks WHERE id < :after ORDER BY id DESC LIMIT :limit"
    found = [(key, bulk(db, uid)) for key, uid in db.execute(page, asked).fetchall()]
    return tuple((key, one) for key, one in found if one is not None)


def open_bulks(db: Db) -> tuple[Bulk, ...]:
    """List bulks that a process is at, or left behind; oldest first."""
    return BULK.all(db, "WHERE t.status IN ('gathering', 'running') GROUP BY t.id ORDER BY t.id")


def bulk_ahead(db: Db, bulk_id: str, limit: int) -> tuple[BulkItem, ...]:
    """Items that are still to be done, in order."""
    ahead = "WHERE b.uid = :bulk_id AND t.outcome IS NULL ORDER BY t.place LIMIT :limit"
    return ITEM.all(db, ahead, bulk_id=bulk_id, limit=limit)


def bulk_failures(db: Db, bulk_id: str, limit: int, after: int | None) -> tuple[BulkItem, ...]:
    failed = "WHERE b.uid = :bulk_id AND t.outcome = 'failed' AND t.place > :after"
    behind = -1 if after is None else after
    return ENDED_ITEM.all(
        db, f"{failed} ORDER BY t.place LIMIT :limit", bulk_id=bulk_id, after=behind, limit=limit
    )


class BulkAnswers:
    """The part of the reader that answers these."""

    bulk = asks(bulk)
    bulk_list = asks(bulk_list)
    open_bulks = asks(open_bulks)
    bulk_ahead = asks(bulk_ahead)
    bulk_failures = asks(bulk_failures)
