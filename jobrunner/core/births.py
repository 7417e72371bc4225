"""Births: a submission becomes a job, or turns out to be one already.

The key is looked up before anything is refused: a network retry of the submission that took the
last credit, or came before the drain, gets its job back and not an excuse.
"""

from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from jobrunner.core.credits import move_money
from jobrunner.core.decision import Decision, KeyRow, LogEvent, NoOp, QuotaAssert
from jobrunner.core.declaration.ask import Ask
from jobrunner.core.declaration.functions import derived, permitted
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.draft import Case, Cause, Draft
from jobrunner.core.engine_events import supersede
from jobrunner.core.facts import Facts, Known
from jobrunner.core.features.quota import over_quota, quota_assert
from jobrunner.core.features.reruns import inherit
from jobrunner.core.features.turns.loans import begin_at_once
from jobrunner.core.job import Run, Snapshot
from jobrunner.core.messages import Moment, Submit, Supersede
from jobrunner.core.steps import enter, go_on, hop
from jobrunner.errors import Refused

BIRTH = Cause("user")
TEXT_MAX = 64


def born(
    definition: Definition, submit: Submit, facts: Facts, moment: Moment, keys: tuple[KeyRow, ...]
) -> Decision | NoOp | Refused:
    """``keys`` are those of ``keys_of``, in the order of ``facts.known`` and ``facts.derived``."""
    freed: list[Snapshot] = []
    tied = submit.parent is not None or submit.batch is not None
    for known in (facts.known, facts.derived):
        if known is None:
            continue
        if (tied and known is facts.known) or not _is_free(definition, known):
            return _replay(known, submit)
        if known.snapshot is not None and known.snapshot not in freed:
            freed.append(known.snapshot)
    quota = quota_assert(definition, submit)
    if refused := _door(definition, submit, _without(facts, freed), quota):
        return refused
    return _make(definition, submit, facts, moment, freed, quota, _of_holders(keys, facts))


def needs_facts(definition: Definition, submit: Submit, keys: tuple[KeyRow | None, ...]) -> bool:
    """Say whether what the store knows may decide it; a guard may look at anything."""
    workflow = definition.workflow
    price = definition.job_types[submit.job_type].price
    asked = any(keys) or price or workflow.birth.guards or submit.parent or submit.batch
    return bool(asked or quota_assert(definition, submit))


def derived_parts(definition: Definition, submit: Submit, now: int) -> list[Any] | None:
    """Ask the recipe what it makes a key of; None where a client's own key is all there is, and
    for a child, which is known by its parent's key for it."""
    recipe = definition.workflow.recipe
    keyed = submit.key is not None or submit.batch is not None
    instead = submit.parent is not None or (keyed and recipe.client == "instead")
    if recipe.derive is None or instead:
        return None
    return derived(recipe.derive, _ask(definition, submit, Facts(), now))


def keys_of(parts: list[Any] | None, submit: Submit) -> tuple[KeyRow | None, ...]:
    """Make rows of the client's key and the derived one; canonical JSON leaves no two readings."""
    client = None
    if submit.key is not None:
        text = msgspec.json.encode(["schedule" if submit.schedule else "client", submit.key])
        client = KeyRow(_named(text), submit.body_digest, submit.key)
    derived = None
    if parts is not None:
        text = msgspec.json.encode(["derived", *parts], order="deterministic")
        derived = KeyRow(_named(text), submit.body_digest, text.decode())
    return client, derived


def _named(text: bytes) -> str:
    """Let a short text be its own digest: keys that are given in order then lie side by side, and
    those of a commit on few pages."""
    return text.decode() if len(text) <= TEXT_MAX else sha256(text).hexdigest()


def _is_free(definition: Definition, known: Known) -> bool:
    status = known.snapshot.status if known.snapshot else ""
    return status in definition.workflow.recipe.freed


def _replay(known: Known, submit: Submit) -> NoOp | Refused:
    if known.snapshot is None:
        return Refused(
            "JOB_GONE", f"the job of this key, {known.job_id}, was deleted", job_id=known.job_id
        )
    answer: dict[str, Any] = {"replayed": True}
    if submit.key is not None and known.body_digest != submit.body_digest:
        answer["idempotency_mismatch"] = True
    log = LogEvent("job.replayed", answer)
    return NoOp("replayed", known.snapshot, answer, (log,))


def _door(
    definition: Definition, submit: Submit, facts: Facts, quota: QuotaAssert | None
) -> Refused | None:
    """Drain or overload, the declared guards, the quota; the balance is the ledger's to refuse."""
    if submit.draining:
        return Refused("DRAINING", "the service is about to stop; try again in a moment")
    if submit.overloaded:
        return Refused("OVERLOADED", "too many jobs are due now; try again later")
    for guard in definition.workflow.birth.guards:
        if refused := permitted(guard.call, _ask(definition, submit, facts, 0)):
            return refused
    return over_quota(quota, facts) if quota else None


def _without(facts: Facts, freed: list[Snapshot]) -> Facts:
    """Jobs that give their place up are not open any more when this one is."""
    if not freed:
        return facts
    return replace(facts, open_jobs=facts.open_jobs - sum(not old.ended for old in freed))


def _make(
    definition: Definition,
    submit: Submit,
    facts: Facts,
    moment: Moment,
    freed: list[Snapshot],
    quota: QuotaAssert | None,
    keys: tuple[KeyRow, ...],
) -> Decision | Refused:
    # A job that has ended for good has nothing left to do, and only loses its key.
    losers = [old for old in freed if old.kind != "final"]
    also = tuple([_superseded(definition, old, submit, moment) for old in losers])
    draft = _newborn(definition, submit, _richer(facts, also), moment)
    if submit.origin is not None:
        inherit(draft, submit.origin)
    draft.log("job.created", job_type=submit.job_type, credits_cost=draft.job.cost)
    if refused := move_money(draft, definition.workflow.birth.money):
        return refused
    state = definition.states[definition.workflow.initial]
    draft.hops += (hop(draft, None, state.name, BIRTH),)
    if draft.job.run_at is not None:
        draft.arm("run_at", draft.job.run_at)
    enter(draft, state, None, BIRTH)
    if refused := go_on(draft, BIRTH) or begin_at_once(draft):
        return refused
    draft.answer["replayed"] = False
    return draft.tear_out(also=also, keys=keys, quota=quota)


def _richer(facts: Facts, also: tuple[Decision, ...]) -> Facts:
    """Add to the balance what superseded jobs give back: theirs is released first."""
    if facts.balance is None or not also:
        return facts
    entries = (entry for other in also for entry in other.ledger)
    back = sum(entry.amount for entry in entries if entry.kind in ("release", "refund"))
    return replace(facts, balance=facts.balance + back)


def _newborn(definition: Definition, submit: Submit, facts: Facts, moment: Moment) -> Draft:
    state = definition.states[definition.workflow.initial]
    run = Run(moment.id, "birth", moment.now, live=not state.rests)
    parent = submit.parent
    covered = parent is not None and parent.covered
    job = Snapshot(
        submit.job_id, submit.workflow, definition.digest, submit.job_type, submit.actor.name,
        state.name, state.kind, created_at=moment.now, updated_at=moment.now,
        params=submit.params, run=run if run.live else None,
        correlation_id=submit.correlation_id or None, idempotency_key=submit.key,
        priority=submit.priority, labels=submit.labels, notify_url=submit.notify_url,
        notify_on=submit.notify_on,
        cost=0 if covered else definition.job_types[submit.job_type].price,
        run_at=submit.run_at if (submit.run_at or 0) > moment.now else None,
        parent=parent, batch=submit.batch, omitted=submit.omitted,
        traceparent=submit.traceparent, schedule=submit.schedule,
    )  # fmt: skip
    case = Case(definition, job, submit, facts, moment)
    return Draft(case, submit.actor, "birth", newborn=True)


def _superseded(definition: Definition, old: Snapshot, submit: Submit, moment: Moment) -> Decision:
    decided = supersede(Case(definition, old, Supersede(submit.job_id), Facts(), moment))
    assert isinstance(decided, Decision), f"superseding {old.id}: {decided!r}"
    return decided


def _of_holders(keys: tuple[KeyRow, ...], facts: Facts) -> tuple[KeyRow, ...]:
    """Name who has each key now. Of two, the first is the client's; one alone may be either."""
    if facts.known is None and facts.derived is None:
        return keys
    holders = (facts.known or facts.derived,) if len(keys) == 1 else (facts.known, facts.derived)
    both = zip(keys, holders, strict=False)
    return tuple([replace(key, takes_from=one.job_id) if one else key for key, one in both])


def _ask(definition: Definition, submit: Submit, facts: Facts, now: int) -> Ask:
    return Ask(
        definition=definition,
        job=None,
        message=submit,
        actor=submit.actor,
        params=submit.params,
        facts=facts,
        now=now,
    )
