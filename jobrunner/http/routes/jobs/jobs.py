"""Submitting, reading, listing, deleting."""

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta
from msgspec.structs import replace

from jobrunner.core.declaration.states import Kind
from jobrunner.core.instants import instant_or_none
from jobrunner.core.job import JOB_ID, Snapshot
from jobrunner.core.questions import JobFilter
from jobrunner.errors import Refused
from jobrunner.http.frame.endpoint import Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.etags import etag, expected_version, matches_any, seen_before
from jobrunner.http.frame.inputs import (
    Instant,
    PageQuery,
    RowsQuery,
    WaitQuery,
    cursor_of,
    job_id_of,
    key_of,
    visible_job,
)
from jobrunner.http.frame.problems import invalid
from jobrunner.http.frame.views import (
    PAYLOADS,
    HistoryEntry,
    Job,
    job_view,
    reply,
    reply_job,
    view_of,
)

LabelWanted = Annotated[
    str, Meta(extra_json_schema={"pattern": "^[^:]+:"}, description="KEY:VALUE")
]
ParamWanted = Annotated[
    str, Meta(extra_json_schema={"pattern": "^[^:]+:"}, description="NAME:VALUE")
]
Payloads = Annotated[
    str,
    Meta(
        extra_json_schema={"pattern": "^(params|result|artifacts)?(,(params|result|artifacts)?)*$"}
    ),
]

IdBegins = Annotated[
    str,
    Meta(pattern=r"^[0-9a-f-]{8,36}(?!\n)$", description="The beginning of a job's id"),
]

JobId = Annotated[str, Meta(pattern=rf"^{JOB_ID.pattern}(?!\n)$", description="A job's id")]

HOPS_MAX = 1000


class JobsQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``status``, ``kind``, ``label`` (KEY:VALUE), ``param`` (NAME:VALUE) and ``include`` may be
    repeated. ``text`` stands in the id, the parameters, the result, the labels or the failure; it
    and ``param`` are looked for in 10,000 jobs or eight million letters a page."""

    many: ClassVar[frozenset[str]] = frozenset({"status", "kind", "label", "param", "include"})
    id: IdBegins | None = None
    workflow: str | None = None
    status: list[str] = []
    kind: list[Kind] = []
    job_type: str | None = None
    label: Annotated[list[LabelWanted], Meta(max_length=16)] = []
    user_id: str | None = None
    offset: Annotated[int, Meta(ge=0, le=10_000, description="Not together with cursor")] | None = (
        None
    )
    order: Literal["newest", "oldest"] = "newest"
    include: list[Payloads] = []
    stuck: bool = False
    paused: bool = False
    schedule: str | None = None
    parent: JobId | None = None
    created_from: Instant | None = None
    created_before: Instant | None = None
    batch: JobId | None = None
    text: Annotated[str, Meta(min_length=2, max_length=200)] | None = None
    param: Annotated[list[ParamWanted], Meta(max_length=8)] = []


class JobQuery(WaitQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``wait`` holds the answer for so many seconds, until something was decided or, with
    ``progress``, until anything changed. With ``until=ended`` only the end counts."""

    progress: bool = False
    until: Literal["ended"] | None = None


class Jobs(View, frozen=True, kw_only=True):
    jobs: list[Job]
    next_cursor: str | None


class History(View, frozen=True, kw_only=True):
    history: list[HistoryEntry]
    next_cursor: str | None


@Endpoint("GET", "/jobs/{id}", {200: Job, 304: None}, query=JobQuery)
async def get_job(call: HttpCall) -> HttpReply:
    """Show a job, now or as soon as it has changed or ended."""
    query: JobQuery = call.query
    job = await visible_job(call)
    seen = seen_before(call)
    if query.until:
        job = job if job.ended else await call.door.facade.ended(job, query.wait)
    elif query.wait and job.kind != "final" and _still(job, seen, query.progress):
        job = await call.door.facade.changed(job, query.wait, query.progress)
    if matches_any(call) or (seen is not None and (job.version, job.beat) in seen):
        return HttpReply(304, b"", {"ETag": etag(job)})
    return reply_job(call, job)


@Endpoint("GET", "/jobs", {200: Jobs}, query=JobsQuery)
async def list_jobs(call: HttpCall) -> HttpReply:
    """List jobs, newest first."""
    query: JobsQuery = call.query
    page = await call.door.reader.jobs(_filter(call, query))
    included = _included(query)
    jobs = page.jobs
    if included:
        jobs = tuple([await _with_payloads(call, job) for job in jobs])
    shown = [job_view(call, job, included) for job in jobs]
    return reply(Jobs(jobs=shown, next_cursor=cursor_of(page.next_after)))


list_jobs_here = replace(list_jobs, path="/jobs/", name="listJobsHere", listed=False)


@Endpoint("GET", "/jobs/{id}/history", {200: History}, query=RowsQuery)
async def get_history(call: HttpCall) -> HttpReply:
    """List the transitions of a job, oldest first."""
    job = await visible_job(call)
    query: RowsQuery = call.query
    after = divmod(key_of(query.cursor) or 0, HOPS_MAX)
    rows = await call.door.reader.history(job.id, query.limit, after)
    full = len(rows) == query.limit
    following = cursor_of(rows[-1].version * HOPS_MAX + rows[-1].hop) if full else None
    hops = [view_of(HistoryEntry, row) for row in rows]
    return reply(History(history=hops, next_cursor=following))


@Endpoint("DELETE", "/jobs/{id}", {204: None}, codes=("JOB_NOT_SETTLED", "JOB_VERSION_CONFLICT"))
async def delete_job(call: HttpCall) -> HttpReply:
    """Delete a job that has ended."""
    version = expected_version(call)
    await call.door.facade.deletions.forget(job_id_of(call), call.actor, version)
    return HttpReply(204)


def _still(job: Snapshot, seen: list[tuple[int, int]] | None, progress: bool) -> bool:
    """The job is where the caller believes it to be, so there is something to wait for."""
    if seen is None:
        return True
    if progress:
        return (job.version, job.beat) in seen
    return any(version == job.version for version, _ in seen)


def _filter(call: HttpCall, query: JobsQuery) -> JobFilter:
    if query.cursor is not None and query.offset is not None:
        raise _bad_query("offset", "offset and cursor do not go together; send one of them")
    return JobFilter(
        user_id=_whose(call, query),
        workflow=query.workflow,
        statuses=tuple(part for text in query.status for part in text.split(",") if part),
        job_type=query.job_type,
        labels=tuple(_pair("label", text) for text in query.label),
        text=query.text or "",
        param_values=tuple(_pair("param", text) for text in query.param),
        limit=query.limit,
        offset=query.offset or 0,
        after=key_of(query.cursor),
        oldest_first=query.order == "oldest",
        stuck=query.stuck,
        paused=query.paused,
        schedule=query.schedule,
        workflows=call.actor.workflows,
        id_begins=query.id or "",
        parent=query.parent or "",
        kinds=tuple(query.kind),
        created_from=instant_or_none(query.created_from, "?created_from"),
        created_before=instant_or_none(query.created_before, "?created_before"),
        batch=query.batch or "",
    )


def _whose(call: HttpCall, query: JobsQuery) -> str | None:
    """A user sees its own jobs; the other roles see all, or those of whom they name."""
    if call.actor.role != "user":
        return query.user_id
    if query.user_id not in (None, call.actor.name):
        raise Refused("FORBIDDEN", "jobs of others are for admins to list")
    if query.stuck:
        raise Refused("FORBIDDEN", "stuck jobs are for admins to list")
    return call.actor.name


def _pair(name: str, text: str) -> tuple[str, str]:
    key, colon, value = text.partition(":")
    if not key or not colon:
        raise _bad_query(name, f"{name} is {text!r}; send KEY:VALUE")
    return key, value


def _included(query: JobsQuery) -> frozenset[str]:
    names = frozenset(part for text in query.include for part in text.split(",") if part)
    if unknown := sorted(names - PAYLOADS):
        known = ", ".join(sorted(PAYLOADS))
        raise _bad_query("include", f"include: {unknown[0]!r} is none of {known}")
    return names


def _bad_query(name: str, detail: str) -> Refused:
    return invalid(detail, (f"?{name}", detail))


async def _with_payloads(call: HttpCall, job: Snapshot) -> Snapshot:
    """A listed job may have come without what is heavy."""
    return (await call.door.reader.job(job.id) or job) if job.params is UNSET else job
