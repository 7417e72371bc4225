"""Files going out: whole, a range of one, or a refusal.

A file is never shown, only handed over: as an attachment, under a plain name, as a type from a
short list, and to its owner alone. Its digest is its ETag, so a download that broke off goes on
where it stood if, and only if, the file is still the one that it began with.
"""

import errno
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO

import anyio
from aiohttp import web

from jobrunner.core.questions import AssetRow
from jobrunner.errors import JobrunnerError, Refused
from jobrunner.files.library import inside, is_absent
from jobrunner.http.frame.addresses import link
from jobrunner.http.frame.endpoint import Endpoint, HttpCall, HttpReply, Query
from jobrunner.http.frame.streaming import ANY_TYPE
from jobrunner.http.routes.files.assets import own_asset
from jobrunner.http.routes.files.objects import FarPlace, far_blocks, far_place, redirected

BLOCK = 256 * 1024
RANGE = re.compile(r"bytes=\s*([0-9]{0,18})-([0-9]{0,18})\s*")
DIGITS = re.compile(r"[0-9a-f]{64}")
TYPES = {
    "csv": "text/csv",
    "gif": "image/gif",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "m4a": "audio/mp4",
    "md": "text/markdown",
    "mov": "video/quicktime",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "ogg": "audio/ogg",
    "pdf": "application/pdf",
    "png": "image/png",
    "srt": "application/x-subrip",
    "txt": "text/plain",
    "vtt": "text/vtt",
    "wav": "audio/wav",
    "webm": "video/webm",
    "webp": "image/webp",
    "zip": "application/zip",
}
KINDS = tuple(sorted(set(TYPES.values())))
LOCKED_DOWN = {
    "Accept-Ranges": "bytes",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class ContentQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``direct``: answer with an address at the store that holds the file, where the settings allow
    it. Whoever says this follows it without the token that was sent here."""

    direct: bool = False


@Endpoint(
    "GET",
    "/assets/{id}/content",
    {200: ANY_TYPE, 206: ANY_TYPE, 304: None, 307: None},
    query=ContentQuery,
    codes=("ASSET_GONE", "RANGE_NOT_SATISFIABLE", "FILES_UNREACHABLE"),
    media=KINDS,
)
async def get_asset_content(call: HttpCall) -> HttpReply:
    """Download a file, or a range of it."""
    row = await own_asset(call)
    size, far = await _found(call, row)
    headers = _headers(row)
    if "ETag" in headers and _seen(call, headers["ETag"]):
        return HttpReply(304, b"", headers)
    query: ContentQuery = call.query
    if query.direct and far is not None and (elsewhere := await redirected(call, far)) is not None:
        return elsewhere
    first, last = _wanted(call, size, headers.get("ETag"))
    headers["Content-Length"] = str(last - first + 1)
    status = 200
    if (first, last) != (0, size - 1):
        status = 206
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    path = row.asset.storage_path

    async def pour(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers=headers)
        if request.method == "HEAD":
            return await _only_head(request, response)
        async with aclosing(_blocks(call, path, far, first, last)) as blocks:
            return await _pour(request, response, blocks, call.door.settings.upload_idle_s)

    return HttpReply(status, headers=headers, pour=pour)


async def _found(call: HttpCall, row: AssetRow) -> tuple[int, FarPlace | None]:
    """The size of the file, where it is what its row says and lies where only its own files lie;
    and its place in the store, unless it is here.

    Raises: Refused ASSET_GONE, FilesUnreachable."""
    asset, parts = row.asset, Path(row.asset.storage_path).parts
    size, far = -1, None
    if len(parts) > 1 and parts[-2] in (row.job_id, asset.id):
        size = await anyio.to_thread.run_sync(_size, call.door.assets, asset.storage_path)
    if size < 0 and (far := await far_place(call, asset.storage_path)) is not None:
        size = far[1].size
    if size < 0 or asset.file_size not in (None, size):
        detail = f"the file of asset {asset.id} is not in this service; its url says where it was"
        raise Refused("ASSET_GONE", detail, url=link(call, asset.url))
    return size, far


def _size(root: str, path: str) -> int:
    try:
        place = inside(root, path)
        return -1 if place.is_symlink() or not place.is_file() else place.stat().st_size
    except ValueError:
        return -1
    except OSError as error:
        if is_absent(error):
            return -1
        raise


def _headers(row: AssetRow) -> dict[str, str]:
    name = row.asset.storage_path.rpartition("/")[2]
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name) or "file"
    headers = {
        "Content-Type": TYPES.get(name.rpartition(".")[2].lower(), ANY_TYPE),
        "Content-Disposition": f'attachment; filename="{plain}"',
        **LOCKED_DOWN,
    }
    if DIGITS.fullmatch(row.asset.sha256):
        headers["ETag"] = f'"{row.asset.sha256}"'
    return headers


def _seen(call: HttpCall, etag: str) -> bool:
    given = call.headers.get("If-None-Match", "")
    tags = [tag.strip().removeprefix("W/") for tag in given.split(",")]
    return given.strip() == "*" or etag in tags


def _wanted(call: HttpCall, size: int, etag: str | None) -> tuple[int, int]:
    """First and last byte. What is no single range, or is of a file that is not this one, is the
    whole file.

    Raises: Refused RANGE_NOT_SATISFIABLE."""
    whole = (0, size - 1)
    given = RANGE.fullmatch(call.headers.get("Range", ""))
    if_range = call.headers.get("If-Range")
    if given is None or given[1] == given[2] == "" or (if_range is not None and if_range != etag):
        return whole
    if not given[1]:
        first, last = max(size - int(given[2]), 0), size - 1
    else:
        first, last = int(given[1]), min(int(given[2] or size), size - 1)
        if given[2] and int(given[2]) < first:
            return whole
    if first >= size:
        detail = f"the file has {size} bytes; there is nothing in the range that was asked for"
        raise Refused("RANGE_NOT_SATISFIABLE", detail, size=size)
    return first, last


async def _only_head(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    await response.prepare(request)
    await response.write_eof()
    return response


async def _pour(
    request: web.Request,
    response: web.StreamResponse,
    blocks: AsyncIterator[bytes],
    idle_s: float,
) -> web.StreamResponse:
    """Send the bytes. An answer that has begun cannot become another one: a fault from here on
    breaks the connection. So it begins when the first of them are here."""
    block = await anext(blocks, b"")
    try:
        await response.prepare(request)
        while block:
            with anyio.fail_after(idle_s):
                await response.write(block)
            block = await anext(blocks, b"")
        await response.write_eof()
    except (OSError, EOFError, JobrunnerError):
        if request.transport is not None:
            request.transport.abort()
    return response


async def _blocks(
    call: HttpCall, path: str, far: FarPlace | None, first: int, last: int
) -> AsyncGenerator[bytes]:
    """Read from where the file is in the moment when it is opened: it may have been moved since.

    Raises: Refused ASSET_GONE, FilesUnreachable"""
    place = inside(call.door.assets, path)
    if far is None:
        try:
            file = await anyio.to_thread.run_sync(_opened, place, first)
        except Refused:
            if (far := await far_place(call, path)) is None:
                raise
        else:
            async for block in _of_disk(file, last - first + 1):
                yield block
            return
    async with aclosing(far_blocks(far, first, last)) as blocks:
        async for block in blocks:
            yield block


async def _of_disk(file: BinaryIO, left: int) -> AsyncIterator[bytes]:
    with file:
        while left:
            block = await anyio.to_thread.run_sync(file.read, min(left, BLOCK))
            if not block:
                raise EOFError("the file has become shorter")
            left -= len(block)
            yield block


def _opened(path: Path, first: int) -> BinaryIO:
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")
    except OSError as error:
        if is_absent(error):
            raise Refused("ASSET_GONE", "the file was removed just now") from error
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise Refused("OVERLOADED", "too many files are open here now") from error
        raise
    file.seek(first)
    return file
