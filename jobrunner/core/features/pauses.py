"""Pausing: a flag beside the status, and never a status.

While it is set no attempt starts: the engine takes the job nowhere, no slot is given to it, and no
claim is granted. All else goes on. An attempt that runs finishes, and its outcome takes its edges;
callbacks, edits and commands are taken as always, and a cancel cancels.

Clocks keep running. Those of work that somebody holds (its limit, its silence, its lease) act at
once, because that work goes on too. All others (deadline, backoff, retry, start time, lapse) act
when the job is resumed, late if they came due before.

The pause of a whole workflow holds all its jobs back in the same way but touches none of them: it
is a fact that the decision is handed, asked where an attempt would start and where a clock rings.
The pause of a stage only keeps its attempts from starting.
"""

from jobrunner.core.decision import NoOp
from jobrunner.core.draft import Case, Cause, Draft
from jobrunner.core.facts import Facts
from jobrunner.core.job import Paused, Snapshot
from jobrunner.core.messages import Pause, Resume
from jobrunner.core.replies import Verdict, begin, forbidden, nothing_to, stale_version
from jobrunner.core.steps import go_on
from jobrunner.core.units import AuditRecord
from jobrunner.errors import Refused

OF_HELD_WORK = frozenset({"limit", "heartbeat", "lease"})
PAUSERS = frozenset({"user", "admin"})


def pause(case: Case[Pause]) -> Verdict:
    """Pause the job for its owner or an admin, once: a second pause changes neither who, why nor
    when."""
    job, message, moment = case.job, case.message, case.moment
    draft = begin(case, "pause")
    if refused := _barred(job, message):
        return refused
    if job.kind == "final":
        return nothing_to(draft, "hold back")
    if job.paused is not None:
        return NoOp("paused", job, {"replayed": True})
    draft.decide(paused=Paused(message.actor.name, moment.now, message.reason))
    draft.log("job.paused", by=message.actor.name, reason=message.reason)
    return _answered(draft, "job.pause")


def resume(case: Case[Resume]) -> Verdict:
    """Let the job go on: clocks that came due meanwhile act now, and the engine goes on in this
    commit."""
    job, message = case.job, case.message
    if refused := _barred(job, message):
        return refused
    if job.paused is None:
        return NoOp("not_paused", job, {"replayed": True})
    draft = begin(case, "resume")
    draft.decide(paused=None)
    draft.log("job.resumed", by=message.actor.name, reason=message.reason)
    if refused := go_on(draft, Cause("engine", message.reason)):
        return refused
    return _answered(draft, "job.resume", was_paused_by=job.paused.by)


def rests_until_resumed(job: Snapshot, purpose: str, facts: Facts) -> bool:
    """Say whether a timer of a paused job that is due must wait until the job is resumed."""
    return bool(job.paused or facts.halted) and purpose not in OF_HELD_WORK


def refusal(paused: Paused) -> Refused:
    why = f": {paused.reason}" if paused.reason else ""
    return Refused(
        "JOB_PAUSED",
        f"{paused.by} paused this{why}; it starts nothing before it is resumed",
        paused_by=paused.by,
        reason=paused.reason,
    )


def _barred(job: Snapshot, message: Pause | Resume) -> Refused | None:
    if not message.actor.roles(job) & PAUSERS:
        return forbidden("pausing and resuming a job are for its owner or an admin")
    return stale_version(job, message.expected_version)


def _answered(draft: Draft, event: str, **said: str) -> Verdict:
    fields = {"reason": draft.case.message.reason, **said}
    draft.audits += (AuditRecord(event, draft.actor.name, fields),)
    draft.answer = {"replayed": False}
    return draft.tear_out()
