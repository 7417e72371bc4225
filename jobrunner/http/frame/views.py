"""Views that several routes show, and the functions that make them of rows and jobs."""

from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from jobrunner.actors import Answer
from jobrunner.core.access import allowed, ended_as, needs_person
from jobrunner.core.credits import Standing
from jobrunner.core.declaration.states import Kind
from jobrunner.core.declaration.workflow import Definition, End
from jobrunner.core.instants import text_of, text_or_none, timed
from jobrunner.core.job import Asset, Scheduled, Snapshot
from jobrunner.core.questions import AssetRow
from jobrunner.http.frame.addresses import link, linked
from jobrunner.http.frame.endpoint import HttpCall, HttpReply, View
from jobrunner.http.frame.etags import etag

INLINE_MAX = 4096
PAYLOADS = frozenset({"params", "result", "artifacts"})
REPLAYED = {"replayed"}
ALONE = {"schedule": None, "parent": None, "batch": None}
Said = bool | UnsetType
V = TypeVar("V", bound=View)

encode = msgspec.json.Encoder().encode


class Money(View, frozen=True, kw_only=True):
    cost: int
    state: Standing


class Allowed(View, frozen=True, kw_only=True):
    """The moves and commands that the caller may ask for next."""

    statuses: list[str]
    commands: list[str]


class Stuck(View, frozen=True, kw_only=True):
    """``missing`` is what its plugin does not bring today; the job goes on when it is back."""

    reason: str
    missing: list[str] | UnsetType = UNSET


class HeldBack(View, frozen=True, kw_only=True):
    """The pause of a job: by whom, why, and since when."""

    by: str
    reason: str | None
    at: str


class ScheduleOf(View, frozen=True, kw_only=True):
    """The schedule that made a job, and the moment that it was made for."""

    name: str
    moment: str


class Job(View, frozen=True, kw_only=True):
    """A job. Lists leave out params, result and artifacts unless they are asked for. ``job_id``
    is ``id`` once more. An artifact over 4 KiB is shown as {"ref": path}. ``ended_as`` names its
    end in words that all workflows share; ``needs_person`` is true while nothing but a person's
    act moves it."""

    id: str
    job_id: str
    workflow: str
    workflow_version: str | None
    job_type: str
    user_id: str
    status: str
    kind: Kind
    version: int
    progress: int
    progress_message: str | None
    attempt: int
    retry_count: int
    run_id: str | None
    params: Any | UnsetType = UNSET
    result: Any | UnsetType = UNSET
    artifacts: dict[str, Any] | UnsetType = UNSET
    failure_code: str | None
    failure_message: str | None
    failed_stage: str | None
    correlation_id: str | None
    idempotency_key: str | None
    priority: int
    labels: dict[str, str]
    credits: Money
    created_at: str
    updated_at: str
    started_at: str | None
    completed_at: str | None
    scheduled_at: str | None
    heartbeat_at: str | None
    next_attempt_at: str | None
    deadline_at: str | None
    run_at: str | None
    result_url: str | None
    notify_url: str | None
    notify_on: list[str]
    stuck: Stuck | None
    paused: HeldBack | None
    forked_from: str | None
    schedule: ScheduleOf | None
    parent: str | None
    batch: str | None
    ended_as: End | None
    needs_person: bool
    allowed: Allowed
    replayed: Said = UNSET


class HistoryEntry(View, frozen=True, kw_only=True):
    version: int
    hop: int
    from_status: str | None
    to_status: str
    trigger: str
    actor: str
    reason: str | None
    run_id: str
    event_id: str | None
    at: str


class AssetEntry(View, frozen=True, kw_only=True):
    id: str
    job_id: str | None
    asset_type: str
    url: str
    storage_path: str | None
    file_size: int | None
    sha256: str | None
    created_at: str


def view_of(kind: type[V], row: Any, /, **more: Any) -> V:
    """Show a row: copy what has the same name, write instants as text, and add ``more``."""
    names = (name for name in kind.__struct_fields__ if name not in more)
    return kind(**{name: _shown(name, getattr(row, name)) for name in names}, **more)


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, int) and (name == "at" or name.endswith("_at")):
        return text_of(value)
    return list(value) if isinstance(value, tuple) else value


def reply(view: View, status: int = 200) -> HttpReply:
    return HttpReply(status, encode(view))


def reply_job(call: HttpCall, job: Snapshot) -> HttpReply:
    return HttpReply(200, encode(job_view(call, job)), {"ETag": etag(job)})


def reply_answer(call: HttpCall, answer: Answer, status: int = 0) -> HttpReply:
    """The job, what was answered beside it, and whether it was said before."""
    job = answer.job
    body: Any = job_view(call, job, replayed=answer.replayed)
    if answer.fields.keys() - REPLAYED:
        body = asdict(body) | linked(call, timed(answer.fields)) | {"replayed": answer.replayed}
    return HttpReply(status or answer.status, encode(body), {"ETag": etag(job)})


def job_view(
    call: HttpCall, job: Snapshot, payloads: frozenset[str] = PAYLOADS, replayed: Said = UNSET
) -> Job:
    definition = call.door.facade.definitions.of(job)
    attempt, retry_count = job.tries.get(job.worked, (0, 0))
    return Job(
        id=job.id,
        job_id=job.id,
        workflow=job.workflow,
        job_type=job.job_type,
        user_id=job.user_id,
        status=job.status,
        kind=job.kind,
        version=job.version,
        progress=job.progress,
        progress_message=job.progress_message,
        attempt=attempt,
        retry_count=retry_count,
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
        stuck=stuck_view(call, job),
        paused=view_of(HeldBack, job.paused) if job.paused else None,
        forked_from=job.forked_from,
        **(_ties(job) if job.schedule or job.parent or job.batch else ALONE),
        needs_person=needs_person(definition, job) if definition else job.stuck is not None,
        **_declared(definition, job.status, call.actor.roles(job)),
        replayed=replayed,
    )


@lru_cache(maxsize=1024)
def _declared(definition: Definition | None, status: str, roles: frozenset[str]) -> dict[str, Any]:
    """Tell what stands in a declaration about jobs of this status, for a caller of these roles."""
    if definition is None:
        nothing = Allowed(statuses=[], commands=[])
        return {"workflow_version": None, "ended_as": None, "allowed": nothing}
    return {
        "workflow_version": definition.workflow.version,
        "ended_as": ended_as(definition, status),
        "allowed": Allowed(**allowed(definition, status, roles)),
    }


def _ties(job: Snapshot) -> dict[str, Any]:
    """Name what this job came from."""
    return {
        "schedule": _scheduled(job.schedule) if job.schedule else None,
        "parent": job.parent.job_id if job.parent else None,
        "batch": job.batch.id if job.batch else None,
    }


def stuck_view(call: HttpCall, job: Snapshot) -> Stuck | None:
    """Say why a job is stuck: by its row, or for as long as its plugin lacks something."""
    if job.stuck:
        return Stuck(reason=job.stuck)
    missing = call.door.facade.definitions.lacking(job)
    if not missing:
        return None
    reason = f"its plugin lacks {', '.join(missing)} today; it goes on when that is back"
    return Stuck(reason=reason, missing=list(missing))


def _scheduled(schedule: Scheduled) -> ScheduleOf:
    return ScheduleOf(name=schedule.name, moment=text_of(schedule.moment))


def asset_entries(call: HttpCall, rows: tuple[AssetRow, ...]) -> list[AssetEntry]:
    """Newest first; ids of one instant still rise."""
    newest_first = sorted(rows, key=lambda row: (row.asset.created_at, row.asset.id), reverse=True)
    return [asset_entry(call, row.asset, row.job_id) for row in newest_first]


def asset_entry(call: HttpCall, asset: Asset, job_id: str | None) -> AssetEntry:
    return view_of(
        AssetEntry,
        asset,
        job_id=job_id,
        url=link(call, asset.url),
        storage_path=asset.storage_path or None,
        sha256=asset.sha256 or None,
    )


def _given(job: Snapshot) -> Any:
    """Show the params as its submission had them: what it left out is the workflow's to fill in."""
    if not job.omitted or not isinstance(job.params, dict):
        return job.params
    return {name: value for name, value in job.params.items() if name not in job.omitted}


def _artifacts(call: HttpCall, job: Snapshot) -> dict[str, Any]:
    """Small values as they are, large ones by reference; each is encoded once either way."""
    shown: dict[str, Any] = {}
    for name, artifact in job.artifacts.items():
        raw = encode(artifact.value)
        ref = {"ref": link(call, f"/jobs/{job.id}/artifacts/{name}")}
        shown[name] = msgspec.Raw(raw) if len(raw) <= INLINE_MAX else ref
    return shown
