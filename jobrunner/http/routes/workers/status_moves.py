"""Moves of a job by those who work outside: one declared edge, or an event with an identity."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from jobrunner.actors import Answer
from jobrunner.core.instants import instant_of, text_or_none
from jobrunner.core.job import Asset
from jobrunner.core.messages import Event, Move, Report
from jobrunner.core.status_moves import AHEAD_MAX_MS
from jobrunner.http.frame import inputs
from jobrunner.http.frame.endpoint import MOVING, WORKERS, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.etags import expected_version
from jobrunner.http.frame.problems import invalid
from jobrunner.http.frame.views import Job, encode, reply_answer
from jobrunner.http.routes.jobs.submissions import CANONICAL
from jobrunner.http.routes.workers.reports import Reported, ReportedAsset
from jobrunner.ports import digest

EventId = Annotated[str, Meta(min_length=1, max_length=128)]

EVENT_ID_MAX = 128
SINCE_THEN = ("attempt", "claim", "id")
EVENTS = ("CALLBACK_OUT_OF_ORDER", "EVENT_ID_PAYLOAD_MISMATCH")
NOT_SAID = ("event_id", "job_id", "target_status", "failure_reason")


class TransitionOrder(Reported, frozen=True, kw_only=True, forbid_unknown_fields=True):
    to: inputs.Name
    expected_version: inputs.Version | None = None
    reason: inputs.Prose | None = None


class EventReplayed(View, frozen=True, kw_only=True):
    job_id: str
    event_id: str
    replayed: bool
    current_status: str
    latest_applied_occurred_at: str | None


class StatusEvent(Reported, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A callback. ``event_id`` may come as the header X-Event-Id instead; ``target_status`` is an
    alias of ``status``, and ``failure_reason`` stands in for a missing ``failure_message``."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = (
        inputs.needs_one("status", "target_status"),
        inputs.not_both("status", "target_status"),
    )
    occurred_at: inputs.Instant
    event_id: EventId | None = None
    status: inputs.Name | None = None
    target_status: inputs.Name | None = None
    correlation_id: inputs.Word | None = None
    job_id: str | None = None
    actor_type: inputs.Word | None = None
    failure_reason: Annotated[str, Meta(min_length=1)] | None = None


@Endpoint("POST", "/jobs/{id}/transitions", {200: Job}, body=TransitionOrder, codes=MOVING)
async def move_job(call: HttpCall) -> HttpReply:
    """Take one declared edge."""
    body: TransitionOrder = call.body
    message = Move(
        actor=call.actor,
        to=body.to,
        report=_report(call, body),
        expected_version=expected_version(call, body.expected_version),
        reason=body.reason,
    )
    return reply_answer(call, await call.door.facade.ask(inputs.job_id_of(call), message), 200)


@Endpoint(
    "POST",
    "/internal/jobs/{id}/status",
    {204: None, 200: EventReplayed},
    WORKERS,
    body=StatusEvent,
    codes=(*MOVING, *EVENTS),
)
async def report_status(call: HttpCall) -> HttpReply:
    """Report a status event; it has one effect, however often it is sent.

    It answers 204 the first time, and ever after 200 with what became of it."""
    body: StatusEvent = call.body
    to, event = _status(body), _event(call, body)
    message = Move(
        actor=call.actor,
        to=to,
        report=_report(call, body, body.failure_reason, body.correlation_id),
        reason=body.actor_type,
        event=event,
    )
    answer = await call.door.facade.ask(inputs.job_id_of(call), message)
    return _replayed(answer, event.id) if answer.replayed else HttpReply(204)


def _report(
    call: HttpCall, body: Reported, reason: str | None = None, correlation_id: str | None = None
) -> Report:
    now, fresh = call.door.clock.now(), call.door.ids.fresh
    return Report(
        artifacts=body.artifact_updates or {},
        assets=tuple(
            reported_asset(asset, fresh, now, f"$.assets[{place}]")
            for place, asset in enumerate(body.assets or ())
        ),
        result=body.result,
        progress=body.progress,
        message=body.message,
        failure_code=body.failure_code,
        failure_message=body.failure_message or reason,
        failed_stage=body.failed_stage,
        retryable=body.retryable is not False,
        correlation_id=correlation_id,
        run_id=body.run_id,
        attempt=body.attempt,
        claim=body.claim,
    )


def reported_asset(asset: ReportedAsset, fresh: Callable[[], str], now: int, path: str) -> Asset:
    """Read a file that a report names.

    Raises: Refused VALIDATION_ERROR for what is neither a file sent before nor one elsewhere."""
    recorded = (asset.url, asset.storage_path, asset.file_size, asset.sha256)
    if asset.id is not None:
        if any(one is not None for one in recorded):
            detail = f"{path}: a file that was sent is named by its id, and known for the rest"
            raise invalid(detail, (f"{path}.id", detail))
        return Asset(asset.id, asset.asset_type or "", "", created_at=now)
    for name in ("asset_type", "url"):
        if getattr(asset, name) is None:
            detail = f"{path}: Object missing required field `{name}`, or the `id` of a file sent"
            raise invalid(detail, (f"{path}.{name}", detail))
    return Asset(
        id=fresh(),
        asset_type=asset.asset_type or "",
        url=asset.url or "",
        storage_path=asset.storage_path or "",
        file_size=asset.file_size,
        sha256=(asset.sha256 or "").lower(),
        created_at=now,
    )


def _status(body: StatusEvent) -> str:
    given = {body.status, body.target_status} - {None}
    if len(given) > 1:
        detail = "status and target_status are the same field, and they differ; send one of them"
        raise invalid(detail, ("$.target_status", detail))
    if not given:
        raise invalid("$.status: which status?", ("$.status", "missing"))
    return str(given.pop())


def _event(call: HttpCall, body: StatusEvent) -> Event:
    """Raises: Refused VALIDATION_ERROR for an identity or an instant that cannot be meant."""
    if body.job_id is not None and body.job_id != call.path["id"]:
        detail = f"job_id is {body.job_id!r}, but the path names {call.path['id']!r}"
        raise invalid(detail, ("$.job_id", detail))
    occurred_at = _occurred_at(call, body.occurred_at)
    return Event(_event_id(call, body), _digest(body, occurred_at), occurred_at)


def _event_id(call: HttpCall, body: StatusEvent) -> str:
    given = {call.headers.get("X-Event-Id"), body.event_id} - {None}
    if len(given) > 1:
        raise _bad_event("the header X-Event-Id and event_id differ; send one of them")
    event_id = str(given.pop()) if given else ""
    if not 1 <= len(event_id) <= EVENT_ID_MAX or not _is_unicode(event_id):
        raise _bad_event(f"event_id: 1 to {EVENT_ID_MAX} characters, here or in X-Event-Id")
    return event_id


def _is_unicode(text: str) -> bool:
    """A header may hold bytes that are no text; they arrive as lone surrogates."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _bad_event(detail: str) -> Exception:
    return invalid(detail, ("$.event_id", detail))


def _occurred_at(call: HttpCall, moment: datetime) -> int:
    occurred_at = instant_of(moment, "$.occurred_at")
    if occurred_at > call.door.clock.now() + AHEAD_MAX_MS:
        detail = "occurred_at is more than 5 minutes ahead; check the sender's clock"
        raise invalid(detail, ("$.occurred_at", detail))
    return occurred_at


def _digest(body: StatusEvent, occurred_at: int) -> str:
    """Over what is said, not how: aliases, offsets and the order of keys make no difference. A
    field that is new since events were first stored counts where it is given only."""
    said: dict[str, Any] = msgspec.to_builtins(body)
    said["status"] = body.status or body.target_status
    said["failure_message"] = body.failure_message or body.failure_reason
    said["occurred_at"] = occurred_at
    for name in NOT_SAID:
        del said[name]
    for part in (said, *(said["assets"] or ())):
        for name in SINCE_THEN:
            if part.get(name, "") is None:
                del part[name]
    return digest(CANONICAL(_plain(said))).hex()


def _plain(value: Any) -> Any:
    """1.0 and 1 are the same number."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _replayed(answer: Answer, event_id: str) -> HttpReply:
    job = answer.job
    body = {
        "job_id": job.id,
        "event_id": event_id,
        "replayed": True,
        "current_status": job.status,
        "latest_applied_occurred_at": text_or_none(job.last_event_at),
    }
    return HttpReply(200, encode(body))
