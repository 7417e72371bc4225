"""The outbox: its units as rows to write, and its questions as answers. The shapes of a delivery
and of its endpoint stand here and nowhere else."""

import sqlite3
from collections.abc import Iterator

from msgspec import structs

from jobrunner.core.decision import Decision
from jobrunner.core.features.notifications import (
    DeliveryFilter,
    DeliveryRow,
    DeliveryTry,
    DueDelivery,
    EndpointRow,
)
from jobrunner.core.job import Snapshot
from jobrunner.core.units import AuditRecord, EnableEndpoint, Redeliver, Tried
from jobrunner.store.columns import Columns
from jobrunner.store.features import statements as beside
from jobrunner.store.features.audit import audit_row
from jobrunner.store.rows import text
from jobrunner.store.statements import Row

Db = sqlite3.Connection
LAST = 2**63 - 1


def notified(decision: Decision, after: Snapshot) -> Iterator[Row]:
    for told in decision.notifications:
        yield beside.ENDPOINT.row(owner=told.owner, url=told.url)
        yield beside.DELIVERY.row(job=after.row, at=after.updated_at, **structs.asdict(told))


def rows_of(unit: Tried | Redeliver | EnableEndpoint) -> Iterator[Row]:
    match unit:
        case Tried():
            return _tried(unit)
        case Redeliver():
            return _redelivered(unit)
        case EnableEndpoint():
            return _enabled(unit)


def touches_others(unit: Tried | Redeliver | EnableEndpoint) -> bool:
    """Say whether it changes deliveries that another unit of the batch may be about."""
    return not isinstance(unit, Tried) or unit.outcome == "disabled"


def _tried(unit: Tried) -> Iterator[Row]:
    which = unit.delivery
    note = unit.error if unit.outcome in ("failed", "disabled") else ""
    yield beside.TRIED.row(
        delivery=which, number=unit.number, outcome=unit.outcome, due_at=unit.due_at, note=note
    )
    yield beside.TRY.row(
        delivery=which, number=unit.number, at=unit.at, latency_ms=unit.latency_ms,
        http_status=unit.http_status, error=unit.error,
    )  # fmt: skip
    if unit.outcome == "delivered":
        yield beside.ENDPOINT_WELL.row(delivery=which)
        return
    yield beside.ENDPOINT_FAILS.row(delivery=which, at=unit.at, error=unit.error)
    if unit.outcome == "disabled":
        yield beside.ENDPOINT_DISABLED.row(delivery=which, at=unit.at)
        yield beside.HELD_BACK.row(delivery=which)
        yield audit_row(AuditRecord("endpoint.disabled", "engine", {"reason": unit.error}), unit.at)


def _redelivered(unit: Redeliver) -> Iterator[Row]:
    yield beside.REDELIVERED.row(delivery=unit.delivery_id, at=unit.at)
    record = AuditRecord("delivery.redelivered", unit.actor, {"delivery_id": unit.delivery_id})
    yield audit_row(record, unit.at, unit.job_id)


def _enabled(unit: EnableEndpoint) -> Iterator[Row]:
    yield beside.ENDPOINT_ENABLED.row(endpoint=unit.endpoint)
    yield beside.LET_GO.row(endpoint=unit.endpoint, at=unit.at)
    record = AuditRecord("endpoint.enabled", unit.actor, {"endpoint": unit.endpoint})
    yield audit_row(record, unit.at)


# ---------------------------------------------------------------- questions

# The row of the index says the lane, so what is left out costs no look at the delivery itself.
AHEAD = """
    FROM deliveries d
    WHERE d.due_at <= :now AND d.lane NOT IN (SELECT value FROM json_each(:closed))
        AND d.id NOT IN (SELECT value FROM json_each(:flying))
    ORDER BY d.due_at LIMIT :limit
"""
DUE = Columns(
    DueDelivery,
    f"""(SELECT d.id AS which {AHEAD}) CROSS JOIN deliveries t ON t.id = which
    JOIN jobs j ON j.id = t.job JOIN endpoints e ON e.id = t.endpoint""",
    elsewhere={
        "row": "t.id", "id": "t.uid", "job_id": "j.uid", "workflow": "j.workflow",
        "user_id": "j.user_id", "url": "e.url", "traceparent": "j.rest ->> 'traceparent'",
    },
)  # fmt: skip


def due_deliveries(
    db: Db, now: int, limit: int, closed: tuple[str, ...], flying: tuple[int, ...]
) -> tuple[DueDelivery, ...]:
    """Longest due first."""
    asked = {"closed": text(closed), "flying": text(flying)}
    return DUE.all(db, "ORDER BY t.due_at", now=now, limit=limit, **asked)


def next_delivery(db: Db, closed: tuple[str, ...], flying: tuple[int, ...]) -> int | None:
    """When the next one is due, past or to come."""
    asked = {"now": LAST, "limit": 1, "closed": text(closed), "flying": text(flying)}
    found = db.execute(f"SELECT d.due_at {AHEAD}", asked).fetchone()
    return int(found[0]) if found else None


DELIVERY = Columns(
    DeliveryRow,
    """deliveries t JOIN jobs j ON j.id = t.job JOIN endpoints e ON e.id = t.endpoint""",
    elsewhere={
        "row": "t.id", "id": "t.uid", "job_id": "j.uid", "user_id": "j.user_id", "url": "e.url",
        "disabled": "e.disabled_at IS NOT NULL",
    },
    read={"disabled": bool},
    without=("tries",),
)  # fmt: skip
TRY = Columns(DeliveryTry, "delivery_tries t")
WANTED = {
    "job_id": "t.job = (SELECT id FROM jobs WHERE uid = :job_id)",
    "owner": "t.owner = :owner",
    "status": "t.status = :status",
    "endpoint": "t.endpoint = :endpoint",
}


def deliveries(db: Db, which: DeliveryFilter) -> tuple[DeliveryRow, ...]:
    """Newest first. Each wish is looked up by the index that fits it best."""
    asked = structs.asdict(which)
    given = [condition for name, condition in WANTED.items() if asked[name] is not None]
    where = " AND ".join(["t.id < :after", *given])
    asked["after"] = which.after or LAST
    found = DELIVERY.all(db, f"WHERE {where} ORDER BY t.id DESC LIMIT :limit", **asked)
    return tuple(_with_tries(db, one) for one in found)


def delivery(db: Db, delivery_id: str) -> DeliveryRow | None:
    found = DELIVERY.one(db, "WHERE t.uid = :delivery_id", delivery_id=delivery_id)
    return _with_tries(db, found) if found else None


def _with_tries(db: Db, one: DeliveryRow) -> DeliveryRow:
    made = TRY.all(db, "WHERE t.delivery = :delivery ORDER BY t.number", delivery=one.row)
    return structs.replace(one, tries=made)


ENDPOINT = Columns(
    EndpointRow,
    "endpoints t",
    elsewhere={
        "due": "(SELECT count(*) FROM deliveries d WHERE d.endpoint = t.id AND d.status = 'due')"
    },
)


def endpoints(db: Db, limit: int, after: int | None, troubled: bool) -> tuple[EndpointRow, ...]:
    """Newest first."""
    trouble = "AND (t.failing_since IS NOT NULL OR t.disabled_at IS NOT NULL)" if troubled else ""
    newest = f"WHERE t.id < :after {trouble} ORDER BY t.id DESC LIMIT :limit"
    return ENDPOINT.all(db, newest, after=after or LAST, limit=limit)
