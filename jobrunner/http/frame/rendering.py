"""A snapshot as its caller sees it. The one place that knows both the nouns and the views."""

from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict

from jobrunner.actors import Answer
from jobrunner.core.access import allowed, ended_as, needs_person
from jobrunner.core.job import Asset, Attempt, Failure, Paused, Snapshot
from jobrunner.core.questions import AssetRow, HistoryRow
from jobrunner.http.frame.addresses import link, linked
from jobrunner.http.frame.call import Call, Reply
from jobrunner.http.frame.etags import etag
from jobrunner.http.frame.instants import text_of, text_or_none, timed
from jobrunner.http.views import (
    Allowed,
    AssetEntry,
    AttemptEntry,
    HeldBack,
    HistoryEntry,
    Job,
    Money,
    Stuck,
    View,
)

INLINE_MAX = 4096
PAYLOADS = frozenset({"params", "result", "artifacts"})

encode = msgspec.json.Encoder().encode


def reply(view: View, status: int = 200) -> Reply:
    return Reply(status, encode(view))


def reply_job(call: Call, job: Snapshot) -> Reply:
    return Reply(200, encode(job_view(call, job)), {"ETag": etag(job)})


def reply_answer(call: Call, answer: Answer, status: int = 0) -> Reply:
    """The job, what was answered beside it, and whether it was said before."""
    body = asdict(job_view(call, answer.job))
    body |= linked(call, timed(answer.fields))
    body["replayed"] = answer.replayed
    return Reply(status or answer.status, encode(body), {"ETag": etag(answer.job)})


def job_view(call: Call, job: Snapshot, payloads: frozenset[str] = PAYLOADS) -> Job:
    definition = call.door.facade.definitions.of(job)
    may: dict[str, list[str]] = (
        allowed(definition, job, call.actor) if definition else {"statuses": [], "commands": []}
    )
    return Job(
        id=job.id,
        job_id=job.id,
        workflow=job.workflow,
        workflow_version=definition.workflow.version if definition else None,
        job_type=job.job_type,
        user_id=job.user_id,
        status=job.status,
        kind=job.kind,
        version=job.version,
        progress=job.progress,
        progress_message=job.progress_message,
        attempt=job.attempts,
        retry_count=job.retry_count,
        run_id=job.run_id or None,
        params=_given(job) if "params" in payloads else UNSET,
        result=job.result if "result" in payloads else UNSET,
        artifacts=_artifacts(call, job) if "artifacts" in payloads else UNSET,
        failure_code=job.failure_code,
        failure_message=job.failure_message,
        failed_stage=job.failed_stage,
        correlation_id=job.correlation_id,
        idempotency_key=job.idempotency_key,
        priority=job.priority,
        labels=job.labels,
        credits=Money(cost=job.cost, state=job.credits),
        created_at=text_of(job.created_at),
        updated_at=text_of(job.updated_at),
        started_at=text_or_none(job.started_at),
        completed_at=text_or_none(job.completed_at),
        scheduled_at=text_or_none(job.scheduled_at),
        heartbeat_at=text_or_none(job.heartbeat_at),
        next_attempt_at=text_or_none(job.next_attempt_at),
        deadline_at=text_or_none(job.deadline_at),
        run_at=text_or_none(job.run_at),
        result_url=job.result_url and link(call, job.result_url),
        notify_url=job.notify_url,
        notify_on=list(job.notify_on),
        stuck=_stuck(call, job),
        paused=_held_back(job.paused) if job.paused else None,
        forked_from=job.forked_from,
        ended_as=ended_as(definition, job) if definition else None,
        needs_person=needs_person(definition, job) if definition else job.stuck is not None,
        allowed=Allowed(statuses=may["statuses"], commands=may["commands"]),
    )


def _stuck(call: Call, job: Snapshot) -> Stuck | None:
    """Put aside in its row, or held up for as long as its plugin lacks something."""
    if job.stuck:
        return Stuck(reason=job.stuck)
    missing = call.door.facade.definitions.lacking(job)
    if not missing:
        return None
    reason = f"its plugin lacks {', '.join(missing)} today; it goes on when that is back"
    return Stuck(reason=reason, missing=list(missing))


def _held_back(paused: Paused) -> HeldBack:
    return HeldBack(by=paused.by, reason=paused.reason, at=text_of(paused.at))


def history_entry(row: HistoryRow) -> HistoryEntry:
    return HistoryEntry(
        version=row.version,
        hop=row.hop,
        from_status=row.from_status,
        to_status=row.to_status,
        trigger=row.trigger,
        actor=row.actor,
        reason=row.reason,
        run_id=row.run_id,
        event_id=row.event_id,
        at=text_of(row.at),
    )


def attempt_entry(attempt: Attempt, whole: bool = False) -> AttemptEntry:
    """``whole``: with what strangers and libraries said of its failure."""
    failure = attempt.failure or Failure("", "")
    told = failure.detail.splitlines() if whole else []
    return AttemptEntry(
        state=attempt.state,
        stage=attempt.stage,
        run_id=attempt.run_id,
        attempt=attempt.number,
        status=attempt.status,
        outcome=attempt.outcome or None,
        failure_code=failure.code or None,
        failure_message=failure.message or None,
        started_at=text_or_none(attempt.started_at),
        ended_at=text_or_none(attempt.ended_at),
        log=[*attempt.log, *told],
    )


def asset_entries(call: Call, rows: tuple[AssetRow, ...]) -> list[AssetEntry]:
    """Newest first; ids of one instant still rise."""
    newest_first = sorted(rows, key=lambda row: (row.asset.created_at, row.asset.id), reverse=True)
    return [asset_entry(call, row.asset, row.job_id) for row in newest_first]


def asset_entry(call: Call, asset: Asset, job_id: str | None) -> AssetEntry:
    return AssetEntry(
        id=asset.id,
        job_id=job_id,
        asset_type=asset.asset_type,
        url=link(call, asset.url),
        storage_path=asset.storage_path or None,
        file_size=asset.file_size,
        sha256=asset.sha256 or None,
        created_at=text_of(asset.created_at),
    )


def _given(job: Snapshot) -> Any:
    """As its submission had them: what it left out is the workflow's to fill in."""
    if not job.omitted or not isinstance(job.params, dict):
        return job.params
    return {name: value for name, value in job.params.items() if name not in job.omitted}


def _artifacts(call: Call, job: Snapshot) -> dict[str, Any]:
    """Small values as they are, large ones by reference; each is encoded once either way."""
    shown: dict[str, Any] = {}
    for name, artifact in job.artifacts.items():
        raw = encode(artifact.value)
        ref = {"ref": link(call, f"/jobs/{job.id}/artifacts/{name}")}
        shown[name] = msgspec.Raw(raw) if len(raw) <= INLINE_MAX else ref
    return shown
