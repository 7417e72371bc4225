"""Webhooks: what a provider says about a piece of work that it knows by a key of its own.

A webhook finds its job by ``name_of`` its source and key, which the attempt that awaits it has
announced by parking. Whichever comes first waits for the other:

1. The attempt is parked: the webhook goes to its job, and the attempt goes on.
2. Nobody ever awaited the name: the webhook is kept for an hour, and handed over in the commit in
   which an attempt would park on it.
3. The attempt that awaited it is over, has been told, or its job was deleted: it is stored, with
   the reason why it was not applied.

In each case its id is stored in the commit of what follows from it, so that the same one has no
second effect. A name is awaited by one job at a time; the attempt that comes second fails.
"""

from msgspec.structs import replace

from jobrunner.core.attempts import attempt_of, park, resume
from jobrunner.core.decision import Handed, NoOp
from jobrunner.core.draft import BY_STAGE, Case, Draft
from jobrunner.core.facts import WebhookFacts
from jobrunner.core.failures import fail
from jobrunner.core.job import Actor, Failure
from jobrunner.core.messages import Ended, Told
from jobrunner.core.replies import Verdict
from jobrunner.core.units import StoreWebhook, WebhookRow
from jobrunner.errors import Refused

WebhookKey = tuple[str, str, str]
KEPT_MS = 60 * 60 * 1000
REPLAYED = "replayed"
KEPT = "kept"
OVER = "over"
GONE = "gone"


def name_of(source: str, key: str) -> str:
    """The name of a source has no colon in it, so that no source can speak for another."""
    return f"{source}:{key}"


def told_by(message: Told) -> WebhookKey:
    """Name what the store must be asked about a webhook that came."""
    return message.source, message.webhook_id, name_of(message.source, message.key)


def awaited_by(message: Ended) -> WebhookKey | None:
    """Name what the store must be asked about a webhook that an attempt parks for, if it does:
    whether one of that name is there already, whatever its id."""
    parks = message.outcome == "parked" and bool(message.source)
    return (message.source, "", message.awaits) if parks else None


def place(message: Told, known: WebhookFacts, now: int) -> str | StoreWebhook | None:
    """The id of the job that it is for, or what remembers it; None when it was here before."""
    if known.seen:
        return None
    awaited = known.awaited
    if awaited is None:
        return StoreWebhook(_row(message, now, KEPT), message.value)
    if awaited.job_id is None:
        return StoreWebhook(_row(message, now, GONE))
    return awaited.job_id if awaited.open else StoreWebhook(_row(message, now, OVER))


def told(case: Case[Told]) -> Verdict:
    """The attempt that awaits this goes on. Where it does so no more, whoever brought the webhook
    looks for its place again."""
    job, message, facts = case.job, case.message, case.facts
    if facts.webhook is not None and facts.webhook.seen:
        return NoOp("replayed", job, {"reason": REPLAYED})
    attempt, name = job.attempt, name_of(message.source, message.key)
    awaited = attempt is not None and attempt.status == "parked" and attempt.awaits == name
    if attempt is None or not awaited or attempt.source != message.source:
        return NoOp("not_awaited", job)
    teller = Actor(f"webhook:{message.source}", "workflow")
    draft = Draft(case, teller, "callback")
    resume(draft, answers={**attempt.answers, name: message.value})
    draft.answer = {"applied": True}
    return replace(draft.tear_out(), webhook=_row(message, draft.now))


def await_webhook(draft: Draft, message: Ended) -> Refused | None:
    """The attempt parks, unless what it awaits is there."""
    known = draft.case.facts.webhook or WebhookFacts()
    other = known.awaited
    if other is not None and other.open and other.job_id not in (None, draft.job.id):
        text = f"{message.awaits} is awaited by job {other.job_id}; a key is for one job"
        return fail(draft, Failure("CALLBACK_KEY_TAKEN", text, retryable=False), BY_STAGE)
    if known.kept is None:
        park(draft, message.awaits, message.await_s, message.source)
        return None
    answers = attempt_of(draft.job).answers
    draft.handed = Handed(known.kept.row, message.awaits)
    resume(draft, answers={**answers, message.awaits: known.kept.value})
    return None


def _row(message: Told, now: int, reason: str = "") -> WebhookRow:
    name = name_of(message.source, message.key)
    return WebhookRow(message.source, message.webhook_id, name, now, not reason, reason)
