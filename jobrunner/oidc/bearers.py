"""Reads a token of the issuer: whether it is good, who it names, and as what."""

import hashlib
from base64 import b32encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError
from msgspec import Struct

from jobrunner.core.declaration.spelling import USER
from jobrunner.core.declaration.states import TokenRole
from jobrunner.core.job import Actor
from jobrunner.errors import Refused
from jobrunner.oidc.keyset import Key, KeySet
from jobrunner.ports import Clock

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519"),
)
KINDS = ("", "jwt", "at+jwt", "application/at+jwt")
DERIVED = "oidc-"
NAME_MAX = 255
RETRY_AFTER_S = 5


class Trust(Struct, frozen=True):
    """The operator's words on whom to believe. ``roles`` are ours by what the claim says; the first
    that fits counts."""

    issuer: str
    audience: str
    user_claim: str
    role_claim: str
    roles: dict[str, TokenRole]
    leeway_s: float


class Bearers:
    def __init__(self, trust: Trust, keys: KeySet, clock: Clock) -> None:
        self._trust = trust
        self._keys = keys
        self._clock = clock
        self._registry = jws.JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)

    async def watch(self) -> None:
        """See to the keys, for good."""
        await self._keys.watch()

    async def read(self, token: bytes) -> tuple[Actor, int]:
        """Say who it is, and until when, in milliseconds.

        Raises: Refused UNAUTHORIZED; OVERLOADED while there are no keys at all."""
        with _refusing():
            header = jws.extract_compact(token, registry=self._registry).headers()
        key = await self._key(header)
        with _refusing():
            read = jwt.decode(token, key, [header["alg"]], registry=self._registry)
            self._check(read.claims)
            until = int((read.claims["exp"] + self._trust.leeway_s) * 1000)
        return self._actor(read.claims), until

    async def _key(self, header: Mapping[str, Any]) -> Key:
        """Raises: Refused."""
        name, algorithm = header.get("kid"), header.get("alg")
        if algorithm not in ALGORITHMS or str(header.get("typ", "")).lower() not in KINDS:
            raise _unauthorized("the token is of no kind that is taken here")
        if not (name is None or isinstance(name, str)):
            raise _unauthorized("the token names its key by what is no text")
        key = await self._keys.find(name, str(algorithm))
        if key is None and not self._keys.ready:
            detail = "the keys of the issuer of tokens are not here yet; try again"
            raise Refused("OVERLOADED", detail, retry_after_s=RETRY_AFTER_S)
        if key is None:
            raise _unauthorized("the token is signed by a key that its issuer does not have")
        return key

    def _check(self, claims: dict[str, Any]) -> None:
        """Raises: ClaimError."""
        jwt.JWTClaimsRegistry(
            now=int(self._clock.now() / 1000),
            leeway=int(self._trust.leeway_s),
            iss={"essential": True, "value": self._trust.issuer},
            aud={"essential": True, "value": self._trust.audience},
            exp={"essential": True},
        ).validate(claims)

    def _actor(self, claims: Mapping[str, Any]) -> Actor:
        """Make the actor. Its mark is its name: its tokens follow each other quickly, and what one
        of them has claimed is the next one's."""
        value = _found(claims, self._trust.user_claim)
        if not isinstance(value, str) or not 0 < len(value) <= NAME_MAX:
            raise _unauthorized(f"the token has no claim {self._trust.user_claim!r} that is a name")
        name = named(self._trust.issuer, value)
        return Actor(name, self._role(claims), f"{DERIVED}{name}")

    def _role(self, claims: Mapping[str, Any]) -> TokenRole:
        said = _found(claims, self._trust.role_claim)
        given = said.split() if isinstance(said, str) else said
        given = given if isinstance(given, list) else []
        for value, role in self._trust.roles.items():
            if value in given or value == "*":
                return role
        raise _unauthorized(
            f"nothing in the token's claim {self._trust.role_claim!r} is a role here"
        )


def named(issuer: str, value: str) -> str:
    """The user id of a name. One that cannot be an id of ours, or that looks like one made here,
    becomes one that no other name becomes."""
    if USER.fullmatch(value) and not value.startswith(DERIVED):
        return value
    digest = hashlib.sha256(f"{issuer}\0{value}".encode()).digest()
    return DERIVED + b32encode(digest)[:32].decode().lower()


def _found(claims: Mapping[str, Any], name: str) -> Any:
    """A claim of this name, or, part by part, inside others."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn the library's words into ours; it reads a stranger's bytes, and whatever it raises means
    that this is no token."""
    try:
        yield
    except ExpiredTokenError:
        raise _unauthorized("the token has expired; get a new one from its issuer") from None
    except ClaimError as error:
        raise _unauthorized(f"the token's claim {error.claim!r} does not fit here") from None
    except JoseError:
        raise _unauthorized("the token is not signed by its issuer as it must be") from None
    except Exception:  # noqa: BLE001
        raise _unauthorized("the token cannot be read") from None


def _unauthorized(detail: str) -> Refused:
    return Refused("UNAUTHORIZED", detail)
