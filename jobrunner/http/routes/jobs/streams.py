"""Server-sent events: jobs as they change, with nothing missed and nobody waited for.

A stream holds no list of what it still has to tell. It is woken, reads what came after the last
thing it told, in one short question, and tells that; so a gap between catching up and going on
cannot be, and a slow reader costs a number. Progress is told as it is now, never as it was.

``transition``  one version of a job, with its hops
``progress``    the job as it is, under way
``settled``     the job as it is, at rest

An ``id`` stands on the last event of a version: who loses the connection before it hears the
whole version once more.
"""

from collections.abc import AsyncIterator, Iterable
from itertools import groupby
from typing import Annotated, Any, ClassVar

import anyio
from msgspec import Meta

from jobrunner.core.features.streams import HistoryRow, Moved, NewsQuestion, Story
from jobrunner.core.job import Snapshot
from jobrunner.errors import Refused
from jobrunner.http.frame.endpoint import Endpoint, HttpCall, HttpReply, Query, View
from jobrunner.http.frame.inputs import visible_job
from jobrunner.http.frame.problems import invalid
from jobrunner.http.frame.streaming import EVENT_STREAM, check_caller
from jobrunner.http.frame.views import (
    PAYLOADS,
    HistoryEntry,
    Job,
    encode,
    job_view,
    view_of,
)

EventNumber = Annotated[str, Meta(max_length=64, extra_json_schema={"pattern": "^[0-9]{1,15}$"})]

STREAMING = ("NOT_ACCEPTABLE", "TOO_MANY_STREAMS")
HEARTBEAT_S = 15
PAUSE_S = 0.1
RETRY_MS = 2000
PAGE = 100
ID_DIGITS = 15
BRIEF: frozenset[str] = frozenset()


class JobEventsQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``last_event_id`` is for clients that cannot send the header Last-Event-ID."""

    last_event_id: EventNumber | None = None


class EventsQuery(JobEventsQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``status`` may be repeated; ``user_id`` is for who sees the jobs of others."""

    many: ClassVar[frozenset[str]] = frozenset({"status"})
    workflow: str | None = None
    status: list[str] = []
    user_id: str | None = None


class TransitionEvent(View, frozen=True, kw_only=True):
    """One version of a job, as a stream tells it. ``status`` is where its last hop led."""

    job_id: str
    workflow: str
    user_id: str
    version: int
    status: str
    hops: list[HistoryEntry]


EVENTS: dict[str, type[View]] = {"transition": TransitionEvent, "progress": Job, "settled": Job}


@Endpoint(
    "GET",
    "/jobs/{id}/events",
    {200: EVENT_STREAM, 204: None},
    query=JobEventsQuery,
    codes=STREAMING,
    events=EVENTS,
)
async def follow_job(call: HttpCall) -> HttpReply:
    """Stream the events of a job.

    After the last event of an ended one answer 204: it tells a browser to stop asking."""
    query: JobEventsQuery = call.query
    _acceptable(call)
    seen = _last_event_id(call, query.last_event_id)
    job = await visible_job(call)
    if seen is not None and job.kind == "final" and seen >= job.version:
        return HttpReply(204)
    started = job.version if seen is None else min(seen, job.version)
    return HttpReply(200, content_type=EVENT_STREAM, events=_of_job(call, job.id, started))


@Endpoint(
    "GET",
    "/events",
    {200: EVENT_STREAM},
    query=EventsQuery,
    codes=STREAMING,
    events=EVENTS,
)
async def follow_jobs(call: HttpCall) -> HttpReply:
    """Stream the events of all jobs that the caller may list."""
    query: EventsQuery = call.query
    _acceptable(call)
    if call.actor.role == "user" and query.user_id not in (None, call.actor.name):
        raise Refused("FORBIDDEN", "what belongs to others is for admins to see")
    end = await call.door.reader.last_news()
    seen = _last_event_id(call, query.last_event_id)
    started = end if seen is None else min(seen, end)
    return HttpReply(200, content_type=EVENT_STREAM, events=_of_all(call, query, started))


async def _of_job(call: HttpCall, job_id: str, seen: int) -> AsyncIterator[bytes]:
    door, shown = call.door, (0, 0)
    yield _opening(call, seen)
    with door.facade.watchers.watching(job_id) as woken:
        while not door.facade.draining:
            woken.clear()
            story = await door.reader.story(job_id, seen, PAGE)
            if story is None:
                return
            said = _told(call, story, shown)
            if said:
                yield said
            if not story.whole:
                seen = story.rows[-1].version
                await check_caller(call)
                continue
            seen, shown = story.job.version, (story.job.version, story.job.beat)
            if story.job.kind == "final":
                return
            if not await _woken(call, woken):
                yield _heartbeat(seen)
    yield _farewell(call)


def _told(call: HttpCall, story: Story, shown: tuple[int, int]) -> bytes:
    """The versions that were missed, then the job as it is, if it was not shown like this."""
    job, rests = story.job, story.job.ended
    versions = groupby(story.rows, key=lambda row: row.version)
    told = [(version, list(hops)) for version, hops in versions]
    last = told[-1][0] if told and story.whole and rests else None
    said = [
        _event(_transition(job.workflow, job.user_id, hops), None if version == last else version)
        for version, hops in told
    ]
    if story.whole and (job.version, job.beat) != shown:
        said.append(_event(_state(call, job, PAYLOADS), job.version if rests else None))
    return b"".join(said)


async def _of_all(call: HttpCall, query: EventsQuery, seen: int) -> AsyncIterator[bytes]:
    door = call.door
    yield _opening(call, seen)
    whose = call.actor.name if call.actor.role == "user" else query.user_id
    with door.facade.watchers.following(whose) as follower:
        while not door.facade.draining:
            beats = [job for job in follower.take() if _wanted(call, query, job)]
            news = await door.reader.news(
                NewsQuestion(seen, whose, query.workflow, PAGE, call.actor.workflows)
            )
            said = [text async for text in _news(call, query, news.told)]
            said += [_event(_state(call, job, BRIEF), None) for job in beats]
            if said:
                yield b"".join(said)
            behind, seen = news.through > seen, news.through
            if behind:
                await check_caller(call)
            elif not await _woken(call, follower.woken):
                yield _heartbeat(seen)
    yield _farewell(call)


async def _news(
    call: HttpCall, query: EventsQuery, told: tuple[Moved, ...]
) -> AsyncIterator[bytes]:
    for _, group in groupby(told, key=lambda one: (one.row.job_id, one.row.version)):
        version = list(group)
        last = version[-1]
        hops = [one.row for one in version]
        if query.status and not {row.to_status for row in hops} & set(query.status):
            continue
        job = await call.door.reader.job(last.row.job_id) if last.rests else None
        rests = job is not None and job.ended
        transition = _transition(last.workflow, last.user_id, hops)
        yield _event(transition, None if rests else last.row.seq)
        if job is not None and rests:
            yield _event(_state(call, job, BRIEF), last.row.seq)


async def _woken(call: HttpCall, woken: anyio.Event | Any) -> bool:
    """False after a while in which nothing happened. What changes within a moment is told together.

    Raises: Refused UNAUTHORIZED.
    """
    with anyio.move_on_after(HEARTBEAT_S) as quiet:
        await woken.wait()
        await call.door.clock.sleep(PAUSE_S)
    await check_caller(call)
    return not quiet.cancelled_caught


def _transition(workflow: str, user_id: str, hops: Iterable[HistoryRow]) -> tuple[str, bytes]:
    rows = list(hops)
    view = TransitionEvent(
        job_id=rows[-1].job_id,
        workflow=workflow,
        user_id=user_id,
        version=rows[-1].version,
        status=rows[-1].to_status,
        hops=[view_of(HistoryEntry, row) for row in rows],
    )
    return "transition", encode(view)


def _state(call: HttpCall, job: Snapshot, payloads: frozenset[str]) -> tuple[str, bytes]:
    """Show a job as it is; while it is under way, without what may be large."""
    if job.ended:
        return "settled", encode(job_view(call, job, payloads))
    return "progress", encode(job_view(call, job, BRIEF))


def _event(event: tuple[str, bytes], number: int | None) -> bytes:
    """JSON as it is written here has no line breaks: one line of data."""
    name, data = event
    identity = b"" if number is None else b"id: %d\n" % number
    return b"event: %s\n%sdata: %s\n\n" % (name.encode(), identity, data)


def _opening(call: HttpCall, seen: int) -> bytes:
    """Name where a client resumes that loses the connection before anything was told."""
    retry_ms = RETRY_MS + int(call.door.ids.jitter() * RETRY_MS)
    return b"retry: %d\nid: %d\n\n" % (retry_ms, seen)


def _heartbeat(seen: int) -> bytes:
    """Nothing, but it says how far everything was looked through."""
    return b": still here\nid: %d\n\n" % seen


def _farewell(call: HttpCall) -> bytes:
    """The service stops: come again, not all at once."""
    return b"retry: %d\n\n" % (RETRY_MS + int(call.door.ids.jitter() * 4 * RETRY_MS))


def _wanted(call: HttpCall, query: EventsQuery, job: Snapshot) -> bool:
    fits = query.workflow is None or job.workflow == query.workflow
    return (
        fits
        and call.actor.serves(job.workflow)
        and (not query.status or job.status in query.status)
    )


def _last_event_id(call: HttpCall, asked: str | None) -> int | None:
    """The header is what a browser sends by itself when it comes again, so it is the newer one.

    Raises: Refused VALIDATION_ERROR.
    """
    given = call.headers.get("Last-Event-ID") or asked
    if given is None:
        return None
    if not (given.isascii() and given.isdigit()) or len(given) > ID_DIGITS:
        detail = f"Last-Event-ID is {given[:40]!r}; send one as it came in an id"
        raise invalid(detail, ("Last-Event-ID", detail))
    return int(given)


def _acceptable(call: HttpCall) -> None:
    """Raises: Refused NOT_ACCEPTABLE, to who wants one JSON document."""
    kinds = call.headers.get("Accept", "").split(",")
    wanted = [kind.partition(";")[0].strip().lower() for kind in kinds]
    if not any(wanted) or {EVENT_STREAM, "text/*", "*/*"} & set(wanted):
        return
    detail = f"this is a stream of {EVENT_STREAM}; for one job as JSON see ?wait= of /jobs/ID"
    raise Refused("NOT_ACCEPTABLE", detail)
