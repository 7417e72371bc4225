"""How everything stands at a glance, and what changes: what the dashboard asks for beyond the
public routes.

Whoever sees all jobs is told how the service is, too; a user is told of its own jobs.
"""

from asyncio import gather
from collections.abc import AsyncIterator
from functools import partial

import anyio
from msgspec.structs import replace

from jobrunner.actors.features.overview import Changes, Telling
from jobrunner.core.access import ended_as, needs_person, rests_with_person
from jobrunner.core.declaration.states import ANY, End, Kind
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.instants import text_of, text_or_none
from jobrunner.core.job import Snapshot
from jobrunner.core.keeping.census import RestingJobs
from jobrunner.core.questions import Gauges
from jobrunner.http.frame.endpoint import Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.streaming import EVENT_STREAM, check_caller
from jobrunner.http.frame.views import Stuck, encode, reply, stuck_view, view_of
from jobrunner.http.routes.pages.obstacles import (
    Obstacles,
    OpenQuestion,
    obstacles,
    open_questions,
)
from jobrunner.http.routes.pages.service_view import SystemView, limit_now, system_view

ROWS = 10
OWN_MAX = 10_000
HEARTBEAT_S = 15
RETRY_MS = 2000
MISSED = b"event: missed\ndata: {}\n\n"


class JobRow(View, frozen=True, kw_only=True):
    """A job as a list shows it: the same names as a job has, without what depends on who asks."""

    id: str
    workflow: str
    job_type: str
    user_id: str
    status: str
    kind: Kind
    version: int
    progress: int
    progress_message: str | None
    attempt: int
    retry_count: int
    failure_code: str | None
    failure_message: str | None
    labels: dict[str, str]
    created_at: str
    updated_at: str
    next_attempt_at: str | None
    stuck: Stuck | None
    ended_as: End | None
    needs_person: bool


class StatusCount(View, frozen=True, kw_only=True):
    """So many jobs stand there. ``person``: there they wait for one. A status that the declaration
    of today does not have has no kind."""

    workflow: str
    status: str
    kind: Kind | None
    ends: End | None
    person: bool
    jobs: int


class RestingView(View, frozen=True, kw_only=True):
    """So many jobs of a workflow, and since when the one rests that rests longest."""

    workflow: str
    jobs: int
    since: str | None


class Attention(View, frozen=True, kw_only=True):
    """Things that somebody should look at: a few jobs that failed last, will be tried again or
    await a callback, and how many rest in which way. ``obstacles`` hold work back beside them."""

    failed: list[JobRow]
    retrying: list[JobRow]
    parked: list[JobRow]
    stuck: list[RestingView]
    paused: list[RestingView]
    unclaimed: list[RestingView]
    dead_letters: int
    dead_letter_at: str | None
    endpoints_failing: int
    endpoints_disabled: int
    obstacles: Obstacles


class ResourceView(View, frozen=True, kw_only=True):
    name: str
    taken: int
    there: int


class WorkView(View, frozen=True, kw_only=True):
    """Work under way in this process, and in line for it. ``users`` says how many slots each one
    has who has any. A line of ``line_max`` takes no new jobs (0: any number)."""

    running: int
    slots: int
    in_line: int
    line_max: int
    oldest_in_line_at: str | None
    parked: int
    next_timer_at: str | None
    users: dict[str, int]
    resources: list[ResourceView]


class OverviewView(View, frozen=True, kw_only=True):
    """``counts`` of a user are of its newest 10,000 jobs, ``questions`` are the newest that nobody
    has answered. The rest is for those who see all; ``questions_open`` counts them."""

    at: str
    counts: list[StatusCount]
    questions: list[OpenQuestion]
    questions_open: int | None
    attention: Attention | None
    work: WorkView | None
    system: SystemView | None


class ChangesEvent(View, frozen=True, kw_only=True):
    """The jobs that changed last, as they are now. ``more``: others changed too. ``counts`` are for
    those who see all jobs."""

    jobs: list[JobRow]
    more: bool
    counts: list[StatusCount] | None


class MissedEvent(View, frozen=True, kw_only=True):
    """The page came too late for something: it asks again for what it shows."""


@Endpoint("GET", "/overview", {200: OverviewView})
async def get_overview(call: HttpCall) -> HttpReply:
    """Show how everything stands."""
    gauges = call.door.reader.gauges if call.actor.oversees else _none
    # Whatever is asked at the same time is read in one go.
    counts, questions, found = await gather(_counts(call), open_questions(call), gauges())
    at = text_of(call.door.clock.now())
    mine = OverviewView(
        at=at, counts=counts, questions=questions, questions_open=None,
        attention=None, work=None, system=None,
    )  # fmt: skip
    if found is None:
        return reply(mine)
    attention, checks = await gather(_attention(call, found), call.door.health())
    return reply(
        replace(
            mine,
            questions_open=found.questions,
            attention=attention,
            work=_work(call, found),
            system=system_view(call, found, checks),
        )
    )


async def _none() -> None:
    """Users are told of their own jobs, and of nothing else."""


@Endpoint(
    "GET",
    "/overview/events",
    {200: EVENT_STREAM},
    codes=("TOO_MANY_STREAMS",),
    events={"changes": ChangesEvent, "missed": MissedEvent},
)
async def follow_overview(call: HttpCall) -> HttpReply:
    """Stream what changes, at most twice a second."""
    return HttpReply(200, content_type=EVENT_STREAM, events=_told(call))


async def _told(call: HttpCall) -> AsyncIterator[bytes]:
    door = call.door
    yield b"retry: %d\n\n" % (RETRY_MS + int(door.ids.jitter() * RETRY_MS))
    with door.facade.overview.telling(_whose(call), call.actor.workflows) as telling:
        seen = telling.number
        while not door.facade.draining:
            if await _next(call, telling, seen):
                yield (MISSED if telling.number > seen + 1 else b"") + telling.said
                seen = telling.number
            else:
                yield b": still here\n\n"


async def _next(call: HttpCall, telling: Telling, seen: int) -> bool:
    """False after a while in which nothing happened.

    Raises: Refused UNAUTHORIZED."""
    with anyio.move_on_after(HEARTBEAT_S) as quiet:
        await telling.wait(seen, partial(_words, call))
    await check_caller(call)
    return not quiet.cancelled_caught


async def _words(call: HttpCall, changes: Changes) -> bytes:
    """The same for everybody who listens to this telling: nothing in it depends on who asks."""
    counts = await _counts(call) if _whose(call) is None else None
    rows = [_row(call, job) for job in changes.jobs]
    event = ChangesEvent(jobs=rows, more=changes.more, counts=counts)
    return b"event: changes\ndata: %s\n\n" % encode(event)


def _whose(call: HttpCall) -> str | None:
    return call.actor.name if call.actor.role == "user" else None


async def _counts(call: HttpCall) -> list[StatusCount]:
    found = await call.door.reader.tally_of(_whose(call), OWN_MAX)
    return [_count(call, *one) for one in found if call.actor.serves(one[0])]


def _count(call: HttpCall, workflow: str, status: str, jobs: int) -> StatusCount:
    definition = call.door.facade.definitions.current(workflow)
    state = definition.states.get(status) if definition else None
    return StatusCount(
        workflow=workflow,
        status=status,
        kind=state.kind if state else None,
        ends=(state.ends or ("failed" if state.fails else "completed"))
        if state and state.ended
        else None,
        person=definition is not None and _waits_for_person(definition, status),
        jobs=jobs,
    )


def _waits_for_person(definition: Definition, status: str) -> bool:
    state = definition.states.get(status)
    waits = state is not None and state.kind == "waiting"
    return waits and rests_with_person(definition, status, ANY)


def _row(call: HttpCall, job: Snapshot) -> JobRow:
    definition = call.door.facade.definitions.of(job)
    return view_of(
        JobRow,
        job,
        attempt=job.attempts,
        stuck=stuck_view(call, job),
        ended_as=ended_as(definition, job.status) if definition else None,
        needs_person=needs_person(definition, job) if definition else job.stuck is not None,
    )


async def _attention(call: HttpCall, gauges: Gauges) -> Attention:
    reader = call.door.reader
    census, failed, retrying, parked, found = await gather(
        call.door.facade.census.latest(),
        reader.lately(tuple(_failing(call)), ROWS),
        reader.retrying((), ROWS),
        reader.parked(ROWS),
        obstacles(call),
    )
    return view_of(
        Attention,
        census,
        failed=[_row(call, job) for job in failed],
        retrying=[_row(call, job) for job in retrying],
        parked=[_row(call, job) for job in parked],
        stuck=_resting(census.stuck),
        paused=_resting(census.paused),
        unclaimed=_resting(census.unclaimed),
        endpoints_failing=gauges.endpoints_failing,
        endpoints_disabled=gauges.endpoints_disabled,
        obstacles=found,
    )


def _failing(call: HttpCall) -> list[tuple[str, str]]:
    """The places in which jobs rest that have failed."""
    definitions = call.door.facade.definitions
    loaded = [definitions.current(name) for name in sorted(definitions.names())]
    return [place for one in loaded if one is not None for place in _failing_in(one)]


def _failing_in(definition: Definition) -> list[tuple[str, str]]:
    return [
        (definition.workflow.name, state.name)
        for state in definition.workflow.states
        if state.ended and (state.ends or ("failed" if state.fails else "")) == "failed"
    ]


def _resting(found: tuple[RestingJobs, ...]) -> list[RestingView]:
    return [view_of(RestingView, one, since=text_or_none(one.since)) for one in found]


def _work(call: HttpCall, gauges: Gauges) -> WorkView:
    dispatcher = call.door.facade.dispatcher
    users: dict[str, int] = {}
    for user_id in dispatcher.running.values():
        users[user_id] = users.get(user_id, 0) + 1
    return view_of(
        WorkView,
        gauges,
        slots=int(limit_now(call, "limits.active_jobs")),
        line_max=int(limit_now(call, "limits.queued_jobs")),
        oldest_in_line_at=text_or_none(gauges.line_at),
        next_timer_at=text_or_none(gauges.due_at),
        users=dict(sorted(users.items())),
        resources=[
            ResourceView(name=name, taken=taken, there=there)
            for name, (taken, there) in sorted({**dispatcher.resources, **_cluster(call)}.items())
        ],
    )


def _cluster(call: HttpCall) -> dict[str, tuple[int, int]]:
    """Count the workers of the cluster, and those that are free."""
    seats = call.door.facade.world.surroundings.elsewhere.seats()
    there = sum(seats.values())
    return {"cluster": (there - seats["free"], there)} if seats else {}
