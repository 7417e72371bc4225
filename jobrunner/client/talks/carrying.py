"""Files on their way to the service and back, going on after a break where they stood."""

import hashlib
from base64 import b64encode
from collections.abc import Callable
from io import BytesIO
from mimetypes import guess_type
from typing import BinaryIO

from jobrunner.client.records import FileRecord, JobRecord
from jobrunner.client.refusing import ServiceRefusal, Unanswered
from jobrunner.client.talk import (
    ON_THE_WAY,
    Aside,
    Rest,
    RetryLimits,
    Talk,
    WireAnswer,
    WireRequest,
)
from jobrunner.client.talks.asking import at, file, job_in, read_of, record_in
from jobrunner.errors import JobrunnerError, Unreachable

PIECE = 4 * 1024 * 1024
ANY_TYPE = "application/octet-stream"
TUS = {"Tus-Resumable": "1.0.0"}
PASSES = frozenset(
    {"UPLOAD_IN_PROGRESS", "UPLOAD_OFFSET_MISMATCH", "OVERLOADED", "DRAINING", "RATE_LIMITED"}
    | {"FILES_UNREACHABLE"}
)
PASSING_STATUS = (409, 429, 503)  # an answer to HEAD has no code

Source = bytes | BinaryIO
Drawn = Callable[[int, int], None]


def unseen(done: int, size: int) -> None:
    """Draw nothing."""


def upload_at_once(data: bytes, *, name: str = "") -> Talk[FileRecord]:
    """Send a file before its job, in one request."""
    request = _whole("POST", "/assets", data, {"name": name})
    return record_in((yield request), FileRecord)


def upload_for(job_id: str, data: bytes, *, name: str = "", slot: str = "") -> Talk[JobRecord]:
    """Send a file for a job, in one request. ``slot`` says which of the files that the workflow
    takes this is."""
    query = {"name": name, "upload": slot}
    return job_in((yield _whole("PUT", at("jobs", job_id, "upload"), data, query)))


def _whole(method: str, path: str, data: bytes, query: dict[str, str]) -> WireRequest:
    digest = b64encode(hashlib.sha256(data).digest()).decode()
    return WireRequest(
        method=method,
        path=path,
        query=tuple((name, value) for name, value in query.items() if value),
        headers={"Content-Type": ANY_TYPE, "Content-Digest": f"sha-256=:{digest}:"},
        body=data,
    )


def upload(
    source: Source,
    *,
    name: str = "",
    job_id: str | None = None,
    slot: str = "",
    media_type: str = "",
    piece: int = PIECE,
    resume: str = "",
    on_begun: Callable[[str], None] = lambda upload_id: None,
    on_progress: Drawn = unseen,
    limits: RetryLimits = ON_THE_WAY,
) -> Talk[FileRecord]:
    """Send a file in pieces, before its job or for one. A line that breaks costs the piece that was
    on it. ``on_begun`` is told a name by which another program goes on later: ``resume``."""
    stream = BytesIO(source) if isinstance(source, bytes) else source
    size: int = yield Aside(lambda: stream.seek(0, 2))
    upload_id = resume
    if not upload_id:
        told = {"filename": name, "filetype": media_type or guess_type(name)[0] or ""}
        upload_id = yield from _announced(job_id, told | {"upload": slot}, size)
        on_begun(upload_id)
    asset_id = yield from carried(
        stream, at("uploads", upload_id), size, piece, on_progress, limits
    )
    return (yield from file(asset_id))


def _announced(job_id: str | None, told: dict[str, str], size: int) -> Talk[str]:
    pairs = [f"{name} {encoded(text)}" for name, text in told.items() if text]
    headers = {**TUS, "Upload-Length": str(size), "Upload-Metadata": ",".join(pairs)}
    path = at("jobs", job_id, "uploads") if job_id else "/uploads"
    answer: WireAnswer = yield WireRequest(method="POST", path=path, headers=headers)
    return answer.headers["location"].rpartition("/")[2]


def encoded(text: str) -> str:
    """Write a text as metadata of an upload has it."""
    return b64encode(text.encode()).decode()


def carried(
    stream: BinaryIO, place: str, size: int, piece: int, drawn: Drawn, limits: RetryLimits
) -> Talk[str]:
    """Bring it all there, asking how far it is after whatever went wrong.

    Raises: Refused, Unreachable, after as many tries without a step ahead."""
    failures, reached = 0, -1
    while True:
        try:
            head: WireAnswer = yield WireRequest(
                method="HEAD", path=place, headers=TUS, repeatable=True
            )
            if (
                "upload-offset" not in head.headers
            ):  # without a body, a head that broke off ends there
                raise Unanswered(f"{place} did not say how far it is")
            offset = int(head.headers["upload-offset"])
            while offset < size:
                failures, reached = (0 if offset > reached else failures), offset
                drawn(offset, size)
                offset = yield from _piece(stream, place, offset, piece)
            drawn(offset, size)
            if "content-location" in head.headers:
                return str(head.headers["content-location"].rpartition("/")[2])
        except JobrunnerError as error:
            failures += 1
            if failures >= limits.tries or not _passes(error):
                raise
            yield Rest(limits.rest_s(failures - 1, error))


def _piece(stream: BinaryIO, place: str, offset: int, piece: int) -> Talk[int]:
    def read() -> bytes:
        stream.seek(offset)
        return stream.read(piece)

    data: bytes = yield Aside(read)
    headers = {
        **TUS,
        "Content-Type": "application/offset+octet-stream",
        "Upload-Offset": str(offset),
    }
    request = WireRequest(method="PATCH", path=place, headers=headers, body=data, once=True)
    answer: WireAnswer = yield request
    return int(answer.headers["upload-offset"])


def _passes(error: JobrunnerError) -> bool:
    if isinstance(error, ServiceRefusal):
        bare = error.code.startswith("HTTP_") and error.status in PASSING_STATUS
        return bare or error.code in PASSES
    return isinstance(error, Unreachable)


def fetch(
    asset_id: str,
    into: BinaryIO,
    *,
    start: int = 0,
    on_progress: Drawn = unseen,
    limits: RetryLimits = ON_THE_WAY,
) -> "Fetching":
    """Fetch a file into one that can be sought, from the byte ``start`` on where that much is there
    already; answer how many bytes it has."""
    return Fetching(asset_id, into, start, on_progress, limits)


class Fetching:
    """A file that is fetched, into a file that can be sought and cut off: what is written of it
    stays when the line breaks, unless it is another one by then."""

    def __init__(
        self,
        asset_id: str,
        into: BinaryIO,
        start: int,
        on_progress: Drawn,
        limits: RetryLimits,
    ) -> None:
        self._path = at("assets", asset_id, "content")
        self._into = into
        self._drawn = on_progress
        self._limits = limits
        self._etag = ""
        self._size = -1
        self._failures = 0
        self._start = start
        self.written = start

    @property
    def request(self) -> WireRequest:
        """The rest of it, while it is known to be the same; else all of it."""
        if self._etag:
            headers = {"Range": f"bytes={self.written}-", "If-Range": self._etag}
            return read_of(self._path, headers=headers)
        start, self._start = self._start, 0
        return read_of(self._path, headers={"Range": f"bytes={start}-"} if start else {})

    def begin(self, status: int, headers: dict[str, str]) -> None:
        """Take the head of an answer: it goes on, or begins anew."""
        self._etag = headers.get("etag", "")
        if status != 206:
            self.written = 0
            self._into.seek(0)
            self._into.truncate()
        length = headers.get("content-length", "")
        self._size = self.written + int(length) if length.isdigit() else -1

    def take(self, block: bytes) -> None:
        self._into.write(block)
        self.written += len(block)
        self._failures = 0
        self._drawn(self.written, max(self._size, self.written))

    def done(self) -> int:
        """Raises: Unanswered, where the answer ended before the file did."""
        if self._size not in (-1, self.written):
            raise Unanswered(f"the file broke off after {self.written} of {self._size} bytes")
        return self.written

    def rest_s(self, error: JobrunnerError) -> float:
        """How long to rest after this. Raises it, where it does not pass."""
        self._failures += 1
        if self._failures >= self._limits.tries or not _passes(error):
            raise error
        return self._limits.rest_s(self._failures - 1, error)
