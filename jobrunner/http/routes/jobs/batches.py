"""Many submissions in one call, under one name: each accepted or refused by itself."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from jobrunner.actors.features.families.batches import ItemAnswer, Sent, is_unfinished
from jobrunner.core.features.families.batches import Batch, BatchStatus
from jobrunner.core.instants import instant_of
from jobrunner.errors import Refused
from jobrunner.http.frame.addresses import link
from jobrunner.http.frame.endpoint import (
    OWNERS,
    SUBMITTING,
    Body,
    Endpoint,
    FromWorkflows,
    HttpCall,
    HttpReply,
    View,
)
from jobrunner.http.frame.inputs import (
    Key,
    OwnedPageQuery,
    cursor_of,
    key_given,
    key_of,
    omitted_of,
    params_of,
)
from jobrunner.http.frame.views import encode, reply, view_of
from jobrunner.http.routes.jobs.submissions import (
    Address,
    NewJob,
    job_type_named,
    refuse_url,
    singleton_of,
    submission,
    workflow_named,
)

JOBS_MAX = 1_000
BODY_MAX = 8 * 1024 * 1024
REFUSALS_SHOWN = 100


class BatchJob(NewJob, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A submission of a batch. ``key`` is its own in the batch; without one it is known by its
    place in the call, if that has a key."""

    from_workflows: ClassVar[dict[str, FromWorkflows]] = {"params": "params"}
    key: Key | None = None


BatchJobs = Annotated[list[BatchJob], Meta(max_length=JOBS_MAX)]


class BatchOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``key`` makes it safe to send it again. An ``open`` batch takes more jobs until it is
    closed. ``notify_url`` is told once, when all its jobs have ended."""

    jobs: BatchJobs = []
    key: Key | None = None
    notify_url: Address | None = None
    open: bool = False


class MoreJobs(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``close``: these are the last."""

    jobs: BatchJobs
    key: Key | None = None
    close: bool = False


class BatchAgain(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Key | None = None


class BatchResult(View, frozen=True, kw_only=True):
    """The fate of one submission: its job, or why there is none. ``idempotency_mismatch`` is true
    where the job of its key was made of another submission."""

    key: str
    job_id: str | None
    status: str | None
    replayed: bool
    error_code: str | None
    detail: str | None
    errors: list[dict[str, Any]] | UnsetType = UNSET
    idempotency_mismatch: bool | UnsetType = UNSET


class BatchEntry(View, frozen=True, kw_only=True):
    id: str
    user_id: str
    key: str | None
    status: BatchStatus
    left: int
    rerun_of: str | None
    created_at: str
    ended_at: str | None


class BatchView(BatchEntry, frozen=True, kw_only=True):
    """``status`` is ``open`` while it takes jobs, then ``running`` until the last one has ended.
    ``counts`` are its jobs by their status; ``well`` and ``ill`` those that ended, ``left`` those
    that go on, ``refused`` submissions that no job was made of, the first of which are listed.
    ``results`` are those of this call, in its order."""

    counts: dict[str, int]
    well: int
    ill: int
    deleted: int
    refused: int
    refusals: list[BatchResult]
    notify_url: str | None
    results: list[BatchResult] | UnsetType = UNSET
    replayed: bool | UnsetType = UNSET


class BatchList(View, frozen=True, kw_only=True):
    batches: list[BatchEntry]
    next_cursor: str | None


@Endpoint(
    "POST",
    "/batches",
    {201: BatchView, 200: BatchView},
    OWNERS,
    body=BatchOrder,
    codes=(*SUBMITTING, "BATCH_CLOSED"),
    max_body=BODY_MAX,
)
async def create_batch(call: HttpCall) -> HttpReply:
    """Create many jobs, each accepted or refused by itself.

    Sent again under its key, it goes on where it was cut off."""
    body: BatchOrder = call.body
    refuse_url(call, body.notify_url)
    key = key_given(call, body.key)
    batches = call.door.facade.batches
    batch, known = await batches.begun(call.actor.name, key, body.notify_url or "")
    answers = await batches.add(batch, _sent(call, body.jobs, key))
    if not body.open and not is_unfinished(answers):
        await batches.close(batch)
    shown = replace(await _shown(call, batch, answers), replayed=known)
    where = {"Location": link(call, f"/batches/{batch.id}")}
    return HttpReply(200 if known else 201, encode(shown), where)


@Endpoint(
    "POST",
    "/batches/{id}/jobs",
    {200: BatchView},
    OWNERS,
    body=MoreJobs,
    codes=(*SUBMITTING, "BATCH_CLOSED"),
    max_body=BODY_MAX,
)
async def append_to_batch(call: HttpCall) -> HttpReply:
    """Add jobs to a batch that is open."""
    body: MoreJobs = call.body
    batch = await _found(call)
    batches = call.door.facade.batches
    answers = await batches.add(batch, _sent(call, body.jobs, key_given(call, body.key)))
    if body.close and not is_unfinished(answers):
        await batches.close(batch)
    return reply(await _shown(call, batch, answers))


@Endpoint("GET", "/batches", {200: BatchList}, query=OwnedPageQuery)
async def list_batches(call: HttpCall) -> HttpReply:
    """List batches, newest first."""
    query: OwnedPageQuery = call.query
    mine = not call.actor.oversees
    if mine and query.user_id not in (None, call.actor.name):
        raise Refused("FORBIDDEN", "batches of others are for admins to list")
    whose = call.actor.name if mine else query.user_id
    rows = await call.door.reader.batches(whose, query.limit, key_of(query.cursor))
    following = cursor_of(rows[-1].row) if len(rows) == query.limit else None
    entries = [view_of(BatchEntry, row, left=row.unended) for row in rows]
    return reply(BatchList(batches=entries, next_cursor=following))


@Endpoint("GET", "/batches/{id}", {200: BatchView})
async def get_batch(call: HttpCall) -> HttpReply:
    """Show how far a batch is, and what was refused of it."""
    return reply(await _shown(call, await _found(call)))


@Endpoint("POST", "/batches/{id}/close", {200: BatchView}, OWNERS)
async def close_batch(call: HttpCall) -> HttpReply:
    """Take no more jobs into a batch; it ends with its last one."""
    batch = await _found(call)
    await call.door.facade.batches.close(batch)
    return reply(await _shown(call, batch))


@Endpoint("POST", "/batches/{id}/cancel", {202: BatchView}, OWNERS)
async def cancel_batch(call: HttpCall) -> HttpReply:
    """Close a batch, and cancel those of its jobs that go on, whatever happens meanwhile."""
    batch = await _found(call)
    await call.door.facade.batches.cancel(batch, call.actor)
    return reply(await _shown(call, batch), 202)


@Endpoint(
    "POST",
    "/batches/{id}/rerun",
    {201: BatchView, 200: BatchView},
    OWNERS,
    body=BatchAgain,
    empty=True,
    codes=SUBMITTING,
)
async def rerun_batch(call: HttpCall) -> HttpReply:
    """Create a batch of those jobs that did not end well, done again; 1,000 in a call."""
    body: BatchAgain = call.body
    batch = await _found(call)
    key = key_given(call, body.key)
    rerun = call.door.facade.batches.rerun
    again, known, answers = await rerun(batch, call.actor, key, call.correlation_id)
    shown = replace(await _shown(call, again, answers), replayed=known)
    where = {"Location": link(call, f"/batches/{again.id}")}
    return HttpReply(200 if known else 201, encode(shown), where)


@Endpoint("DELETE", "/batches/{id}", {204: None}, OWNERS, codes=("BATCH_NOT_ENDED",))
async def delete_batch(call: HttpCall) -> HttpReply:
    """Forget a batch that has ended; its jobs stay."""
    await call.door.facade.batches.forget(await _found(call))
    return HttpReply(204)


async def _found(call: HttpCall) -> Batch:
    """Raises: Refused NOT_FOUND, also for a stranger's."""
    batch: Batch = await call.door.facade.batches.found(call.path["id"], call.actor)
    return batch


def _sent(call: HttpCall, jobs: Sequence[BatchJob], key: str | None) -> list[Sent]:
    """A key of a place has a space in it, and no client's has."""
    own = key or call.door.ids.fresh()
    return [_one(call, job, job.key or f"{own} {place}") for place, job in enumerate(jobs)]


def _one(call: HttpCall, job: BatchJob, key: str) -> Sent:
    try:
        definition = workflow_named(call, job.workflow)
        job_type = job_type_named(definition, job.job_type)
        raw = b"" if job.params is UNSET else bytes(job.params)
        params = params_of(definition, job_type, raw, "$.params")
        refuse_url(call, job.notify_url)
        alone = singleton_of(definition, job.singleton)
    except Refused as refused:
        return Sent(key, refused=refused)
    made = submission(
        call,
        definition,
        job_type,
        params,
        None,
        priority=job.priority,
        run_at=instant_of(job.run_at, "$.run_at") if job.run_at else None,
        labels=job.labels,
        notify_url=job.notify_url,
        notify_on=tuple(job.notify_on or ()),
        omitted=omitted_of(definition, job_type, params, raw),
        singleton=alone,
    )
    return Sent(key, replace(made, key=None))


async def _shown(
    call: HttpCall, batch: Batch, answers: Sequence[ItemAnswer] | None = None
) -> BatchView:
    """Show a batch as it stands by now; ``batch`` may be older."""
    reader = call.door.reader
    now = await reader.batch(batch.id) or batch
    counts = await reader.batch_counts(batch.id)
    refusals = await reader.batch_refusals(batch.id, REFUSALS_SHOWN)
    return view_of(
        BatchView,
        now,
        counts=counts.by_status,
        well=counts.well,
        ill=counts.ill,
        left=now.unended,
        deleted=counts.deleted,
        refused=counts.refused,
        refusals=[
            _result(ItemAnswer(one.key, refused=Refused(one.code, one.detail))) for one in refusals
        ],
        notify_url=now.notify_url or None,
        results=UNSET if answers is None else [_result(one) for one in answers],
        replayed=UNSET,
    )


def _result(answer: ItemAnswer) -> BatchResult:
    refused = answer.refused
    errors = refused.extra.get("errors") if refused is not None else None
    job_id = answer.job_id or (refused.extra.get("job_id") if refused is not None else None)
    return BatchResult(
        key=answer.key,
        job_id=job_id,
        status=answer.status or None,
        replayed=answer.replayed,
        error_code=refused.code if refused is not None else None,
        detail=refused.detail if refused is not None else None,
        errors=UNSET if errors is None else errors,
        idempotency_mismatch=True if answer.mismatch else UNSET,
    )
