"""Pauses of workflows and stages in the file."""

import sqlite3
from collections.abc import Iterator

from msgspec import structs

from jobrunner.core.job import Paused
from jobrunner.core.units import AuditRecord, Halt, Unhalt
from jobrunner.store.features import statements as beside
from jobrunner.store.features.audit import audit_row
from jobrunner.store.statements import Row

Db = sqlite3.Connection


def pause_rows(unit: Halt | Unhalt) -> Iterator[Row]:
    match unit:
        case Halt(scope, name, paused):
            yield beside.HALT.row(scope=scope, name=name, **structs.asdict(paused))
            said = {"name": name, "reason": paused.reason}
            yield audit_row(AuditRecord(f"{scope}.pause", paused.by, said), paused.at)
        case Unhalt(scope, name, actor, at, reason):
            yield beside.UNHALT.row(scope=scope, name=name)
            said = {"name": name, "reason": reason}
            yield audit_row(AuditRecord(f"{scope}.resume", actor, said), at)


def pauses(db: Db) -> tuple[tuple[str, str, Paused], ...]:
    """Scope (``workflow`` or ``stage``), name, and who paused it."""
    found = db.execute('SELECT scope, name, "by", at, reason FROM pauses ORDER BY scope, name')
    return tuple((scope, name, Paused(*how)) for scope, name, *how in found)
