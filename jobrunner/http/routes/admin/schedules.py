"""Jobs on a timetable: made, changed, shown, paused."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta
from msgspec.structs import asdict

from jobrunner.actors.features.schedules.timekeeping import StandingSchedule
from jobrunner.core.declaration.happenings import NAMES, Happening
from jobrunner.core.features.schedules.schedules import (
    CatchUp,
    Overlap,
    Owner,
    Schedule,
    ahead,
    faults,
    fires_at,
    misfits,
    schedule_of,
)
from jobrunner.core.features.schedules.timetable import shown_in
from jobrunner.core.instants import text_of, text_or_none
from jobrunner.http.frame.addresses import link
from jobrunner.http.frame.endpoint import (
    ADMINS,
    Body,
    Endpoint,
    FromWorkflows,
    HttpCall,
    HttpReply,
    Query,
    View,
)
from jobrunner.http.frame.inputs import (
    LabelKey,
    LabelValue,
    Name,
    Reasoned,
    UserId,
    needs_one,
    not_both,
)
from jobrunner.http.frame.problems import invalid
from jobrunner.http.frame.views import HeldBack, encode, reply, view_of
from jobrunner.http.routes.admin.firings import FiringView, firing_view
from jobrunner.http.routes.jobs.submissions import Address, job_type_named, workflow_named

SHOWN_FIRINGS = 10
LISTED_NEXT, SHOWN_NEXT = 1, 5
YEAR_S = 366 * 86_400
Standings = Literal["active", "paused", "waits", "faulty"]


class ScheduleFields(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A submission, for whom it is made, and when: ``cron`` or ``every``. ``catch_up`` is for how
    long a moment may be late, ``jitter`` up to how much later it fires; in seconds."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = (
        needs_one("cron", "every"),
        not_both("cron", "every"),
        {"anyOf": [needs_one("notify_url"), {"not": needs_one("notify_on")}]},
    )
    from_workflows: ClassVar[dict[str, FromWorkflows]] = {"workflow": "workflows"}
    workflow: Name
    user: UserId
    job_type: Annotated[str, Meta(min_length=1, max_length=50)] | None = None
    params: dict[str, Any] = {}
    cron: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    every: Annotated[float, Meta(ge=1, le=YEAR_S, description="seconds")] | None = None
    zone: Annotated[str, Meta(min_length=1, max_length=64)] = "UTC"
    overlap: Overlap = "skip"
    catch_up: Annotated[float, Meta(ge=10, le=YEAR_S, description="seconds")] = 3600
    catch_up_policy: CatchUp = "latest"
    jitter: Annotated[float, Meta(ge=0, le=3600, description="seconds")] = 0
    labels: Annotated[dict[LabelKey, LabelValue], Meta(max_length=16)] = {}
    priority: Annotated[int, Meta(ge=-100, le=100)] = 0
    notify_url: Address | None = None
    notify_on: Annotated[list[Happening], Meta(min_length=1, max_length=len(NAMES))] | None = None


class ScheduleOrder(ScheduleFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule with its name, which no other one may have."""

    name: UserId


class SchedulesQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``next`` is how many of the next moments are shown."""

    next: Annotated[int, Meta(ge=0, le=100)] = LISTED_NEXT


class ScheduleQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``next`` is how many of the next moments are shown."""

    next: Annotated[int, Meta(ge=0, le=100)] = SHOWN_NEXT


class NextMoment(View, frozen=True, kw_only=True):
    """A moment, the same by the clock of its zone, and when its job is made, jitter included."""

    at: str
    local: str
    fires_at: str


class ScheduleView(View, frozen=True, kw_only=True):
    """A schedule. One whose ``owner`` is the file stands in config.toml and is changed there.
    ``waits``: for what ``reason`` says; ``faulty``: it can make no job as it is."""

    name: str
    owner: Owner
    state: Standings
    reason: str | None
    workflow: str
    job_type: str | None
    user: str
    params: dict[str, Any]
    labels: dict[str, str]
    priority: int
    notify_url: str | None
    notify_on: list[str]
    cron: str | None
    every: float | None
    zone: str
    overlap: Overlap
    catch_up: float
    catch_up_policy: CatchUp
    jitter: float
    next: list[NextMoment]
    paused: HeldBack | None
    last_job_id: str | None
    failed_at: str | None
    made_by: str
    made_at: str
    changed_at: str


class ShownSchedule(ScheduleView, frozen=True, kw_only=True):
    """A schedule with its last firings, newest first."""

    firings: list[FiringView]


class ScheduleList(View, frozen=True, kw_only=True):
    schedules: list[ScheduleView]


@Endpoint("GET", "/admin/schedules", {200: ScheduleList}, ADMINS, query=SchedulesQuery)
async def list_schedules(call: HttpCall) -> HttpReply:
    """List the schedules by name, each with its next moments."""
    query: SchedulesQuery = call.query
    found = sorted(call.door.facade.schedules.standing.items())
    shown = [ScheduleView(**_fields(call, one, query.next)) for _, one in found]
    return reply(ScheduleList(schedules=shown))


@Endpoint(
    "POST",
    "/admin/schedules",
    {201: ShownSchedule},
    ADMINS,
    body=ScheduleOrder,
    codes=("ALREADY_EXISTS", "UNKNOWN_WORKFLOW", "UNKNOWN_JOB_TYPE", "WORKFLOW_UNAVAILABLE"),
)
async def create_schedule(call: HttpCall) -> HttpReply:
    """Make a schedule, which begins now."""
    body: ScheduleOrder = call.body
    schedule = _schedule(call, body.name, body)
    await call.door.facade.schedules.keep(schedule, call.actor, fresh=True)
    shown = await _shown(call, body.name)
    where = link(call, f"/admin/schedules/{body.name}")
    return HttpReply(201, encode(shown), {"Location": where})


@Endpoint("GET", "/admin/schedules/{name}", {200: ShownSchedule}, ADMINS, query=ScheduleQuery)
async def get_schedule(call: HttpCall) -> HttpReply:
    """Show a schedule, its next moments, and what came of the last ones."""
    query: ScheduleQuery = call.query
    return reply(await _shown(call, call.path["name"], query.next))


@Endpoint(
    "PUT",
    "/admin/schedules/{name}",
    {200: ShownSchedule, 201: ShownSchedule},
    ADMINS,
    body=ScheduleFields,
    codes=("SCHEDULE_OF_FILE", "UNKNOWN_WORKFLOW", "UNKNOWN_JOB_TYPE", "WORKFLOW_UNAVAILABLE"),
)
async def put_schedule(call: HttpCall) -> HttpReply:
    """Make a schedule, or put this in the place of the one of this name."""
    name, body = call.path["name"], call.body
    fresh = await call.door.facade.schedules.keep(_schedule(call, name, body), call.actor)
    shown, where = await _shown(call, name), link(call, f"/admin/schedules/{name}")
    return HttpReply(201 if fresh else 200, encode(shown), {"Location": where} if fresh else {})


@Endpoint("DELETE", "/admin/schedules/{name}", {204: None}, ADMINS, codes=("SCHEDULE_OF_FILE",))
async def delete_schedule(call: HttpCall) -> HttpReply:
    """Forget a schedule and its firings; its jobs stay."""
    await call.door.facade.schedules.drop(call.path["name"], call.actor)
    return HttpReply(204)


@Endpoint(
    "POST", "/admin/schedules/{name}/pause", {200: ShownSchedule}, ADMINS, Reasoned, empty=True
)
async def pause_schedule(call: HttpCall) -> HttpReply:
    """Let nothing of a schedule fire until it is resumed."""
    name = call.path["name"]
    await call.door.facade.schedules.pause(name, call.actor, call.body.reason)
    return reply(await _shown(call, name))


@Endpoint(
    "POST", "/admin/schedules/{name}/resume", {200: ShownSchedule}, ADMINS, Reasoned, empty=True
)
async def resume_schedule(call: HttpCall) -> HttpReply:
    """Let a paused schedule go on, from now; what came meanwhile is not made up for."""
    name = call.path["name"]
    await call.door.facade.schedules.resume(name, call.actor, call.body.reason)
    return reply(await _shown(call, name))


def _schedule(call: HttpCall, name: str, body: ScheduleFields) -> Schedule:
    """Raises: Refused, for what cannot be, or does not fit the workflow as it is loaded."""
    definition = workflow_named(call, body.workflow)
    schedule = schedule_of(name, body)
    job_type_named(definition, body.job_type)
    found = list(faults(schedule)) or list(misfits(schedule, definition))
    if body.notify_url and (why := call.door.facade.deliveries.misfit_url(body.notify_url)):
        found.append(("notify_url", why))
    if found:
        path, text = found[0]
        raise invalid(f"{path}: {text}", *((f"$.{path}", text) for path, text in found))
    return schedule


async def _shown(call: HttpCall, name: str, many: int = SHOWN_NEXT) -> ShownSchedule:
    one = call.door.facade.schedules.found(name)
    rows = await call.door.reader.firings(name, SHOWN_FIRINGS, None)
    return ShownSchedule(**_fields(call, one, many), firings=[firing_view(row) for row in rows])


def _fields(call: HttpCall, one: StandingSchedule, many: int) -> dict[str, Any]:
    stored, schedule = one.stored, one.schedule
    state, reason = _standing(call, one)
    said = asdict(schedule)
    for name in ("every_s", "catch_up_s", "jitter_s"):
        said[name.removesuffix("_s")] = said.pop(name)
    said |= {"cron": schedule.cron or None, "every": schedule.every_s or None}
    return said | {
        "owner": stored.owner,
        "state": state,
        "reason": reason,
        "notify_on": list(schedule.notify_on),
        "next": [_next(schedule, moment) for moment in ahead(schedule, stored.up_to, many)],
        "paused": view_of(HeldBack, stored.paused) if stored.paused else None,
        "last_job_id": stored.last_job,
        "failed_at": text_or_none(stored.failed_at),
        "made_by": stored.made_by,
        "made_at": text_of(stored.made_at),
        "changed_at": text_of(stored.changed_at),
    }


def _standing(call: HttpCall, one: StandingSchedule) -> tuple[Standings, str | None]:
    schedules = call.door.facade.schedules
    if one.stored.paused is not None:
        return "paused", one.stored.paused.reason
    if one.held is not None:
        return "waits", f"{one.held.code}: {one.held.detail}"
    if fault := schedules.misfit(one.schedule):
        return ("faulty" if schedules.is_loaded(one.schedule) else "waits"), fault
    return "active", None


def _next(schedule: Schedule, moment: int) -> NextMoment:
    return NextMoment(
        at=text_of(moment),
        local=shown_in(schedule.zone, moment),
        fires_at=text_of(fires_at(schedule, moment)),
    )
