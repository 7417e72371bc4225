"""The one function that says what follows from a message. Total: every pair of a state and a
message moves, is a no-op with a name, or is refused with a code."""

from collections.abc import Callable
from typing import Any

from jobrunner.core import claims, commands, engine_events, status_moves, waits
from jobrunner.core.access import foreign
from jobrunner.core.births import born, derived_parts, keys_of
from jobrunner.core.credits import price_of
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.engine_events import beset
from jobrunner.core.features import pauses, sent_files, uploads, webhooks
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import (
    Advance,
    Answered,
    Arrived,
    Arriving,
    Beat,
    Checkpoint,
    Claim,
    Do,
    Edit,
    Ended,
    Facts,
    Fired,
    Keep,
    Message,
    Moment,
    Move,
    Pause,
    Rebound,
    Recovered,
    Release,
    Resume,
    Sending,
    SetAside,
    Start,
    Stop,
    Supersede,
    Told,
)
from jobrunner.core.replies import Verdict
from jobrunner.errors import Refused

PEOPLE = {"user", "admin"}
DECIDES: dict[type, Callable[..., Verdict]] = {
    Move: status_moves.move,
    Do: commands.command,
    Edit: commands.edit,
    Arriving: uploads.arriving,
    Arrived: uploads.arrived,
    Claim: claims.claim,
    Beat: claims.beat,
    Sending: sent_files.sending,
    Start: engine_events.start,
    Ended: engine_events.ended,
    Keep: waits.keep,
    Checkpoint: waits.checkpoint,
    Answered: waits.answered,
    Told: webhooks.told,
    Fired: engine_events.fired,
    Recovered: engine_events.recovered,
    Stop: engine_events.stop,
    SetAside: engine_events.set_aside,
    Release: engine_events.release,
    Pause: pauses.pause,
    Resume: pauses.resume,
    Advance: engine_events.advance,
    Rebound: engine_events.rebound,
    Supersede: engine_events.supersede,
}


def decide(
    definition: Definition, job: Snapshot, message: Message, facts: Facts, moment: Moment
) -> Verdict:
    """What follows from ``message`` for ``job``: see the room's essay."""
    actor: Any = getattr(message, "actor", None)
    if actor is not None and (refused := foreign(definition, job, actor)):
        return refused
    return DECIDES[type(message)](definition, job, message, facts, moment)


def needs_event(message: Message) -> str | None:
    """The event id that the store must be asked about first, if there is one."""
    return message.event.id if isinstance(message, Move) and message.event else None


def needs_webhook(message: Message) -> tuple[str, str, str] | None:
    """Source, id and name of the webhook that the store must be asked about first, if there is
    one; the id is empty where any of the name may be there already."""
    if isinstance(message, Told):
        return message.source, message.webhook_id, webhooks.name_of(message.source, message.key)
    if isinstance(message, Ended) and message.outcome == "parked" and message.source:
        return message.source, "", message.awaits
    return None


def needs_balance(definition: Definition, job: Snapshot, message: Message) -> bool:
    """Whether the decision may have to take credits: only then is the ledger read."""
    if price_of(definition, job) == 0:
        return False
    taking = [edge for edge in definition.workflow.edges if edge.money in ("hold", "charge")]
    if isinstance(message, Do | Move | Edit | Arriving | Arrived):
        return bool(taking)
    return any(set(edge.by) - PEOPLE for edge in taking)


def needs_files(job: Snapshot, message: Message) -> bool:
    """Whether files behind artifacts may decide it: only then are they looked at."""
    looks = not isinstance(
        message, Beat | Sending | Keep | Checkpoint | Answered | Told | Claim | SetAside
    )
    waiting = job.attempt is not None and bool(job.attempt.sent)
    return looks and (waiting or any(found.asset for found in job.artifacts.values()))


__all__ = [
    "Refused",
    "Verdict",
    "beset",
    "born",
    "decide",
    "derived_parts",
    "keys_of",
    "needs_balance",
    "needs_event",
    "needs_files",
    "needs_webhook",
]
