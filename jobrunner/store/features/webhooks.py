"""Webhooks in the file: who awaits one of which name, and which came. Rows going in, answers out.

A name that was awaited stays known after its attempt is over, so that a late webhook is not taken
for an early one; when its job is deleted, the name and the ids stay for as long as keys do.
"""

import sqlite3
from collections.abc import Iterator

from msgspec import UNSET, structs

from jobrunner.core.decision import Decision
from jobrunner.core.facts import Awaited, KeptWebhook, WebhookFacts
from jobrunner.core.features.webhooks import KEPT_MS
from jobrunner.core.job import Snapshot
from jobrunner.core.units import ForgetWebhooks, StoreWebhook
from jobrunner.store.features import statements as beside
from jobrunner.store.rows import parsed, text
from jobrunner.store.statements import Row

FORGOTTEN_AT_ONCE = 1_000


def heard_rows(decision: Decision, after: Snapshot) -> Iterator[Row]:
    """Make the rows of what a job has been told, and of what it awaits from now on, or no more."""
    if decision.webhook is not None:
        yield beside.WEBHOOK_TOLD.row(**structs.asdict(decision.webhook), job=after.row)
    if decision.handed is not None:
        handed = decision.handed
        yield beside.WEBHOOK_HANDED.row(webhook=handed.row, job=after.row)
        yield beside.AWAIT_PAST.row(
            name=handed.name, job=after.row, serial=after.serial, at=after.updated_at
        )
        yield beside.WEBHOOKS_LEFT.row(name=handed.name)
    was, now = _awaited(decision.before), _awaited(after)
    if was and was != now:
        yield beside.AWAIT_OVER.row(name=was[0], job=after.row)
    if now and was != now:
        name, serial = now
        at = after.updated_at
        yield beside.AWAIT.row(name=name, job=after.row, serial=serial, at=at, since=at - KEPT_MS)


def names_in(decision: Decision) -> list[str]:
    """Name what it speaks of: two that speak of one name do not share a set."""
    awaited = (_awaited(decision.before), _awaited(decision.after))
    names = [name for name, _ in filter(None, awaited)]
    return names if decision.handed is None else [decision.handed.name, *names]


def stored_rows(unit: StoreWebhook) -> Iterator[Row]:
    value = None if unit.value is UNSET else text(unit.value)
    yield beside.WEBHOOK_STORED.row(**structs.asdict(unit.webhook), value=value)


def forgotten_rows(unit: ForgetWebhooks) -> Iterator[Row]:
    yield beside.WEBHOOKS_EXPIRED.row(before=unit.kept_before, most=FORGOTTEN_AT_ONCE)
    if unit.before is not None:
        yield beside.WEBHOOKS_FORGOTTEN.row(before=unit.before, most=FORGOTTEN_AT_ONCE)
        yield beside.AWAITS_FORGOTTEN.row(before=unit.before, most=FORGOTTEN_AT_ONCE)


def _awaited(job: Snapshot | None) -> tuple[str, int] | None:
    attempt = job.attempt if job else None
    if attempt is None or attempt.status != "parked" or not attempt.source:
        return None
    return attempt.awaits, attempt.serial


# ---------------------------------------------------------------- answers


SEEN = "SELECT 1 FROM webhooks WHERE source = ? AND webhook_id = ?"
AWAITED = """
    SELECT j.uid, a.open FROM awaits a LEFT JOIN jobs j ON j.id = a.job WHERE a.name = ?
"""
KEPT = """
    SELECT id, value FROM webhooks WHERE name = ? AND value IS NOT NULL AND at >= ?
    ORDER BY id LIMIT 1
"""
OLD = """
    SELECT EXISTS (SELECT 1 FROM webhooks WHERE value IS NOT NULL AND at < :kept_before)
        OR EXISTS (SELECT 1 FROM webhooks WHERE job IS NULL AND value IS NULL AND at < :before)
        OR EXISTS (SELECT 1 FROM awaits WHERE job IS NULL AND at < :before)
"""


def webhook(
    db: sqlite3.Connection, source: str, webhook_id: str, name: str, since: int
) -> WebhookFacts:
    """Say who awaits it, and of one that came whether it came before; without an id, what came
    before somebody would await it."""
    awaited = db.execute(AWAITED, (name,)).fetchone()
    seen = webhook_id and db.execute(SEEN, (source, webhook_id)).fetchone()
    kept = None if webhook_id else db.execute(KEPT, (name, since)).fetchone()
    return WebhookFacts(
        bool(seen),
        Awaited(awaited[0], bool(awaited[1])) if awaited else None,
        KeptWebhook(kept[0], parsed(kept[1])) if kept else None,
    )


def old_webhooks(db: sqlite3.Connection, kept_before: int, before: int | None) -> bool:
    """Say whether there is anything to forget."""
    found = db.execute(OLD, {"kept_before": kept_before, "before": before})
    return bool(found.fetchone()[0])
