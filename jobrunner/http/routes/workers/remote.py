"""Stages of plugins that run elsewhere: what such a stage is told, and what is said of it.

A word that has an ``id`` has one effect, however often it is sent, so a line that breaks costs
nothing. Each of them renews the lease.
"""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from jobrunner.core.attempts import attempt_of
from jobrunner.core.features.webhooks import name_of
from jobrunner.core.job import Failure, Snapshot
from jobrunner.core.messages import Checkpoint, Ended, Event, Keep, Remote, Report
from jobrunner.http.frame.endpoint import (
    MOVING,
    WORKERS,
    Body,
    Endpoint,
    HttpCall,
    HttpReply,
    View,
)
from jobrunner.http.frame.inputs import ArtifactName, Count, Word, job_id_of, needs_one
from jobrunner.http.frame.problems import invalid
from jobrunner.http.frame.views import Job, reply_answer, view_of
from jobrunner.http.routes.workers.reports import Percent, ReportedAsset
from jobrunner.http.routes.workers.status_moves import EventId, reported_asset
from jobrunner.ports import digest

EVENTS = (*MOVING, "EVENT_ID_PAYLOAD_MISMATCH")
OutcomeName = Literal["done", "partial", "failed", "rejected", "parked", "interrupted"]
EXPLAINED = ("partial", "failed", "rejected")
LATER_S_MAX = 10**9
REPORT_MAX = 5 * 1024 * 1024  # a stage may say 4 MiB, and its host adds a failure and a log


class StageBrief(View, frozen=True, kw_only=True):
    """Everything that a stage is told. ``files`` are the files behind artifacts, by name: the ids
    under which they are read; ``number`` is how many files the job has. ``seconds`` is how long
    the stage may take and ``silence_s`` how long it may be silent (0: for ever); whoever runs it
    watches that. ``kept`` and ``answers`` are what the attempt has from before."""

    stage: str
    state: str
    params: Any
    artifacts: dict[str, Any]
    settings: dict[str, Any]
    kept: dict[str, Any]
    answers: dict[str, Any]
    files: dict[str, str]
    number: int
    seconds: float
    silence_s: float
    base_url: str
    traceparent: str


class FailureSaid(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a stage failed. ``message`` is shown to the owner of the job, ``detail`` to admins."""

    code: Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}(?!\n)$")]
    message: str
    retryable: bool = True
    retry_after_s: Annotated[float, Meta(ge=0, le=LATER_S_MAX)] = 0
    detail: str = ""


class StageCheckpoint(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Results so far, which are the job's from now on whatever becomes of the attempt."""

    id: EventId
    claim: Count
    artifacts: dict[ArtifactName, Any] | None = None
    assets: list[ReportedAsset] | None = None


class StageOutcome(StageCheckpoint, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The end of a stage that ran elsewhere. ``failure`` goes with partial, failed and rejected
    (and may go with interrupted), ``awaits`` and ``source`` with parked: the key of a callback, and
    whose webhook brings it. ``interrupted`` gives the work back; that spends no retry."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = (
        {
            "if": {"properties": {"outcome": {"enum": list(EXPLAINED)}}},
            "then": needs_one("failure"),
        },
        {"if": {"properties": {"outcome": {"const": "parked"}}}, "then": needs_one("awaits")},
    )
    outcome: OutcomeName
    result: Any = None
    failure: FailureSaid | None = None
    awaits: Word | None = None
    await_s: Annotated[float, Meta(ge=0, le=LATER_S_MAX)] = 0
    source: Word | None = None
    progress: Percent | None = None
    message: str | None = None
    log: Annotated[list[Annotated[str, Meta(max_length=4096)]], Meta(max_length=1000)] | None = None


class KeptValue(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A result that the attempt, and the one after an interruption, need not work out again."""

    claim: Count
    name: Annotated[str, Meta(min_length=1, max_length=255)]
    value: Any


@Endpoint(
    "POST",
    "/internal/jobs/{id}/outcome",
    {200: Job},
    WORKERS,
    body=StageOutcome,
    codes=EVENTS,
    max_body=REPORT_MAX,
)
async def report_outcome(call: HttpCall) -> HttpReply:
    """Report how the stage of a claimed attempt ended; the job goes on as if it had run here."""
    body: StageOutcome = call.body
    if body.outcome in EXPLAINED and body.failure is None:
        raise _missing("failure", body.outcome)
    if body.outcome == "parked" and body.awaits is None:
        raise _missing("awaits", body.outcome)
    return await _told(call, _ended(call, body), body.claim, body.id)


@Endpoint(
    "POST",
    "/internal/jobs/{id}/checkpoint",
    {200: Job},
    WORKERS,
    body=StageCheckpoint,
    codes=EVENTS,
    max_body=REPORT_MAX,
)
async def report_checkpoint(call: HttpCall) -> HttpReply:
    """Hand over what the stage of a claimed attempt has made so far."""
    body: StageCheckpoint = call.body
    return await _told(call, Checkpoint(0, _report(call, body)), body.claim, body.id)


@Endpoint("POST", "/internal/jobs/{id}/kept", {200: Job}, WORKERS, body=KeptValue, codes=MOVING)
async def keep_value(call: HttpCall) -> HttpReply:
    """Keep a value for the stage of a claimed attempt."""
    body: KeptValue = call.body
    return await _told(call, Keep(0, body.name, body.value), body.claim)


async def brief_of(call: HttpCall, job: Snapshot) -> StageBrief:
    """Collect everything that the stage of a job is told, which was claimed just now."""
    given, attempt = await call.door.facade.told(job), attempt_of(job)
    definition = call.door.facade.definitions.of(job)
    assert definition is not None, "a job that was claimed just now has its declaration"
    return view_of(
        StageBrief,
        given,
        stage=attempt.runs,
        files={name: job.artifacts[name].asset for name in given.files},
        silence_s=definition.states[attempt.state].heartbeat_s,
    )


async def _told(
    call: HttpCall, said: Ended | Keep | Checkpoint, claim: int, event_id: str = ""
) -> HttpReply:
    event = Event(event_id, digest(call.raw).hex(), call.door.clock.now()) if event_id else None
    answer = await call.door.facade.ask(
        job_id_of(call), Remote(call.actor, said, event, claim=claim)
    )
    call.door.facade.claims.heard(answer.job, said)
    return reply_answer(call, answer, 200)


def _ended(call: HttpCall, body: StageOutcome) -> Ended:
    source, key = body.source or "", body.awaits or ""
    return Ended(
        0,
        body.outcome,
        _report(call, body),
        _failure(body.failure) if body.failure else None,
        name_of(source, key) if source else key,
        body.await_s,
        tuple(body.log or ()),
        source,
    )


def _failure(said: FailureSaid) -> Failure:
    return Failure(
        said.code,
        said.message,
        retryable=said.retryable,
        retry_after_s=said.retry_after_s,
        detail=said.detail,
    )


def _report(call: HttpCall, body: StageCheckpoint) -> Report:
    now, fresh = call.door.clock.now(), call.door.ids.fresh
    assets = tuple(
        reported_asset(asset, fresh, now, f"$.assets[{place}]")
        for place, asset in enumerate(body.assets or ())
    )
    report = Report(artifacts=body.artifacts or {}, assets=assets)
    if not isinstance(body, StageOutcome):
        return report
    return msgspec.structs.replace(
        report, result=body.result, progress=body.progress, message=body.message
    )


def _missing(field: str, outcome: str) -> Exception:
    detail = f"{field}: an outcome that is {outcome} says it"
    return invalid(detail, (f"$.{field}", detail))
