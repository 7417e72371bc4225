"""The keys of an issuer: where they are, kept, and fetched again.

Without an address of their own they are where the issuer's document says, and the document must be
the issuer's. When a fetch fails the old ones stay: an issuer that is down for a while locks nobody
out whose key is known.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from joserfc.jwk import ECKey, OKPKey, RSAKey, import_key
from msgspec import Struct

from jobrunner.errors import JobrunnerError
from jobrunner.ports import Clock

DOCUMENT = "/.well-known/openid-configuration"
AGAIN_S = 10.0
UNKNOWN_EVERY_S = 30.0
KEYS_MAX = 100
RSA_BITS_MIN = 2048
Key = ECKey | OKPKey | RSAKey
KINDS: dict[str, type[Key]] = {"RS": RSAKey, "PS": RSAKey, "ES": ECKey, "Ed": OKPKey}
Log = Callable[..., None]
Fetch = Callable[[str], Awaitable[bytes]]


class IssuerDocument(Struct):
    """The issuer's document, as far as it matters."""

    issuer: str
    jwks_uri: str


class PublishedKeys(Struct):
    keys: list[dict[str, Any]]


class KeySet:
    """``place`` is where the keys are, a URL or a path; empty, where the issuer's document says.
    ``fetch`` brings what is at a place, ``changed`` is called when a key is no longer good."""

    def __init__(
        self,
        issuer: str,
        place: str,
        every_s: float,
        fetch: Fetch,
        clock: Clock,
        log: Log,
        changed: Callable[[], None],
    ) -> None:
        self._issuer = issuer
        self._place = place
        self._every_s = every_s
        self._fetch = fetch
        self._clock = clock
        self._log = log
        self._changed = changed
        self._keys: dict[str, tuple[dict[str, Any], Key]] = {}
        self._asked_at = -math.inf
        self._fetching = asyncio.Lock()
        self._fault: str | None = None

    @property
    def ready(self) -> bool:
        """Say that there are keys."""
        return bool(self._keys)

    async def watch(self) -> None:
        """Fetch them again and again; sooner while it fails."""
        while True:
            good = await self._fetched(None)
            await self._clock.sleep(self._every_s if good else min(AGAIN_S, self._every_s))

    async def find(self, name: str | None, algorithm: str) -> Key | None:
        """The key of this name that signs by this algorithm; without a name, the only one that
        does. For a name that is not known here the issuer is asked, once in a while."""
        found = self._find(name, algorithm)
        if found is None and name not in self._keys and self._may_ask():
            await self._fetched(self._asked_at)
            found = self._find(name, algorithm)
        return found

    def _find(self, name: str | None, algorithm: str) -> Key | None:
        fitting = [
            key
            for known, (about, key) in self._keys.items()
            if name in (None, known) and _signs(about, key, algorithm)
        ]
        return fitting[0] if len(fitting) == 1 else None

    def _may_ask(self) -> bool:
        return self._clock.monotonic() - self._asked_at >= UNKNOWN_EVERY_S

    async def _fetched(self, seen: float | None) -> bool:
        """One at a time; whoever waited for another's fetch has had it."""
        async with self._fetching:
            if seen is not None and self._asked_at != seen:
                return True
            self._asked_at = self._clock.monotonic()
            try:
                self._replace(_read(await self._fetch(await self._whereabouts())))
            except (JobrunnerError, OSError, ValueError) as error:
                self._tell(f"{type(error).__name__}: {error}")
                return False
            self._tell("")
            return True

    async def _whereabouts(self) -> str:
        """Raises: ValueError, when the document is somebody else's."""
        if self._place:
            return self._place
        place = self._issuer.rstrip("/") + DOCUMENT
        document = msgspec.json.decode(await self._fetch(place), type=IssuerDocument)
        if document.issuer != self._issuer:
            raise ValueError(f"{place} is of the issuer {document.issuer!r}, not {self._issuer!r}")
        if self._issuer.startswith("https:") and not document.jwks_uri.startswith("https:"):
            raise ValueError(f"{place} says that the keys are at {document.jwks_uri!r}: no https")
        return document.jwks_uri

    def _replace(self, keys: dict[str, tuple[dict[str, Any], Key]]) -> None:
        gone = [
            name for name, (about, _) in self._keys.items() if keys.get(name, ({},))[0] != about
        ]
        self._keys = keys
        if gone:
            self._changed()

    def _tell(self, fault: str) -> None:
        """Log news, not the same again every time."""
        if fault and fault != self._fault:
            self._log("oidc.fault", level="error", issuer=self._issuer, detail=fault)
        elif fault != self._fault:
            self._log("oidc.keys", issuer=self._issuer, count=len(self._keys))
        self._fault = fault


def _read(data: bytes) -> dict[str, tuple[dict[str, Any], Key]]:
    """Keys that can sign, by name. One that cannot be read is no reason to lose the others.

    Raises: ValueError."""
    found: dict[str, tuple[dict[str, Any], Key]] = {}
    for number, about in enumerate(msgspec.json.decode(data, type=PublishedKeys).keys[:KEYS_MAX]):
        key = _key(about)
        if key is not None:
            found[str(about.get("kid", f" {number}"))] = about, key
    if not found:
        raise ValueError("there is no key in it that can sign")
    return found


def _key(about: Mapping[str, Any]) -> Key | None:
    """Shared secrets are none: whoever knows one can sign with it."""
    if about.get("kty") not in ("RSA", "EC", "OKP") or about.get("use", "sig") != "sig":
        return None
    if about["kty"] == "RSA" and len(str(about.get("n"))) * 6 < RSA_BITS_MIN:
        return None
    try:
        key = import_key(dict(about))
    except Exception:  # noqa: BLE001 - a stranger's words in a library: this is no key
        return None
    return key if isinstance(key, ECKey | OKPKey | RSAKey) else None


def _signs(about: Mapping[str, Any], key: Key, algorithm: str) -> bool:
    """Say whether this key is of the kind, and for this algorithm where it names one."""
    return isinstance(key, KINDS[algorithm[:2]]) and about.get("alg", algorithm) == algorithm
