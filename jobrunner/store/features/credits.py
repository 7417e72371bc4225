"""The ledger: what an admin grants, and where credits went."""

from collections.abc import Iterator

from jobrunner.core.questions import LedgerRow
from jobrunner.core.units import AuditRecord, Grant
from jobrunner.store import rows
from jobrunner.store import statements as sql
from jobrunner.store.features import statements as beside
from jobrunner.store.features.audit import audit_row
from jobrunner.store.jobs import LAST, Db
from jobrunner.store.statements import Row


def granted_rows(grant: Grant, initial_credits: int) -> Iterator[Row]:
    if grant.once:
        yield sql.ACCOUNT_NEW.row(user_id=grant.user_id, opened_at=grant.at)
    else:
        yield sql.ACCOUNT.row(user_id=grant.user_id, initial=initial_credits, opened_at=grant.at)
    if grant.amount:
        yield sql.LEDGER.row(
            user_id=grant.user_id, kind="grant", amount=grant.amount, held_change=0, job_id=None,
            run_id=None, reason=grant.reason, at=grant.at, moved=0, held_moved=0,
        )  # fmt: skip
    if grant.key:
        yield beside.GRANT_KEY.row(user_id=grant.user_id, key=grant.key)
    said = {"user_id": grant.user_id, "amount": grant.amount, "reason": grant.reason}
    yield audit_row(AuditRecord("credits.granted", grant.actor, said), grant.at)


def ledger(db: Db, user_id: str, limit: int, after: int | None) -> tuple[LedgerRow, ...]:
    """Newest first."""
    newest = "WHERE t.user_id = :user_id AND t.id < :after ORDER BY t.id DESC LIMIT :limit"
    return rows.LEDGER.all(db, newest, user_id=user_id, after=after or LAST, limit=limit)


def grant(db: Db, user_id: str, key: str) -> LedgerRow | None:
    """The entry that was made under this key."""
    entry = "SELECT entry FROM grant_keys WHERE user_id = :user_id AND key = :key"
    return rows.LEDGER.one(db, f"WHERE t.id = ({entry})", user_id=user_id, key=key)
