"""A move to a named status: by an operator's hand, or by a callback that carries an event id.

The order of the checks is contract; it decides which of two faults a caller is told. Nothing is
written on the way to a refusal.
"""

from jobrunner.core import replies
from jobrunner.core.attempts import hold
from jobrunner.core.decision import EventRow, LogEvent, NoOp
from jobrunner.core.declaration.workflow import EXTERNAL, Definition
from jobrunner.core.draft import Case, Cause, Draft
from jobrunner.core.facts import Facts
from jobrunner.core.failed_stage import named
from jobrunner.core.failures import reenter, round_trip
from jobrunner.core.features.claims import lost
from jobrunner.core.features.sent_files import delivered
from jobrunner.core.job import Failure, Snapshot
from jobrunner.core.messages import Event, Move, Report
from jobrunner.core.steps import go_on, illegal, step
from jobrunner.errors import Refused

AHEAD_MAX_MS = 5 * 60 * 1000


def move(case: Case[Move]) -> replies.Verdict:
    """Move a job along one declared edge, asked for by its target."""
    job, message = case.job, case.message
    if refused := _body(case.definition, message):
        return refused
    if known := _known_event(case):
        return known
    if refused := replies.stale_version(job, message.expected_version):
        return refused
    draft = replies.begin(case, _opener(message))
    if message.event is not None:
        draft.event = EventRow(message.event.id, message.event.digest, message.event.occurred_at)
    if message.to == job.status:
        return _repeat(draft, message)
    refused = _allowed(draft, message) or _contended(draft, message) or _complete(draft, message)
    return refused or _carry_out(draft, message)


def _carry_out(draft: Draft, message: Move) -> replies.Verdict:
    cause = _read(draft, message)
    if isinstance(cause, Refused):
        return cause
    if refused := _move(draft, message.to, cause) or go_on(draft, cause):
        return refused
    _held_by_mover(draft, message)
    return replies.answered(draft)


def event_of(message: Move) -> str | None:
    """Name the event whose id the store must be asked about first, if it is one."""
    return message.event.id if message.event else None


def _read(draft: Draft, message: Move) -> Cause | Refused:
    """Take in the report; it and the request say why the job moves."""
    report = delivered(draft, message.report)
    if isinstance(report, Refused):
        return report
    return Cause(message.actor.trigger, message.reason, replies.read_report(draft, report))


def _opener(message: Move) -> str:
    return "callback" if message.actor.role == "workflow" else "transition"


def _body(definition: Definition, message: Move) -> Refused | None:
    """Refuse what is wrong with the request whatever the job."""
    if message.to not in definition.states:
        return replies.invalid(
            "status", f"{message.to!r} is no status of {definition.workflow.name}"
        )
    progress = message.report.progress
    if progress is not None and not 0 <= progress <= 100:
        return replies.invalid("progress", f"{progress} is not between 0 and 100")
    return _complete_report(definition, message) if message.event is not None else None


def _complete(draft: Draft, message: Move) -> Refused | None:
    return _complete_report(draft.definition, message)


def _complete_report(definition: Definition, message: Move) -> Refused | None:
    """Demand the reason from whoever moves a job to a failure state."""
    state, report = definition.states[message.to], message.report
    missing = [field for field in state.fails if not getattr(report, field)]
    if missing:
        return replies.invalid(missing[0], f"{state.name} needs {', '.join(missing)}")
    allowed = definition.workflow.failed_stages
    if state.fails and allowed and report.failed_stage and report.failed_stage not in allowed:
        return replies.invalid(
            "failed_stage", f"{report.failed_stage!r}: one of {', '.join(allowed)}"
        )
    return None


def _known_event(case: Case[Move]) -> NoOp | Refused | None:
    job, message, event = case.job, case.message, case.message.event
    if event is None:
        return None
    if case.facts.event is not None:
        return _repeated_event(job, event, case.facts)
    latest = _latest_event_at(job, case.moment.now)
    if latest is not None and event.occurred_at < latest:
        return Refused(
            "CALLBACK_OUT_OF_ORDER",
            "this happened before the last callback that was accepted",
            latest_applied_occurred_at=latest,
            current_status=job.status,
            attempted_status=message.to,
        )
    return None


def _latest_event_at(job: Snapshot, now: int) -> int | None:
    """Find the moment that the next event may not precede. An event further ahead than any may be
    was accepted while this machine's clock stood ahead; it orders nothing."""
    latest = job.last_event_at
    return None if latest is None or latest > now + AHEAD_MAX_MS else latest


def _repeated_event(job: Snapshot, event: Event, facts: Facts) -> NoOp | Refused:
    assert facts.event is not None
    if facts.event.digest != event.digest:
        return Refused(
            "EVENT_ID_PAYLOAD_MISMATCH",
            f"event {event.id} was accepted before, saying other things",
            event_id=event.id,
        )
    answer = {
        "job_id": job.id,
        "event_id": event.id,
        "replayed": True,
        "current_status": job.status,
        "latest_applied_occurred_at": job.last_event_at,
    }
    log = LogEvent("callback.replayed", {"event_id": event.id})
    return NoOp("event_replayed", job, answer, (log,))


def _repeat(draft: Draft, message: Move) -> replies.Verdict:
    """Answer a move to where the job stands already, by the state's own policy."""
    same, job = draft.state.same, draft.job
    if same == "refused":
        return illegal(draft, message.to)
    if same == "noop":
        return replies.satisfied(draft)
    if not message.actor.roles(job) & {"workflow", "admin"}:
        return replies.forbidden(f"{job.status} is reported on by role workflow")
    if refused := _contended(draft, message):
        return refused
    cause = _read(draft, message)
    if isinstance(cause, Refused):
        return cause
    if same == "progress":
        return _progress(draft, message)
    if refused := reenter(draft, cause):
        return refused
    _held_by_mover(draft, message)
    return replies.answered(draft)


def _progress(draft: Draft, message: Move) -> replies.Verdict:
    report = message.report
    marks = Report(run_id=report.run_id, attempt=report.attempt, claim=report.claim)
    if report == marks and message.event is None:
        return replies.satisfied(draft)
    replies.note(draft, report.progress, report.message)
    return replies.answered(draft)


def _allowed(draft: Draft, message: Move) -> Refused | None:
    edge = draft.definition.table[draft.job.status].get(message.to)
    if edge is None:
        return illegal(draft, message.to)
    roles = message.actor.roles(draft.job)
    if "admin" in roles or roles & set(edge.by):
        return None
    return replies.forbidden(
        f"{draft.job.status} -> {message.to} is not for role {message.actor.role}"
    )


def _contended(draft: Draft, message: Move) -> Refused | None:
    """Refuse a report about older work or somebody else's, or about what this process does
    itself."""
    by_callback = message.event is not None
    if refused := lost(draft.job, message.actor, message.report, by_callback=by_callback):
        return refused
    to = draft.definition.states[message.to]
    if to.fails or to.ends in ("failed", "canceled"):
        return None
    return replies.working_here(draft, message.actor.role)


def _move(draft: Draft, target: str, cause: Cause) -> Refused | None:
    retry = draft.state.retry
    if retry is None or retry.mode != "round_trip" or target != retry.failed[0]:
        return step(draft, target, cause)
    failure = cause.failure or named(draft, Failure("FAILED", "reported without a reason"))
    return round_trip(draft, retry, failure, cause)


def _held_by_mover(draft: Draft, message: Move) -> None:
    """Give the work to an orchestrator that moves a job into an outside stage."""
    attempt = draft.job.attempt
    if message.actor.role != "workflow" or attempt is None or attempt.status != "due":
        return
    if attempt.stage == EXTERNAL and attempt.not_before <= draft.now:
        hold(draft, message.actor.name)
