"""The audit: the one place where a record of it gets its form as a row, and where it is read; with
it the list of work that was given up."""

import msgspec

from jobrunner.core.questions import AuditRow, DeadLetterRow
from jobrunner.core.units import AuditRecord
from jobrunner.store import rows
from jobrunner.store.features.statements import AUDIT
from jobrunner.store.jobs import LAST, Db
from jobrunner.store.rows import text
from jobrunner.store.statements import Row


def audit_row(record: AuditRecord, at: int, job_id: str | None = None) -> Row:
    return AUDIT.row(
        at=at, event=record.event, actor=record.actor, job_id=job_id, fields=text(record.fields)
    )


def add_address(said: list[Row], address: str) -> None:
    """Let the rows of the audit also say from which address it was asked."""
    for place, row in enumerate(said):
        if row[0] is AUDIT:
            said[place] = _told(row, address)


def _told(row: Row, address: str) -> Row:
    said = AUDIT.named(row[1])
    fields = msgspec.json.decode(said.pop("fields")) | {"address": address}
    return AUDIT.row(**said, fields=text(fields))


def audit(db: Db, limit: int, after: int | None) -> tuple[AuditRow, ...]:
    """Newest first."""
    newest = "WHERE t.id < :after ORDER BY t.id DESC LIMIT :limit"
    return rows.AUDIT.all(db, newest, after=after or LAST, limit=limit)


def dead_letters(db: Db, limit: int, after: int | None, hidden: bool) -> tuple[DeadLetterRow, ...]:
    """Newest first; ``hidden`` shows also those that are kept off the review list."""
    newest = "WHERE t.id < :after AND t.hidden <= :hidden ORDER BY t.id DESC LIMIT :limit"
    return rows.DEAD_LETTER.all(db, newest, after=after or LAST, hidden=hidden, limit=limit)
