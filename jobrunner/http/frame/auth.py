"""Bearer tokens. Only the SHA-256 of a token is ever looked for, kept or compared.

Tokens of the operator's issuer are read by what ``app`` hands in, and remembered in the same way.
What was found is remembered for a while, in a small table that is emptied whenever a token is made
or revoked: a revoked token is refused by the very next request. A session of the dashboard is its
token's: it is looked for in the same way, and ends with it.
"""

from collections.abc import Coroutine
from typing import Any, Literal, Protocol, get_args

import anyio

from jobrunner.actors import StoreReader
from jobrunner.core.declaration.states import TokenRole
from jobrunner.core.job import Actor
from jobrunner.core.questions import Token
from jobrunner.errors import Refused
from jobrunner.ports import Clock, digest

LOCAL = Actor("local", "admin")
REMEMBERED_MAX = 4096
TOKEN_MAX = 512
ISSUED_MAX = 8192
Found = tuple[Actor, int | None]


class Issued(Protocol):
    """Tokens that others made for us."""

    async def read(self, token: bytes) -> tuple[Actor, int]:
        """Say who it is, and until when.

        Raises: Refused UNAUTHORIZED, OVERLOADED."""

    async def watch(self) -> None:
        """See to what they are verified with, for good."""


class Keyring:
    """Find out who sent a request. ``mode`` none: whoever can reach the port is the admin."""

    def __init__(self, reader: StoreReader, clock: Clock, mode: Literal["tokens", "none"]) -> None:
        self._reader = reader
        self._clock = clock
        self._mode = mode
        self._issued: Issued | None = None
        self._known: dict[bytes, Found] = {}
        self._signed_in: dict[bytes, Found] = {}
        self._generation = 0
        self._welcome: tuple[bytes, bytes, int] | None = None

    async def actor_of(self, authorization: str | None, session: str | None = None) -> Actor:
        """Raises: Refused UNAUTHORIZED."""
        return (await self.caller_of(authorization, session))[0]

    async def caller_of(
        self, authorization: str | None, session: str | None = None
    ) -> tuple[Actor, bytes]:
        """Find the actor of a token, with what tells this token from others. A session counts where
        no token is sent.

        Raises: Refused UNAUTHORIZED."""
        if self._mode == "none":
            return LOCAL, b""
        if authorization is None and session is not None:
            actor, _ = await self.signed_in(session)
            return actor, digest(actor.token.encode())
        token = _token_in(authorization, TOKEN_MAX if self._issued is None else ISSUED_MAX)
        key = digest(token)
        actor, expires_at = self._known.get(key) or await self._kept(
            self._known, key, self._look_up(key, token)
        )
        if expires_at is not None and expires_at <= self._clock.now():
            raise _unauthorized("the token has expired; ask an admin for a new one")
        return actor, digest(actor.token.encode()) if is_issued(token) else key

    def remembered(self, token: bytes) -> str:
        """Name the user whose token this is, if that is known without asking; empty otherwise."""
        found = self._known.get(digest(token))
        return found[0].name if found else ""

    async def signed_in(self, session: str) -> tuple[Actor, int]:
        """Find out who opened this session, and until when it is good.

        Raises: Refused UNAUTHORIZED."""
        key = digest(session.encode("utf-8", "surrogateescape"))
        found = self._signed_in.get(key) or await self._kept(
            self._signed_in, key, self._look_up_session(key)
        )
        actor, expires_at = found
        if expires_at is None or expires_at <= self._clock.now():
            raise _unauthorized("the session has ended; sign in again")
        return actor, expires_at

    def welcome(self, key: str, token: str, lifetime_s: int) -> None:
        """Let whoever has this key sign in once, as the one whom this token is for."""
        until = self._clock.now() + lifetime_s * 1000
        self._welcome = digest(key.encode()), digest(token.encode()), until

    async def welcomed(self, key: str) -> Actor:
        """Find out whom a key is for; from then on it is good for nobody.

        Raises: Refused UNAUTHORIZED."""
        known = self._welcome
        if known is None or known[0] != digest(key.encode("utf-8", "surrogateescape")):
            raise _unauthorized("the link was used before, or is none; sign in with a token")
        self._welcome = None
        if known[2] <= self._clock.now():
            raise _unauthorized("the link is too old; sign in with a token")
        return _accepted(await self._reader.token(known[1]))[0]

    def believe(self, issued: Issued) -> None:
        """Take tokens that are not ours, too."""
        self._issued = issued

    @property
    def believes_others(self) -> bool:
        """Say whether there are users of whom no token is kept here."""
        return self._issued is not None

    async def watch(self) -> None:
        """See to what tokens of others are verified with, for good."""
        await (self._issued.watch() if self._issued is not None else anyio.sleep_forever())

    def forget(self) -> None:
        """Tokens have changed: believe nothing that was read before now, nor what is being read."""
        self._generation += 1
        self._known.clear()
        self._signed_in.clear()

    async def _kept(
        self, table: dict[bytes, Found], key: bytes, looking: Coroutine[Any, Any, Found]
    ) -> Found:
        """Remember what was found, unless a token has changed meanwhile."""
        generation = self._generation
        found = await looking
        if generation == self._generation:
            if len(table) >= REMEMBERED_MAX:
                table.clear()
            table[key] = found
        return found

    async def _look_up(self, key: bytes, token: bytes) -> Found:
        if self._issued is not None and is_issued(token):
            return await self._issued.read(token)
        return _accepted(await self._reader.token(key))

    async def _look_up_session(self, key: bytes) -> Found:
        token = await self._reader.session(key)
        if token is None:
            raise _unauthorized("the session is not known here; sign in again")
        return _accepted(token)


def is_issued(token: bytes) -> bool:
    """Three parts, of which the first begins like JSON in Base64; none of ours has a dot."""
    return token.startswith(b"eyJ") and token.count(b".") == 2


def _token_in(authorization: str | None, length_max: int) -> bytes:
    scheme, _, text = (authorization or "").partition(" ")
    token = text.strip().encode("utf-8", "surrogateescape") if scheme.lower() == "bearer" else b""
    if not token or len(token) > length_max:
        raise _unauthorized("send the header Authorization: Bearer TOKEN")
    return token


def _accepted(token: Token | None) -> tuple[Actor, int | None]:
    if token is None:
        raise _unauthorized("the token is not known here")
    if token.revoked_at is not None:
        raise _unauthorized("the token was revoked; ask an admin for a new one")
    if token.role not in get_args(TokenRole):
        raise _unauthorized(f"the token has a role this version does not know: {token.role!r}")
    bound = token.workflows if token.role == "workflow" else ()
    actor = Actor(token.name, token.role, token.id, token.replaced, bound)  # type: ignore[arg-type]
    return actor, token.expires_at


def _unauthorized(detail: str) -> Refused:
    return Refused("UNAUTHORIZED", detail)
