"""Decisions about a job, as they are on record: with what each was decided, and made again."""

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from jobrunner.actors.features.upgrades import retelling
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.upgrades.replays import Led, Recorded, Retold
from jobrunner.core.features.upgrades.upgrades import fill_a_page
from jobrunner.core.instants import text_of
from jobrunner.core.job import Snapshot
from jobrunner.errors import Refused
from jobrunner.http.frame.endpoint import OWNERS, Body, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.inputs import (
    RowsQuery,
    cursor_of,
    governed_job,
    key_of,
    not_both,
    visible_job,
)
from jobrunner.http.frame.problems import invalid
from jobrunner.http.frame.views import reply, view_of
from jobrunner.http.routes.admin.workflows import WorkflowView, panel_of, published

BEATS = 1 << 20
STEPS_MAX = 1000


class DecisionList(View, frozen=True, kw_only=True):
    """``decisions`` are records as `job replay` reads them; ``declarations`` are those by which
    they were made, by digest, on the first page alone."""

    workflow: str
    decisions: list[dict[str, Any]]
    declarations: dict[str, Any]
    next_cursor: str | None


@Endpoint("GET", "/jobs/{id}/decisions", {200: DecisionList}, OWNERS, query=RowsQuery)
async def get_decisions(call: HttpCall) -> HttpReply:
    """List the decisions about a job that are on record, with what each was decided with."""
    job = await visible_job(call)
    query: RowsQuery = call.query
    place = divmod(key_of(query.cursor) or 0, BEATS)
    found = await call.door.reader.decisions(job.id, query.limit, place)
    following = None
    if found and fill_a_page(found, query.limit):
        following = found[-1].version * BEATS + found[-1].beat
    made_by = () if query.cursor else await call.door.reader.declarations_of(job.id)
    return reply(
        DecisionList(
            workflow=job.workflow,
            decisions=[msgspec.json.decode(one.data) for one in found],
            declarations={digest: msgspec.json.decode(data) for _, digest, data in made_by},
            next_cursor=cursor_of(following),
        )
    )


class ReplayOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``digest`` names a declaration that the service knows, ``declaration`` is one as
    `jobrunner workflow show` prints it, for admins. With neither each decision is made by the
    declaration of its day."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = (not_both("digest", "declaration"),)
    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}(?!\n)$")] | None = None
    declaration: dict[str, Any] | None = None


class LedView(View, frozen=True, kw_only=True):
    """The result of a decision. ``timers`` are moments, by purpose."""

    status: str
    path: list[str]
    credits: list[tuple[str, int]]
    attempt: tuple[str, str, str] | None
    timers: dict[str, str]
    stuck: str | None
    failure_code: str | None


class ReplayStep(View, frozen=True, kw_only=True):
    """A decision as it was made ``then``, and as it comes out ``now``; null where it would not
    have been made, for the reason ``why``. ``differs`` names what is not the same."""

    version: int
    beat: int
    at: str
    message: str
    before: str | None
    then: LedView
    now: LedView | None
    differs: list[str]
    why: str | None


class ReplayView(View, frozen=True, kw_only=True):
    """``under`` is the other declaration. Of more than 1,000 decisions, or 16 MB of them, the first
    are made again, and ``whole`` is false."""

    workflow: str
    under: WorkflowView | None
    steps: list[ReplayStep]
    whole: bool


@Endpoint(
    "POST",
    "/jobs/{id}/decisions/replay",
    {200: ReplayView},
    OWNERS,
    body=ReplayOrder,
    empty=True,
    codes=("WORKFLOW_UNAVAILABLE", "INVALID_PARAMS"),
)
async def replay_decisions(call: HttpCall) -> HttpReply:
    """Make the decisions about a job again, under another declaration if one likes.

    Nothing changes."""
    job, _ = await governed_job(call)
    under = await _under(call, job)
    found = await retelling.retold(call.door.facade.world, job, under, STEPS_MAX)
    return reply(
        ReplayView(
            workflow=job.workflow,
            under=published(under) if under else None,
            steps=[_step(*one) for one in found.steps],
            whole=found.whole,
        )
    )


@Endpoint("GET", "/jobs/{id}/workflow", {200: WorkflowView}, codes=("WORKFLOW_UNAVAILABLE",))
async def get_declaration(call: HttpCall) -> HttpReply:
    """Show the declaration that a job is under, which may not be that of today."""
    _, definition = await governed_job(call)
    return reply(published(definition, panel_of(call, definition)))


async def _under(call: HttpCall, job: Snapshot) -> Definition | None:
    """Raises: Refused."""
    order: ReplayOrder = call.body or ReplayOrder()
    world = call.door.facade.world
    if order.digest is not None and order.declaration is not None:
        detail = "send a digest or a declaration"
        raise invalid(detail, ("$.declaration", detail))
    if order.digest is not None:
        return retelling.known(world, job.workflow, order.digest)
    if order.declaration is None:
        return None
    if call.actor.role != "admin":
        raise Refused("FORBIDDEN", "a declaration of one's own is for admins to try")
    data = msgspec.json.encode(order.declaration)
    return await retelling.thought_of(world, job.workflow, data)


def _step(record: Recorded, told: Retold) -> ReplayStep:
    return ReplayStep(
        version=record.version,
        beat=record.beat,
        at=text_of(record.moment.now),
        message=told.message,
        before=told.before or None,
        then=_led(told.then),
        now=_led(told.now) if told.now else None,
        differs=list(told.differs),
        why=told.why or None,
    )


def _led(led: Led) -> LedView:
    timers = {purpose: text_of(at) for purpose, at in led.timers.items()}
    return view_of(LedView, led, attempt=led.attempt, timers=timers)
