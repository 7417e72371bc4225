"""Messages from inside: the dispatcher's slot, the end of an attempt, a timer, a recovered job.

None of these can be refused to anybody's face. What no longer fits (a late result, a timer of a
state that was left) is a no-op with a name.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from jobrunner.core.attempts import (
    OUR_STAGE,
    amend,
    at_work,
    attempt_of,
    end,
    hold,
    open_attempt,
    park,
    resume,
)
from jobrunner.core.decision import AuditRecord, Decision, NoOp
from jobrunner.core.declaration.workflow import EXTERNAL, Definition
from jobrunner.core.draft import Draft
from jobrunner.core.failed_stage import named
from jobrunner.core.failures import fail
from jobrunner.core.features.pauses import halted_by, rests_until_resumed
from jobrunner.core.features.rebinding import bring
from jobrunner.core.features.webhooks import await_webhook
from jobrunner.core.job import ENGINE, STAGE, TIMER, Failure, Run, Snapshot
from jobrunner.core.messages import (
    Advance,
    Ended,
    Facts,
    Fired,
    Message,
    Moment,
    Rebound,
    Recovered,
    Release,
    SetAside,
    Start,
    Stop,
    Supersede,
)
from jobrunner.core.replies import nothing_to
from jobrunner.core.reports import apply_report, unfit
from jobrunner.core.steps import go_on, step, walk
from jobrunner.errors import PluginFault, Refused

Verdict = Decision | NoOp | Refused
DEATHS_MAX = 3
LOG_LINES_MAX = 200


def start(
    definition: Definition, job: Snapshot, message: Start, facts: Facts, moment: Moment
) -> Verdict:
    """A slot is free: the attempt begins in the commit that leaves the queue. Where its work is
    done already, that of the next one does."""
    if job.line_at is None or job.stuck or halted_by(definition, job, facts):
        return NoOp("not_in_line", job)
    draft = Draft(definition, job, job, ENGINE, facts, moment, message, "engine")
    if job.kind == "queued":
        target = definition.onward_of(job.status, job.job_type)
        if refused := step(draft, target, "engine") or go_on(draft):
            return aside(draft, refused)
    attempt = draft.job.attempt
    due = attempt is not None and attempt.status == "due" and attempt.stage != EXTERNAL
    if due and halted_by(definition, draft.job, facts) is None:
        hold(draft, OUR_STAGE)
    if draft.job.status == job.status:
        draft.set(line_at=None)
    return draft.tear_out()


def ended(
    definition: Definition, job: Snapshot, message: Ended, facts: Facts, moment: Moment
) -> Verdict:
    """Our stage host reports how an attempt ended."""
    if not at_work(job) or job.serial != message.serial:
        return NoOp("late_result", job)
    draft = Draft(definition, job, job, STAGE, facts, moment, message, "stage")
    if message.log:
        amend(draft, log=(*attempt_of(job).log, *message.log)[-LOG_LINES_MAX:])
    apply_report(draft, message.report)
    if refused := _OUTCOMES[message.outcome](draft, message) or go_on(draft):
        return aside(draft, refused)
    return draft.tear_out()


def fired(
    definition: Definition, job: Snapshot, message: Fired, facts: Facts, moment: Moment
) -> Verdict:
    """A timer is due; it is used up by the commit of what it causes."""
    timer = job.timer(message.purpose)
    if timer is None or timer.due_at > moment.now or job.stuck:
        return NoOp("timer_gone", job)
    if rests_until_resumed(job, message.purpose, facts):
        return NoOp("timer_rests", job)
    draft = Draft(definition, job, job, TIMER, facts, moment, message, "timer")
    draft.disarm(message.purpose)
    if refused := _TIMERS[message.purpose](draft) or go_on(draft):
        return aside(draft, refused)
    draft.decided = True
    return draft.tear_out()


def recovered(
    definition: Definition, job: Snapshot, message: Recovered, facts: Facts, moment: Moment
) -> Verdict:
    """The attempt died with the process. That spends no retry: it goes on in place, unless this
    job alone was there whenever the service died."""
    if not at_work(job):
        return NoOp("nothing_to_recover", job)
    draft = Draft(definition, job, job, ENGINE, facts, moment, message, "engine")
    draft.set(deaths=job.deaths + 1 if message.alone else job.deaths)
    if draft.job.deaths >= DEATHS_MAX:
        text = f"the service died {DEATHS_MAX} times while this stage alone was running"
        failure = Failure("STAGE_KILLED_SERVICE", text, retryable=False)
        refused = fail(draft, failure, "engine") or go_on(draft)
        return aside(draft, refused) if refused else draft.tear_out()
    _interrupt(draft)
    return draft.tear_out()


def stop(
    definition: Definition, job: Snapshot, message: Stop, facts: Facts, moment: Moment
) -> Verdict:
    """An operator ends the attempt: permanently, along the failure path."""
    draft = Draft(
        definition, job, job, message.actor, facts, moment, message, "stop", message.reason
    )
    if "admin" not in message.actor.roles(job):
        return Refused("FORBIDDEN", "stopping an attempt is for admins")
    if job.attempt is None:
        return nothing_to(draft, "stop")
    failure = Failure("STOPPED", message.reason or "stopped by an operator", retryable=False)
    if refused := fail(draft, failure, "engine") or go_on(draft):
        return refused
    draft.audits.append(AuditRecord("job.stop", message.actor.name, {"reason": message.reason}))
    draft.answer = {"replayed": False}
    return draft.tear_out()


def set_aside(
    definition: Definition, job: Snapshot, message: SetAside, facts: Facts, moment: Moment
) -> Verdict:
    """Nothing moves this job by itself any more; people still may."""
    if job.stuck == message.why:
        return NoOp("put_aside", job)
    if job.kind == "final":
        return NoOp("ended", job)
    draft = Draft(definition, job, job, ENGINE, facts, moment, message, "engine")
    return _put_aside(draft, message.why)


def release(
    definition: Definition, job: Snapshot, message: Release, facts: Facts, moment: Moment
) -> Verdict:
    """A job that was put aside may go on; its timers, late by now, fire."""
    if "admin" not in message.actor.roles(job):
        return Refused("FORBIDDEN", "releasing a job is for admins")
    if not job.stuck:
        return NoOp("not_stuck", job, {"replayed": True})
    draft = Draft(
        definition, job, job, message.actor, facts, moment, message, "release", message.reason
    )
    draft.decide(stuck=None)
    if refused := go_on(draft):
        return refused
    draft.audits.append(AuditRecord("job.release", message.actor.name, {"was": job.stuck}))
    draft.answer = {"replayed": False}
    return draft.tear_out()


def advance(
    definition: Definition, job: Snapshot, message: Advance, facts: Facts, moment: Moment
) -> Verdict:
    """Nothing happened, but a stage may have been bound to where the job stands."""
    draft = Draft(definition, job, job, ENGINE, facts, moment, message, "engine")
    if refused := go_on(draft):
        return aside(draft, refused)
    return draft.tear_out() if draft.decided else NoOp("stays", job)


def rebound(
    definition: Definition, job: Snapshot, message: Rebound, facts: Facts, moment: Moment
) -> Verdict:
    """Where this job rests, another stage is bound than at the last start. It is brought to that
    in place; where the engine itself now takes it on, it goes."""
    if job.kind in ("settled", "final"):
        return NoOp("ended", job)
    draft = Draft(definition, job, job, ENGINE, facts, moment, message, "engine")
    bring(draft)
    if refused := go_on(draft):
        return aside(draft, refused)
    if draft.job == job:
        return NoOp("stays", job)
    draft.answer = {"rebound": True}
    return draft.tear_out()


def supersede(
    definition: Definition, job: Snapshot, message: Supersede, facts: Facts, moment: Moment
) -> Verdict:
    """A newer submission took this job's key: it ends, and its hold is released first."""
    draft = Draft(definition, job, job, ENGINE, facts, moment, message, "engine", "superseded")
    if refused := walk(draft, definition.workflow.recipe.supersede, "engine"):
        return refused
    return draft.tear_out() if draft.decided else NoOp("stays", job)


def aside(draft: Draft, refused: Refused) -> Decision:
    """The engine's own step was refused: no edge is invented, a person is asked. An attempt that
    is over stays over: what it brought is kept, and another one waits for the release."""
    assert draft.before is not None
    before, facts, moment = draft.before, draft.facts, draft.moment
    fresh = _as_it_was(draft.definition, before, draft.message, facts, moment)
    return _put_aside(fresh, f"{refused.code}: {refused.detail}")


def beset(
    definition: Definition,
    job: Snapshot,
    message: Message,
    facts: Facts,
    moment: Moment,
    fault: PluginFault,
) -> Verdict:
    """The engine's own step met a function that failed: the job is put aside. While one is only
    missing the job stays where it is, and goes on when the plugin brings it again."""
    draft = _as_it_was(definition, job, message, facts, moment)
    if not fault.missing:
        return _put_aside(draft, str(fault))
    return draft.tear_out() if draft.job != job else fault.refusal()


def _as_it_was(
    definition: Definition, job: Snapshot, message: Any, facts: Facts, moment: Moment
) -> Draft:
    """Before the step that could not be taken, but with an attempt that is over being over."""
    draft = Draft(definition, job, job, ENGINE, facts, moment, message, "engine")
    if isinstance(message, Ended):
        try:
            apply_report(draft, message.report)
        except PluginFault:
            pass  # what sifts it has failed: nothing of it counts
        _afresh(draft, message.outcome, message.failure)
    elif isinstance(message, Recovered):
        _interrupt(draft)
    elif isinstance(message, Rebound):
        bring(draft)
    return draft


def _put_aside(draft: Draft, why: str) -> Decision:
    draft.decide(stuck=why)
    draft.log("job.put_aside", reason=why)
    return draft.tear_out()


def _interrupt(draft: Draft) -> None:
    text = "the service stopped under this attempt"
    _afresh(draft, "interrupted", Failure("INTERRUPTED", text))


def _afresh(draft: Draft, outcome: str, failure: Failure | None) -> None:
    """In place: the same state, no edge, no retry spent, the next number. An attempt that was only
    interrupted hands on what it had kept and been told."""
    over = attempt_of(draft.job)
    end(draft, outcome, failure)
    open_attempt(draft, draft.job.status)
    if outcome == "interrupted":
        amend(draft, kept=over.kept, answers=over.answers)


def _done(draft: Draft, message: Ended) -> Refused | None:
    target = draft.state.done
    return _finish(draft, target, "done") if target else _misfit(draft, "done")


def _partial(draft: Draft, message: Ended) -> Refused | None:
    target = draft.state.partial
    if message.failure is not None:
        draft.failure = named(draft, message.failure)
    return _finish(draft, target, "partial") if target else _misfit(draft, "partial")


def _rejected(draft: Draft, message: Ended) -> Refused | None:
    draft.failure = named(draft, message.failure or Failure("REJECTED", "refused by policy"))
    target = draft.state.rejected
    if target:
        return _finish(draft, target, "rejected")
    return fail(draft, replace(draft.failure, retryable=False), "stage")


def _finish(draft: Draft, target: str, outcome: str) -> Refused | None:
    """The stage's word is taken if the guards agree, and all that it brings has the form that the
    workflow wants; if not, the attempt failed for good."""
    if draft.unfit:
        return fail(draft, Failure("STAGE_CRASHED", unfit(draft), retryable=False), "stage")
    draft.outcome = outcome
    refused = step(draft, target, "stage")
    draft.outcome = ""
    if refused is None:
        return None
    return fail(draft, Failure(refused.code, refused.detail, retryable=False), "stage")


def _misfit(draft: Draft, outcome: str) -> Refused | None:
    text = f"the stage answered {outcome!r}, which {draft.job.status} does not know"
    return fail(draft, Failure("STAGE_CRASHED", text, retryable=False), "stage")


def _failed(draft: Draft, message: Ended) -> Refused | None:
    assert message.failure is not None, "a failed attempt says why"
    return fail(draft, message.failure, "stage")


def _parked(draft: Draft, message: Ended) -> Refused | None:
    if message.awaits in attempt_of(draft.job).answers:
        resume(draft)
    elif message.source:
        return await_webhook(draft, message)
    else:
        park(draft, message.awaits, message.await_s)
    return None


def _interrupted(draft: Draft, message: Ended) -> Refused | None:
    _interrupt(draft)
    return None


def _run_at(draft: Draft) -> Refused | None:
    draft.decide(run_at=None)
    behind = draft.definition.onward_of(draft.job.status, draft.job.job_type)
    in_house = bool(behind) and draft.definition.in_house(behind, draft.job.job_type)
    if draft.state.kind == "queued" and in_house:
        draft.set(line_at=draft.now)
    return None


def _retry(draft: Draft) -> Refused | None:
    worked = draft.definition.states[draft.job.worked]
    assert worked.retry is not None, f"{worked.name} has no way back"
    return step(draft, worked.retry.again, "timer")


def _backoff(draft: Draft) -> Refused | None:
    attempt = draft.job.attempt
    if attempt is not None and attempt.stage != EXTERNAL:
        draft.set(line_at=draft.now)
    draft.decide(next_attempt_at=None)
    return None


def _deadline(draft: Draft) -> Refused | None:
    deadline = draft.state.deadline
    text = f"nothing happened in {draft.job.status} in time"
    path = deadline.path if deadline is not None else ()
    failure = Failure("STAGE_TIMEOUT", text)
    if not path:
        return fail(draft, failure, "timer")
    draft.failure = named(draft, failure)
    return walk(draft, path, "timer")


def _limit(draft: Draft) -> Refused | None:
    text = f"the stage of {draft.job.status} took longer than it may"
    return fail(draft, Failure("STAGE_TIMEOUT", text), "timer")


def _silence(draft: Draft) -> Refused | None:
    text = f"no sign of life from the attempt in {draft.job.status}"
    return fail(draft, Failure("HEARTBEAT_LOST", text), "timer")


def _lapse(draft: Draft) -> Refused | None:
    """The orchestrator of this run is not heard of any more: the run closes, the status stays."""
    run = draft.job.run
    if run is not None:
        closed = Run(run.id, run.opened_by, run.started_at, live=False)
        draft.decide(run=closed, locks=())
    return None


_OUTCOMES: dict[str, Callable[[Draft, Ended], Refused | None]] = {
    "done": _done,
    "partial": _partial,
    "rejected": _rejected,
    "failed": _failed,
    "parked": _parked,
    "interrupted": _interrupted,
}
_TIMERS: dict[str, Callable[[Draft], Refused | None]] = {
    "run_at": _run_at,
    "retry": _retry,
    "backoff": _backoff,
    "deadline": _deadline,
    "limit": _limit,
    "lease": _silence,
    "heartbeat": _silence,
    "lapse": _lapse,
}
