"""Attempts: executions of the stage of an active state, one open at a time.

An attempt is opened (``due``), held (``running``, by our own stage host or by an outside worker),
perhaps ``parked``, and ended with an outcome. It is numbered within its state and run; its serial
number counts over the job's life, so that a late result is always recognised.
"""

from typing import Any

from msgspec.structs import replace

from jobrunner.core.decision import StartStage, StopStage
from jobrunner.core.declaration.workflow import EXTERNAL, Retry
from jobrunner.core.draft import Cause, Draft, armed, without
from jobrunner.core.features.turns.halts import halted_by
from jobrunner.core.job import Attempt, Failure, HeldLock, Snapshot, Timer
from jobrunner.core.messages import Ended, Recovered

OUR_STAGE = "stage"
CLAIM_LEASE_S = 60
OVER = (Ended, Recovered)
OF_AN_ATTEMPT = ("limit", "lease", "heartbeat", "backoff", "deadline")


def open_attempt(draft: Draft, state: str, not_before: int = 0) -> Attempt:
    """Open the next attempt, due now or after its backoff; in-process it gets in line."""
    job = draft.job
    there = draft.definition.at(state, job.job_type)
    stage = there.state.on_demand or (state == job.status and there.stage) or EXTERNAL
    executions, failures = job.tries.get(state, (0, 0))
    attempt = Attempt(
        serial=job.serial + 1,
        state=state,
        stage=stage,
        run_id=job.run_id,
        number=executions + 1,
        status="due",
        opened_at=draft.now,
        not_before=not_before,
    )
    draft.attempts[attempt.serial] = attempt
    tries = {**job.tries, state: (executions + 1, failures)}
    draft.job = replace(job, attempt=attempt, serial=attempt.serial, worked=state, tries=tries)
    _line_up(draft, attempt)
    _hand_over(draft, attempt)
    return attempt


def rebind(draft: Draft, stage: str) -> None:
    """Make the open attempt, on which nobody has begun, as it would be if it were opened now; its
    backoff, if it has one, goes on."""
    attempt = amend(draft, stage=stage, status="due", holder="", started_at=None, epoch=0)
    draft.disarm("deadline")
    draft.set(deadline_at=None)
    if stage == EXTERNAL:
        draft.set(line_at=None)
        _external_deadline(draft, max(attempt.not_before, draft.now))
    elif draft.job.line_at is None and draft.job.timer("backoff") is None:
        draft.set(line_at=draft.now)
    _hand_over(draft, attempt)


def lock_for(draft: Draft, scope: str, outside: bool) -> HeldLock:
    """Make the lock on work in this scope, for this service or for somebody outside."""
    run_id, epoch = draft.job.run_id, draft.case.moment.epoch
    if not outside:
        return HeldLock(scope, run_id, "stage", epoch)
    lease_s = draft.definition.workflow.lease_s
    until = draft.now + int(lease_s * 1000) if lease_s else None
    return HeldLock(scope, run_id, "external", epoch, until)


def hold(draft: Draft, holder: str, claimant: str = "") -> Attempt:
    """Give the open attempt to whoever starts it: our stage host, or an outside worker, who has
    claimed it and gets a lease."""
    job, now = draft.job, draft.now
    assert job.attempt is not None, f"job {job.id} has no attempt to hold"
    attempt = replace(
        job.attempt,
        status="running",
        holder=holder,
        claimant=claimant,
        started_at=now,
        epoch=draft.case.moment.epoch,
        not_before=0,
    )
    draft.attempts[attempt.serial] = attempt
    draft.decided = True
    timers, locks = without(job.timers, ("backoff",)), job.locks
    if holder == OUR_STAGE:
        timers, locks = _limited(draft, attempt, timers), _ours(locks, attempt.epoch)
    draft.job = replace(
        job, attempt=attempt, timers=timers, locks=locks, line_at=None, next_attempt_at=None,
        heartbeat_at=now,
    )  # fmt: skip
    if holder == OUR_STAGE:
        pulse(draft, attempt)
        draft.effects += (StartStage(attempt),)
        return attempt
    _external_deadline(draft, draft.now)
    if claimant:
        draft.arm("lease", draft.now + int(CLAIM_LEASE_S * 1000))
        renew(draft)
    return attempt


def pulse(draft: Draft, attempt: Attempt) -> None:
    """Take a sign of life from our own stage: its silence is counted afresh. A parked one keeps
    none."""
    silence_s = draft.definition.states[attempt.state].heartbeat_s
    if silence_s and attempt.status == "running":
        draft.arm("heartbeat", draft.now + int(silence_s * 1000))


def renew(draft: Draft) -> None:
    """Take a sign of life from outside: the claim and the locks of its run last longer."""
    if draft.job.timer("lease"):
        draft.arm("lease", draft.now + int(CLAIM_LEASE_S * 1000))
    until = draft.now + int(draft.definition.workflow.lease_s * 1000)
    draft.set(locks=tuple(_renewed(lock, until) for lock in draft.job.locks))


def park(draft: Draft, awaits: str, await_s: float, source: str = "") -> None:
    """Park the attempt until a callback: no slot, no task, only a deadline; without one of its own
    or the state's, the time limit of the work."""
    amend(draft, status="parked", awaits=awaits, source=source)
    draft.disarm("limit", "heartbeat")
    deadline, limit_s = draft.state.deadline, draft.state.limit_s
    seconds = await_s or (deadline.after_s if deadline else 0) or limit_s
    if seconds:
        _set_deadline(draft, draft.now, seconds)
    draft.decided = True


def resume(draft: Draft, **changes: Any) -> None:
    """Put the parked attempt back in line: what it awaited is there, and among ``changes``."""
    attempt = amend(draft, status="due", awaits="", source="", **changes)
    timers = without(draft.job.timers, ("deadline", "limit", "heartbeat"))
    draft.decide(deadline_at=None, timers=timers)
    _line_up(draft, attempt)
    keep_the_slot(draft)


def keep_the_slot(draft: Draft) -> None:
    """Begin the job's next attempt in this commit, where the slot is lent on, or to a newborn."""
    job, facts = draft.job, draft.case.facts
    attempt = job.attempt
    if attempt is None or job.line_at is None or attempt.stage not in facts.lent:
        return
    if draft.definition.states[attempt.state].one_at_a_time is not None:
        return
    if not job.stuck and halted_by(draft.definition, job, facts) is None:
        hold(draft, OUR_STAGE)


def end(draft: Draft, outcome: str, failure: Failure | None = None) -> None:
    """End the open attempt, and stop its clocks."""
    job, over = draft.job, draft.job.attempt
    if over is None:
        return
    ended = replace(over, status="ended", outcome=outcome, ended_at=draft.now, failure=failure)
    draft.attempts[over.serial] = ended
    draft.decided = True
    draft.job = replace(
        job, attempt=None, timers=without(job.timers, OF_AN_ATTEMPT), line_at=None,
        next_attempt_at=None, deadline_at=None,
        deaths=job.deaths if outcome == "interrupted" else 0,
    )  # fmt: skip


def quit_attempt(draft: Draft, cause: Cause, target: str = "") -> None:
    """Quit the open attempt, since its state is being left: a stage of ours that runs it must
    stop."""
    attempt = draft.job.attempt
    if attempt is None:
        return
    if _at_work(draft, attempt):
        draft.effects += (StopStage(attempt.serial),)
    end(draft, cause.outcome or _word(draft, cause, target), cause.failure)


def _word(draft: Draft, cause: Cause, target: str) -> str:
    """Name how an attempt ended, when only the state is known that the job was moved to."""
    state = draft.definition.states[draft.job.status]
    if target and target in (state.partial, state.rejected):
        return "partial" if target == state.partial else "rejected"
    if cause.failure is not None:
        return "failed"
    return "done" if target and target == state.done else "left"


def _at_work(draft: Draft, attempt: Attempt) -> bool:
    """Say whether a stage of ours is on it, other than the one that just said that it is over."""
    ours = attempt.holder == OUR_STAGE and attempt.status == "running"
    return ours and not isinstance(draft.case.message, OVER)


def at_work(job: Snapshot) -> bool:
    """Our own stage host runs the open attempt now."""
    attempt = job.attempt
    return attempt is not None and attempt.status == "running" and attempt.holder == OUR_STAGE


def attempt_of(job: Snapshot) -> Attempt:
    assert job.attempt is not None, f"job {job.id} has no open attempt"
    return job.attempt


def amend(draft: Draft, **changes: Any) -> Attempt:
    """Change the open attempt, and return it."""
    assert draft.job.attempt is not None
    attempt = replace(draft.job.attempt, **changes)
    draft.attempts[attempt.serial] = attempt
    draft.job = replace(draft.job, attempt=attempt)
    return attempt


def count_failure(draft: Draft, state: str) -> int:
    """Count one more failure of this state in this run, and return how many there are now."""
    executions, failures = draft.job.tries.get(state, (0, 0))
    draft.set(tries={**draft.job.tries, state: (executions, failures + 1)})
    return failures + 1


def backoff_s(retry: Retry, failures: int, jitter: float, at_least_s: float = 0) -> float:
    """min(cap, base × factor^(n−1)) ± jitter, raised to what the provider asked for."""
    exponent = min(failures - 1, 63)
    delay_s = min(retry.cap_s, retry.base_s * retry.factor**exponent)
    return max(delay_s * (1 + retry.jitter * (2 * jitter - 1)), at_least_s)


def _line_up(draft: Draft, attempt: Attempt) -> None:
    later = attempt.not_before > draft.now
    if later:
        draft.arm("backoff", attempt.not_before)
        draft.set(next_attempt_at=attempt.not_before)
    if attempt.stage == EXTERNAL:
        _external_deadline(draft, max(attempt.not_before, draft.now))
    elif not later:
        draft.job = replace(draft.job, line_at=draft.now)


def _hand_over(draft: Draft, attempt: Attempt) -> None:
    """Give the lock of the state to those who are to work on this attempt."""
    guarding = draft.definition.guarding.get(attempt.state)
    held = draft.job.lock(guarding.scope) if guarding else None
    outside = attempt.stage == EXTERNAL
    if held is None or (held.holder == "external") == outside:
        return
    locks = draft.job.locks
    fresh = lock_for(draft, held.scope, outside)
    draft.set(locks=tuple(fresh if lock is held else lock for lock in locks))


def _external_deadline(draft: Draft, start: int) -> None:
    """Let the state's own deadline watch, from when work may begin: no stage of ours does."""
    deadline = draft.definition.states[draft.job.status].deadline
    if draft.definition.is_remote(draft.job.status, draft.job.job_type):
        return  # a worker is waited for as a slot is, and watches the stage as the house does
    if deadline is not None and deadline.after_s:
        _set_deadline(draft, start, deadline.after_s)


def _set_deadline(draft: Draft, start: int, seconds: float) -> None:
    due_at = start + int(seconds * 1000)
    draft.set(timers=armed(draft.job.timers, "deadline", due_at), deadline_at=due_at)


def _limited(draft: Draft, attempt: Attempt, timers: tuple[Timer, ...]) -> tuple[Timer, ...]:
    limit_s = draft.definition.states[attempt.state].limit_s
    return armed(timers, "limit", draft.now + int(limit_s * 1000)) if limit_s else timers


def _ours(locks: tuple[HeldLock, ...], epoch: int) -> tuple[HeldLock, ...]:
    return tuple([HeldLock(lock.scope, lock.run_id, "stage", epoch) for lock in locks])


def _renewed(lock: HeldLock, until: int) -> HeldLock:
    if lock.holder != "external":
        return lock
    return replace(lock, lease_until=max(until, lock.lease_until or 0))
