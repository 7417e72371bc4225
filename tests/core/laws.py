"""What holds of every verdict and of every job, whatever was asked and in whichever state.

The laws are said once, here, and looked at from two sides: along random histories and from every
kind of state that a job can be in. A law that does not hold is an ``AssertionError`` with the
reason in it.
"""

from typing import Any

import msgspec

from jobrunner.core.access import allowed, foreign
from jobrunner.core.attempts import OUR_STAGE
from jobrunner.core.credits import AFTER
from jobrunner.core.decision import Decision, NoOp, StartStage, StopStage
from jobrunner.core.declaration.workflow import EXTERNAL, Definition
from jobrunner.core.features.pauses import OF_HELD_WORK
from jobrunner.core.job import Attempt, Snapshot
from jobrunner.core.messages import (
    Advance,
    Beat,
    Checkpoint,
    Claim,
    Do,
    Ended,
    Fired,
    Keep,
    Message,
    Move,
    Rebound,
    Recovered,
    Resume,
    Start,
    Submit,
    Told,
)
from jobrunner.errors import STATUS_OF_CODE, Refused

NO_OPS = frozenset(
    {
        "answered",
        "event_replayed",
        "late_result",
        "not_awaited",
        "not_in_line",
        "not_stuck",
        "not_paused",
        "nothing_to_recover",
        "paused",
        "progress_ignored",
        "put_aside",
        "ended",
        "replayed",
        "satisfied",
        "stays",
        "timer_gone",
        "timer_rests",
    }
)
UNDECIDED = frozenset(
    {
        "beat",
        "deadline_at",
        "heartbeat_at",
        "last_event_at",
        "locks",
        "progress",
        "progress_message",
        "timers",
        "updated_at",
        "version",
    }
)
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
            _version(said, rebound=isinstance(message, Rebound))
            _money(said)
            _effects(message, said)
            if before is not None:
                _entitled(definition, before, message, said)
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
        left = (job.timers, job.locks, job.attempt, job.line_at)
        assert left == ((), (), None, None), f"something is left at the end: {left}"
        assert job.credits != "held", "no hold is left open"
    if job.kind == "final":
        assert job.paused is None, "what has ended is not held back"
    if state.rests:
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
    may = allowed(definition, before.status, message.actor.roles(before))
    if isinstance(message, Do):
        asked, possible = message.command, may["commands"]
    else:
        asked, possible = message.to, may["statuses"]
    if asked == before.status:
        return
    never = {"FORBIDDEN", "UNKNOWN_COMMAND"}
    if isinstance(message, Move):
        never = {"FORBIDDEN", "ILLEGAL_TRANSITION", "TERMINAL_STATE"}
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


def _version(decision: Decision, rebound: bool) -> None:
    """It rises by one exactly when something decided changed; progress is counted beside it, and
    so is what an operator bound otherwise."""
    before, after = decision.before, decision.after
    if before is None:
        assert (after.version, after.beat) == (1, 0)
        return
    rows: list[Any] = [decision.hops, decision.ledger, decision.artifacts, decision.assets]
    rows += [decision.dead_letters, decision.keys]
    changed = (_decided(before) != _decided(after) and not rebound) or any(rows)
    if after.version == before.version:
        assert after.beat == before.beat + 1
        assert not changed, "something decided changed, and the version did not"
    else:
        assert (after.version, after.beat) == (before.version + 1, 0)
        assert changed or decision.audits, "a new version of the same"


def _decided(job: Snapshot) -> Any:
    fields = msgspec.structs.asdict(job)
    kept = {name: value for name, value in fields.items() if name not in UNDECIDED}
    if job.attempt is not None:
        kept["attempt"] = msgspec.structs.replace(job.attempt, kept={}, answers={})
    purposes = sorted(timer.purpose for timer in job.timers)
    return kept, purposes, [(lock.scope, lock.run_id, lock.holder) for lock in job.locks]


def _money(decision: Decision) -> None:
    after, credits = decision.after, decision.before.credits if decision.before else "none"
    for entry in decision.ledger:
        assert entry.amount == after.cost > 0, "a whole price, or no row at all"
        assert entry.user_id == after.user_id
        credits = AFTER[entry.kind]  # type: ignore[index]
    assert after.credits == credits, "the job says how its money stands"


def _entitled(
    definition: Definition, before: Snapshot, message: Message | Submit, decision: Decision
) -> None:
    """What has no right to be heard has no effect: the late, the early, the stale, the second."""
    after, at_work = decision.after, _at_work(before)
    match message:
        case Ended(serial=serial):
            assert at_work is not None, "nobody worked here"
            assert at_work.serial == serial, "a late result was taken"
        case Keep(serial=serial) | Checkpoint(serial=serial):
            assert at_work is not None, "nobody worked here"
            assert at_work.serial == serial, "a late result was kept"
        case Told(source=source, key=key):
            parked = before.attempt
            assert parked is not None, "nobody awaited a webhook"
            assert parked.status == "parked", "nobody awaits a webhook any more"
            awaited = (parked.source, parked.awaits)
            assert awaited == (source, f"{source}:{key}"), "a webhook for somebody else was taken"
            assert decision.webhook is not None, "a webhook was taken and is not remembered"
        case Recovered(alone=alone):
            assert at_work is not None, "what did not run did not die"
            spent = after.retry_count - before.retry_count
            assert not (spent or decision.hops) or (alone and before.deaths == 2), "it cost a retry"
        case Fired(purpose=purpose):
            timer = before.timer(purpose)
            assert timer is not None, "a timer that is gone fired"
            assert timer.due_at <= after.updated_at, "a timer fired early"
            assert timer not in after.timers, "a timer fired and is still there"
        case Claim():
            free = before.attempt is None or (before.attempt.status, before.attempt.holder) == (
                "due",
                "",
            )
            assert free, "what somebody holds was claimed"
        case Start():
            assert before.line_at is not None, "a slot for a job that was not in line"
    run_id = message.run_id if isinstance(message, Beat) else None
    run_id = message.report.run_id if isinstance(message, Move) else run_id
    assert run_id in (None, before.run_id), "a report on another run was taken"
    if before.stuck and isinstance(message, Start | Fired | Advance):
        raise AssertionError("a stuck job moved by itself")
    if isinstance(message, Rebound) and (before.stuck or before.paused):
        assert not decision.hops, "a job that was held back moved by itself"
    if before.paused:
        _held_back(before, message, decision)


def _held_back(before: Snapshot, message: Message | Submit, decision: Decision) -> None:
    """What was paused starts nothing before it is resumed, and only clocks of held work ring."""
    assert not isinstance(message, Start | Claim | Advance), "work began in a paused job"
    assert not any(isinstance(effect, StartStage) for effect in decision.effects), "a stage began"
    if isinstance(message, Fired):
        assert message.purpose in OF_HELD_WORK, f"{message.purpose} was not held back"
    if not isinstance(message, Resume) and decision.after.kind != "final":
        assert decision.after.paused == before.paused, "only a resume lets it go on"


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
    resumed = attempt.status == "due" and attempt.started_at is not None
    assert bool(attempt.holder) == (attempt.status != "due" or resumed)
    assert attempt.number <= attempt.serial
    if state.retry is not None:
        assert job.tries[job.status][1] < state.retry.max, "an attempt beyond the budget"


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
    guarding = definition.guarding.get(job.status)
    assert guarding is None or job.lock(guarding.scope) is not None, f"{job.status} is unlocked"
