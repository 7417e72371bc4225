"""The guarded downloader: makes a file of a URL that somebody else chose, or nothing.

The body is capped while it streams, in bytes and in time; it is never unpacked; its type is told
from its first bytes before any of it is written. A file appears under its name when it is whole.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import aiohttp
from msgspec import Struct

from jobrunner.errors import PermanentFailure, RetryableFailure
from jobrunner.files.kinds import HEAD_SIZE, sniff
from jobrunner.files.space import Room
from jobrunner.outgoing import exchange
from jobrunner.outgoing.calls import PATIENCE, Patience
from jobrunner.outgoing.rules import Origin
from jobrunner.ports import Children

BLOCK_SIZE = 256 * 1024
WRONG_TYPE = "DOWNLOAD_WRONG_TYPE"


class Sink(Protocol):
    def write(self, data: bytes, /) -> Any: ...


class Downloaded(Struct, frozen=True):
    """The file that came: its type is what it looks like, ``final_url`` is where the redirects
    ended."""

    size: int
    sha256: str
    content_type: str
    final_url: str


class Downloader:
    """Downloads for the stages of one plugin. ``origins`` are its own, and may grow while it
    runs; ``max_size`` is the operator's, which a call can only lower; ``room`` is asked before
    anything is written, and again while it grows."""

    def __init__(
        self,
        gate: exchange.OutgoingGate,
        children: Children,
        max_size: int,
        origins: Iterable[Origin] = (),
        room: Room | None = None,
    ) -> None:
        self._gate = gate
        self._children = children
        self._max_size = max_size
        self._room = room or Room()
        self.origins = set(origins)

    async def fetch(
        self,
        url: str,
        into: str | os.PathLike[str] | Sink,
        *,
        max_size: int | None = None,
        types: Iterable[str] | None = None,
        headers: Mapping[str, str] | None = None,
        patience: Patience = PATIENCE,
    ) -> Downloaded:
        """Write what is there into a file or a path. ``types`` are media types; None takes any.
        A path is written whole or not at all; a file given open holds a part after a failure.

        Raises: RetryableFailure (network, timeout, 408, 425, 429, 5xx, storage),
        PermanentFailure (refused, too large, of another type, another status)."""
        call = exchange.OutgoingRequest("GET", url, dict(headers or {}), patience=patience)
        wanted = None if types is None else frozenset(types)
        limit = self._max_size if max_size is None else min(max_size, self._max_size)
        if isinstance(into, str | os.PathLike):
            return await self._into_path(os.fspath(into), call, limit, wanted)
        return await self._stream(into, call, limit, wanted)

    async def _into_path(
        self, path: str, call: exchange.OutgoingRequest, limit: int, wanted: frozenset[str] | None
    ) -> Downloaded:
        draft = f"{path}.part"
        file = _opened(draft)
        try:
            with file:
                done = await self._stream(file, call, limit, wanted)
                await self._on_disk(partial(_flush, file))
            await self._on_disk(partial(os.replace, draft, path))
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft)
            raise
        return done

    async def _stream(
        self, sink: Sink, call: exchange.OutgoingRequest, limit: int, wanted: frozenset[str] | None
    ) -> Downloaded:
        digest, size, kind = hashlib.sha256(), 0, ""
        async with self._gate.answered(call, self.origins) as answer:
            _check_start(answer, limit)
            await self._on_disk(partial(self._room, answer.content_length or 0))
            async for block in _blocks(answer):
                size += len(block)
                if size > limit:
                    raise _too_large(limit)
                kind = kind or _fitting(block, wanted)
                await self._on_disk(partial(self._keep, sink, digest, block))
            kind = kind or _fitting(b"", wanted)
            return Downloaded(size, digest.hexdigest(), kind, str(answer.url))

    def _keep(self, sink: Sink, digest: Any, block: bytes) -> None:
        self._room(len(block))
        digest.update(block)
        sink.write(block)

    async def _on_disk(self, act: Callable[[], None]) -> None:
        """Run this in a thread: a slow disk delays this download and nothing else."""
        try:
            await self._children.in_thread(act)
        except OSError as error:
            raise _storage(error) from error


def _opened(draft: str) -> Any:
    try:
        return open(draft, "wb", opener=_private)
    except OSError as error:
        raise _storage(error) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _flush(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _check_start(answer: aiohttp.ClientResponse, limit: int) -> None:
    """Refuse by what the headers alone give away."""
    headers = exchange.headers_of(answer)
    if answer.status != 200:
        exchange.raise_for_status(answer.url, answer.status, headers)
        text = f"{answer.url.host} answered {answer.status}, which is no whole file"
        raise PermanentFailure("REMOTE_REFUSED", text)
    if (answer.content_length or 0) > limit:
        raise _too_large(limit)
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        text = f"{answer.url.host} sent {coding[:40]!r}, though only identity was asked for"
        raise PermanentFailure(WRONG_TYPE, text)


async def _blocks(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The first as soon as it tells the type, then large ones; only the last may be smaller."""
    held, enough = bytearray(), HEAD_SIZE
    async for chunk in answer.content.iter_any():
        held += chunk
        if len(held) >= enough:
            yield bytes(held)
            held, enough = bytearray(), BLOCK_SIZE
    if held:
        yield bytes(held)


def _fitting(block: bytes, wanted: frozenset[str] | None) -> str:
    kind = sniff(block[:HEAD_SIZE])
    if wanted is None or (block and kind in wanted):
        return kind
    found = f"looks like {kind}" if block else "is empty"
    text = f"the file {found}; expected {', '.join(sorted(wanted))}"
    raise PermanentFailure(WRONG_TYPE, text)


def _too_large(limit: int) -> PermanentFailure:
    return PermanentFailure(exchange.TOO_LARGE, f"the file is larger than {limit} bytes")


def _storage(error: OSError) -> RetryableFailure:
    text = f"the download cannot be stored: {error.strerror or error}"
    return RetryableFailure("STORAGE_FAILED", text)
