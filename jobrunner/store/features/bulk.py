"""What people do to more than one job: pauses of workflows and stages, and bulks. Rows out, and
questions in."""

import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import structs

from jobrunner.core.decision import AuditRecord, Halt, Unhalt
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
from jobrunner.core.job import Paused
from jobrunner.store import statements as sql
from jobrunner.store.features.audit import audit_row
from jobrunner.store.rows import text
from jobrunner.store.statements import Row

KEPT_MS = 30 * 86_400_000

Db = sqlite3.Connection


def act_rows(unit: Halt | Unhalt | NewBulk | MoreItems | BulkTurned | Ticked) -> Iterator[Row]:
    match unit:
        case Halt(scope, name, paused):
            yield sql.HALT.row(scope=scope, name=name, **structs.asdict(paused))
            reason = {"name": name, "reason": paused.reason}
            yield audit_row(AuditRecord(f"{scope}.pause", paused.by, reason), paused.at)
        case Unhalt(scope, name, actor, at, reason):
            yield sql.UNHALT.row(scope=scope, name=name)
            resumed = {"name": name, "reason": reason}
            yield audit_row(AuditRecord(f"{scope}.resume", actor, resumed), at)
        case NewBulk():
            yield sql.BULK_OLD.row(before=unit.at - KEPT_MS)
            yield sql.BULK.row(
                uid=unit.id, orders=text(unit.orders), actor=unit.actor, created_at=unit.at
            )
        case MoreItems():
            for place, job_id in enumerate(unit.job_ids, unit.first):
                yield sql.BULK_ITEM.row(bulk=unit.bulk, place=place, job_id=job_id)
        case BulkTurned():
            over = unit.status in ("done", "aborted")
            ended_at = unit.at if over else None
            yield sql.BULK_TURNED.row(bulk=unit.bulk, status=unit.status, ended_at=ended_at)
            event = "bulk.started" if unit.status == "running" else f"bulk.{unit.status}"
            said = {"bulk": unit.bulk, "command": unit.command, "total": unit.total}
            yield audit_row(AuditRecord(event, unit.actor, said), unit.at)
        case Ticked():
            yield tick_row(unit.tick)


def tick_row(tick: Tick) -> Row:
    return sql.TICK.row(**structs.asdict(tick))


# ---------------------------------------------------------------- questions


def pauses(db: Db) -> tuple[tuple[str, str, Paused], ...]:
    found = db.execute('SELECT scope, name, "by", at, reason FROM pauses ORDER BY scope, name')
    return tuple((scope, name, Paused(*how)) for scope, name, *how in found)


SELECT_BULK = """
    SELECT b.uid, b.orders, b.actor, b.status, count(i.place),
        coalesce(sum(i.outcome = 'done'), 0), coalesce(sum(i.outcome = 'satisfied'), 0),
        coalesce(sum(i.outcome = 'failed'), 0), b.created_at, b.ended_at
    FROM bulks b LEFT JOIN bulk_items i ON i.bulk = b.id
"""
_orders = msgspec.json.Decoder(Orders)


def bulk(db: Db, bulk_id: str) -> Bulk | None:
    found = db.execute(f"{SELECT_BULK} WHERE b.uid = ? GROUP BY b.id", (bulk_id,)).fetchone()
    return _bulk(found) if found else None


def open_bulks(db: Db) -> tuple[Bulk, ...]:
    """Those that a process left behind, or is at; oldest first."""
    found = db.execute(
        f"{SELECT_BULK} WHERE b.status IN ('gathering', 'running') GROUP BY b.id ORDER BY b.id"
    )
    return tuple(map(_bulk, found))


def bulk_ahead(db: Db, bulk_id: str, limit: int) -> tuple[BulkItem, ...]:
    """Items that are still to be done, in order."""
    found = db.execute(
        "SELECT i.place, i.job_id FROM bulk_items i JOIN bulks b ON b.id = i.bulk "
        "WHERE b.uid = ? AND i.outcome IS NULL ORDER BY i.place LIMIT ?",
        (bulk_id, limit),
    )
    return tuple(BulkItem(*row) for row in found)


def bulk_failures(db: Db, bulk_id: str, limit: int, after: int | None) -> tuple[BulkItem, ...]:
    found = db.execute(
        "SELECT i.place, i.job_id, i.outcome, i.code, i.detail FROM bulk_items i "
        "JOIN bulks b ON b.id = i.bulk "
        "WHERE b.uid = ? AND i.outcome = 'failed' AND i.place > ? ORDER BY i.place LIMIT ?",
        (bulk_id, -1 if after is None else after, limit),
    )
    return tuple(BulkItem(*row) for row in found)


def _bulk(row: tuple[Any, ...]) -> Bulk:
    return Bulk(row[0], _orders.decode(row[1]), *row[2:])
