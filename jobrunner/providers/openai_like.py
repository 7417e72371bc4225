"""Providers that speak as OpenAI does: hosted ones, and many that run on a machine of one's own."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from jobrunner.errors import PermanentFailure, Rejected
from jobrunner.providers.responses import (
    BAD_ANSWER,
    ProviderAnswer,
    ProviderRequest,
    bearer,
    joined,
    named,
    read,
)

SAFE_BLOCK = "SAFE_BLOCK"
UNSAFE = {"content_policy_violation", "moderation_blocked", "content_filter", "safety"}
BROKE = {"insufficient_quota", "billing_hard_limit_reached"}
BOUNDARY = "jobrunner-5f0c1d7e9b3a"


class Account(Struct, frozen=True):
    """Where a provider answers, and under which key."""

    base_url: str
    key: str = ""


class Picture(Struct, frozen=True):
    """Either its address or its bytes."""

    url: str = ""
    data: bytes = b""


class Spoken(Struct, frozen=True):
    """A piece of a transcript."""

    start_s: float
    end_s: float
    text: str


def image(
    account: Account, prompt: str, *, model: str = "", size: str = "", repeat_key: str = "",
    **options: Any,
) -> ProviderRequest:  # fmt: skip
    body = {"prompt": prompt, "n": 1, "model": model, "size": size, **options}
    return _asked(account, "images/generations", body, repeat_key)


def picture_in(answer: ProviderAnswer) -> Picture:
    """Raises: Rejected (SAFE_BLOCK), RetryableFailure, PermanentFailure."""
    found = _read(answer, _Images).data
    if not found or not (found[0].url or found[0].b64_json):
        raise PermanentFailure(BAD_ANSWER, "the provider answered without a picture")
    if found[0].url:
        return Picture(url=found[0].url)
    try:
        return Picture(data=base64.b64decode(found[0].b64_json or "", validate=True))
    except binascii.Error as error:
        raise PermanentFailure(BAD_ANSWER, "the picture in the answer is not base64") from error


def chat(
    account: Account, messages: Sequence[Mapping[str, Any]], *, model: str = "",
    repeat_key: str = "", **options: Any,
) -> ProviderRequest:  # fmt: skip
    body = {"messages": list(messages), "model": model, **options}
    return _asked(account, "chat/completions", body, repeat_key)


def text_in(answer: ProviderAnswer) -> str:
    """Raises: Rejected (SAFE_BLOCK), RetryableFailure, PermanentFailure."""
    choices = _read(answer, _Chat).choices
    if not choices:
        raise PermanentFailure(BAD_ANSWER, "the provider answered without a text")
    first = choices[0]
    if first.finish_reason == "content_filter" or first.message.refusal:
        said = first.message.refusal or ""
        raise Rejected(SAFE_BLOCK, "the provider filtered its answer", excerpt=said)
    if not (first.message.content or "").strip():
        raise PermanentFailure(BAD_ANSWER, "the provider answered with an empty text")
    return first.message.content or ""


def transcription(
    account: Account, audio: bytes, filename: str, *, model: str = "", language: str = "",
    repeat_key: str = "",
) -> ProviderRequest:  # fmt: skip
    fields = {"model": model, "language": language, "response_format": "verbose_json"}
    headers = bearer(account.key, repeat_key)
    headers["Content-Type"] = f"multipart/form-data; boundary={BOUNDARY}"
    data = _multipart(fields, filename, audio)
    return ProviderRequest(
        "POST", joined(account.base_url, "audio/transcriptions"), None, data, headers
    )


def transcript_in(answer: ProviderAnswer) -> list[Spoken]:
    """Read a transcript in pieces with their times; one piece without when the provider gives none.

    Raises: RetryableFailure, PermanentFailure."""
    found = _read(answer, _Transcript)
    if found.segments:
        return [Spoken(part.start, part.end, part.text.strip()) for part in found.segments]
    return [Spoken(0.0, found.duration or 0.0, found.text.strip())]


class _Image(Struct):
    url: str | None = None
    b64_json: str | None = None


class _Images(Struct):
    data: list[_Image]


class _Message(Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(Struct):
    message: _Message
    finish_reason: str | None = None


class _Chat(Struct):
    choices: list[_Choice]


class _Segment(Struct):
    start: float
    end: float
    text: str


class _Transcript(Struct):
    text: str
    duration: float | None = None
    segments: list[_Segment] = []


def _asked(account: Account, path: str, body: dict[str, Any], repeat_key: str) -> ProviderRequest:
    said = {name: value for name, value in body.items() if value not in ("", None)}
    return ProviderRequest(
        "POST", joined(account.base_url, path), said, headers=bearer(account.key, repeat_key)
    )


def _read(answer: ProviderAnswer, kind: Any) -> Any:
    """A refusal of the content and an empty purse have a status that others use for more."""
    code, text = _fault(answer)
    if code in UNSAFE:
        told = f"{named(answer, 'the provider')} refused the content: {code}"
        raise Rejected(SAFE_BLOCK, told, excerpt=text)
    if code in BROKE:
        told = f"{named(answer, 'the provider')} wants to be paid first"
        raise PermanentFailure("PROVIDER_QUOTA", told, excerpt=text)
    return read(answer, kind, "the provider")


def _fault(answer: ProviderAnswer) -> tuple[str, str]:
    """The code and the text of ``{"error": {…}}``, if that is what was answered."""
    if answer.status < 400:
        return "", ""
    try:
        error = msgspec.json.decode(answer.body)["error"]
        return str(error.get("code") or error.get("type") or ""), str(error.get("message", ""))
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return "", ""


def _multipart(fields: Mapping[str, str], filename: str, data: bytes) -> bytes:
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
        if value
    ]
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{filename}"'
    file = f"{head}\r\nContent-Type: application/octet-stream\r\n\r\n"
    return "".join([*parts, file]).encode() + data + f"\r\n--{BOUNDARY}--\r\n".encode()
