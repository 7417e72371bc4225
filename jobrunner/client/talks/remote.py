"""The conversations of whoever runs a stage elsewhere: claims, what the stage says, its files.

All of it may be said twice, for it has a key or an id, or is the same the second time.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, BinaryIO

import msgspec

from jobrunner.client.records import ClaimRecord, FileRecord, JobRecord
from jobrunner.client.refusing import InConflict
from jobrunner.client.talk import ON_THE_WAY, Aside, FreshKey, RetryLimits, Talk, WireRequest
from jobrunner.client.talks.asking import at, job_in, read_of, record_in, value_in, written
from jobrunner.client.talks.carrying import ANY_TYPE, PIECE, TUS, carried, encoded, unseen


def claims(
    workflow: str,
    *,
    runs: Sequence[Mapping[str, str]] | None = None,
    digest: str | None = None,
    status: Sequence[str] | None = None,
    job_type: str | None = None,
    most: int = 1,
    wait_s: float = 0,
    key: str | None = None,
) -> Talk[list[ClaimRecord]]:
    """Look for work, and take it; asked again under its ``key``, it is what was given then. With
    ``runs``, stages by ``state`` and ``job_type`` that the caller has by the plugin whose
    declaration has this ``digest``, each comes with its brief."""
    wishes: dict[str, Any] = {"runs": runs, "digest": digest}
    wishes |= {"status": status, "job_type": job_type}
    body = {name: wish for name, wish in wishes.items() if wish is not None}
    body |= {"workflow": workflow, "max": most, "wait": wait_s, "key": key or (yield FreshKey())}
    answer = yield written("POST", "/internal/claims", body, repeatable=True, wait_s=wait_s)
    return msgspec.convert(value_in(answer)["claims"], list[ClaimRecord])


def beat(
    job_id: str, claim: int, *, progress: int | None = None, message: str | None = None
) -> Talk[JobRecord]:
    """Say how far it is, or just that it goes on; the lease is renewed."""
    said = {"claim": claim, "progress": progress, "message": message}
    body = {name: value for name, value in said.items() if value is not None}
    return job_in((yield written("POST", at("jobs", job_id, "progress"), body, repeatable=True)))


def outcome(job_id: str, claim: int, said: Mapping[str, Any]) -> Talk[JobRecord]:
    """Say how a stage ended: see ``StageOutcome`` of the OpenAPI document. It has an ``id``."""
    path = at("internal", "jobs", job_id, "outcome")
    return job_in((yield written("POST", path, {**said, "claim": claim}, repeatable=True)))


def checkpoint(job_id: str, claim: int, said: Mapping[str, Any]) -> Talk[JobRecord]:
    """Hand over what a stage has made so far, under its ``id`` once."""
    path = at("internal", "jobs", job_id, "checkpoint")
    return job_in((yield written("POST", path, {**said, "claim": claim}, repeatable=True)))


def keep(job_id: str, claim: int, name: str, value: Any) -> Talk[JobRecord]:
    """Keep a value for this attempt, and for whoever takes it over."""
    body = {"claim": claim, "name": name, "value": value}
    path = at("internal", "jobs", job_id, "kept")
    return job_in((yield written("POST", path, body, repeatable=True)))


def file_for(asset_id: str, job_id: str) -> Talk[FileRecord]:
    """Read the record of a file, if it is one of the owner of this job."""
    path = at("assets", asset_id)
    return record_in((yield read_of(path, {"job_id": job_id})), FileRecord)


def send(
    job_id: str,
    claim: int,
    source: bytes | BinaryIO,
    *,
    asset_id: str,
    name: str = "",
    asset_type: str = "",
    artifact: str = "",
    piece: int = PIECE,
    limits: RetryLimits = ON_THE_WAY,
) -> Talk[None]:
    """Send a file for a claimed attempt, under a fresh ``asset_id``; in pieces if it is large. A
    file that has arrived before is not sent twice."""
    stream = BytesIO(source) if isinstance(source, bytes) else source
    size: int = yield Aside(lambda: stream.seek(0, 2))
    query = {"id": asset_id, "asset_type": asset_type, "artifact": artifact}
    pairs = [(key, value) for key, value in query.items() if value]
    pairs += [("claim", str(claim))]
    if size <= piece:
        data: bytes = yield Aside(lambda: _whole(stream))
        yield WireRequest(
            method="POST",
            path=at("jobs", job_id, "assets"),
            query=(*pairs, ("name", name)),
            headers={"Content-Type": ANY_TYPE},
            body=data,
            repeatable=True,
        )
        return
    yield from _announced((("job_id", job_id), *pairs), name, size)
    yield from carried(stream, at("uploads", asset_id), size, piece, unseen, limits)


def _whole(stream: BinaryIO) -> bytes:
    stream.seek(0)
    return stream.read()


def _announced(query: tuple[tuple[str, str], ...], name: str, size: int) -> Talk[None]:
    told = f"filename {encoded(name)}" if name else ""
    headers = {**TUS, "Upload-Length": str(size), "Upload-Metadata": told}
    request = WireRequest(
        method="POST", path="/uploads", query=query, headers=headers, repeatable=True
    )
    try:
        yield request
    except InConflict as known:
        if known.code != "ALREADY_EXISTS":
            raise
