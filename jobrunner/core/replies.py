"""The common part of all requests from outside: how a draft begins, the refusals that several
of them may give, and how a finished one is answered."""

from typing import Any

from jobrunner.core.attempts import OUR_STAGE, pulse, renew
from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.declaration.workflow import EXTERNAL
from jobrunner.core.draft import Case, Draft
from jobrunner.core.failed_stage import named, unnamed
from jobrunner.core.job import Failure, Snapshot
from jobrunner.core.messages import Answered, Claim, Edit, Move, Report
from jobrunner.core.reports import apply_report, misfit
from jobrunner.core.units import AuditRecord
from jobrunner.errors import Refused

Verdict = Decision | NoOp | Refused


def begin(case: Case[Any], opener: str) -> Draft:
    """Begin what the sender of the message wants."""
    return Draft(case, case.message.actor, opener)


def stale_version(job: Snapshot, expected: int | None) -> Refused | None:
    """Refuse a caller whose ``If-Match`` names a version that is no longer the latest."""
    if expected is None or expected == job.version:
        return None
    seen = f"not {expected}" if expected else "and what was sent matches none"
    return Refused(
        "JOB_VERSION_CONFLICT",
        f"the job is at version {job.version}, {seen}; read it again",
        current_version=job.version,
        current_status=job.status,
    )


def working_here(draft: Draft, role: str) -> Refused | None:
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


def read_report(draft: Draft, report: Report) -> Failure | None:
    """Take in what was reported; the failure that it tells of, if it does."""
    apply_report(draft, report)
    if not report.reports_failure:
        return None
    target = draft.definition.states.get(getattr(draft.case.message, "to", ""), draft.state)
    return named(
        draft,
        Failure(
            report.failure_code or unnamed(target),
            report.failure_message or "",
            report.failed_stage or "",
            report.retryable,
        ),
    )


def note(draft: Draft, progress: int | None, text: str | None) -> None:
    told: dict[str, Any] = {"progress": progress, "progress_message": text}
    changes = {name: value for name, value in told.items() if value is not None}
    draft.set(heartbeat_at=draft.now, **changes)
    attempt = draft.job.attempt
    if attempt is not None and attempt.holder == OUR_STAGE:
        pulse(draft, attempt)
    else:
        renew(draft)


def satisfied(draft: Draft) -> NoOp:
    answer = {"run_id": draft.job.run_id} if draft.job.run else {}
    return NoOp("satisfied", draft.job, {**answer, "replayed": True})


def answered(draft: Draft, status: int = 200) -> Verdict:
    """Return the decision, unless something in the report has a wrong form and no guard said so."""
    if draft.unfit:
        return misfit(draft)
    if draft.event is not None:
        draft.set(last_event_at=draft.event.occurred_at)
        renew(draft)
    if draft.job.run is not None:
        draft.answer.setdefault("run_id", draft.job.run_id)
    draft.answer.setdefault("replayed", False)
    if draft.actor.role == "admin":
        _witness(draft)
    return draft.tear_out(status)


def _witness(draft: Draft) -> None:
    """Record what an admin does that is no command of the workflow."""
    match draft.case.message:
        case Move(to=to, reason=reason):
            fields = {"from": source_of(draft), "to": to, "reason": reason}
            draft.audits += (AuditRecord("job.transition", draft.actor.name, fields),)
        case Edit(name=name):
            draft.audits += (AuditRecord("job.edit", draft.actor.name, {"artifact": name}),)
        case Claim():
            draft.audits += (AuditRecord("job.claim", draft.actor.name),)
        case Answered(key=key):
            fields = {"name": key, "way": "role", "run_id": draft.job.run_id}
            draft.audits += (AuditRecord("answer.give", draft.actor.name, fields),)


def nothing_to(draft: Draft, act: str) -> Refused:
    """Refuse a request that means nothing where the job stands; no edge is concerned."""
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
