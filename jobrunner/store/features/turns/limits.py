"""Limits that were changed at run time, in the file."""

import sqlite3
from collections.abc import Iterator

from msgspec import json

from jobrunner.core.features.turns.limits import LimitRow, SetLimit
from jobrunner.core.job import Paused
from jobrunner.core.units import AuditRecord
from jobrunner.store.columns import Columns
from jobrunner.store.features.audit import audit_row
from jobrunner.store.features.pauses import pauses
from jobrunner.store.features.statements import LIMIT, LIMIT_GONE
from jobrunner.store.statements import Row

Db = sqlite3.Connection
LIMITS = Columns(LimitRow, "limits t")


def limit_rows(unit: SetLimit) -> Iterator[Row]:
    said = {"key": unit.key, "reason": unit.reason}
    if unit.value is None:
        yield LIMIT_GONE.row(key=unit.key)
        yield audit_row(AuditRecord("limit.reset", unit.by, said), unit.at)
        return
    yield LIMIT.row(key=unit.key, value=unit.value, by=unit.by, at=unit.at, reason=unit.reason)
    said |= {"value": json.decode(unit.value)}
    yield audit_row(AuditRecord("limit.set", unit.by, said), unit.at)


def orders(db: Db) -> tuple[tuple[tuple[str, str, Paused], ...], tuple[LimitRow, ...]]:
    """Read every limit that operators changed, in one look."""
    return pauses(db), LIMITS.all(db, "ORDER BY t.key")
