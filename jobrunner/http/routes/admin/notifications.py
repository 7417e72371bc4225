"""The delivery log: what was told to whom, each try of it, and how to have it told again."""

from typing import Annotated, Literal

from msgspec import Meta

from jobrunner.core.features.notifications import DeliveryFilter, DeliveryRow, EndpointRow, lane_of
from jobrunner.core.instants import text_or_none
from jobrunner.core.units import EnableEndpoint, Redeliver
from jobrunner.errors import Refused
from jobrunner.http.frame.endpoint import ADMINS, OWNERS, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.inputs import NoFields, PageQuery, cursor_of, key_of, visible_job
from jobrunner.http.frame.views import reply, view_of

Status = Literal["due", "delivered", "failed", "disabled"]


class DeliveriesQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: Status | None = None


class AllDeliveriesQuery(DeliveriesQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: Annotated[str, Meta(max_length=64)] | None = None
    endpoint: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class EndpointsQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without ``all``, those that fail or are disabled."""

    all: bool = False


class TryEntry(View, frozen=True, kw_only=True):
    """``http_status`` is None when nobody answered."""

    number: int
    at: str
    latency_ms: int
    http_status: int | None
    error: str | None


class DeliveryEntry(View, frozen=True, kw_only=True):
    """``url`` comes without its query. ``note`` says why it is not tried any more."""

    id: str
    job_id: str
    type: str
    status: Status
    endpoint: int
    url: str
    note: str | None
    created_at: str
    next_try_at: str | None
    tries: list[TryEntry]


class DeliveryList(View, frozen=True, kw_only=True):
    deliveries: list[DeliveryEntry]
    next_cursor: str | None


class EndpointEntry(View, frozen=True, kw_only=True):
    """``owner`` is a user, or ``workflow:NAME``. ``failing_since`` is the first failure that no
    success has followed, ``failures`` their number."""

    id: int
    owner: str
    url: str
    failing_since: str | None
    failures: int
    last_error: str | None
    disabled_at: str | None
    due: int


class Endpoints(View, frozen=True, kw_only=True):
    endpoints: list[EndpointEntry]
    next_cursor: str | None


class Secrets(View, frozen=True, kw_only=True):
    """Newest first; a receiver takes a notification that is signed with any of them."""

    secrets: list[str]


@Endpoint("GET", "/admin/endpoints", {200: Endpoints}, ADMINS, query=EndpointsQuery)
async def list_endpoints(call: HttpCall) -> HttpReply:
    """List the endpoints that fail or are disabled."""
    query: EndpointsQuery = call.query
    rows = await call.door.reader.endpoints(query.limit, key_of(query.cursor), not query.all)
    following = cursor_of(rows[-1].id) if len(rows) == query.limit else None
    return reply(Endpoints(endpoints=[_endpoint(row) for row in rows], next_cursor=following))


@Endpoint("GET", "/notifications/secret", {200: Secrets}, OWNERS)
async def get_notify_secret(call: HttpCall) -> HttpReply:
    """Show the secrets that the caller's endpoints verify notifications with."""
    shown = reply(Secrets(secrets=call.door.facade.deliveries.secrets_of(call.actor.name)))
    shown.headers["Cache-Control"] = "no-store"
    return shown


@Endpoint("GET", "/jobs/{id}/deliveries", {200: DeliveryList}, query=DeliveriesQuery)
async def get_deliveries(call: HttpCall) -> HttpReply:
    """List the notifications of a job with each try, newest first.

    An owner sees deliveries to its own endpoint; an admin also sees the workflow's."""
    job = await visible_job(call)
    query: DeliveriesQuery = call.query
    owner = None if call.actor.oversees else job.user_id
    which = DeliveryFilter(query.limit, key_of(query.cursor), job.id, owner, query.status)
    return await _page(call, which)


@Endpoint("GET", "/admin/deliveries", {200: DeliveryList}, ADMINS, query=AllDeliveriesQuery)
async def list_deliveries(call: HttpCall) -> HttpReply:
    """List all deliveries, newest first."""
    query: AllDeliveriesQuery = call.query
    after = key_of(query.cursor)
    which = DeliveryFilter(
        query.limit, after, query.job_id, None, query.status, endpoint=query.endpoint
    )
    return await _page(call, which)


@Endpoint(
    "POST",
    "/jobs/{id}/deliveries/{delivery}/redeliver",
    {202: DeliveryEntry},
    OWNERS,
    body=NoFields,
    empty=True,
    codes=("ENDPOINT_DISABLED",),
)
async def redeliver_own(call: HttpCall) -> HttpReply:
    """Deliver a notification again, under the same id."""
    job = await visible_job(call)
    found = await _delivery(call)
    others = call.actor.role != "admin" and found.owner != call.actor.name
    if found.job_id != job.id or others:
        raise _unknown(call)
    return await _again(call, found)


@Endpoint(
    "POST",
    "/admin/deliveries/{id}/redeliver",
    {202: DeliveryEntry},
    ADMINS,
    body=NoFields,
    empty=True,
    codes=("ENDPOINT_DISABLED",),
)
async def redeliver(call: HttpCall) -> HttpReply:
    """Deliver a notification again, under the same id."""
    return await _again(call, await _delivery(call))


@Endpoint(
    "POST", "/admin/endpoints/{id}/enable", {200: EndpointEntry}, ADMINS, body=NoFields, empty=True
)
async def enable_endpoint(call: HttpCall) -> HttpReply:
    """Deliver to an endpoint again, also what was held back."""
    text = call.path["id"]
    key = int(text) if text.isdecimal() and len(text) < 16 else 0
    rows = await call.door.reader.endpoints(1, key + 1, troubled=False)
    if not key or not rows or rows[0].id != key:
        raise Refused("NOT_FOUND", f"there is no endpoint {text!r}")
    if rows[0].disabled_at is not None:
        unit = EnableEndpoint(key, call.door.clock.now(), call.actor.name)
        await call.door.facade.write(unit)
        call.door.facade.deliveries.note(lane_of(rows[0].owner, rows[0].url))
    return reply(_endpoint((await call.door.reader.endpoints(1, key + 1, troubled=False))[0]))


async def _page(call: HttpCall, which: DeliveryFilter) -> HttpReply:
    rows = await call.door.reader.deliveries(which)
    following = cursor_of(rows[-1].row) if len(rows) == which.limit else None
    return reply(DeliveryList(deliveries=[_entry(row) for row in rows], next_cursor=following))


async def _delivery(call: HttpCall) -> DeliveryRow:
    found = await call.door.reader.delivery(_named(call))
    if found is None:
        raise _unknown(call)
    return found


async def _again(call: HttpCall, found: DeliveryRow) -> HttpReply:
    if found.disabled:
        raise Refused(
            "ENDPOINT_DISABLED",
            f"endpoint {found.endpoint} answered that it is gone; an admin can enable it with "
            f"POST /admin/endpoints/{found.endpoint}/enable",
            endpoint=found.endpoint,
        )
    now = call.door.clock.now()
    await call.door.facade.write(Redeliver(found.id, now, call.actor.name, found.job_id))
    call.door.facade.deliveries.note(lane_of(found.owner, found.url))
    return reply(_entry(await _delivery(call)), 202)


def _named(call: HttpCall) -> str:
    return call.path.get("delivery", "") or call.path["id"]


def _unknown(call: HttpCall) -> Refused:
    return Refused("NOT_FOUND", f"there is no delivery {_named(call)!r}")


def _entry(row: DeliveryRow) -> DeliveryEntry:
    tries = [view_of(TryEntry, one, error=one.error or None) for one in row.tries]
    return view_of(
        DeliveryEntry,
        row,
        url=bare(row.url),
        note=row.note or None,
        next_try_at=text_or_none(row.due_at),
        tries=tries,
    )


def _endpoint(row: EndpointRow) -> EndpointEntry:
    return view_of(
        EndpointEntry,
        row,
        url=bare(row.url),
        failing_since=text_or_none(row.failing_since),
        last_error=row.last_error or None,
    )


def bare(url: str) -> str:
    """Remove the query of a URL, in which receivers like to have a secret."""
    return url.partition("?")[0]
