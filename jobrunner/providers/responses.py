"""The part that all provider formats share: requests as data, and how answers are read.

Nothing here sends: a stage in the loop and one in a process send the same ``ProviderRequest``, each
through its own context, and hand the answer to whoever can read it. So every format is a few pure
functions that a test calls with bytes.
"""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from jobrunner.errors import PermanentFailure, RetryableFailure

BAD_ANSWER = "BAD_ANSWER"
EXCERPT_MAX = 300
RETRY_AFTER_S_MAX = 86_400.0
T = TypeVar("T")


class ProviderAnswer(Protocol):
    """A whole answer; the names of its headers are in lower case. Where it has a ``url``,
    failures name its host."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def body(self) -> bytes: ...


class ProviderRequest(Struct, frozen=True):
    """A request to make: ``ctx.http.exchange(asked.method, asked.url, **asked.options)``."""

    method: str
    url: str
    json: Any = None
    data: bytes | None = None
    headers: dict[str, str] = {}

    @property
    def options(self) -> dict[str, Any]:
        return {"json": self.json, "data": self.data, "headers": self.headers}


def bearer(key: str, idempotency_key: str = "") -> dict[str, str]:
    """Make the headers that name the caller and let a repeat be recognised."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    if idempotency_key:
        headers["Idempotency-Key"] = idempotency_key
    return headers


def joined(base_url: str, path: str) -> str:
    return f"{base_url.rstrip('/')}/{path}"


def read(answer: ProviderAnswer, kind: type[T], who: str) -> T:
    """The answer as its struct.

    Raises: RetryableFailure (408, 425, 429, 5xx), PermanentFailure (any other status that is no
    success, and what is not in the format: asking again would pay for it again)."""
    raise_for(answer, who)
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except msgspec.DecodeError as error:
        text = f"{named(answer, who)} answered {answer.status} with something else than promised"
        told = f"{error}: {excerpt(answer.body)}"
        raise PermanentFailure(BAD_ANSWER, text, excerpt=told) from error


def raise_for(answer: ProviderAnswer, who: str) -> None:
    """Raises: as ``read``, for every status that is no success."""
    refuse_status(named(answer, who), answer.status, answer.headers, answer.body)


def refuse_status(who: str, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
    """The sentence is ours: what somebody answers to an error may repeat what he was sent, keys and
    prompts too. It goes with the attempt."""
    if 200 <= status < 300:
        return
    text, told = f"{who} answered {status}", excerpt(body)
    if status == 429:
        raise RetryableFailure("RATE_LIMITED", text, retry_after_s(headers), excerpt=told)
    if status in (408, 425) or status >= 500:
        raise RetryableFailure("REMOTE_FAILED", text, retry_after_s(headers), excerpt=told)
    raise PermanentFailure("REMOTE_REFUSED", text, excerpt=told)


def named(answer: ProviderAnswer, who: str) -> str:
    """Name the one who answered, and its host."""
    host = urlsplit(str(getattr(answer, "url", "") or "")).hostname
    return f"{who} at {host}" if host else who


def excerpt(body: bytes) -> str:
    """A stranger's words, short and on one line."""
    text = " ".join(body[: 4 * EXCERPT_MAX].decode(errors="replace").split())[:EXCERPT_MAX]
    return "".join(letter for letter in text if letter.isprintable())


def retry_after_s(headers: Mapping[str, str]) -> float:
    """Seconds, or a date measured by the sender's own clock; 0 when it says nothing useful."""
    text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return min(float(text), RETRY_AFTER_S_MAX)
    try:
        then, now = map(parsedate_to_datetime, (text, headers.get("date", "")))
        return min(max((then - now).total_seconds(), 0.0), RETRY_AFTER_S_MAX)
    except (ValueError, TypeError, OverflowError):
        return 0.0
