"""One command for many jobs: tried out, carried out at once, or begun under a handle."""

from collections import Counter
from typing import Annotated, Any, ClassVar

from msgspec import Meta, to_builtins

from jobrunner.actors.features.bulk import FORESEEN_MAX
from jobrunner.core.declaration.states import Kind
from jobrunner.core.features.bulk import BUILT_IN, Bulk, BulkItem, Orders, Status
from jobrunner.core.instants import instant_or_none
from jobrunner.core.questions import JobFilter
from jobrunner.http.frame import inputs
from jobrunner.http.frame.addresses import link
from jobrunner.http.frame.endpoint import (
    ADMINS,
    Body,
    Endpoint,
    FromWorkflows,
    HttpCall,
    HttpReply,
    View,
)
from jobrunner.http.frame.problems import invalid
from jobrunner.http.frame.views import encode, reply, view_of

AT_ONCE_MAX = 100
AT_ONCE_S = 20.0
IDS_MAX = 5000
SHOWN_MAX = 100

SAYS_SOMETHING: dict[str, Any] = {
    "anyOf": [
        inputs.needs_one("workflow", "job_type", "user_id", "created_from", "created_before"),
        {"required": ["kind"], "properties": {"kind": {"minItems": 1}}},
        {"required": ["status"], "properties": {"status": {"minItems": 1}}},
        {"required": ["labels"], "properties": {"labels": {"minProperties": 1}}},
        {"required": ["stuck"], "properties": {"stuck": {"const": True}}},
        {"required": ["paused"], "properties": {"paused": {"const": True}}},
    ]
}
AGAIN = {
    "properties": {"params": {"type": "object"}},
    "propertyNames": {"enum": ["from", "params"]},
}
TAKES_FIELDS: dict[str, Any] = {
    "anyOf": [
        {"properties": {"fields": {"maxProperties": 0}}},
        {"properties": {"command": {"not": {"enum": list(BUILT_IN)}}}},
        {"properties": {"command": {"const": "rerun"}, "fields": AGAIN}},
    ]
}


class Which(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs that fit all of this. One that says nothing is refused: it would mean every job."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = (SAYS_SOMETHING,)
    workflow: inputs.Name | None = None
    status: Annotated[list[inputs.Name], Meta(max_length=64)] = []
    job_type: inputs.Name | None = None
    user_id: inputs.UserId | None = None
    labels: Annotated[dict[inputs.LabelKey, inputs.LabelValue], Meta(max_length=16)] = {}
    stuck: bool = False
    paused: bool = False
    kind: Annotated[list[Kind], Meta(max_length=5)] = []
    created_from: inputs.Instant | None = None
    created_before: inputs.Instant | None = None


class BulkOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``ids`` or ``filter``. ``fields`` are the command's own; for ``rerun``, ``from`` and
    ``params``."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = (
        inputs.needs_one("ids", "filter"),
        inputs.not_both("ids", "filter"),
        TAKES_FIELDS,
    )
    from_workflows: ClassVar[dict[str, FromWorkflows]] = {"command": "commands"}
    command: inputs.Name
    ids: Annotated[list[inputs.Name], Meta(min_length=1, max_length=IDS_MAX)] | None = None
    filter: Which | None = None
    dry_run: bool = False
    reason: inputs.Prose | None = None
    fields: dict[str, Any] = {}


class BulkFailure(View, frozen=True, kw_only=True):
    job_id: str
    error_code: str
    detail: str


class BulkEntry(View, frozen=True, kw_only=True):
    """A bulk without what failed."""

    id: str
    command: str
    by: str
    reason: str | None
    status: Status
    total: int
    done: int
    satisfied: int
    failed: int
    created_at: str
    ended_at: str | None


class BulkView(BulkEntry, frozen=True, kw_only=True):
    """``satisfied`` are those for whom there was nothing to do. ``failures`` come in the order of
    the jobs, a page of them."""

    left: int
    failures: list[BulkFailure]
    next_cursor: str | None


class BulkList(View, frozen=True, kw_only=True):
    bulks: list[BulkEntry]
    next_cursor: str | None


class ForeseenJob(View, frozen=True, kw_only=True):
    job_id: str
    status: str | None
    outcome: str
    to: str | None
    detail: str | None


class ForeseenBulk(View, frozen=True, kw_only=True):
    """The outcome that a bulk would have for the first ``examined`` of ``total`` jobs: how many by
    outcome (``done``, ``satisfied`` or an error code), and the first of them one by one."""

    dry_run: bool
    command: str
    total: int
    examined: int
    outcomes: dict[str, int]
    jobs: list[ForeseenJob]


@Endpoint(
    "POST", "/admin/bulk", {200: ForeseenBulk, 201: BulkView, 202: BulkView}, ADMINS, body=BulkOrder
)
async def order_bulk(call: HttpCall) -> HttpReply:
    """Carry out one command for many jobs; with dry_run, show what it would do.

    A few are done when this answers; more are begun, and are done whatever happens."""
    body: BulkOrder = call.body
    _check_command(call, body)
    job_ids = await _chosen(call, body)
    which = to_builtins(body.filter) if body.filter else None
    orders = Orders(body.command, body.fields, body.reason, which)
    bulks = call.door.facade.bulks
    if body.dry_run:
        return await _dry_run(call, orders, job_ids)
    bulk = await bulks.order(orders, job_ids, call.actor)
    if bulk.total <= AT_ONCE_MAX:
        bulk = await bulks.ended(bulk.id, AT_ONCE_S)
    status = 202 if bulk.status == "running" else 201
    shown = await _shown(call, bulk, SHOWN_MAX, None)
    return HttpReply(status, encode(shown), {"Location": link(call, f"/admin/bulk/{bulk.id}")})


@Endpoint("GET", "/admin/bulk", {200: BulkList}, ADMINS, query=inputs.PageQuery)
async def list_bulks(call: HttpCall) -> HttpReply:
    """List the bulks of the last 30 days, newest first."""
    query: inputs.PageQuery = call.query
    rows = await call.door.reader.bulk_list(query.limit, inputs.key_of(query.cursor))
    following = inputs.following_cursor([key for key, _ in rows], query)
    entries = [view_of(BulkEntry, bulk, **_order(bulk)) for _, bulk in rows]
    return reply(BulkList(bulks=entries, next_cursor=following))


@Endpoint("GET", "/admin/bulk/{id}", {200: BulkView}, ADMINS, query=inputs.PageQuery)
async def get_bulk(call: HttpCall) -> HttpReply:
    """Show how far a bulk is, and what failed."""
    query: inputs.PageQuery = call.query
    bulk = await call.door.facade.bulks.found(call.path["id"])
    return reply(await _shown(call, bulk, query.limit, inputs.key_of(query.cursor)))


@Endpoint("DELETE", "/admin/bulk/{id}", {200: BulkView}, ADMINS)
async def abort_bulk(call: HttpCall) -> HttpReply:
    """Stop a bulk; what is done stays done."""
    bulk = await call.door.facade.bulks.abort(call.path["id"], call.actor)
    return reply(await _shown(call, bulk, SHOWN_MAX, None))


def _check_command(call: HttpCall, body: BulkOrder) -> None:
    """Raises: Refused, for what no loaded workflow knows."""
    definitions = call.door.facade.definitions
    loaded = [definitions.current(name) for name in definitions.names()]
    known = {name for one in loaded if one is not None for name in one.commands} | set(BUILT_IN)
    if body.command not in known:
        listed = ", ".join(sorted(known))
        detail = f"no workflow has a command {body.command!r}; there are: {listed}"
        raise invalid(detail, ("$.command", detail))
    unknown = sorted(body.fields.keys() - {"from", "params"}) if body.command == "rerun" else []
    if unknown or (body.fields and body.command in BUILT_IN and body.command != "rerun"):
        detail = f"{body.command} takes no field {(unknown or sorted(body.fields))[0]!r}"
        raise invalid(detail, ("$.fields", detail))
    if not isinstance(body.fields.get("params", {}), dict) and body.command == "rerun":
        raise invalid("params must be an object", ("$.fields.params", "an object"))


async def _chosen(call: HttpCall, body: BulkOrder) -> list[str]:
    """Raises: Refused, when nobody was named, or everybody."""
    if (body.ids is None) == (body.filter is None):
        detail = "send either ids or a filter"
        raise invalid(detail, ("$.ids", detail))
    if body.ids is not None:
        return list(dict.fromkeys(body.ids))
    assert body.filter is not None
    if body.filter == Which():
        detail = "an empty filter means every job there is; say which are meant"
        raise invalid(detail, ("$.filter", detail))
    which = body.filter
    found: list[str] = await call.door.facade.bulks.find(
        JobFilter(
            user_id=which.user_id,
            workflow=which.workflow,
            statuses=tuple(which.status),
            job_type=which.job_type,
            labels=tuple(which.labels.items()),
            stuck=which.stuck,
            paused=which.paused,
            kinds=tuple(which.kind),
            created_from=instant_or_none(which.created_from, "$.filter.created_from"),
            created_before=instant_or_none(which.created_before, "$.filter.created_before"),
        )
    )
    return found


async def _dry_run(call: HttpCall, orders: Orders, job_ids: list[str]) -> HttpReply:
    counts: Counter[str] = Counter()
    shown: list[ForeseenJob] = []
    async for one in call.door.facade.bulks.foresee(orders, job_ids, call.actor):
        counts[one.outcome] += 1
        if len(shown) < SHOWN_MAX:
            shown.append(
                view_of(
                    ForeseenJob,
                    one,
                    status=one.status or None,
                    to=one.to or None,
                    detail=one.detail or None,
                )
            )
    return reply(
        ForeseenBulk(
            dry_run=True,
            command=orders.command,
            total=len(job_ids),
            examined=min(len(job_ids), FORESEEN_MAX),
            outcomes=dict(sorted(counts.items())),
            jobs=shown,
        )
    )


async def _shown(call: HttpCall, bulk: Bulk, limit: int, after: int | None) -> BulkView:
    failures: tuple[BulkItem, ...] = ()
    if bulk.failed:
        failures = await call.door.reader.bulk_failures(bulk.id, limit, after)
    following = failures[-1].place if len(failures) == limit else None
    return view_of(
        BulkView,
        bulk,
        **_order(bulk),
        left=bulk.total - bulk.done - bulk.satisfied - bulk.failed,
        failures=[view_of(BulkFailure, one, error_code=one.code) for one in failures],
        next_cursor=inputs.cursor_of(following),
    )


def _order(bulk: Bulk) -> dict[str, str | None]:
    """Name what was ordered, and by whom."""
    return {"command": bulk.orders.command, "by": bulk.actor, "reason": bulk.orders.reason}
