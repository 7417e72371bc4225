"""The one function that says what follows from a message. Total: every pair of a state and a
message moves, is a no-op with a name, or is refused with a code.

``DECIDERS`` is the table of all messages: who decides about each, and which facts must be read
before it is decided. A message that needs a fact says so there, and nowhere else.
"""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from jobrunner.core import commands, engine_events, messages, status_moves, timers, waits
from jobrunner.core.access import foreign
from jobrunner.core.births import born, derived_parts, keys_of
from jobrunner.core.credits import price_of
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.draft import Case
from jobrunner.core.facts import Facts
from jobrunner.core.features import claims, pauses, remote, sent_files, uploads, webhooks
from jobrunner.core.features.answers import settling
from jobrunner.core.features.answers.giving import Give, Pose
from jobrunner.core.features.families.awaiting import jobs_ended
from jobrunner.core.features.upgrades import moving_over
from jobrunner.core.features.webhooks import WebhookKey
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import Message, Moment
from jobrunner.core.replies import Verdict
from jobrunner.errors import PluginFault

PEOPLE = {"user", "admin"}


class Decider(Struct, frozen=True):
    """``decide`` says what follows from a message. ``event`` and ``webhook`` find in it what the
    store must be asked about. ``credits``: it may take an edge that costs, of all or of those that
    not only people take. ``files``: whether the files behind artifacts are sound may decide it."""

    decide: Callable[[Case[Any]], Verdict]
    event: Callable[[Any], str | None] | None = None
    webhook: Callable[[Any], WebhookKey | None] | None = None
    credits: Literal["", "any", "engine"] = ""
    files: bool = False


class Needs(Struct, frozen=True):
    """The facts that must be read before a message can be decided. ``webhook`` is source, id and
    name; the id is empty where any webhook of the name may be there already."""

    event: str | None
    webhook: WebhookKey | None
    balance: bool
    files: bool


DECIDERS: dict[type, Decider] = {
    messages.Move: Decider(
        status_moves.move, event=status_moves.event_of, credits="any", files=True
    ),
    messages.Do: Decider(commands.command, credits="any", files=True),
    messages.Edit: Decider(commands.edit, credits="any", files=True),
    messages.Arriving: Decider(uploads.arriving, credits="any", files=True),
    messages.Arrived: Decider(uploads.arrived, credits="any", files=True),
    messages.Claim: Decider(claims.claim, credits="engine"),
    messages.Beat: Decider(claims.beat),
    messages.Sending: Decider(sent_files.sending),
    messages.Start: Decider(engine_events.start, credits="engine", files=True),
    messages.Ended: Decider(
        engine_events.ended, webhook=webhooks.awaited_by, credits="engine", files=True
    ),
    messages.Keep: Decider(waits.keep),
    messages.Checkpoint: Decider(waits.checkpoint, credits="engine"),
    messages.Remote: Decider(
        remote.remote, remote.event_of, webhook=remote.webhook_of, credits="engine", files=True
    ),
    messages.Answered: Decider(waits.answered),
    messages.Told: Decider(webhooks.told, webhook=webhooks.told_by),
    Pose: Decider(settling.pose),
    Give: Decider(settling.give),
    messages.JobsEnded: Decider(jobs_ended),
    messages.Fired: Decider(timers.fired, credits="engine", files=True),
    messages.Recovered: Decider(engine_events.recovered, credits="engine", files=True),
    messages.Stop: Decider(engine_events.stop, credits="engine", files=True),
    messages.SetAside: Decider(engine_events.set_aside),
    messages.Release: Decider(engine_events.release, credits="engine", files=True),
    messages.Pause: Decider(pauses.pause),
    messages.Resume: Decider(pauses.resume, credits="engine", files=True),
    messages.Advance: Decider(engine_events.advance, credits="engine", files=True),
    messages.Rebound: Decider(engine_events.rebound, credits="engine", files=True),
    messages.Migrate: Decider(moving_over.migrate, credits="engine", files=True),
    messages.Supersede: Decider(engine_events.supersede, credits="engine"),
}


def decide(
    definition: Definition, job: Snapshot, message: Message, facts: Facts, moment: Moment
) -> Verdict:
    """Say what follows from ``message`` for ``job``: see the room's essay."""
    actor: Any = getattr(message, "actor", None)
    if actor is not None and (refused := foreign(definition, job, actor)):
        return refused
    return DECIDERS[type(message)].decide(Case(definition, job, message, facts, moment))


def beset(
    definition: Definition,
    job: Snapshot,
    message: Message,
    facts: Facts,
    moment: Moment,
    fault: PluginFault,
) -> Verdict:
    """Say what follows when a function of the plugin failed while the engine's own step was
    decided."""
    return engine_events.beset(Case(definition, job, message, facts, moment), fault)


def needs(definition: Definition, job: Snapshot, message: Message) -> Needs:
    """Name the facts that this message may turn on for this job: only these are read."""
    rule = DECIDERS[type(message)]
    return Needs(
        event=rule.event(message) if rule.event else None,
        webhook=rule.webhook(message) if rule.webhook else None,
        balance=bool(rule.credits) and _may_cost(definition, job, rule.credits == "any"),
        files=(rule.files or bool(getattr(message, "runs", ()))) and _names_files(job),
    )


def _may_cost(definition: Definition, job: Snapshot, by_people: bool) -> bool:
    if price_of(definition, job) == 0:
        return False
    return bool(definition.spenders if by_people else definition.spenders - PEOPLE)


def _names_files(job: Snapshot) -> bool:
    if job.attempt is not None and job.attempt.sent:
        return True
    return bool(job.artifacts) and any(found.asset for found in job.artifacts.values())


__all__ = [
    "DECIDERS", "Decider", "Needs", "Verdict", "beset", "born", "decide", "derived_parts",
    "keys_of", "needs",
]  # fmt: skip
