"""Questions of stages, decided: asked, answered, expired.

1. A question is stored before its stage is told the token, so an answer that comes before the job
   has parked finds it. Asked again in the same attempt it is the same question.
2. The first answer counts. The same one again is a replay, another one is refused.
3. When its time is up the default is the answer; without one the attempt fails as any that waits
   too long.
4. Questions are their attempt's. One that was only interrupted hands them on with their answers.
"""

from msgspec import UNSET
from msgspec.structs import replace

from jobrunner.core.attempts import amend, at_work, attempt_of, park, pulse, resume
from jobrunner.core.decision import NoOp
from jobrunner.core.draft import BY_STAGE, BY_TIMER, Case, Draft
from jobrunner.core.failures import fail
from jobrunner.core.features.answers.giving import Give, Pose, awaited_in, may_give
from jobrunner.core.features.answers.posed import MARK, Posed, answer_key
from jobrunner.core.job import STAGE, Failure
from jobrunner.core.messages import Ended
from jobrunner.core.replies import Verdict, begin, forbidden
from jobrunner.core.units import AuditRecord
from jobrunner.errors import Refused

QUESTIONS_MAX = 16
NOT_ASKED = "not_asked"


def pose(case: Case[Pose]) -> Verdict:
    """Store a question with the attempt; its stage goes on when that is on disk."""
    job, message = case.job, case.message
    if not at_work(job) or job.serial != message.serial:
        return NoOp("late_result", job)
    attempt = attempt_of(job)
    if (known := attempt.questions.get(message.name)) is not None:
        return NoOp("posed", job, {"posed": known})
    if len(attempt.questions) >= QUESTIONS_MAX:
        text = f"an attempt asks at most {QUESTIONS_MAX} questions"
        return Refused("CALLBACK_UNEXPECTED", text)
    draft = Draft(case, STAGE, "stage")
    until = draft.now + int(message.timeout_s * 1000) if message.timeout_s else None
    posed = replace(message.posed, asked_at=draft.now, expires_at=until, stage=attempt.stage)
    amend(draft, questions={**attempt.questions, message.name: posed})
    pulse(draft, attempt_of(draft.job))
    draft.answer = {"posed": posed}
    return draft.tear_out()


def give(case: Case[Give]) -> Verdict:
    """Take an answer; the attempt that waits for it goes on, one that does not yet finds it."""
    job, message = case.job, case.message
    attempt = job.attempt
    posed = attempt.questions.get(message.name) if attempt is not None else None
    if attempt is None or posed is None or message.digest not in ("", posed.digest):
        return NoOp(NOT_ASKED, job)
    if not message.digest and not may_give(posed, message.actor.roles(job)):
        return forbidden(f"{message.name!r} is for {' or '.join(posed.by) or 'admin'} to answer")
    if posed.standing == "given":
        same = posed.said == message.said
        return NoOp("given", job, {"replayed": True}) if same else answered_otherwise()
    if posed.standing == "over" or posed.expired(case.moment.now):
        return NoOp(NOT_ASKED, job)
    draft = begin(case, "callback")
    giver = message.actor.name
    _settle(draft, message.name, replace(posed, said=message.said, giver=giver), message.value)
    way = "token" if message.digest else "role"
    fields = {"name": message.name, "way": way, "run_id": attempt.run_id}
    draft.audits += (AuditRecord("answer.give", giver, fields),)
    draft.answer = {"replayed": False, "applied": True}
    return draft.tear_out()


def answered_otherwise() -> Refused:
    return Refused("ANSWER_GIVEN", "this was answered already, and otherwise; nothing was changed")


def awaits_answer(draft: Draft, message: Ended) -> bool:
    """Say whether an attempt parks for a question that it has asked."""
    name = message.awaits.removeprefix(MARK)
    return name != message.awaits and name in attempt_of(draft.job).questions


def await_answer(draft: Draft, message: Ended) -> Refused | None:
    """The attempt parks until its question is answered, or its time is up."""
    name = message.awaits.removeprefix(MARK)
    posed = attempt_of(draft.job).questions[name]
    left_ms = 0 if posed.expires_at is None else posed.expires_at - draft.now
    park(draft, message.awaits, left_ms / 1000)
    if not posed.expired(draft.now) or default_taken(draft):
        return None
    text = f"nobody has answered {name!r} in time"
    return fail(draft, Failure("STAGE_TIMEOUT", text), BY_STAGE)


def default_taken(draft: Draft) -> bool:
    """Let a parked attempt go on with the default of what it has asked, if that has one."""
    awaited = awaited_in(draft.job.attempt)
    if awaited is None or awaited[1].default is UNSET:
        return False
    name, posed = awaited
    _settle(draft, name, replace(posed, giver=BY_TIMER.trigger), posed.default)
    draft.log("answer.defaulted", name=name)
    return True


def _settle(draft: Draft, name: str, posed: Posed, value: object) -> None:
    attempt, key = attempt_of(draft.job), answer_key(name)
    standing = "given" if posed.said else "over"
    amend(
        draft,
        answers={**attempt.answers, key: value},
        questions={**attempt.questions, name: replace(posed, standing=standing)},
    )
    if attempt.status == "parked" and attempt.awaits == key:
        resume(draft)
    draft.decided = True
