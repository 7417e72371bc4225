"""Calling back, as Standard Webhooks says it is signed, and as it goes wrong.

What is signed is ``{id}.{timestamp}.{body}`` with the bytes behind ``whsec_`` as the key.
"""

import time
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import aiohttp
import anyio
from msgspec import Struct
from yarl import URL

from jobrunner.core.features import signatures
from jobrunner.core.features.signatures import MARK

STALE_S = 600
PATIENCE_S = 10
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


Post = Callable[[str, bytes, Mapping[str, str]], Awaitable[int]]
Forgery = Literal["", "secret", "body", "old"]


class Delivery(Struct, frozen=True):
    """How one piece of news is delivered.

    times      how often, with one and the same id (0: it is lost)
    delay_s    how long after the news
    early      before whoever asked for the work is told that it began
    held       not until the test says ``release``
    tries      how often it is tried until it is answered with 2xx, each time after ``pause_s``
    forged     before the right one comes one that must not count: a lie that is signed with
               another ``secret``, a lie in a signed ``body``, or the truth, but ten minutes ``old``
    """

    times: int = 1
    delay_s: float = 0
    early: bool = False
    held: bool = False
    tries: int = 1
    pause_s: float = 0.1
    forged: Forgery = ""

    def __post_init__(self) -> None:
        assert not (self.early and self.held), "what is held is not early"


class SentWebhook(Struct, frozen=True):
    """A webhook that was sent, and the status of its answer (0: there was none)."""

    id: str
    event: str
    answered: int = 0
    forged: bool = False


def signed(secret: str, webhook_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a webhook with this body."""
    return signatures.signed([b64decode(secret.removeprefix(MARK))], webhook_id, timestamp, body)


def made_secret(of: bytes) -> str:
    return MARK + b64encode(of).decode()


def is_loopback(url: str) -> bool:
    try:
        return URL(url).host in LOOPBACK
    except ValueError:
        return False


async def send(
    url: str,
    secret: str,
    webhook_id: str,
    body: bytes,
    forged: Forgery = "",
    lie: bytes = b"",
    post: Post | None = None,
) -> int:
    """The status of the answer; 0 where nobody answered."""
    timestamp = int(time.time()) - (STALE_S if forged == "old" else 0)
    if forged == "secret":
        secret, body = made_secret(b"not the secret of anybody"), lie
    headers = signed(secret, webhook_id, timestamp, body)
    return await (post or posted)(url, lie if forged == "body" else body, headers)


async def insisted(how: Delivery, sending: Callable[[], Awaitable[int]]) -> None:
    """Send it as often as ``how`` says, each time until it is taken."""
    for _ in range(how.times):
        for left in reversed(range(how.tries)):
            if 200 <= await sending() < 300 or not left:
                break
            await anyio.sleep(how.pause_s)


async def posted(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    assert is_loopback(url), f"{url} is not on loopback"
    waits = aiohttp.ClientTimeout(total=PATIENCE_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=waits) as session,
            session.post(
                url,
                data=body,
                headers={"Content-Type": "application/json", **headers},
                allow_redirects=False,
            ) as answer,
        ):
            await answer.read()
            return answer.status
    except (aiohttp.ClientError, OSError, TimeoutError):
        return 0
