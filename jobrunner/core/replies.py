"""What the requests from outside have in common: how a draft begins, the refusals that several
of them may give, and how a finished one is answered."""

from typing import Any

from msgspec.structs import replace

from jobrunner.core.attempts import OUR_STAGE, pulse, renew
from jobrunner.core.decision import AuditRecord, Decision, EventRow, NoOp
from jobrunner.core.declaration.workflow import EXTERNAL, Definition, Trigger
from jobrunner.core.draft import Draft
from jobrunner.core.failed_stage import named, unnamed
from jobrunner.core.job import Failure, Snapshot
from jobrunner.core.messages import Claim, Edit, Event, Facts, Moment, Move, Report
from jobrunner.core.reports import apply_report, misfit
from jobrunner.errors import Refused

Verdict = Decision | NoOp | Refused


def begin(
    definition: Definition, job: Snapshot, message: Any, facts: Facts, moment: Moment, opener: str
) -> Draft:
    reason = getattr(message, "reason", None)
    return Draft(definition, job, job, message.actor, facts, moment, message, opener, reason)


def stale_version(job: Snapshot, expected: int | None) -> Refused | None:
    """Somebody else was faster than a caller who said what it had seen."""
    if expected is None or expected == job.version:
        return None
    seen = f"not {expected}" if expected else "and what was sent matches none"
    return Refused(
        "JOB_VERSION_CONFLICT",
        f"the job is at version {job.version}, {seen}; read it again",
        current_version=job.version,
        current_status=job.status,
    )


def working_here(draft: Draft, role: Trigger) -> Refused | None:
    attempt = draft.job.attempt
    if role != "workflow" or attempt is None or attempt.stage == EXTERNAL:
        return None
    if attempt.status == "parked":
        return None
    return Refused(
        "JOB_ALREADY_RUNNING",
        f"the stage of {attempt.state} runs in this service",
        run_id=attempt.run_id,
    )


def read_report(draft: Draft, report: Report) -> None:
    apply_report(draft, report)
    if report.reports_failure:
        target = draft.definition.states.get(getattr(draft.message, "to", ""), draft.state)
        draft.failure = named(
            draft,
            Failure(
                report.failure_code or unnamed(target),
                report.failure_message or "",
                report.failed_stage or "",
                report.retryable,
            ),
        )


def note(draft: Draft, progress: int | None, text: str | None) -> None:
    changes: dict[str, Any] = {"heartbeat_at": draft.now}
    if progress is not None:
        changes["progress"] = progress
    if text is not None:
        changes["progress_message"] = text
    draft.set(**changes)
    attempt = draft.job.attempt
    if attempt is not None and attempt.holder == OUR_STAGE:
        pulse(draft, attempt)
    else:
        renew(draft)


def satisfied(draft: Draft) -> NoOp:
    answer = {"run_id": draft.job.run_id} if draft.job.run else {}
    return NoOp("satisfied", draft.job, {**answer, "replayed": True})


def answered(draft: Draft, event: Event | None = None) -> Verdict:
    """The decision, unless something in the report has a wrong form and no guard said so."""
    if draft.unfit:
        return misfit(draft)
    if event is not None:
        draft.event = EventRow(event.id, event.digest, event.occurred_at)
        draft.set(last_event_at=event.occurred_at)
        renew(draft)
        draft.hops = [replace(hop, event_id=event.id) for hop in draft.hops]
    if draft.job.run is not None:
        draft.answer.setdefault("run_id", draft.job.run_id)
    draft.answer.setdefault("replayed", False)
    if draft.actor.role == "admin":
        _witness(draft)
    return draft.tear_out()


def _witness(draft: Draft) -> None:
    """What an admin does that is no command of the workflow leaves a record too."""
    match draft.message:
        case Move(to=to):
            fields = {"from": source_of(draft), "to": to, "reason": draft.reason}
            draft.audits.append(AuditRecord("job.transition", draft.actor.name, fields))
        case Edit(name=name):
            draft.audits.append(AuditRecord("job.edit", draft.actor.name, {"artifact": name}))
        case Claim():
            draft.audits.append(AuditRecord("job.claim", draft.actor.name))


def nothing_to(draft: Draft, act: str) -> Refused:
    """It is about no edge: where the job stands there is nothing to be done like this."""
    job, over = draft.job, draft.state.kind == "final"
    why = f"the job has ended as {job.status!r}" if over else f"the job rests in {job.status!r}"
    return Refused(
        "TERMINAL_STATE" if over else "ILLEGAL_TRANSITION",
        f"{why}: there is nothing to {act}",
        current_status=job.status,
        attempted_status=None,
        allowed_next_statuses=draft.definition.targets(job.status),
    )


def source_of(draft: Draft) -> str:
    return draft.before.status if draft.before else ""


def invalid(path: str, message: str) -> Refused:
    return Refused("VALIDATION_ERROR", message, errors=[{"path": f"$.{path}", "message": message}])


def forbidden(detail: str) -> Refused:
    return Refused("FORBIDDEN", detail)
