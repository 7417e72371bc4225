"""Moments of schedules: what became of them; fire one by hand, and make up for missed ones."""

from msgspec import field

from jobrunner.core.features.schedules.schedules import Firing, How, MomentDone, Outcome, Overlap
from jobrunner.core.instants import instant_of, text_of, text_or_none
from jobrunner.http.frame.addresses import link
from jobrunner.http.frame.endpoint import (
    ADMINS,
    SUBMITTING,
    Body,
    Endpoint,
    HttpCall,
    HttpReply,
    View,
)
from jobrunner.http.frame.inputs import (
    Instant,
    Key,
    PageQuery,
    following_cursor,
    key_given,
    key_of,
)
from jobrunner.http.frame.problems import invalid
from jobrunner.http.frame.views import encode, reply, view_of


class TriggerOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Under one ``idempotency_key`` it fires once. ``overlap`` in place of the schedule's own."""

    idempotency_key: Key | None = None
    overlap: Overlap | None = None


class BackfillOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The moments from ``from`` up to ``to``, which is over and is not one of them."""

    from_: Instant = field(name="from")
    to: Instant
    dry_run: bool = False


class FiringView(View, frozen=True, kw_only=True):
    """The result of a moment. Of several that were missed together, ``moment`` is the first and
    ``last`` the last; ``count`` is at most 1000 where a cron line says when."""

    moment: str
    last: str | None
    count: int
    how: How
    outcome: Outcome
    job_id: str | None
    error_code: str | None
    detail: str | None
    at: str


class FiringList(View, frozen=True, kw_only=True):
    firings: list[FiringView]
    next_cursor: str | None


class Triggered(View, frozen=True, kw_only=True):
    job_id: str
    replayed: bool


class BackfilledMoment(View, frozen=True, kw_only=True):
    moment: str
    outcome: Outcome | None
    job_id: str | None
    error_code: str | None
    detail: str | None


class BackfillView(View, frozen=True, kw_only=True):
    """The results of moments, oldest first; with ``dry_run`` only the moments. ``same`` made
    a job before."""

    dry_run: bool
    total: int
    fired: int
    same: int
    refused: int
    moments: list[BackfilledMoment]


@Endpoint(
    "POST",
    "/admin/schedules/{name}/trigger",
    {200: Triggered, 201: Triggered},
    ADMINS,
    TriggerOrder,
    empty=True,
    codes=(*SUBMITTING, "JOB_ALREADY_RUNNING", "ILLEGAL_TRANSITION", "TERMINAL_STATE"),
)
async def trigger_schedule(call: HttpCall) -> HttpReply:
    """Make a job of a schedule now, whatever time it is and also while it is paused."""
    body: TriggerOrder = call.body
    key = key_given(call, body.idempotency_key) or call.door.ids.fresh()
    schedules = call.door.facade.schedules
    job_id, replayed = await schedules.trigger(
        call.path["name"], key, body.overlap, call.actor.name
    )
    view = Triggered(job_id=job_id, replayed=replayed)
    headers = {"Location": link(call, f"/jobs/{job_id}")}
    return HttpReply(200 if replayed else 201, encode(view), headers)


@Endpoint(
    "POST", "/admin/schedules/{name}/backfill", {200: BackfillView}, ADMINS, body=BackfillOrder
)
async def backfill_schedule(call: HttpCall) -> HttpReply:
    """Make the jobs of moments that are over and made none; whatever overlap says, side by side."""
    body, schedules = call.body, call.door.facade.schedules
    from_at, to_at = instant_of(body.from_, "$.from"), instant_of(body.to, "$.to")
    if not from_at < to_at <= call.door.clock.now():
        detail = "to: must be later than from, and not later than now"
        raise invalid(detail, ("$.to", detail))
    moments = schedules.span(call.path["name"], from_at, to_at)
    if body.dry_run:
        shown = [_moment(one, None) for one in moments]
    else:
        done = await schedules.backfill(call.path["name"], moments, call.actor.name)
        shown = [_moment(one.moment, one) for one in done]
    counts = {
        name: sum(one.outcome == name for one in shown) for name in ("fired", "same", "refused")
    }
    return reply(BackfillView(dry_run=body.dry_run, total=len(shown), moments=shown, **counts))


@Endpoint("GET", "/admin/schedules/{name}/firings", {200: FiringList}, ADMINS, query=PageQuery)
async def list_firings(call: HttpCall) -> HttpReply:
    """List what came of the moments of a schedule, newest first."""
    query: PageQuery = call.query
    name = call.door.facade.schedules.found(call.path["name"]).schedule.name
    rows = await call.door.reader.firings(name, query.limit, key_of(query.cursor))
    following = following_cursor([row.id for row in rows], query)
    return reply(FiringList(firings=[firing_view(row) for row in rows], next_cursor=following))


def firing_view(row: Firing) -> FiringView:
    return view_of(
        FiringView,
        row,
        moment=text_of(row.moment),
        last=text_or_none(row.last),
        error_code=row.code or None,
        detail=row.detail or None,
    )


def _moment(moment: int, done: MomentDone | None) -> BackfilledMoment:
    return BackfilledMoment(
        moment=text_of(moment),
        outcome=done.outcome if done else None,
        job_id=done.job_id if done else None,
        error_code=(done.code or None) if done else None,
        detail=(done.detail or None) if done else None,
    )
