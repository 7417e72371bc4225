"""Tokens as answers: who a bearer token stands for, and which tokens it succeeded."""

from msgspec import structs

from jobrunner.core.questions import Token
from jobrunner.store import rows
from jobrunner.store.columns import Columns
from jobrunner.store.jobs import Db

SUCCEEDED = """
    WITH RECURSIVE line (id) AS (
        SELECT token FROM successions WHERE successor = :token
        UNION SELECT s.token FROM line JOIN successions s ON s.successor = line.id)
    SELECT id FROM line ORDER BY id
"""


def _workflows(stored: str) -> tuple[str, ...]:
    return tuple(rows.parsed(stored))


TOKEN = Columns(Token, "tokens t", read={"workflows": _workflows}, without=("replaced",))


def token(db: Db, digest: bytes) -> Token | None:
    """Also one that was revoked or has expired: whoever asks looks at its times."""
    found = TOKEN.one(db, "WHERE t.digest = :digest", digest=digest)
    if found is None:
        return None
    succeeded = db.execute(SUCCEEDED, {"token": found.id})
    return structs.replace(found, replaced=tuple(one for (one,) in succeeded))


def tokens(db: Db) -> tuple[Token, ...]:
    return TOKEN.all(db, "ORDER BY t.created_at, t.id")
