"""Sessions of the dashboard: a person who showed a token is known by a cookie for a while.

A session is nothing but its token's: it has no rights of its own, and ends with it.
"""

from msgspec import Struct

SESSIONS_MAX = 32


class OpenSession(Struct, frozen=True, tag=True):
    """A session is stored as the SHA-256 of what its cookie says. Of one token the newest 32 are
    good; opening one forgets those that are over."""

    digest: bytes
    token: str
    name: str
    at: int
    expires_at: int


class EndSession(Struct, frozen=True, tag=True):
    digest: bytes


SessionUnit = OpenSession | EndSession
