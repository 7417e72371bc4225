"""Sessions in the file: which token a cookie stands for, and until when."""

from collections.abc import Iterator

from msgspec import structs

from jobrunner.core.features.sessions import EndSession, OpenSession, SessionUnit
from jobrunner.core.questions import Token
from jobrunner.core.units import AuditRecord
from jobrunner.store.features import statements as beside
from jobrunner.store.features.audit import audit_row
from jobrunner.store.features.tokens import token_called
from jobrunner.store.jobs import Db
from jobrunner.store.statements import Row

UNITS = (OpenSession, EndSession)


def session_rows(unit: SessionUnit) -> Iterator[Row]:
    if isinstance(unit, EndSession):
        yield beside.SESSION_ENDED.row(digest=unit.digest)
        return
    yield beside.SESSIONS_OVER.row(at=unit.at)
    yield beside.SESSION.row(
        digest=unit.digest, token=unit.token, created_at=unit.at, expires_at=unit.expires_at
    )
    yield beside.SESSIONS_TOO_MANY.row(token=unit.token)
    yield audit_row(AuditRecord("session.opened", unit.name, {"token": unit.token}), unit.at)


def session(db: Db, digest: bytes) -> Token | None:
    """The token of a session; it expires when the first of the two does."""
    found = db.execute(
        "SELECT token, expires_at FROM sessions WHERE digest = ?", (digest,)
    ).fetchone()
    token = token_called(db, found[0]) if found else None
    if token is None:
        return None
    ends = found[1] if token.expires_at is None else min(found[1], token.expires_at)
    return structs.replace(token, expires_at=ends)
