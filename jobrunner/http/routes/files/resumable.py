"""Files coming in piece by piece, over as many requests, connections and restarts as it takes: the
tus protocol 1.0.0 with creation, creation-with-upload, termination, checksum and expiration.

How far an upload has come is the size of its part on the disk, so no restart can lose it or make
it up. A piece that was sent with a checksum is kept apart until it is known to be whole. With its
last byte an upload becomes an asset of the same id, and for a job it walks what the workflow says;
a client that did not hear that asks with HEAD, and what was left undone is done then.

Left out are concatenation and deferred lengths: the first would let one request make a file of any
number of others, the second takes away what every limit is checked against. Asking for either is
refused.
"""

import hashlib
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from typing import Any

import anyio
from msgspec.structs import replace

from jobrunner.core.declaration.workflow import Definition, Upload
from jobrunner.core.job import Asset, Snapshot
from jobrunner.core.messages import Sending
from jobrunner.errors import Refused
from jobrunner.files.incoming import CHUNK, ID, AnnouncedFile
from jobrunner.http.frame.addresses import link
from jobrunner.http.frame.bodies import too_large
from jobrunner.http.frame.call import Call, Reply
from jobrunner.http.frame.finding import governed_job
from jobrunner.http.frame.instants import text_of
from jobrunner.http.frame.problems import invalid, problem, refusal_of
from jobrunner.http.frame.rendering import reply
from jobrunner.http.frame.streamed_bodies import ANY_TYPE, Stream
from jobrunner.http.routes.files.uploads import (
    admit,
    admit_sent,
    begin,
    check_length,
    empty,
    finish,
    finish_alone,
    finish_sent,
    limit_of,
    sent_limit,
    type_of,
)
from jobrunner.http.views import UploadView
from jobrunner.http.wire import AnnounceQuery

VERSION = "1.0.0"
PIECE = "application/offset+octet-stream"
EXTENSIONS = "creation,creation-with-upload,termination,checksum,expiration"
ALGORITHMS = ("sha256", "sha1")
METADATA_MAX = 4096
DIGITS_MAX = 16
PASSING = ("UPLOAD_IN_PROGRESS", "JOB_VERSION_CONFLICT", "JOB_PAUSED")

Handler = Callable[[Call], Awaitable[Reply]]


def spoken(handler: Handler) -> Handler:
    """In this protocol every answer names its version, refusals included."""

    async def answered(call: Call) -> Reply:
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


async def options(call: Call) -> Reply:
    """What this server can do."""
    headers = {
        "Tus-Resumable": VERSION,
        "Tus-Version": VERSION,
        "Tus-Extension": EXTENSIONS,
        "Tus-Max-Size": str(call.door.settings.max_upload),
        "Tus-Checksum-Algorithm": ",".join(ALGORITHMS),
    }
    return Reply(204, headers=headers)


@spoken
async def create_for_job(call: Call) -> Reply:
    """Announce a file for a job, perhaps with its first piece."""
    _check_version(call)
    job, definition = await governed_job(call)
    told = _metadata(call.headers.get("Upload-Metadata", ""))
    declared = admit(call, job, definition, told.get("upload", ""), _media_type(told))
    order = _order(call, told, limit_of(call, declared), job.id, declared.name)
    return await _create(call, order)


@spoken
async def create(call: Call) -> Reply:
    """The same for a file before its job."""
    _check_version(call)
    query: AnnounceQuery = call.query
    told = _metadata(call.headers.get("Upload-Metadata", ""))
    if query.job_id:
        return await _create(call, await _order_of_worker(call, told, query))
    if call.actor.role == "workflow":
        raise Refused("FORBIDDEN", "role workflow sends files for jobs; say which: job_id")
    return await _create(call, _order(call, told, call.door.settings.max_upload))


@spoken
async def show(call: Call) -> Reply:
    """How far it has come; the same in headers, for HEAD."""
    order = _own(call)
    offset = await _offset(call, order)
    if offset == order.length and not order.asset_id:
        with call.door.arrivals.alone(order.id):
            order = _own(call)
            order = order if order.asset_id else await _finished(call, order)
    view = UploadView(
        id=order.id,
        job_id=order.job_id or None,
        upload=order.upload or None,
        offset=offset,
        length=order.length,
        name=order.name,
        asset_id=order.asset_id or None,
        expires_at=text_of(order.expires_at),
    )
    shown = reply(view)
    shown.headers.update(_progress(call, order, offset))
    shown.headers["Upload-Length"] = str(order.length)
    if order.metadata:
        shown.headers["Upload-Metadata"] = order.metadata
    return shown


@spoken
async def append(call: Call) -> Reply:
    """The next piece."""
    _check_version(call)
    order = _own(call)
    _check_piece(call)
    claimed = _number(call, "Upload-Offset")
    with call.door.arrivals.alone(order.id):
        offset = await _offset(call, order)
        if claimed != offset:
            detail = f"the upload stands at {offset}, not at {claimed}; go on from there"
            raise Refused("UPLOAD_OFFSET_MISMATCH", detail, offset=offset)
        order, offset = await _take(call, order, offset)
    return Reply(204, headers=_progress(call, order, offset))


@spoken
async def end(call: Call) -> Reply:
    """Give up an upload; a file that it became stays."""
    _check_version(call)
    order = _own(call)
    with call.door.arrivals.alone(order.id):
        await call.door.arrivals.forget(order)
    return Reply(204)


async def _order_of_worker(
    call: Call, told: Mapping[str, str], query: AnnounceQuery
) -> AnnouncedFile:
    job, definition = await governed_job(call._replace(path={"id": query.job_id or ""}))
    order = _order(call, told, sent_limit(call, definition), job.id)
    order = replace(
        order,
        asset_type=query.asset_type or type_of(order.media_type, order.name),
        artifact=query.artifact or "",
        claim=query.claim,
    )
    await admit_sent(call, job, definition, _sending(call, order))
    return order


def _sending(call: Call, order: AnnouncedFile) -> Sending:
    asset = Asset(order.id, order.asset_type, "")
    return Sending(call.actor, asset, order.artifact, claim=order.claim)


async def _create(call: Call, order: AnnouncedFile) -> Reply:
    arrivals, stream, offset = call.door.arrivals, call.stream, 0
    with_piece = stream.length != 0
    if with_piece:
        _check_piece(call)
    await arrivals.check_room(order.length)
    await arrivals.promise(order)
    with arrivals.alone(order.id):
        part = await arrivals.begin(order.id)
        part.close()
        if with_piece:
            order, offset = await _take(call, order, 0)
    headers = {"Location": link(call, f"/uploads/{order.id}"), **_progress(call, order, offset)}
    return Reply(201, headers=headers)


async def _take(call: Call, order: AnnouncedFile, offset: int) -> tuple[AnnouncedFile, int]:
    """A piece, at the end of what is there. What came of one that breaks off stays, unless it was
    to be checked."""
    arrivals, stream = call.door.arrivals, call.stream
    left = order.length - offset
    if stream.length is not None and stream.length > left:
        raise too_large(left)
    checked = _checksum(call)
    job, declared = await _still_wanted(call, order)
    await arrivals.check_room(left)
    name = order.id + CHUNK if checked else order.id
    part = await arrivals.begin(name, again=not checked)
    try:
        async for block in stream.blocks(left):
            if not offset and not part.size and job is not None and declared is not None:
                await begin(call, job, declared)
            await part.write(block)
            if checked:
                checked.sum.update(block)
        await part.flush()
        if checked:
            checked.judge()
            await arrivals.append(order.id, name)
    finally:
        part.close()
        if checked:
            with anyio.CancelScope(shield=True):
                await arrivals.drop(name)
    offset += part.size
    if offset == order.length:
        order = await _finished(call, order)
    return order, offset


async def _still_wanted(call: Call, order: AnnouncedFile) -> tuple[Snapshot | None, Upload | None]:
    """Raises: Refused, when the job takes no such file any more."""
    if not order.job_id:
        return None, None
    job, definition = await _job(call, order)
    if not order.upload:
        await admit_sent(call, job, definition, _sending(call, order))
        return None, None
    return job, admit(call, job, definition, order.upload, order.media_type)


async def _finished(call: Call, order: AnnouncedFile) -> AnnouncedFile:
    """All bytes are here: they become an asset, once. What is refused now will not be taken later
    either, so it goes, unless the reason is one that passes."""
    arrivals = call.door.arrivals
    known = await call.door.reader.asset(order.id)
    try:
        asset_id = order.id if known else await _become_asset(call, order)
    except Refused as refused:
        if refused.status < 500 and refused.code not in PASSING:
            await arrivals.forget(order)
        raise
    done = replace(order, asset_id=asset_id)
    await arrivals.promise(done)
    await arrivals.drop(order.id)
    return done


async def _become_asset(call: Call, order: AnnouncedFile) -> str:
    sha256 = await call.door.arrivals.digest(order.id)
    if not order.job_id:
        await finish_alone(call, order.id, order.user_id, order.name, sha256)
        return order.id
    job, definition = await _job(call, order)
    if not order.upload:
        await finish_sent(call, job, definition, _sending(call, order), order.name, sha256)
        return order.id
    declared = definition.uploads.get(order.upload)
    if declared is None:
        raise Refused("UNKNOWN_UPLOAD", f"{job.workflow} takes no upload {order.upload!r} any more")
    with call.door.arrivals.alone(job.id):
        answer = await finish(call, job, definition, declared, order.id, order.name, sha256)
    return str(answer.fields["asset"]["id"])


async def _job(call: Call, order: AnnouncedFile) -> tuple[Snapshot, Definition]:
    return await governed_job(call._replace(path={"id": order.job_id}))


async def _offset(call: Call, order: AnnouncedFile) -> int:
    return order.length if order.asset_id else await call.door.arrivals.size(order.id)


def _own(call: Call) -> AnnouncedFile:
    """Raises: Refused NOT_FOUND, also for a stranger's, and for one that has expired."""
    order = call.door.arrivals.orders.get(call.path["id"])
    if order is None or not ID.fullmatch(order.id):
        raise Refused("NOT_FOUND", f"there is no upload {call.path['id']}")
    mine = call.actor.role == "admin" or order.user_id == call.actor.name
    if not mine or order.expires_at <= call.door.clock.now():
        raise Refused("NOT_FOUND", f"there is no upload {call.path['id']}")
    return order


def _order(
    call: Call, told: Mapping[str, str], limit: int, job_id: str = "", upload: str = ""
) -> AnnouncedFile:
    """Raises: Refused."""
    if "Upload-Concat" in call.headers or "Upload-Defer-Length" in call.headers:
        detail = f"uploads are not joined here, and their length is said first: {EXTENSIONS}"
        raise invalid(detail, ("Upload-Concat", "not supported"))
    length = _number(call, "Upload-Length")
    if not length:
        raise empty()
    check_length(length, limit)
    now = call.door.clock.now()
    return AnnouncedFile(
        id=call.door.ids.fresh(),
        user_id=call.actor.name,
        length=length,
        name=told.get("filename", told.get("name", ""))[:255],
        media_type=_media_type(told),
        created_at=now,
        expires_at=now + int(call.door.settings.upload_expires_s * 1000),
        job_id=job_id,
        upload=upload,
        metadata=call.headers.get("Upload-Metadata", ""),
    )


def _progress(call: Call, order: AnnouncedFile, offset: int) -> dict[str, str]:
    headers = {"Upload-Offset": str(offset)}
    if not order.asset_id:
        headers["Upload-Expires"] = formatdate(order.expires_at / 1000, usegmt=True)
    else:
        headers["Content-Location"] = link(call, f"/assets/{order.asset_id}")
    return headers


def _check_version(call: Call) -> None:
    given = call.headers.get("Tus-Resumable")
    if given != VERSION:
        detail = f"send Tus-Resumable: {VERSION}, not {given!r}"
        raise Refused("TUS_VERSION_UNSUPPORTED", detail, versions=[VERSION])


def _check_piece(call: Call) -> None:
    stream: Stream = call.stream
    if stream.media_type != PIECE:
        raise Refused("UNSUPPORTED_MEDIA_TYPE", f"send Content-Type: {PIECE}")


def _number(call: Call, header: str) -> int:
    """Raises: Refused VALIDATION_ERROR."""
    headers: Any = call.headers
    given = headers.getall(header, [])
    text = given[0] if len(given) == 1 else ""
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX):
        detail = f"{header}: one whole number of bytes"
        raise invalid(detail, (header, detail))
    return int(text)


def _metadata(header: str) -> dict[str, str]:
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


def _media_type(told: Mapping[str, str]) -> str:
    given = told.get("filetype", told.get("type", "")).partition(";")[0].strip().lower()
    return given or ANY_TYPE


class _Checksum:
    """What a piece is to add up to."""

    def __init__(self, algorithm: str, wanted: bytes) -> None:
        self.sum = hashlib.new(algorithm, usedforsecurity=False)
        self._wanted = wanted

    def judge(self) -> None:
        if self.sum.digest() != self._wanted:
            found = b64encode(self.sum.digest()).decode()
            detail = "the piece is not what its checksum says; send it again"
            raise Refused("CHECKSUM_MISMATCH", detail, received=found)


def _checksum(call: Call) -> _Checksum | None:
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
    return _Checksum(algorithm, wanted)
