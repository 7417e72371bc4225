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

from collections.abc import Mapping
from typing import Annotated

import anyio
from msgspec import Meta
from msgspec.structs import replace

from jobrunner.core.declaration.workflow import Definition, Upload
from jobrunner.core.job import JOB_ID, Asset, Snapshot
from jobrunner.core.messages import Sending
from jobrunner.errors import Refused
from jobrunner.files.incoming import CHUNK, AnnouncedFile
from jobrunner.http.frame.addresses import link
from jobrunner.http.frame.bodies import too_large
from jobrunner.http.frame.endpoint import MOVING, OWNERS, Endpoint, HttpCall, HttpReply, Query, View
from jobrunner.http.frame.inputs import ArtifactName, AssetId, AssetType, Count, governed_job
from jobrunner.http.frame.views import reply, view_of
from jobrunner.http.routes.files import tus, uploads

RESUMING = ("UPLOAD_IN_PROGRESS", "TUS_VERSION_UNSUPPORTED")
PIECEWISE = ("UPLOAD_OFFSET_MISMATCH", "CHECKSUM_MISMATCH")
TAKING = (*RESUMING, *PIECEWISE, "UNKNOWN_UPLOAD", "ALREADY_EXISTS")
PASSING = ("UPLOAD_IN_PROGRESS", "JOB_VERSION_CONFLICT", "JOB_PAUSED")


class AnnounceQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``job_id``: a worker's file for the attempt that it holds; the rest as with
    ``POST /jobs/{id}/assets``; its ``id`` is that of the upload too."""

    job_id: Annotated[str, Meta(max_length=64)] | None = None
    artifact: ArtifactName | None = None
    asset_type: AssetType | None = None
    claim: Count | None = None
    id: AssetId | None = None


class UploadView(View, frozen=True, kw_only=True):
    """A file that comes in piece by piece: ``offset`` bytes of ``length`` are here. ``asset_id`` is
    what it became."""

    id: str
    job_id: str | None
    upload: str | None
    offset: int
    length: int
    name: str
    asset_id: str | None
    expires_at: str


@Endpoint("OPTIONS", "/uploads", {204: None}, roles=None)
async def get_upload_options(call: HttpCall) -> HttpReply:
    """List the abilities of resumable uploads."""
    headers = {
        "Tus-Resumable": tus.VERSION,
        "Tus-Version": tus.VERSION,
        "Tus-Extension": tus.EXTENSIONS,
        "Tus-Max-Size": str(call.door.settings.max_upload),
        "Tus-Checksum-Algorithm": ",".join(tus.ALGORITHMS),
    }
    return HttpReply(204, headers=headers)


@Endpoint(
    "POST",
    "/jobs/{id}/uploads",
    {201: None},
    OWNERS,
    streams=tus.PIECE,
    codes=(*MOVING, *TAKING, "QUOTA_EXCEEDED"),
)
@tus.spoken
async def create_job_upload(call: HttpCall) -> HttpReply:
    """Announce a file for a job, to be sent in pieces (tus 1.0.0).

    The request may bring the first piece."""
    tus.check_version(call)
    job, definition = await governed_job(call)
    told = tus.metadata_in(call.headers.get("Upload-Metadata", ""))
    declared = uploads.admit(call, job, definition, told.get("upload", ""), tus.media_type_in(told))
    order = tus.announced(call, told, uploads.limit_of(call, declared), job.id, declared.name)
    return await _create(call, order)


@Endpoint(
    "POST",
    "/uploads",
    {201: None},
    streams=tus.PIECE,
    query=AnnounceQuery,
    codes=(*MOVING, *TAKING, "QUOTA_EXCEEDED"),
)
@tus.spoken
async def create_upload(call: HttpCall) -> HttpReply:
    """Announce a file before its job; with job_id, for the attempt of a worker."""
    tus.check_version(call)
    query: AnnounceQuery = call.query
    told = tus.metadata_in(call.headers.get("Upload-Metadata", ""))
    if query.job_id:
        return await _create(call, await _order_of_worker(call, told, query))
    if call.actor.role == "workflow":
        raise Refused("FORBIDDEN", "role workflow sends files for jobs; say which: job_id")
    return await _create(call, tus.announced(call, told, call.door.settings.max_upload))


@Endpoint(
    "GET",
    "/uploads/{id}",
    {200: UploadView},
    codes=(*MOVING, *TAKING, "STORAGE_FULL", "OUTCOME_UNKNOWN", "OVERLOADED"),
)
@tus.spoken
async def get_upload(call: HttpCall) -> HttpReply:
    """Show how far an upload has come; HEAD has the same in headers."""
    order = _own(call)
    offset = await _offset(call, order)
    if offset == order.length and not order.asset_id and call.actor.role != "reader":
        with call.door.arrivals.alone(order.id):
            order = _own(call)
            order = order if order.asset_id else await _finished(call, order)
    ties = {name: getattr(order, name) or None for name in ("job_id", "upload", "asset_id")}
    shown = reply(view_of(UploadView, order, offset=offset, **ties))
    shown.headers.update(tus.progress_headers(call, order, offset))
    shown.headers["Upload-Length"] = str(order.length)
    if order.metadata:
        shown.headers["Upload-Metadata"] = order.metadata
    return shown


@Endpoint("PATCH", "/uploads/{id}", {204: None}, streams=tus.PIECE, codes=(*MOVING, *TAKING))
@tus.spoken
async def continue_upload(call: HttpCall) -> HttpReply:
    """Send the next piece; the last one makes the upload an asset."""
    tus.check_version(call)
    order = _own(call)
    tus.check_piece(call)
    claimed = tus.number_in(call, "Upload-Offset")
    with call.door.arrivals.alone(order.id):
        offset = await _offset(call, order)
        if claimed != offset:
            detail = f"the upload stands at {offset}, not at {claimed}; go on from there"
            raise Refused("UPLOAD_OFFSET_MISMATCH", detail, offset=offset)
        order, offset = await _take(call, order, offset)
    return HttpReply(204, headers=tus.progress_headers(call, order, offset))


@Endpoint("DELETE", "/uploads/{id}", {204: None}, codes=RESUMING)
@tus.spoken
async def end_upload(call: HttpCall) -> HttpReply:
    """Give up an upload.

    A file that it became stays."""
    tus.check_version(call)
    order = _own(call)
    with call.door.arrivals.alone(order.id):
        await call.door.arrivals.forget(order)
    return HttpReply(204)


async def _order_of_worker(
    call: HttpCall, told: Mapping[str, str], query: AnnounceQuery
) -> AnnouncedFile:
    job, definition = await governed_job(call._replace(path={"id": query.job_id or ""}))
    order = tus.announced(call, told, uploads.sent_limit(call, definition), job.id)
    order = replace(
        order,
        asset_type=query.asset_type or uploads.type_of(order.media_type, order.name),
        artifact=query.artifact or "",
        claim=query.claim,
        id=query.id or order.id,
    )
    await uploads.check_unused(call, query.id)
    uploads.admit_sent(job, definition, _sending(call, order))

    return order


def _sending(call: HttpCall, order: AnnouncedFile) -> Sending:
    asset = Asset(order.id, order.asset_type, "")
    return Sending(call.actor, asset, order.artifact, claim=order.claim)


async def _create(call: HttpCall, order: AnnouncedFile) -> HttpReply:
    arrivals, stream, offset = call.door.arrivals, call.stream, 0
    with_piece = stream.length != 0
    if with_piece:
        tus.check_piece(call)
    await arrivals.check_room(order.length)
    with arrivals.alone(order.id):
        await _announce(call, order)
        if with_piece:
            order, offset = await _take(call, order, 0)
    headers = {
        "Location": link(call, f"/uploads/{order.id}"),
        **tus.progress_headers(call, order, offset),
    }
    return HttpReply(201, headers=headers)


async def _announce(call: HttpCall, order: AnnouncedFile) -> None:
    """Make the part first, and the order last: an order speaks of a part that is there, and one
    that could not be kept leaves nothing.

    Raises: Refused ALREADY_EXISTS, QUOTA_EXCEEDED, OVERLOADED; StorageFull"""
    arrivals = call.door.arrivals
    if order.id in arrivals.orders:
        raise Refused("ALREADY_EXISTS", f"upload {order.id} was announced before; go on with it")
    (await arrivals.begin(order.id, user_id=uploads.sender_of(call))).close()
    try:
        await arrivals.promise(order)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await arrivals.drop(order.id)
        raise


async def _take(call: HttpCall, order: AnnouncedFile, offset: int) -> tuple[AnnouncedFile, int]:
    """A piece, at the end of what is there. What came of one that breaks off stays, unless it was
    to be checked."""
    arrivals, stream = call.door.arrivals, call.stream
    left = order.length - offset
    if stream.length is not None and stream.length > left:
        raise too_large(left)
    checked = tus.checksum_in(call)
    job, declared = await _still_wanted(call, order)
    await arrivals.check_room(left)
    name = order.id + CHUNK if checked else order.id
    part = await arrivals.begin(name, again=not checked, user_id=uploads.sender_of(call))
    try:
        async for block in stream.blocks(left):
            if not offset and not part.size and job is not None and declared is not None:
                await uploads.begin(call, job, declared)
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


async def _still_wanted(
    call: HttpCall, order: AnnouncedFile
) -> tuple[Snapshot | None, Upload | None]:
    """Raises: Refused, when the job takes no such file any more."""
    if not order.job_id:
        return None, None
    job, definition = await _job(call, order)
    if not order.upload:
        uploads.admit_sent(job, definition, _sending(call, order))
        return None, None
    return job, uploads.admit(call, job, definition, order.upload, order.media_type)


async def _finished(call: HttpCall, order: AnnouncedFile) -> AnnouncedFile:
    """Make the whole file an asset, once. What is refused now will not be taken later either, so it
    goes, unless the reason is one that passes."""
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


async def _become_asset(call: HttpCall, order: AnnouncedFile) -> str:
    sha256 = await call.door.arrivals.digest(order.id)
    if not order.job_id:
        await uploads.finish_alone(call, order.id, order.user_id, order.name, sha256)
        return order.id
    job, definition = await _job(call, order)
    if not order.upload:
        await uploads.finish_sent(call, job, definition, _sending(call, order), order.name, sha256)
        return order.id
    declared = definition.uploads.get(order.upload)
    if declared is None:
        raise Refused("UNKNOWN_UPLOAD", f"{job.workflow} takes no upload {order.upload!r} any more")
    with call.door.arrivals.alone(job.id):
        answer = await uploads.finish(call, job, definition, declared, order.id, order.name, sha256)
    return str(answer.fields["asset"]["id"])


async def _job(call: HttpCall, order: AnnouncedFile) -> tuple[Snapshot, Definition]:
    return await governed_job(call._replace(path={"id": order.job_id}))


async def _offset(call: HttpCall, order: AnnouncedFile) -> int:
    return order.length if order.asset_id else await call.door.arrivals.size(order.id)


def _own(call: HttpCall) -> AnnouncedFile:
    """Raises: Refused NOT_FOUND, also for a stranger's, and for one that has expired."""
    order = call.door.arrivals.orders.get(call.path["id"])
    if order is None or not JOB_ID.fullmatch(order.id):
        raise Refused("NOT_FOUND", f"there is no upload {call.path['id']}")
    mine = call.actor.oversees or order.user_id == call.actor.name
    if not mine or order.expires_at <= call.door.clock.now():
        raise Refused("NOT_FOUND", f"there is no upload {call.path['id']}")
    return order
