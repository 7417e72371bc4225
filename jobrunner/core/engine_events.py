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
    keep_the_slot,
    open_attempt,
    park,
    resume,
)
from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.declaration.workflow import EXTERNAL
from jobrunner.core.draft import BY_ENGINE, BY_STAGE, Case, Cause, Draft
from jobrunner.core.failed_stage import named
from jobrunner.core.failures import WORKER_LOST, fail
from jobrunner.core.features.answers.settling import await_answer, awaits_answer
from jobrunner.core.features.families.awaiting import await_jobs
from jobrunner.core.features.rebinding import bring
from jobrunner.core.features.turns.halts import halted_by
from jobrunner.core.features.turns.held_rates import put_back
from jobrunner.core.features.webhooks import await_webhook
from jobrunner.core.job import ENGINE, STAGE, Failure
from jobrunner.core.messages import (
    Advance,
    Ended,
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
from jobrunner.core.units import AuditRecord
from jobrunner.errors import PluginFault, Refused

Verdict = Decision | NoOp | Refused
DEATHS_MAX = 3
LOG_LINES_MAX = 200


def start(case: Case[Start]) -> Verdict:
    """Begin the attempt, for which a slot is free, in the commit that leaves the queue. Where its
    work is done already, that of the next one does."""
    definition, job, facts = case.definition, case.job, case.facts
    if job.line_at is None or job.stuck or halted_by(definition, job, facts):
        return NoOp("not_in_line", job)
    draft = Draft(case, ENGINE, "engine")
    if refused := leave_the_queue(draft):
        return aside(draft, refused)
    attempt = draft.job.attempt
    due = attempt is not None and attempt.status == "due" and attempt.stage != EXTERNAL
    if due and halted_by(definition, draft.job, facts) is None:
        hold(draft, OUR_STAGE)
    if draft.job.status == job.status:
        draft.set(line_at=None)
    return draft.tear_out()


def leave_the_queue(draft: Draft) -> Refused | None:
    """Take the job to where it is worked on, if it stands in a queue before that."""
    job = draft.job
    if job.kind != "queued":
        return None
    target = draft.definition.onward_of(job.status, job.job_type)
    return step(draft, target, BY_ENGINE) or go_on(draft, BY_ENGINE)


def ended(case: Case[Ended]) -> Verdict:
    """Follow the end of an attempt, as our stage host reports it."""
    job, message = case.job, case.message
    if not at_work(job) or job.serial != message.serial:
        return NoOp("late_result", job)
    return concluded(Draft(case, STAGE, "stage"), message)


def concluded(draft: Draft, message: Ended) -> Verdict:
    """Follow the end of the open attempt, wherever its stage ran."""
    if message.log:
        amend(draft, log=(*attempt_of(draft.job).log, *message.log)[-LOG_LINES_MAX:])
    apply_report(draft, message.report)
    if refused := _OUTCOMES[message.outcome](draft, message) or go_on(draft, BY_STAGE):
        return aside(draft, refused)
    keep_the_slot(draft)
    return draft.tear_out()


def recovered(case: Case[Recovered]) -> Verdict:
    """Go on with an attempt that died with the process. That spends no retry, unless this job alone
    was there whenever the service died."""
    job, message = case.job, case.message
    if not at_work(job):
        return NoOp("nothing_to_recover", job)
    draft = Draft(case, ENGINE, "engine")
    draft.set(deaths=job.deaths + 1 if message.alone else job.deaths)
    if draft.job.deaths >= DEATHS_MAX:
        text = f"the service died {DEATHS_MAX} times while this stage alone was running"
        failure = Failure("STAGE_KILLED_SERVICE", text, retryable=False)
        refused = fail(draft, failure, BY_ENGINE)
        return aside(draft, refused) if refused else draft.tear_out()
    _interrupt(draft)
    return draft.tear_out()


def stop(case: Case[Stop]) -> Verdict:
    """End the attempt by an operator's hand: permanently, along the failure path."""
    job, message = case.job, case.message
    draft = Draft(case, message.actor, "stop")
    if "admin" not in message.actor.roles(job):
        return Refused("FORBIDDEN", "stopping an attempt is for admins")
    if job.attempt is None:
        return nothing_to(draft, "stop")
    failure = Failure("STOPPED", message.reason or "stopped by an operator", retryable=False)
    if refused := fail(draft, failure, Cause("engine", message.reason)):
        return refused
    draft.audits += (AuditRecord("job.stop", message.actor.name, {"reason": message.reason}),)
    draft.answer = {"replayed": False}
    return draft.tear_out()


def set_aside(case: Case[SetAside]) -> Verdict:
    """Mark the job stuck: nothing moves it by itself any more; people still may."""
    job, message = case.job, case.message
    if job.stuck == message.why:
        return NoOp("put_aside", job)
    if job.kind == "final":
        return NoOp("ended", job)
    draft = Draft(case, ENGINE, "engine")
    return _make_stuck(draft, message.why)


def release(case: Case[Release]) -> Verdict:
    """Let a stuck job go on; its timers, late by now, fire."""
    job, message = case.job, case.message
    if "admin" not in message.actor.roles(job):
        return Refused("FORBIDDEN", "releasing a job is for admins")
    if not job.stuck:
        return NoOp("not_stuck", job, {"replayed": True})
    draft = Draft(case, message.actor, "release")
    draft.decide(stuck=None)
    if refused := go_on(draft, Cause("engine", message.reason)):
        return refused
    draft.audits += (AuditRecord("job.release", message.actor.name, {"was": job.stuck}),)
    draft.answer = {"replayed": False}
    return draft.tear_out()


def advance(case: Case[Advance]) -> Verdict:
    """Move on where nothing happened, but a stage may have been bound to the job's state."""
    job = case.job
    draft = Draft(case, ENGINE, "engine")
    if refused := go_on(draft, BY_ENGINE):
        return aside(draft, refused)
    return draft.tear_out() if draft.decided else NoOp("stays", job)


def rebound(case: Case[Rebound]) -> Verdict:
    """Bring the job in place to the stage that is bound now where it rests; where the engine itself
    takes it on, it goes."""
    job = case.job
    if job.ended:
        return NoOp("ended", job)
    draft = Draft(case, ENGINE, "engine")
    bring(draft)
    if refused := go_on(draft, BY_ENGINE):
        return aside(draft, refused)
    if draft.job == job:
        return NoOp("stays", job)
    draft.answer = {"rebound": True}
    return draft.tear_out()


def supersede(case: Case[Supersede]) -> Verdict:
    """End a job whose key a newer submission took; its hold is released first."""
    definition, job = case.definition, case.job
    draft = Draft(case, ENGINE, "engine")
    superseded = Cause("engine", "superseded")
    if refused := walk(draft, definition.workflow.recipe.supersede, superseded):
        return refused
    return draft.tear_out() if draft.decided else NoOp("stays", job)


def aside(draft: Draft, refused: Refused) -> Decision:
    """Make the job stuck, since the engine's own step was refused: no edge is invented, a person is
    asked. An attempt that is over stays over: what it brought is kept, and another one waits for
    the release."""
    return _make_stuck(_as_it_was(draft.case), f"{refused.code}: {refused.detail}")


def beset(case: Case[Any], fault: PluginFault) -> Verdict:
    """Make the job stuck, since a function failed in the engine's own step. While one is only
    missing the job stays where it is, and goes on when the plugin brings it again."""
    draft = _as_it_was(case)
    if not fault.missing:
        return _make_stuck(draft, str(fault))
    return draft.tear_out() if draft.job != case.job else fault.refusal()


def _as_it_was(case: Case[Any]) -> Draft:
    """Begin again before the step that could not be taken; an attempt that is over stays over."""
    draft, message = Draft(case, ENGINE, "engine"), case.message
    if isinstance(message, Ended):
        try:
            apply_report(draft, message.report)
        except PluginFault:
            pass  # what sifts it has failed: nothing of it counts
        afresh(draft, message.outcome, message.failure)
    elif isinstance(message, Recovered):
        _interrupt(draft)
    elif isinstance(message, Rebound):
        bring(draft)
    return draft


def _make_stuck(draft: Draft, why: str) -> Decision:
    draft.decide(stuck=why)
    draft.log("job.put_aside", reason=why)
    return draft.tear_out()


def _interrupt(draft: Draft, why: Failure | None = None) -> None:
    text = "the service stopped under this attempt"
    afresh(draft, "interrupted", why or Failure("INTERRUPTED", text))


def afresh(draft: Draft, outcome: str, failure: Failure | None) -> None:
    """Begin the next attempt in place: the same state, no edge, no retry spent. An interrupted
    attempt hands on what it had kept and been told."""
    over = attempt_of(draft.job)
    end(draft, outcome, failure)
    open_attempt(draft, draft.job.status)
    if outcome == "interrupted":
        amend(
            draft,
            kept=over.kept,
            answers=over.answers,
            questions=over.questions,
            sent=over.sent,
        )


def bereft(draft: Draft, text: str, cause: Cause) -> Refused | None:
    """Interrupt the attempt, since its worker was lost. The third loss in a row may be the stage's
    doing."""
    if draft.job.deaths + 1 >= DEATHS_MAX:
        return fail(draft, Failure("HEARTBEAT_LOST", text), cause)
    draft.set(deaths=draft.job.deaths + 1)
    _interrupt(draft, Failure("INTERRUPTED", text))
    return None


def _done(draft: Draft, message: Ended) -> Refused | None:
    target = draft.state.done
    return _finish(draft, target, "done", None) if target else _misfit(draft, "done")


def _partial(draft: Draft, message: Ended) -> Refused | None:
    target, failure = draft.state.partial, message.failure
    why = named(draft, failure) if failure is not None else None
    return _finish(draft, target, "partial", why) if target else _misfit(draft, "partial")


def _rejected(draft: Draft, message: Ended) -> Refused | None:
    why = named(draft, message.failure or Failure("REJECTED", "refused by policy"))
    target = draft.state.rejected
    if target:
        return _finish(draft, target, "rejected", why)
    return fail(draft, replace(why, retryable=False), BY_STAGE)


def _finish(draft: Draft, target: str, outcome: str, why: Failure | None) -> Refused | None:
    """Take the stage's word if the guards agree, and all that it brings has the form that the
    workflow wants; if not, the attempt failed for good."""
    if draft.unfit:
        return fail(draft, Failure("STAGE_CRASHED", unfit(draft), retryable=False), BY_STAGE)
    cause = Cause("stage", failure=why, outcome=outcome)
    refused = step(draft, target, cause)
    if refused is None:
        return go_on(draft, cause)
    return fail(draft, Failure(refused.code, refused.detail, retryable=False), BY_STAGE)


def _misfit(draft: Draft, outcome: str) -> Refused | None:
    text = f"the stage answered {outcome!r}, which {draft.job.status} does not know"
    return fail(draft, Failure("STAGE_CRASHED", text, retryable=False), BY_STAGE)


def _failed(draft: Draft, message: Ended) -> Refused | None:
    assert message.failure is not None, "a failed attempt says why"
    return None if put_back(draft, message.failure) else fail(draft, message.failure, BY_STAGE)


def _parked(draft: Draft, message: Ended) -> Refused | None:
    if message.jobs is not None:
        await_jobs(draft, message.jobs, message.await_s)
    elif message.awaits in attempt_of(draft.job).answers:
        resume(draft)
    elif message.source:
        return await_webhook(draft, message)
    elif awaits_answer(draft, message):
        return await_answer(draft, message)
    else:
        park(draft, message.awaits, message.await_s)
    return None


def _interrupted(draft: Draft, message: Ended) -> Refused | None:
    if message.failure is not None and message.failure.code == WORKER_LOST:
        return bereft(draft, message.failure.message, BY_STAGE)
    _interrupt(draft, message.failure)
    return None


_OUTCOMES: dict[str, Callable[[Draft, Ended], Refused | None]] = {
    "done": _done,
    "partial": _partial,
    "rejected": _rejected,
    "failed": _failed,
    "parked": _parked,
    "interrupted": _interrupted,
}
