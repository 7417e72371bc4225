"""Signs notifications, so that they prove where they come from: Standard Webhooks, a secret each.

An endpoint that an operator configured may have secrets of its own. Every other one has a secret
that is derived from the service's and from the name of the endpoint's owner, so that nobody who
knows his own secret can sign for anybody else. With several secrets of the service (a rotation)
each signs, the newest first; a receiver takes whichever it knows.
"""

import base64
import hmac
from collections.abc import Callable, Mapping

from jobrunner.core.features.signatures import KEY_BYTES, MARK, key_in, signed
from jobrunner.errors import Misconfigured

SECRETS_MAX = 4


class Seals:
    """``masters`` gives the secrets of the service, newest first, as they are now; ``own`` those of
    endpoints that have their own, by the owner's name."""

    def __init__(
        self, masters: Callable[[], list[str]], own: Mapping[str, list[str]] | None = None
    ) -> None:
        self._masters = masters
        self._own = dict(own or {})

    def of(self, owner: str) -> list[str]:
        """The secrets with which this owner's endpoints verify, newest first."""
        own = self._own.get(owner)
        return own or [derived(master, owner) for master in self._masters()]


def derived(master: str, owner: str) -> str:
    key = hmac.digest(master.encode(), f"jobrunner notifies {owner}".encode(), "sha256")
    return MARK + base64.b64encode(key).decode()


def sealed(secrets: list[str], delivery_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers. The id stays the same over all tries, the timestamp is each try's own."""
    keys = (key_in(secret) or b"" for secret in secrets)
    return signed(keys, delivery_id, timestamp, body)


def checked_secrets(name: str, text: str) -> list[str]:
    """The secrets in a text, separated by blanks, newest first.

    Raises: Misconfigured, naming where the text came from and never what it says.
    """
    found = text.split()
    if not 1 <= len(found) <= SECRETS_MAX:
        raise Misconfigured(f"{name}: must hold 1 to {SECRETS_MAX} secrets, separated by blanks")
    for secret in found:
        if key_in(secret) is None:
            raise Misconfigured(
                f"{name}: a secret is {MARK} followed by base64 of {KEY_BYTES[0]} to "
                f"{KEY_BYTES[-1]} bytes, like {MARK}$(openssl rand -base64 32)"
            )
    return found
