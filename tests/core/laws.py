"""What holds of every verdict and of every job, whatever was asked and in whichever state.

The laws are said once, here, and looked at from two sides: along random histories and from every
kind of state that a job can be in. A law that does not hold is an ``AssertionError`` with the
reason in it.
"""

from typing import Any

import msgspec

from jobrunner.core.access import foreign
from jobrunner.core.attempts import OUR_STAGE
from jobrunner.core.decision import Decision, NoOp, StartStage, StopStage
from jobrunner.core.job import Attempt, Snapshot
from jobrunner.core.messages import Do, Ended, Message, Move, Recovered, Submit
from jobrunner.core.money import AFTER
from jobrunner.core.moves import rests
from jobrunner.core.view import allowed
from jobrunner.core.workflow import EXTERNAL, Definition
from jobrunner.errors import STATUS_OF_CODE, Refused

NO_OPS = frozenset(
    {
        "event_replayed",
        "late_result",
        "not_in_line",
        "not_stuck",
        "nothing_to_recover",
        "progress_ignored",
        "put_aside",
        "replayed",
        "satisfied",
        "stays",
        "timer_gone",
    }
)
UNDECIDED = ("beat", "heartbeat_at", "last_event_at", "progress", "version")
UNDECIDED += ("progress_message", "updated_at", "deadline_at", "timers", "locks")
ENDED = ("settled", "final")


def lawful(
    definition: Definition, before: Snapshot | None, message: Message | Submit, said: Any
) -> None:
    """One verdict: of a known kind, and a decision that breaks nothing."""
    if before is not None:
        _foretold(definition, before, message, said)
    match said:
        case Refused():
            status = STATUS_OF_CODE.get(said.code) or definition.workflow.codes.get(said.code)
            assert status, f"{said.code} is a code that nobody declared"
            assert said.status == status, f"{said.code} answers {said.status}, not {status}"
            assert said.detail, f"{said.code} says nothing"
        case NoOp():
            assert said.name in NO_OPS, f"{said.name!r} is no name of a no-op"
            assert before is None or said.snapshot == before, "a no-op shows the job as it is"
        case Decision():
            assert said.before == before, "decided about another job than was asked about"
            _hops(definition, said)
            _version(said)
            _money(said)
            _effects(message, said)
            standing(definition, said.after)
        case _:
            raise AssertionError(f"{said!r} is no verdict")


def standing(definition: Definition, job: Snapshot) -> None:
    """One job as it stands: nothing in it contradicts its state."""
    state = definition.states[job.status]
    assert job.kind == state.kind
    ended = job.kind in ENDED
    assert (job.completed_at is not None) == ended, "completed_at says whether it has ended"
    if ended:
        assert not (job.timers or job.locks or job.attempt or job.line_at), "the end is the end"
        assert job.credits != "held", "no hold is left open"
    if rests(state):
        assert not job.live, "where a person is waited for no run is open"
    _attempt(definition, job)
    _line(definition, job)
    _timers(definition, job)
    _locks(definition, job)
    if state.fails:
        told = (job.failure_code, job.failure_message, job.failed_stage, job.correlation_id)
        assert all(told), f"{job.status} does not say why: {told}"


def _foretold(
    definition: Definition, before: Snapshot, message: Message | Submit, said: Any
) -> None:
    """What a job says that its reader may do is what that reader may do."""
    if not isinstance(message, Move | Do) or foreign(definition, before, message.actor):
        return
    may = allowed(definition, before, message.actor)
    if isinstance(message, Do):
        asked, possible, never = message.command, may["commands"], ("FORBIDDEN", "UNKNOWN_COMMAND")
    else:
        asked, possible = message.to, may["statuses"]
        never = ("FORBIDDEN", "ILLEGAL_TRANSITION", "TERMINAL_STATE")
        if message.to == before.status:
            return
    if isinstance(said, Decision):
        assert asked in possible, f"{asked} was done, and only {possible} is allowed"
    elif isinstance(said, Refused) and said.code in never:
        assert asked not in possible, f"{asked} is allowed, and was refused: {said!r}"


# ---------------------------------------------------------------- a decision


def _hops(definition: Definition, decision: Decision) -> None:
    """Only listed edges, one after the other; nothing after the end."""
    before, after = decision.before, decision.after
    place = before.status if before else None
    assert not decision.hops or before is None or before.kind != "final", "history after the end"
    for hop in decision.hops:
        assert hop.from_status == place, f"a gap in history: {place} and then {hop}"
        if place is None:
            assert hop.to_status == definition.workflow.initial
        else:
            assert hop.to_status in definition.table[place], f"{hop} is no declared edge"
        place = hop.to_status
    assert place == after.status, f"history ends in {place}, the job is in {after.status}"


def _version(decision: Decision) -> None:
    """It rises by one exactly when something decided changed; progress is counted beside it."""
    before, after = decision.before, decision.after
    if before is None:
        assert (after.version, after.beat) == (1, 0)
        return
    rows = (decision.hops, decision.ledger, decision.artifacts, decision.assets, decision.attempts)
    rows = (*rows, decision.dead_letters, decision.keys)
    changed = _decided(before) != _decided(after) or any(rows)
    if after.version == before.version:
        assert after.beat == before.beat + 1
        assert not changed, "something decided changed, and the version did not"
    else:
        assert (after.version, after.beat) == (before.version + 1, 0)
        assert changed or decision.audits, "a new version of the same"


def _decided(job: Snapshot) -> Any:
    fields = msgspec.structs.asdict(job)
    kept = {name: value for name, value in fields.items() if name not in UNDECIDED}
    purposes = sorted(timer.purpose for timer in job.timers)
    return kept, purposes, [(lock.scope, lock.run_id, lock.holder) for lock in job.locks]


def _money(decision: Decision) -> None:
    after, credits = decision.after, decision.before.credits if decision.before else "none"
    for entry in decision.ledger:
        assert entry.amount == after.cost > 0, "a whole price, or no row at all"
        assert entry.user_id == after.user_id
        credits = AFTER[entry.kind]  # type: ignore[index]
    assert after.credits == credits, "the job says how its money stands"


def _effects(message: Message | Submit, decision: Decision) -> None:
    """Work starts and stops exactly where the rows say so."""
    was, now = _at_work(decision.before), _at_work(decision.after)
    over = isinstance(message, Ended | Recovered)
    wanted: list[Any] = []
    if was is not None and (now is None or now.serial != was.serial) and not over:
        parked = decision.after.attempt is not None and decision.after.attempt.serial == was.serial
        wanted += [] if parked else [StopStage(was.serial)]
    if now is not None and (was is None or now.serial != was.serial):
        wanted.append(StartStage(now))
    assert list(decision.effects) == wanted, f"{decision.effects} where {wanted} was to be"


def _at_work(job: Snapshot | None) -> Attempt | None:
    attempt = job.attempt if job else None
    if attempt is None or attempt.status != "running" or attempt.holder != OUR_STAGE:
        return None
    return attempt


# ---------------------------------------------------------------- a job


def _attempt(definition: Definition, job: Snapshot) -> None:
    attempt, state = job.attempt, definition.states[job.status]
    if attempt is None:
        assert job.kind != "active", "an active state has its attempt"
        return
    assert job.kind == "active" or state.on_demand, f"an attempt in {job.status}"
    assert attempt.status in ("due", "running", "parked")
    assert (attempt.state, attempt.run_id, attempt.serial) == (job.status, job.run_id, job.serial)
    assert bool(attempt.holder) == (attempt.status != "due")
    assert attempt.number <= attempt.serial


def _line(definition: Definition, job: Snapshot) -> None:
    """In line for a slot: who can use one now, and nobody else."""
    attempt = job.attempt
    target = definition.onward_of(job.status, job.job_type)
    if job.kind == "queued":
        ready = bool(target) and definition.in_house(target, job.job_type)
        if ready and job.timer("run_at") is not None:
            assert job.run_at is not None
            assert job.line_at is None or job.line_at >= job.run_at, "in line before its time"
            return
    else:
        ready = attempt is not None and attempt.status == "due" and attempt.stage != EXTERNAL
        ready = ready and job.timer("backoff") is None
    assert (job.line_at is not None) == ready, f"line_at is {job.line_at}, ready {ready}"


def _timers(definition: Definition, job: Snapshot) -> None:
    timers = {timer.purpose: timer.due_at for timer in job.timers}
    assert len(timers) == len(job.timers), "one timer of a purpose"
    attempt = job.attempt
    running = attempt.status == "running" if attempt else False
    ours = running and attempt is not None and attempt.holder == OUR_STAGE
    assert job.deadline_at == timers.get("deadline")
    assert job.next_attempt_at == timers.get("retry", timers.get("backoff"))
    assert ours or not {"limit", "heartbeat"} & timers.keys(), "a clock without work"
    if ours and definition.states[job.status].limit_s:
        assert "limit" in timers, "work without a clock"
    assert (running and not ours) or "lease" not in timers
    if "backoff" in timers:
        assert attempt is not None
        assert (attempt.status, attempt.not_before) == ("due", timers["backoff"])
    if "retry" in timers:
        policy = definition.states[job.worked].retry
        assert policy is not None
        assert job.status == policy.failed[0]
    assert "lapse" not in timers or job.live
    assert timers.get("run_at", job.run_at) == job.run_at


def _locks(definition: Definition, job: Snapshot) -> None:
    locks = {lock.scope: lock for lock in definition.workflow.locks}
    for held in job.locks:
        assert job.status in locks[held.scope].guarded + locks[held.scope].held
        assert held.run_id == job.run_id, "a lock of another run"
        assert job.live, "a lock of a closed run"
    guarding = definition.lock_guarding(job.status)
    assert guarding is None or job.lock(guarding.scope) is not None, f"{job.status} is unlocked"
