"""The ledger, read: where credits went."""

from jobrunner.core.questions import LedgerRow
from jobrunner.store import rows
from jobrunner.store.jobs import LAST, Db


def ledger(db: Db, user_id: str, limit: int, after: int | None) -> tuple[LedgerRow, ...]:
    """Newest first."""
    newest = "WHERE t.user_id = :user_id AND t.id < :after ORDER BY t.id DESC LIMIT :limit"
    return rows.LEDGER.all(db, newest, user_id=user_id, after=after or LAST, limit=limit)


def grant(db: Db, user_id: str, key: str) -> LedgerRow | None:
    """The entry that was made under this key."""
    entry = "SELECT entry FROM grant_keys WHERE user_id = :user_id AND key = :key"
    return rows.LEDGER.one(db, f"WHERE t.id = ({entry})", user_id=user_id, key=key)
