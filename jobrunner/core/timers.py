"""Timers of a job: what each of them does when it is due.

A timer whose state was left is a no-op with a name. The clocks of work that somebody holds end that
work as a failure; the others take the job where its declaration says.
"""

from collections.abc import Callable

from jobrunner.core.decision import NoOp
from jobrunner.core.declaration.workflow import EXTERNAL
from jobrunner.core.draft import BY_TIMER, Case, Cause, Draft
from jobrunner.core.engine_events import aside
from jobrunner.core.failed_stage import named
from jobrunner.core.failures import fail
from jobrunner.core.features.answers.settling import default_taken
from jobrunner.core.features.pauses import rests_until_resumed
from jobrunner.core.features.remote import unheard
from jobrunner.core.job import TIMER, Failure, Run
from jobrunner.core.messages import Fired
from jobrunner.core.replies import Verdict
from jobrunner.core.steps import go_on, step, walk
from jobrunner.errors import Refused


def fired(case: Case[Fired]) -> Verdict:
    """Act on a timer that is due; the commit of what it causes uses it up."""
    job, message, facts, moment = case.job, case.message, case.facts, case.moment
    timer = job.timer(message.purpose)
    if timer is None or timer.due_at > moment.now or job.stuck:
        return NoOp("timer_gone", job)
    if rests_until_resumed(job, message.purpose, facts):
        return NoOp("timer_rests", job)
    draft = Draft(case, TIMER, "timer")
    draft.disarm(message.purpose)
    if refused := _TIMERS[message.purpose](draft) or go_on(draft, BY_TIMER):
        return aside(draft, refused)
    draft.decided = True
    return draft.tear_out()


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
    return step(draft, worked.retry.again, BY_TIMER)


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
    if default_taken(draft):
        return None
    failure = Failure("STAGE_TIMEOUT", text)
    if not path:
        return fail(draft, failure, BY_TIMER)
    cause = Cause("timer", failure=named(draft, failure))
    return walk(draft, path, cause) or go_on(draft, cause)


def _limit(draft: Draft) -> Refused | None:
    text = f"the stage of {draft.job.status} took longer than it may"
    return fail(draft, Failure("STAGE_TIMEOUT", text), BY_TIMER)


def _silence(draft: Draft) -> Refused | None:
    text = f"no sign of life from the attempt in {draft.job.status}"
    return fail(draft, Failure("HEARTBEAT_LOST", text), BY_TIMER)


def _lease(draft: Draft) -> Refused | None:
    attempt = draft.job.attempt
    return unheard(draft) if attempt is not None and attempt.runs else _silence(draft)


def _lapse(draft: Draft) -> Refused | None:
    """Close the run of an orchestrator that is not heard of any more; the status stays."""
    run = draft.job.run
    if run is not None:
        closed = Run(run.id, run.opened_by, run.started_at, live=False)
        draft.decide(run=closed, locks=())
    return None


_TIMERS: dict[str, Callable[[Draft], Refused | None]] = {
    "run_at": _run_at,
    "retry": _retry,
    "backoff": _backoff,
    "deadline": _deadline,
    "limit": _limit,
    "lease": _lease,
    "heartbeat": _silence,
    "lapse": _lapse,
}
