"""The waits of an in-process stage: what it keeps and is told between its start and its end.

A stage that awaits a callback unwinds and is run again from the top when it has come. Both what it
had worked out before (``kept``) and what it was told (``answers``) belong to the attempt, so that
a callback to an earlier attempt finds nobody, and a late one neither.
"""

from jobrunner.core.attempts import amend, at_work, attempt_of, pulse, resume
from jobrunner.core.decision import NoOp
from jobrunner.core.declaration.workflow import EXTERNAL
from jobrunner.core.draft import BY_STAGE, Case, Draft
from jobrunner.core.engine_events import aside
from jobrunner.core.failures import fail
from jobrunner.core.features.answers.posed import MARK
from jobrunner.core.job import STAGE, Failure, Snapshot
from jobrunner.core.messages import Answered, Checkpoint, Keep
from jobrunner.core.replies import Verdict, begin, forbidden
from jobrunner.core.replies import answered as told
from jobrunner.core.reports import apply_report, unfit
from jobrunner.errors import Refused

ANSWERS_MAX = 16


def keep(case: Case[Keep]) -> Verdict:
    """Store a result with the attempt; its stage goes on when that is on disk."""
    job, message = case.job, case.message
    if not at_work(job) or job.serial != message.serial:
        return NoOp("late_result", job)
    draft = Draft(case, STAGE, "stage")
    attempt = attempt_of(job)
    amend(draft, kept={**attempt.kept, message.name: message.value})
    pulse(draft, attempt)
    return draft.tear_out()


def checkpoint(case: Case[Checkpoint]) -> Verdict:
    """Give the job what the stage has made so far; the state stays, and the stage goes on."""
    job, message = case.job, case.message
    if not at_work(job) or job.serial != message.serial:
        return NoOp("late_result", job)
    draft = Draft(case, STAGE, "stage")
    apply_report(draft, message.report)
    if draft.unfit:
        return crashed(draft)
    pulse(draft, attempt_of(draft.job))
    return draft.tear_out()


def crashed(draft: Draft) -> Verdict:
    """End an attempt that hands over something in no form that the workflow knows."""
    failure = Failure("STAGE_CRASHED", unfit(draft), retryable=False)
    if refused := fail(draft, failure, BY_STAGE):
        return aside(draft, refused)
    return draft.tear_out()


def answered(case: Case[Answered]) -> Verdict:
    """Go on with the attempt that awaits this; one that has not come so far finds it there."""
    job, message = case.job, case.message
    if not message.actor.roles(job) & {"workflow", "admin"}:
        return forbidden("answers to a stage are for role workflow")
    attempt = job.attempt
    is_nobodys = attempt is None or (attempt.stage == EXTERNAL and not attempt.runs)
    if attempt is None or is_nobodys or message.key.startswith(MARK):
        return _unexpected(job, message)
    if message.key in attempt.answers:
        return NoOp("answered", job, {"replayed": True})
    expected = attempt.status == "parked" and attempt.awaits == message.key
    if not expected and (attempt.status == "parked" or len(attempt.answers) >= ANSWERS_MAX):
        return _unexpected(job, message)
    draft = begin(case, "callback")
    amend(draft, answers={**attempt.answers, message.key: message.value})
    if expected:
        resume(draft)
    return told(draft)


def _unexpected(job: Snapshot, message: Answered) -> Refused:
    return Refused(
        "CALLBACK_UNEXPECTED",
        f"nothing in this job awaits {message.key!r} (any more): its attempt is over, or awaits "
        "something else",
        current_status=job.status,
    )
