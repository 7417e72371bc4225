"""Tokens: made and revoked; who a bearer token stands for, and which tokens it succeeded."""

from collections.abc import Iterator
from typing import Any

from msgspec import structs

from jobrunner.core.questions import Token
from jobrunner.core.units import AuditRecord, NewToken, RevokeToken
from jobrunner.store import rows
from jobrunner.store.columns import Columns
from jobrunner.store.features import statements as beside
from jobrunner.store.features.audit import audit_row
from jobrunner.store.jobs import Db
from jobrunner.store.rows import text
from jobrunner.store.statements import Row

SUCCEEDED = """
    WITH RECURSIVE line (id) AS (
        SELECT token FROM successions WHERE successor = :token
        UNION SELECT s.token FROM line JOIN successions s ON s.successor = line.id)
    SELECT id FROM line ORDER BY id
"""


def _workflows(stored: str) -> tuple[str, ...]:
    return tuple(rows.parsed(stored))


TOKEN = Columns(Token, "tokens t", read={"workflows": _workflows}, without=("replaced",))


def token_rows(unit: NewToken | RevokeToken) -> Iterator[Row]:
    if isinstance(unit, NewToken):
        yield from _made(unit)
        return
    yield beside.TOKEN_REVOKED.row(at=unit.at, token=unit.which)
    yield _audited("token.revoked", unit, token=unit.which)


def _made(token: NewToken) -> Iterator[Row]:
    yield beside.TOKEN.row(
        id=token.id, name=token.name, role=token.role, digest=token.digest, created_at=token.at,
        expires_at=token.expires_at, workflows=text(token.workflows),
    )  # fmt: skip
    for old in token.replaces:
        yield beside.TOKEN_ENDS.row(at=token.replaced_until, token=old)
        yield beside.SUCCESSION.row(successor=token.id, token=old)
    event = "token.rotated" if token.replaces else "token.created"
    more = {"replaces": list(token.replaces)} if token.replaces else {}
    more |= {"workflows": list(token.workflows)} if token.workflows else {}
    yield _audited(event, token, id=token.id, name=token.name, role=token.role, **more)


def _audited(event: str, unit: NewToken | RevokeToken, **fields: Any) -> Row:
    return audit_row(AuditRecord(event, unit.actor, fields), unit.at)


def token(db: Db, digest: bytes) -> Token | None:
    """Also one that was revoked or has expired: whoever asks looks at its times."""
    return _in_line(db, TOKEN.one(db, "WHERE t.digest = :digest", digest=digest))


def token_called(db: Db, token_id: str) -> Token | None:
    """The same, by its public id."""
    return _in_line(db, TOKEN.one(db, "WHERE t.id = :id", id=token_id))


def _in_line(db: Db, found: Token | None) -> Token | None:
    """Add the tokens that this one succeeded."""
    if found is None:
        return None
    succeeded = db.execute(SUCCEEDED, {"token": found.id})
    return structs.replace(found, replaced=tuple(one for (one,) in succeeded))


def tokens(db: Db) -> tuple[Token, ...]:
    return TOKEN.all(db, "ORDER BY t.created_at, t.id")
