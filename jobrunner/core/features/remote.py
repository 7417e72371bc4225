"""Stages of plugins that run elsewhere: the claimant of an attempt runs the stage with the same
plugins as ours, and says of it what our own stage host would say.

So the end of such an attempt and a checkpoint are decided by the functions that decide about stages
here, and a job comes to the same end wherever its stage ran. The differences stand in this module:
whose word it is, files that came before the word, and the silence of a worker.

Nobody spends a retry for the death of somebody else. A lease that lapses in a later life of the
service than the one it was given in is given once more, since nobody could be heard meanwhile. A
worker that is lost interrupts its attempt, and the next one is handed what this one had kept; only
the third in a row is a failure, for it may be the stage that ends its workers.
"""

import msgspec
from msgspec.structs import replace

from jobrunner.core.attempts import CLAIM_LEASE_S, amend, attempt_of, renew
from jobrunner.core.decision import EventRow, NoOp
from jobrunner.core.draft import BY_TIMER, Case, Draft
from jobrunner.core.engine_events import bereft, concluded
from jobrunner.core.features.claims import lost, misnamed
from jobrunner.core.features.kept_values import size_of, too_much
from jobrunner.core.features.sent_files import delivered
from jobrunner.core.features.webhooks import WebhookKey, awaited_by
from jobrunner.core.job import STAGE, Attempt
from jobrunner.core.messages import Checkpoint, Ended, Keep, Remote
from jobrunner.core.replies import Verdict, forbidden
from jobrunner.core.reports import apply_report
from jobrunner.core.waits import crashed
from jobrunner.errors import Refused

BRINGS = ("done", "partial")


def remote(case: Case[Remote]) -> Verdict:
    """Take the word of whoever runs the stage of a claimed attempt."""
    job, message = case.job, case.message
    if known := _known(case):
        return known
    if not message.actor.roles(job) & {"workflow", "admin"}:
        return forbidden("the word of a stage elsewhere is for role workflow")
    if refused := lost(job, message.actor, message):
        return refused
    attempt = job.attempt
    if attempt is None or attempt.status != "running" or not attempt.claimant:
        return misnamed(job, "this attempt is claimed by nobody; claim it first")
    match message.said:
        case Ended():
            return _ended(case, attempt, message.said)
        case Keep():
            return _kept(case, attempt, message.said)
        case Checkpoint():
            return _checkpoint(case, message.said)


def event_of(message: Remote) -> str | None:
    """Name the event whose id the store must be asked about first, if it is one."""
    return message.event.id if message.event else None


def webhook_of(message: Remote) -> WebhookKey | None:
    """Name what the store must be asked about a webhook that the attempt parks for."""
    return awaited_by(message.said) if isinstance(message.said, Ended) else None


def unheard(draft: Draft) -> Refused | None:
    """Follow the silence of a claimant that runs a stage of ours."""
    attempt, epoch = attempt_of(draft.job), draft.case.moment.epoch
    if attempt.epoch != epoch:
        amend(draft, epoch=epoch)
        draft.arm("lease", draft.now + CLAIM_LEASE_S * 1000)
        return None
    text = f"{attempt.holder} was not heard of for {CLAIM_LEASE_S} s while it ran {attempt.runs}"
    return bereft(draft, text, BY_TIMER)


def _known(case: Case[Remote]) -> NoOp | Refused | None:
    event, seen = case.message.event, case.facts.event
    if event is None or seen is None:
        return None
    if seen.digest == event.digest:
        return NoOp("replayed", case.job, {"replayed": True})
    detail = f"{event.id} was accepted before, saying other things"
    return Refused("EVENT_ID_PAYLOAD_MISMATCH", detail, event_id=event.id)


def _ended(case: Case[Remote], attempt: Attempt, said: Ended) -> Verdict:
    """Files that were sent before are the job's with this word, where it brings something."""
    before = _draft(case)
    report = delivered(before, said.report) if said.outcome in BRINGS else said.report
    if isinstance(report, Refused):
        return report
    said = replace(said, serial=attempt.serial, report=report)
    draft = _draft(case, said)
    amend(draft, sent=attempt_of(before.job).sent)
    if said.outcome == "parked":
        amend(draft, holder="", claimant="")
        draft.disarm("lease")
    return concluded(draft, said)


def _kept(case: Case[Remote], attempt: Attempt, said: Keep) -> Verdict:
    others = {name: value for name, value in attempt.kept.items() if name != said.name}
    size = len(msgspec.json.encode(said.value))
    if why := too_much(said.name, size, size_of(others)):
        errors = [{"path": "$.value", "message": why}]
        return Refused("VALIDATION_ERROR", why, errors=errors)
    draft = _draft(case)
    amend(draft, kept={**attempt.kept, said.name: said.value})
    renew(draft)
    return draft.tear_out()


def _checkpoint(case: Case[Remote], said: Checkpoint) -> Verdict:
    before = _draft(case)
    report = delivered(before, said.report)
    if isinstance(report, Refused):
        return report
    draft = _draft(case, replace(said, report=report))
    amend(draft, sent=attempt_of(before.job).sent)
    apply_report(draft, report)
    if draft.unfit:
        return crashed(draft)
    renew(draft)
    return draft.tear_out()


def _draft(case: Case[Remote], said: Ended | Checkpoint | None = None) -> Draft:
    """Begin as our own stage host would: it is the stage that speaks."""
    draft = Draft(case if said is None else replace(case, message=said), STAGE, "stage")
    if event := case.message.event:
        draft.event = EventRow(event.id, event.digest, draft.now)
    draft.answer = {"replayed": False}
    return draft
