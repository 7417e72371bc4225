"""Files coming in, in one request: for a job, or before there is one.

The order is always the same. Whatever can be refused is refused before a byte is asked for. Then
the bytes go to a part, the part to its place, and last the row is committed; what fails on the way
leaves neither file nor row, and the same may be sent again.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated

import anyio
from msgspec import Meta
from msgspec.structs import replace

from jobrunner.actors import Answer
from jobrunner.core.declaration.workflow import Definition, Upload
from jobrunner.core.features.sent_files import sendable
from jobrunner.core.features.uploads import admitted, safe_name
from jobrunner.core.job import Asset, Snapshot
from jobrunner.core.messages import Arrived, Arriving, Sending
from jobrunner.core.units import Shelve
from jobrunner.errors import OutcomeUnknown, PluginFault, Refused
from jobrunner.files.incoming import PartFile, Placed
from jobrunner.http.frame.addresses import link
from jobrunner.http.frame.bodies import too_large
from jobrunner.http.frame.endpoint import (
    MOVING,
    OWNERS,
    WORKERS,
    Endpoint,
    HttpCall,
    HttpReply,
    Query,
)
from jobrunner.http.frame.etags import expected_version
from jobrunner.http.frame.inputs import ArtifactName, AssetId, AssetType, Count, Word, governed_job
from jobrunner.http.frame.problems import invalid
from jobrunner.http.frame.streaming import ANY_TYPE, Stream
from jobrunner.http.frame.views import AssetEntry, Job, asset_entry, reply, reply_answer
from jobrunner.http.routes.files.content import TYPES

ARRIVING = ("UPLOAD_IN_PROGRESS", "DIGEST_MISMATCH", "UNKNOWN_UPLOAD")
LIBRARY = "upload"
FAMILIES = ("image", "audio", "video", "text")
First = Callable[[], Awaitable[None]]
STRUCTURED = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]{44}):\s*(?:,|$)")
HEX = re.compile(r"[0-9a-fA-F]{64}")


class ShelfQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(max_length=1024)] = ""


class SendQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``artifact`` is what the file is the value of, as soon as a report succeeds; ``asset_type``
    what it is in the job's library (else as its media type says). ``claim``, ``attempt`` and
    ``run_id`` say which work it is of. ``id`` is a fresh one for the asset: sent again under the
    same one, it is one file."""

    id: AssetId | None = None
    name: Annotated[str, Meta(max_length=1024)] = ""
    artifact: ArtifactName | None = None
    asset_type: AssetType | None = None
    claim: Count | None = None
    attempt: Count | None = None
    run_id: Word | None = None


class UploadQuery(ShelfQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``name`` is what the file is called; what of it cannot stand in a path is replaced.
    ``upload`` says which of the files that the workflow takes this is (default: the first)."""

    upload: Annotated[str, Meta(max_length=64)] = ""


@Endpoint(
    "PUT",
    "/jobs/{id}/upload",
    {200: Job},
    OWNERS,
    streams=ANY_TYPE,
    query=UploadQuery,
    codes=(*MOVING, *ARRIVING),
)
async def upload_file(call: HttpCall) -> HttpReply:
    """Send a file for a job in one request; the body is the file."""
    query: UploadQuery = call.query
    stream: Stream = call.stream
    job, definition = await governed_job(call)
    declared = admit(call, job, definition, query.upload, stream.media_type)
    limit, wanted = limit_of(call, declared), expected_digest(call)
    version = expected_version(call)
    check_length(stream.length, limit)
    with call.door.arrivals.alone(job.id):
        asset_id = call.door.ids.fresh()
        async with _part(call, asset_id, stream.length) as part:
            await _receive(part, stream, limit, wanted, lambda: begin(call, job, declared, version))
            answer = await finish(
                call, job, definition, declared, asset_id, query.name, part.sha256
            )
    return reply_answer(call, answer, 200)


@Endpoint(
    "POST",
    "/assets",
    {201: AssetEntry},
    OWNERS,
    streams=ANY_TYPE,
    query=ShelfQuery,
    codes=("DIGEST_MISMATCH", "ALREADY_EXISTS"),
)
async def create_asset(call: HttpCall) -> HttpReply:
    """Send a file before its job; the body is the file."""
    query: ShelfQuery = call.query
    stream: Stream = call.stream
    _ = stream.media_type
    limit, wanted = call.door.settings.max_upload, expected_digest(call)
    check_length(stream.length, limit)
    asset_id = call.door.ids.fresh()
    async with _part(call, asset_id, stream.length) as part:
        await _receive(part, stream, limit, wanted, None)
        asset = await finish_alone(call, asset_id, call.actor.name, query.name, part.sha256)
    shown = reply(asset_entry(call, asset, None), 201)
    shown.headers["Location"] = link(call, f"/assets/{asset_id}")
    return shown


@Endpoint(
    "POST",
    "/jobs/{id}/assets",
    {201: AssetEntry},
    WORKERS,
    streams=ANY_TYPE,
    query=SendQuery,
    codes=(*MOVING, "DIGEST_MISMATCH", "QUOTA_EXCEEDED", "ALREADY_EXISTS", "UPLOAD_IN_PROGRESS"),
)
async def send_asset(call: HttpCall) -> HttpReply:
    """Send a file for the attempt that a worker works on; the body is the file."""
    query: SendQuery = call.query
    stream: Stream = call.stream
    job, definition = await governed_job(call)
    asset_id = query.id or call.door.ids.fresh()
    asset = Asset(asset_id, query.asset_type or type_of(stream.media_type, query.name), "")
    marks = (query.run_id, query.attempt, query.claim)
    asked = Sending(call.actor, asset, query.artifact or "", *marks)
    admit_sent(job, definition, asked)
    await check_unused(call, query.id)
    limit, wanted = sent_limit(call, definition), expected_digest(call)
    check_length(stream.length, limit)
    with call.door.arrivals.alone(asset_id):
        async with _part(call, asset_id, stream.length) as part:
            await _receive(part, stream, limit, wanted, None)
            asset = await finish_sent(call, job, definition, asked, query.name, part.sha256)
    return reply(asset_entry(call, asset, job.id), 201)


async def check_unused(call: HttpCall, asset_id: str | None) -> None:
    """Raises: Refused ALREADY_EXISTS, where a file of this id has become somebody's."""
    if asset_id and await call.door.reader.asset(asset_id) is not None:
        detail = f"there is an asset {asset_id} already; a file that is sent has a fresh id"
        raise Refused("ALREADY_EXISTS", detail)


def admit_sent(job: Snapshot, definition: Definition, asked: Sending) -> None:
    """Raises: Refused, for everything that is known without the file."""
    if refused := sendable(definition, job, asked.actor, asked, asked.artifact):
        raise refused


async def finish_sent(
    call: HttpCall,
    job: Snapshot,
    definition: Definition,
    asked: Sending,
    wanted_name: str,
    sha256: str,
) -> Asset:
    """The whole part lies among the files of the job, and waits there for a report."""
    name = safe_name(wanted_name, asked.asset.asset_type)
    waiting = job.attempt.sent if job.attempt else ()
    count = sum(job.asset_types.values()) + len(waiting)
    arrivals, folder = call.door.arrivals, _folder(definition, job)
    placed = await arrivals.place(asked.asset.id, folder, name, count, sha256)
    asset = _asset(call, asked.asset.id, asked.asset.asset_type, placed)
    async with _or_removed(call, placed):
        answer = await call.door.facade.ask(job.id, replace(asked, asset=asset))
    if answer.replayed:
        await arrivals.remove(placed.path)
    return asset


def sent_limit(call: HttpCall, definition: Definition) -> int:
    """Allow as much as the largest file that the workflow takes from people, where it says so."""
    most = call.door.settings.max_upload
    sizes = [upload.max_bytes or most for upload in definition.workflow.uploads]
    return min(max(sizes, default=most), most)


def type_of(media_type: str, name: str) -> str:
    """Name the type of a file when nobody says it: its family, or just a file."""
    told = TYPES.get(name.rpartition(".")[2].lower(), "") if media_type == ANY_TYPE else media_type
    family = told.partition("/")[0]
    return family if family in FAMILIES else "file"


def admit(
    call: HttpCall, job: Snapshot, definition: Definition, name: str, media_type: str
) -> Upload:
    """Raises: Refused, for everything that is known without the file."""
    now = call.door.clock.now()
    try:
        found = admitted(definition, job, call.actor, name, media_type, now)
    except PluginFault as fault:
        raise call.door.facade.faulted(fault, job) from fault
    if isinstance(found, Refused):
        raise found
    return found


async def begin(
    call: HttpCall, job: Snapshot, declared: Upload, version: int | None = None
) -> None:
    """The first byte is here."""
    await call.door.facade.ask(job.id, Arriving(call.actor, declared.name, version))


async def finish(
    call: HttpCall,
    job: Snapshot,
    definition: Definition,
    declared: Upload,
    asset_id: str,
    wanted_name: str,
    sha256: str,
) -> Answer:
    """The whole part becomes a file of the job, in the commit that its arrival is decided in."""
    name, folder = safe_name(wanted_name, declared.asset_type), _folder(definition, job)
    count = sum(job.asset_types.values())
    placed = await call.door.arrivals.place(asset_id, folder, name, count, sha256)
    asset = _asset(call, asset_id, declared.asset_type, placed)
    async with _or_removed(call, placed):
        asked = Arrived(call.actor, declared.name, asset)
        answer = await call.door.facade.ask(job.id, asked)
    if answer.replayed:
        await call.door.arrivals.remove(placed.path)
    return answer


async def finish_alone(
    call: HttpCall, asset_id: str, user_id: str, wanted_name: str, sha256: str
) -> Asset:
    """The same for a file that is no job's: it lies in a folder of its own."""
    name, folder = safe_name(wanted_name, LIBRARY), f"{user_id}/{asset_id}"
    placed = await call.door.arrivals.place(asset_id, folder, name, 0, sha256)
    asset = _asset(call, asset_id, LIBRARY, placed)
    async with _or_removed(call, placed):
        await call.door.facade.write(Shelve(asset, user_id))
    call.door.log(
        "asset.created", asset_id=asset_id, asset_type=LIBRARY, user_id=user_id, job_id=None
    )
    return asset


def _folder(definition: Definition, job: Snapshot) -> str:
    parts = (definition.workflow.folder, job.user_id, job.id)
    return "/".join(part for part in parts if part)


def limit_of(call: HttpCall, declared: Upload) -> int:
    most = call.door.settings.max_upload
    return min(declared.max_bytes or most, most)


def check_length(length: int | None, limit: int) -> None:
    """Raises: Refused BODY_TOO_LARGE, VALIDATION_ERROR."""
    if length == 0:
        raise empty()
    if length is not None and length > limit:
        raise too_large(limit)


def empty() -> Refused:
    return invalid("the file is empty; send its bytes as the body", ("$", "empty"))


def sender_of(call: HttpCall) -> str:
    """Name the user who has only a share of what may come in; workers of one token are many."""
    return call.actor.name if call.actor.role == "user" else ""


def expected_digest(call: HttpCall) -> str | None:
    """Read the SHA-256 that the caller announces: ``Content-Digest`` or ``Repr-Digest`` as in
    RFC 9530, or ``X-Content-SHA256`` in hex.

    Raises: Refused VALIDATION_ERROR."""
    for header in ("Content-Digest", "Repr-Digest"):
        given = call.headers.get(header)
        if given is not None and "sha-256" in given:
            found = STRUCTURED.search(given)
            if found is None:
                raise _bad_digest(header, "sha-256=:BASE64:")
            return _decoded(header, found[1])
    plain = call.headers.get("X-Content-SHA256")
    if plain is None:
        return None
    if not HEX.fullmatch(plain.strip()):
        raise _bad_digest("X-Content-SHA256", "64 hex digits")
    return plain.strip().lower()


def _decoded(header: str, text: str) -> str:
    try:
        raw = b64decode(text, validate=True)
    except Error:
        raw = b""
    if len(raw) != 32:
        raise _bad_digest(header, "sha-256=:BASE64:")
    return raw.hex()


def _bad_digest(header: str, form: str) -> Refused:
    detail = f"{header} does not read like {form}"
    return invalid(detail, (header, detail))


@asynccontextmanager
async def _part(call: HttpCall, asset_id: str, length: int | None) -> AsyncIterator[PartFile]:
    """Gone when the block is left, however that is: what is worth keeping has another name then."""
    arrivals = call.door.arrivals
    await arrivals.check_room(length or 0)
    part = await arrivals.begin(asset_id, user_id=sender_of(call))
    try:
        yield part
    finally:
        part.close()
        with anyio.CancelScope(shield=True):
            await arrivals.drop(asset_id)


async def _receive(
    part: PartFile, stream: Stream, limit: int, wanted: str | None, first: First | None
) -> None:
    """Raises: Refused, also when the sender is gone before the end."""
    async for block in stream.blocks(limit):
        if not part.size and first is not None:
            await first()
        await part.write(block)
    if not part.size:
        raise empty()
    if wanted is not None and wanted != part.sha256:
        detail = "what arrived is not what was announced; send it again"
        raise Refused("DIGEST_MISMATCH", detail, expected=wanted, received=part.sha256)
    await part.flush()


@asynccontextmanager
async def _or_removed(call: HttpCall, placed: Placed) -> AsyncIterator[None]:
    """A file whose row is not written goes. Where nobody knows, it stays: the next start will."""
    try:
        yield
    except OutcomeUnknown:
        raise
    except BaseException:
        with anyio.CancelScope(shield=True):
            await call.door.arrivals.remove(placed.path)
        raise


def _asset(call: HttpCall, asset_id: str, asset_type: str, placed: Placed) -> Asset:
    return Asset(
        id=asset_id,
        asset_type=asset_type,
        url=f"/assets/{asset_id}/content",
        storage_path=placed.path,
        file_size=placed.size,
        sha256=placed.sha256,
        created_at=call.door.clock.now(),
    )
