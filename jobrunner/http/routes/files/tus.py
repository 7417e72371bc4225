"""The words of tus 1.0.0: its version, headers, metadata and checksums."""

import hashlib
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from functools import wraps
from typing import Any

from msgspec.structs import replace

from jobrunner.errors import Refused
from jobrunner.files.incoming import AnnouncedFile
from jobrunner.http.frame.addresses import link
from jobrunner.http.frame.endpoint import HttpCall, HttpReply
from jobrunner.http.frame.problems import invalid, problem, refusal_of
from jobrunner.http.frame.streaming import ANY_TYPE, Stream
from jobrunner.http.routes.files.uploads import check_length, empty

VERSION = "1.0.0"
PIECE = "application/offset+octet-stream"
EXTENSIONS = "creation,creation-with-upload,termination,checksum,expiration"
ALGORITHMS = ("sha256", "sha1")
METADATA_MAX = 4096
DIGITS_MAX = 16
Handler = Callable[[HttpCall], Awaitable[HttpReply]]


class Checksum:
    """The digest that a piece is to have."""

    def __init__(self, algorithm: str, wanted: bytes) -> None:
        self.sum = hashlib.new(algorithm, usedforsecurity=False)
        self._wanted = wanted

    def judge(self) -> None:
        if self.sum.digest() != self._wanted:
            found = b64encode(self.sum.digest()).decode()
            detail = "the piece is not what its checksum says; send it again"
            raise Refused("CHECKSUM_MISMATCH", detail, received=found)


def spoken(handler: Handler) -> Handler:
    """Name the version of the protocol, as every answer in it must, refusals included."""

    @wraps(handler)
    async def answered(call: HttpCall) -> HttpReply:
        try:
            said = await handler(call)
        except Exception as error:
            refused = refusal_of(error)
            if refused is None:
                raise
            said = replace(problem(refused, call.correlation_id), refused=refused)
        said.headers["Tus-Resumable"] = VERSION
        return said

    return answered


def check_version(call: HttpCall) -> None:
    given = call.headers.get("Tus-Resumable")
    if given != VERSION:
        detail = f"send Tus-Resumable: {VERSION}, not {given!r}"
        raise Refused("TUS_VERSION_UNSUPPORTED", detail, versions=[VERSION])


def check_piece(call: HttpCall) -> None:
    stream: Stream = call.stream
    if stream.media_type != PIECE:
        raise Refused("UNSUPPORTED_MEDIA_TYPE", f"send Content-Type: {PIECE}")


def number_in(call: HttpCall, header: str) -> int:
    """Raises: Refused VALIDATION_ERROR."""
    headers: Any = call.headers
    given = headers.getall(header, [])
    text = given[0] if len(given) == 1 else ""
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX):
        detail = f"{header}: one whole number of bytes"
        raise invalid(detail, (header, detail))
    return int(text)


def metadata_in(header: str) -> dict[str, str]:
    """Names with what they stand for in Base64.

    Raises: Refused VALIDATION_ERROR."""
    if len(header) > METADATA_MAX:
        raise _bad_metadata(f"at most {METADATA_MAX} characters")
    told: dict[str, str] = {}
    for pair in header.split(",") if header.strip() else ():
        name, _, value = pair.strip().partition(" ")
        if not name or name in told:
            raise _bad_metadata("each name once, followed by its value in Base64")
        try:
            told[name] = b64decode(value, validate=True).decode()
        except (Error, UnicodeDecodeError):
            raise _bad_metadata(f"{name[:40]!r} is not Base64 of UTF-8") from None
    return told


def _bad_metadata(detail: str) -> Refused:
    return invalid(f"Upload-Metadata: {detail}", ("Upload-Metadata", detail))


def media_type_in(told: Mapping[str, str]) -> str:
    given = told.get("filetype", told.get("type", "")).partition(";")[0].strip().lower()
    return given or ANY_TYPE


def checksum_in(call: HttpCall) -> Checksum | None:
    """Raises: Refused VALIDATION_ERROR."""
    header = call.headers.get("Upload-Checksum")
    if header is None:
        return None
    algorithm, _, text = header.strip().partition(" ")
    try:
        wanted = b64decode(text, validate=True)
    except Error:
        wanted = b""
    if algorithm not in ALGORITHMS or not wanted:
        detail = f"Upload-Checksum: one of {', '.join(ALGORITHMS)}, then its digest in Base64"
        raise invalid(detail, ("Upload-Checksum", detail))
    return Checksum(algorithm, wanted)


def announced(
    call: HttpCall, told: Mapping[str, str], limit: int, job_id: str = "", upload: str = ""
) -> AnnouncedFile:
    """Raises: Refused."""
    if "Upload-Concat" in call.headers or "Upload-Defer-Length" in call.headers:
        detail = f"uploads are not joined here, and their length is said first: {EXTENSIONS}"
        raise invalid(detail, ("Upload-Concat", "not supported"))
    length = number_in(call, "Upload-Length")
    if not length:
        raise empty()
    check_length(length, limit)
    now = call.door.clock.now()
    return AnnouncedFile(
        id=call.door.ids.fresh(),
        user_id=call.actor.name,
        length=length,
        name=told.get("filename", told.get("name", ""))[:255],
        media_type=media_type_in(told),
        created_at=now,
        expires_at=now + int(call.door.settings.upload_expires_s * 1000),
        job_id=job_id,
        upload=upload,
        metadata=call.headers.get("Upload-Metadata", ""),
    )


def progress_headers(call: HttpCall, order: AnnouncedFile, offset: int) -> dict[str, str]:
    headers = {"Upload-Offset": str(offset)}
    if not order.asset_id:
        headers["Upload-Expires"] = formatdate(order.expires_at / 1000, usegmt=True)
    else:
        headers["Content-Location"] = link(call, f"/assets/{order.asset_id}")
    return headers
