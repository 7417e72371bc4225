"""The audit as rows: the one place where a record of the audit gets its form."""

from collections.abc import Iterable, Iterator

import msgspec

from jobrunner.core.decision import AuditRecord
from jobrunner.store.rows import text
from jobrunner.store.statements import AUDIT, Row


def audit_row(record: AuditRecord, at: int, job_id: str | None = None) -> Row:
    return AUDIT.row(
        at=at, event=record.event, actor=record.actor, job_id=job_id, fields=text(record.fields)
    )


def with_address(rows: Iterable[Row], address: str) -> Iterator[Row]:
    """The same rows, and those of the audit also say from which address it was asked."""
    for row in rows:
        yield _told(row, address) if row[0] is AUDIT else row


def _told(row: Row, address: str) -> Row:
    said = AUDIT.named(row[1])
    fields = msgspec.json.decode(said.pop("fields")) | {"address": address}
    return AUDIT.row(**said, fields=text(fields))
