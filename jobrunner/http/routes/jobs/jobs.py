"""Submitting, reading, listing, deleting."""

from typing import Any

import msgspec
from msgspec import UNSET

from jobrunner.actors import Answer
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.tracing import HEADER, parent_in
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import Submit
from jobrunner.core.questions import JobFilter
from jobrunner.errors import Refused
from jobrunner.http.frame.addresses import link
from jobrunner.http.frame.call import Call, Reply
from jobrunner.http.frame.etags import etag, expected_version, matches_any, seen_before
from jobrunner.http.frame.finding import job_id_of, unavailable, visible_job
from jobrunner.http.frame.forms import omitted_of, params_of
from jobrunner.http.frame.instants import instant_of, timed
from jobrunner.http.frame.keys import key_given
from jobrunner.http.frame.paging import cursor_of, key_of
from jobrunner.http.frame.problems import invalid
from jobrunner.http.frame.rendering import (
    PAYLOADS,
    asset_entries,
    attempt_entry,
    encode,
    history_entry,
    job_view,
    reply,
    reply_answer,
    reply_job,
)
from jobrunner.http.views import Assets, Attempts, History, Jobs
from jobrunner.http.wire import FilesQuery, JobQuery, JobsQuery, RowsQuery, Submission
from jobrunner.ports import digest

HOPS_MAX = 1000
CANONICAL = msgspec.json.Encoder(order="sorted").encode


async def submit(call: Call) -> Reply:
    """Checked in this order: workflow, job type, params, key; the rest is the core's."""
    body: Submission = call.body
    definition = workflow_named(call, body.workflow)
    job_type = job_type_named(definition, body.job_type)
    raw = _params(body)
    params = params_of(definition, job_type, raw, "$.params")
    run_at = instant_of(body.run_at, "$.run_at") if body.run_at else None
    _refuse_url(call, body)
    answer = await call.door.facade.submit(
        submission(
            call,
            definition,
            job_type,
            params,
            body.idempotency_key,
            priority=body.priority,
            run_at=run_at,
            labels=body.labels,
            notify_url=body.notify_url,
            notify_on=tuple(body.notify_on or ()),
            omitted=omitted_of(definition, job_type, params, raw),
        )
    )
    return reply_submitted(call, answer)


def _refuse_url(call: Call, body: Submission) -> None:
    """Raises: Refused, for a URL that nobody may be told at."""
    if body.notify_url is not None and (
        reason := call.door.facade.deliveries.misfit_url(body.notify_url)
    ):
        raise invalid(f"notify_url: {reason}", ("$.notify_url", reason))
    if body.notify_on is not None and body.notify_url is None:
        detail = "notify_on says what notify_url is told; send both"
        raise invalid(detail, ("$.notify_on", detail))


def submission(
    call: Call,
    definition: Definition,
    job_type: str,
    params: dict[str, Any],
    key: str | None,
    **wishes: Any,
) -> Submit:
    """The message that a submission becomes, through whichever door it came."""
    name = definition.workflow.name
    return Submit(
        actor=call.actor,
        workflow=name,
        job_type=job_type,
        params=params,
        job_id=call.door.ids.fresh(),
        key=key_given(call, key, definition.workflow.recipe.max_length),
        body_digest=digest(CANONICAL([name, job_type, params])).hex(),
        correlation_id=call.correlation_id,
        traceparent=traceparent_of(call),
        draining=call.door.facade.draining,
        **wishes,
    )


def traceparent_of(call: Call) -> str | None:
    """Where the caller's trace goes on. What is none is no reason to refuse anybody."""
    said = call.headers.get(HEADER)
    return said if parent_in(said) else None


def reply_submitted(call: Call, answer: Answer) -> Reply:
    shown = reply_answer(call, answer, 200 if answer.replayed else 201)
    shown.headers["Location"] = link(call, f"/jobs/{answer.job.id}")
    return shown


def workflow_named(call: Call, name: str) -> Definition:
    """Raises: Refused UNKNOWN_WORKFLOW; WORKFLOW_UNAVAILABLE for one that was refused at start."""
    definitions = call.door.facade.definitions
    definition: Definition | None = definitions.current(name)
    if definition is not None:
        return definition
    if name in definitions.refused["workflows"]:
        raise unavailable(name)
    known = ", ".join(definitions.names()) or "none"
    raise Refused("UNKNOWN_WORKFLOW", f"there is no workflow {name!r}; loaded are: {known}")


def job_type_named(definition: Definition, name: str | None) -> str:
    """The first declared one when the caller names none.

    Raises: Refused UNKNOWN_JOB_TYPE.
    """
    if name is None:
        return definition.workflow.job_types[0].name
    if name in definition.job_types:
        return name
    known = ", ".join(definition.job_types)
    detail = f"{definition.workflow.name} has no job type {name!r}; it has: {known}"
    raise Refused("UNKNOWN_JOB_TYPE", detail)


async def show(call: Call) -> Reply:
    """The job, now or as soon as it has moved on from what the caller has seen."""
    query: JobQuery = call.query
    job = await visible_job(call)
    seen = seen_before(call)
    if query.wait and job.kind != "final" and _still(job, seen, query.progress):
        job = await call.door.facade.changed(job, query.wait, query.progress)
    if matches_any(call) or (seen is not None and (job.version, job.beat) in seen):
        return Reply(304, b"", {"ETag": etag(job)})
    return reply_job(call, job)


async def list_jobs(call: Call) -> Reply:
    query: JobsQuery = call.query
    page = await call.door.reader.jobs(_filter(call, query))
    included = _included(query)
    jobs = page.jobs
    if included:
        jobs = tuple([await _with_payloads(call, job) for job in jobs])
    shown = [job_view(call, job, included) for job in jobs]
    return reply(Jobs(jobs=shown, next_cursor=cursor_of(page.next_after)))


async def history(call: Call) -> Reply:
    job = await visible_job(call)
    query: RowsQuery = call.query
    after = divmod(key_of(query.cursor) or 0, HOPS_MAX)
    rows = await call.door.reader.history(job.id, query.limit, after)
    full = len(rows) == query.limit
    following = cursor_of(rows[-1].version * HOPS_MAX + rows[-1].hop) if full else None
    return reply(History(history=[history_entry(row) for row in rows], next_cursor=following))


async def attempts(call: Call) -> Reply:
    job = await visible_job(call)
    query: RowsQuery = call.query
    found = await call.door.reader.attempts(job.id, query.limit, key_of(query.cursor) or 0)
    following = cursor_of(found[-1].serial) if len(found) == query.limit else None
    whole = call.actor.role == "admin"
    entries = [attempt_entry(attempt, whole) for attempt in found]
    return reply(Attempts(attempts=entries, next_cursor=following))


async def assets(call: Call) -> Reply:
    query: FilesQuery = call.query
    job = await visible_job(call)
    rows = await call.door.reader.job_assets(job.id, query.limit, key_of(query.cursor))
    following = cursor_of(rows[-1].row) if len(rows) == query.limit else None
    return reply(Assets(assets=asset_entries(call, rows), next_cursor=following))


async def explain(call: Call) -> Reply:
    """Why it is not moving."""
    job = await visible_job(call)
    return Reply(200, encode(timed(await call.door.facade.explain(job))))


async def remove(call: Call) -> Reply:
    version = expected_version(call)
    await call.door.facade.deletions.forget(job_id_of(call), call.actor, version)
    return Reply(204)


def _params(body: Submission) -> bytes:
    """Raises: Refused when both spellings are there and differ."""
    given, alias = body.params, body.parameters
    if given is UNSET or alias is UNSET:
        chosen = alias if given is UNSET else given
        return b"" if chosen is UNSET else bytes(chosen)
    if msgspec.json.decode(given) != msgspec.json.decode(alias):
        detail = "params and parameters are the same field, and they differ; send one of them"
        raise invalid(detail, ("$.parameters", detail))
    return bytes(given)


def _still(job: Snapshot, seen: list[tuple[int, int]] | None, progress: bool) -> bool:
    """The job is where the caller believes it to be, so there is something to wait for."""
    if seen is None:
        return True
    if progress:
        return (job.version, job.beat) in seen
    return any(version == job.version for version, _ in seen)


def _filter(call: Call, query: JobsQuery) -> JobFilter:
    if query.cursor is not None and query.offset is not None:
        raise _bad_query("offset", "offset and cursor do not go together; send one of them")
    return JobFilter(
        user_id=_whose(call, query),
        workflow=query.workflow,
        statuses=tuple(part for text in query.status for part in text.split(",") if part),
        job_type=query.job_type,
        labels=tuple(_label(text) for text in query.label),
        limit=query.limit,
        offset=query.offset or 0,
        after=key_of(query.cursor),
        oldest_first=query.order == "oldest",
        stuck=query.stuck,
        paused=query.paused,
        workflows=call.actor.workflows,
    )


def _whose(call: Call, query: JobsQuery) -> str | None:
    """A user sees its own jobs; the other roles see all, or those of whom they name."""
    if call.actor.role != "user":
        return query.user_id
    if query.user_id not in (None, call.actor.name):
        raise Refused("FORBIDDEN", "jobs of others are for admins to list")
    if query.stuck:
        raise Refused("FORBIDDEN", "jobs that were put aside are for admins to list")
    return call.actor.name


def _label(text: str) -> tuple[str, str]:
    key, colon, value = text.partition(":")
    if not key or not colon:
        raise _bad_query("label", f"label is {text!r}; send KEY:VALUE")
    return key, value


def _included(query: JobsQuery) -> frozenset[str]:
    names = frozenset(part for text in query.include for part in text.split(",") if part)
    if unknown := sorted(names - PAYLOADS):
        known = ", ".join(sorted(PAYLOADS))
        raise _bad_query("include", f"include: {unknown[0]!r} is none of {known}")
    return names


def _bad_query(name: str, detail: str) -> Refused:
    return invalid(detail, (f"?{name}", detail))


async def _with_payloads(call: Call, job: Snapshot) -> Snapshot:
    """A listed job may have come without what is heavy."""
    return (await call.door.reader.job(job.id) or job) if job.params is UNSET else job
