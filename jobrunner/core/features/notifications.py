"""Notifications: which one follows from a decision, and what follows from a try to deliver it.
Pure.

A notification is made by the decision that it is about, so it is stored in that decision's
transaction or not at all. Its id is made of job, version and endpoint: every try of it, in this
life of the process or in the next, carries the same one. Its body says who moved and where to,
never what was submitted or made: whoever wants that asks for the job.

One commit tells an endpoint one thing, the most telling one: that a job is stuck, ended,
settled, waits for a person; else that it moved.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from jobrunner.core.access import rests_with_person
from jobrunner.core.decision import EdgeTaken, Notification
from jobrunner.core.declaration.happenings import EVERY, UNASKED, Change, happened
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.instants import text_of, text_or_none
from jobrunner.core.job import Snapshot
from jobrunner.core.units import Tried

BODY_MAX = 20_000
MESSAGE_MAX = 1_000
# The pause before each try. The last one is made three days after the first.
PAUSES_S = (0, 5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
JITTER = 0.2
RETRY_AFTER_S_MAX = 86_400.0
GONE = 410
ORIGIN = re.compile(r"https?://[^/?#]+", re.IGNORECASE)


class DueDelivery(Struct, frozen=True):
    """A notification to be tried now. ``row`` is its integer key, ``tries`` counts all of them and
    ``spent`` those since it was last made due from the start; ``traceparent`` is its job's."""

    row: int
    id: str
    job_id: str
    workflow: str
    user_id: str
    endpoint: int
    owner: str
    lane: str
    url: str
    type: str
    body: str
    tries: int
    spent: int
    traceparent: str | None = None


class DeliveryTry(Struct, frozen=True):
    number: int
    at: int
    latency_ms: int
    http_status: int | None
    error: str


class DeliveryRow(Struct, frozen=True):
    """A notification and what became of it. ``status``: ``due``, ``delivered``, ``failed`` (given
    up) or ``disabled`` (held back)."""

    row: int
    id: str
    job_id: str
    user_id: str
    endpoint: int
    owner: str
    url: str
    type: str
    status: str
    due_at: int | None
    note: str
    created_at: int
    disabled: bool
    tries: tuple[DeliveryTry, ...] = ()


class DeliveryFilter(Struct, frozen=True):
    """Newest first; ``after`` is the row of the last one seen. ``owner`` is whose endpoint."""

    limit: int
    after: int | None = None
    job_id: str | None = None
    owner: str | None = None
    status: str | None = None
    endpoint: int | None = None


class EndpointRow(Struct, frozen=True):
    """``failing_since`` is when its first failure was that no success has followed."""

    id: int
    owner: str
    url: str
    failing_since: int | None
    failures: int
    last_error: str
    disabled_at: int | None
    due: int


class TryAnswer(Struct, frozen=True):
    """The answer to one try. ``status`` None: nobody answered. ``hopeless``: the address is
    one that may not be asked, and asking again would not change that."""

    status: int | None = None
    error: str = ""
    retry_after_s: float = 0
    latency_ms: int = 0
    hopeless: bool = False

    @property
    def well(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class Post(Struct, frozen=True):
    """A request to make. ``trusted``: the operator wrote its URL, so it may lead to private
    addresses."""

    url: str
    headers: dict[str, str]
    body: bytes
    trusted: bool


class Standing(Struct, frozen=True, kw_only=True):
    """The ``data`` of a body: which job, where it came from, where it stands, why it failed."""

    job_id: str
    workflow: str
    job_type: str
    user_id: str
    from_status: str | None
    status: str
    kind: str
    version: int
    run_id: str | None
    correlation_id: str | None
    failure_code: str | None
    failure_message: str | None
    failed_stage: str | None
    stuck: str | None
    created_at: str
    completed_at: str | None
    labels: dict[str, str] | UnsetType = UNSET


class NotificationBody(Struct, frozen=True):
    type: str
    timestamp: str
    data: Standing


def notifications(
    definition: Definition, before: Snapshot | None, after: Snapshot, hops: tuple[EdgeTaken, ...]
) -> tuple[Notification, ...]:
    """Make one notification for each endpoint that wants to hear of this."""
    if not after.notify_url and not definition.workflow.notify.url:
        return ()
    state = definition.states[after.status]
    person = rests_with_person(definition, after.status, after.job_type)
    what = happened(Change(before, after, bool(hops), state, person))
    if what is None:
        return ()
    came_from = hops[0].from_status if hops else after.status
    body = written(f"job.{what}", after, came_from)
    return tuple(
        Notification(
            id=f"{after.id}-{after.version}-{target}",
            owner=owner,
            lane=lane_of(owner, url),
            url=url,
            type=f"job.{what}",
            body=body,
        )
        for target, owner, url, wanted in _endpoints(definition, after)
        if what in wanted or (hops and EVERY in wanted)
    )


def written(name: str, job: Snapshot, came_from: str | None) -> str:
    """The body, under its size whatever a client or a provider put into the job."""
    told = Standing(
        job_id=job.id,
        workflow=job.workflow,
        job_type=job.job_type,
        user_id=job.user_id,
        from_status=came_from,
        status=job.status,
        kind=job.kind,
        version=job.version,
        run_id=job.run_id or None,
        correlation_id=_short(job.correlation_id),
        failure_code=_short(job.failure_code),
        failure_message=_short(job.failure_message),
        failed_stage=_short(job.failed_stage),
        stuck=_short(job.stuck),
        created_at=text_of(job.created_at),
        completed_at=text_or_none(job.completed_at),
        labels=job.labels,
    )
    at = text_of(job.updated_at)
    body = msgspec.json.encode(NotificationBody(name, at, told))
    if len(body) >= BODY_MAX:
        bare: Any = msgspec.structs.replace(told, labels=UNSET, correlation_id=None)
        body = msgspec.json.encode(NotificationBody(name, at, bare))
    return body.decode()


def follows(delivery: DueDelivery, heard: TryAnswer, at: int, now: int, jitter: float) -> Tried:
    """Say what to write after a try: delivered, due again, given up, or never to be tried again."""
    spent = delivery.spent + 1
    outcome, due_at = "due", None
    if heard.well:
        outcome = "delivered"
    elif heard.status == GONE:
        outcome = "disabled"
    elif heard.hopeless or spent >= len(PAUSES_S):
        outcome = "failed"
    else:
        due_at = now + int(1000 * pause_s(spent, heard.retry_after_s, jitter))
    return Tried(
        delivery=delivery.row,
        number=delivery.tries + 1,
        at=at,
        latency_ms=heard.latency_ms,
        http_status=heard.status,
        error=heard.error,
        outcome=outcome,  # type: ignore[arg-type]
        due_at=due_at,
    )


def pause_s(spent: int, retry_after_s: float, jitter: float) -> float:
    """Before the next try, after so many. An endpoint may ask for more patience, up to a day."""
    wanted = max(PAUSES_S[spent], min(retry_after_s, RETRY_AFTER_S_MAX))
    return wanted * (1 + JITTER * jitter)


def lane_of(owner: str, url: str) -> str:
    return f"{owner} {origin_of(url)}"


def origin_of(url: str) -> str:
    """Scheme, host and port: all of a URL that may be logged."""
    found = ORIGIN.match(url)
    return found[0].lower() if found else ""


def _endpoints(
    definition: Definition, job: Snapshot
) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Target, owner, URL and what it wants to hear. No user's name has a colon in it."""
    if job.notify_url:
        yield "job", job.user_id, job.notify_url, job.notify_on or UNASKED
    notify = definition.workflow.notify
    if notify.url:
        yield "workflow", f"workflow:{job.workflow}", notify.url, notify.on


def _short(text: str | None) -> str | None:
    return text[:MESSAGE_MAX] if text else None
