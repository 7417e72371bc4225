"""The outbox: its units as rows to write, and its questions as answers. The shapes of a delivery
and of its endpoint stand here and nowhere else."""

import sqlite3
from collections.abc import Iterator
from typing import Any

from msgspec import structs

from jobrunner.core.decision import (
    AuditRecord,
    Decision,
    EnableEndpoint,
    Redeliver,
    Tried,
)
from jobrunner.core.features.deliveries import (
    DeliveryFilter,
    DeliveryRow,
    DeliveryTry,
    DueDelivery,
    EndpointRow,
)
from jobrunner.core.job import Snapshot
from jobrunner.store import statements as sql
from jobrunner.store.features.audit import audit_row
from jobrunner.store.rows import text
from jobrunner.store.statements import Row

Db = sqlite3.Connection
LAST = 2**63 - 1


def notified(decision: Decision, after: Snapshot) -> Iterator[Row]:
    for told in decision.notifications:
        yield sql.ENDPOINT.row(owner=told.owner, url=told.url)
        yield sql.DELIVERY.row(job=after.row, at=after.updated_at, **structs.asdict(told))


def rows_of(unit: Tried | Redeliver | EnableEndpoint) -> Iterator[Row]:
    match unit:
        case Tried():
            return _tried(unit)
        case Redeliver():
            return _redelivered(unit)
        case EnableEndpoint():
            return _enabled(unit)


def touches_others(unit: Tried | Redeliver | EnableEndpoint) -> bool:
    """Whether it changes deliveries that another unit of the batch may be about."""
    return not isinstance(unit, Tried) or unit.outcome == "disabled"


def _tried(unit: Tried) -> Iterator[Row]:
    which = unit.delivery
    note = unit.error if unit.outcome in ("failed", "disabled") else ""
    yield sql.TRIED.row(
        delivery=which, number=unit.number, outcome=unit.outcome, due_at=unit.due_at, note=note
    )
    yield sql.TRY.row(
        delivery=which, number=unit.number, at=unit.at, latency_ms=unit.latency_ms,
        http_status=unit.http_status, error=unit.error,
    )  # fmt: skip
    if unit.outcome == "delivered":
        yield sql.ENDPOINT_WELL.row(delivery=which)
        return
    yield sql.ENDPOINT_FAILS.row(delivery=which, at=unit.at, error=unit.error)
    if unit.outcome == "disabled":
        yield sql.ENDPOINT_DISABLED.row(delivery=which, at=unit.at)
        yield sql.HELD_BACK.row(delivery=which)
        yield audit_row(AuditRecord("endpoint.disabled", "engine", {"reason": unit.error}), unit.at)


def _redelivered(unit: Redeliver) -> Iterator[Row]:
    yield sql.REDELIVERED.row(delivery=unit.delivery_id, at=unit.at)
    record = AuditRecord("delivery.redelivered", unit.actor, {"delivery_id": unit.delivery_id})
    yield audit_row(record, unit.at, unit.job_id)


def _enabled(unit: EnableEndpoint) -> Iterator[Row]:
    yield sql.ENDPOINT_ENABLED.row(endpoint=unit.endpoint)
    yield sql.LET_GO.row(endpoint=unit.endpoint, at=unit.at)
    record = AuditRecord("endpoint.enabled", unit.actor, {"endpoint": unit.endpoint})
    yield audit_row(record, unit.at)


# ---------------------------------------------------------------- questions

# The row of the index says the lane, so what is left out costs no look at the delivery itself.
AHEAD = """
    FROM deliveries d
    WHERE d.due_at <= ?1 AND d.lane NOT IN (SELECT value FROM json_each(?2))
        AND d.id NOT IN (SELECT value FROM json_each(?3))
    ORDER BY d.due_at LIMIT ?4
"""
SELECT_DUE = """
    SELECT d.id, d.uid, j.uid, j.workflow, j.user_id, d.endpoint, d.owner, d.lane, e.url, d.type,
        d.body, d.tries, d.spent, j.rest ->> 'traceparent'
    FROM (SELECT d.id AS which {ahead}) CROSS JOIN deliveries d ON d.id = which
    JOIN jobs j ON j.id = d.job JOIN endpoints e ON e.id = d.endpoint ORDER BY d.due_at
"""


def due_deliveries(
    db: Db, now: int, limit: int, closed: tuple[str, ...], flying: tuple[int, ...]
) -> tuple[DueDelivery, ...]:
    """Longest due first."""
    asked = (now, text(closed), text(flying), limit)
    found = db.execute(SELECT_DUE.format(ahead=AHEAD), asked)
    return tuple(DueDelivery(*row) for row in found)


def next_delivery(db: Db, closed: tuple[str, ...], flying: tuple[int, ...]) -> int | None:
    """When the next one is due, past or to come."""
    asked = (LAST, text(closed), text(flying), 1)
    found = db.execute(f"SELECT d.due_at {AHEAD}", asked).fetchone()
    return int(found[0]) if found else None


SELECT_DELIVERY = """
    SELECT d.id, d.uid, j.uid, j.user_id, d.endpoint, d.owner, e.url, d.type, d.status, d.due_at,
        d.note, d.created_at, e.disabled_at IS NOT NULL
    FROM deliveries d JOIN jobs j ON j.id = d.job JOIN endpoints e ON e.id = d.endpoint
"""


def deliveries(db: Db, which: DeliveryFilter) -> tuple[DeliveryRow, ...]:
    """Newest first. What is asked for is looked up by the index that fits it best."""
    wanted = {
        "d.job = (SELECT id FROM jobs WHERE uid = ?)": which.job_id,
        "d.owner = ?": which.owner,
        "d.status = ?": which.status,
        "d.endpoint = ?": which.endpoint,
    }
    given = {clause: value for clause, value in wanted.items() if value is not None}
    where = " AND ".join(["d.id < ?", *given])
    found = db.execute(
        f"{SELECT_DELIVERY} WHERE {where} ORDER BY d.id DESC LIMIT ?",
        (which.after or LAST, *given.values(), which.limit),
    )
    return tuple(_row(db, row) for row in found.fetchall())


def delivery(db: Db, delivery_id: str) -> DeliveryRow | None:
    found = db.execute(f"{SELECT_DELIVERY} WHERE d.uid = ?", (delivery_id,)).fetchone()
    return _row(db, found) if found else None


def _row(db: Db, row: tuple[Any, ...]) -> DeliveryRow:
    tries = db.execute(
        "SELECT number, at, latency_ms, http_status, error FROM delivery_tries "
        "WHERE delivery = ? ORDER BY number",
        (row[0],),
    )
    made = tuple(DeliveryTry(*one) for one in tries)
    return DeliveryRow(*(*row[:12], bool(row[12]), made))


SELECT_ENDPOINT = """
    SELECT id, owner, url, failing_since, failures, last_error, disabled_at,
        (SELECT count(*) FROM deliveries d WHERE d.endpoint = e.id AND d.status = 'due')
    FROM endpoints e
"""


def endpoints(db: Db, limit: int, after: int | None, troubled: bool) -> tuple[EndpointRow, ...]:
    """Newest first."""
    trouble = "AND (failing_since IS NOT NULL OR disabled_at IS NOT NULL)" if troubled else ""
    found = db.execute(
        f"{SELECT_ENDPOINT} WHERE id < ? {trouble} ORDER BY id DESC LIMIT ?",
        (after or LAST, limit),
    )
    return tuple(EndpointRow(*row) for row in found)
