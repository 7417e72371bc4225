"""Taking an edge: what is checked before it, what leaving and entering a state bring along.

One step, in this order: table, guards, lock, run, money, leaving, entering. A path is several
steps in one decision. When a path is walked, ``go_on`` looks whether the engine itself takes the
job further in the same commit.
"""

from msgspec.structs import replace

from jobrunner.core.attempts import end, lock_for, open_attempt, quit_attempt
from jobrunner.core.credits import move_money
from jobrunner.core.decision import DeadLetter, EdgeTaken
from jobrunner.core.declaration.ask import Ask
from jobrunner.core.declaration.functions import permitted
from jobrunner.core.declaration.workflow import Edge, Guard, State, Trigger
from jobrunner.core.draft import Cause, Draft
from jobrunner.core.failed_stage import named, unnamed
from jobrunner.core.job import Failure, HeldLock, Run
from jobrunner.core.messages import Report
from jobrunner.core.units import AuditRecord
from jobrunner.errors import Refused

OF_A_STATE = ("deadline", "limit", "lease", "heartbeat", "backoff", "retry", "lapse")


def walk(draft: Draft, path: tuple[str, ...], cause: Cause) -> Refused | None:
    """Walk along a path, or nowhere: the first refusal ends it. A guard may divert its rest."""
    for target in path:
        if refused := step(draft, target, cause):
            return refused
        if draft.job.status != target:
            break
    return None


def step(draft: Draft, target: str, cause: Cause) -> Refused | None:
    """Take one edge."""
    edge = draft.definition.table[draft.job.status].get(target)
    if edge is None:
        return illegal(draft, target)
    for guard in edge.guards:
        if refused := _ask(draft, guard, target, cause):
            return _divert(draft, guard, refused, cause) if _diverts(draft, guard) else refused
    if refused := _locked(draft, target):
        return refused
    return _take(draft, edge, target, cause)


def go_on(draft: Draft, cause: Cause) -> Refused | None:
    """Take the job where the engine itself takes it from here, as far as that goes at once.
    ``cause`` is that of the step that came before: its reason and its failure go along."""
    while target := _next(draft):
        trigger: Trigger = "engine"
        if draft.state.kind == "active":
            end(draft, "skipped")
            trigger = "stage"
        if refused := step(draft, target, Cause(trigger, cause.reason, cause.failure)):
            return refused
    return None


def say_again(draft: Draft, cause: Cause) -> Refused | None:
    """Take an edge from a state to itself that only says: still at it. Clocks start afresh."""
    status = draft.job.status
    for guard in draft.definition.table[status][status].guards:
        if refused := _ask(draft, guard, status, cause):
            return refused
    draft.decide(heartbeat_at=draft.now, entered_at=draft.now)
    draft.hops += (hop(draft, status, status, cause),)
    draft.log("job.transition", from_status=status, to_status=status)
    if draft.job.timer("deadline"):
        _clock(draft, draft.state)
    return None


def illegal(draft: Draft, target: str) -> Refused:
    """Refuse an undeclared pair; name both states, and what would have been possible."""
    status, targets = draft.job.status, draft.definition.targets(draft.job.status)
    code = "TERMINAL_STATE" if draft.state.kind == "final" else "ILLEGAL_TRANSITION"
    return Refused(
        code,
        f"cannot go from {status!r} to {target!r}; from here: {', '.join(targets) or 'nowhere'}",
        current_status=status,
        attempted_status=target,
        allowed_next_statuses=targets,
    )


def question(draft: Draft, target: str = "", report: Report | None = None) -> Ask:
    """Ask a registered function about the draft as it stands. ``report`` stands in for what the
    message has reported so far."""
    params = draft.job.params if isinstance(draft.job.params, dict) else {}
    return Ask(
        definition=draft.definition,
        job=draft.job,
        message=draft.case.message,
        actor=draft.actor,
        params=params,
        facts=draft.case.facts,
        now=draft.now,
        report=draft.report if report is None else report,
        fields=getattr(draft.case.message, "fields", {}),
        target=target,
        fresh=draft.case.moment.id,
        before=draft.before,
    )


def _ask(draft: Draft, guard: Guard, target: str, cause: Cause) -> Refused | None:
    if guard.on and cause.trigger not in guard.on:
        return None
    if guard.otherwise and draft.diverted:
        return None
    return permitted(guard.call, question(draft, target))


def _diverts(draft: Draft, guard: Guard) -> bool:
    return bool(guard.otherwise) and not draft.diverted


def _divert(draft: Draft, guard: Guard, refused: Refused, cause: Cause) -> Refused | None:
    """Walk the refusal instead of answering it, and on from where it leads."""
    draft.diverted = True
    failure = named(draft, Failure(guard.code or refused.code, refused.detail, retryable=False))
    because = Cause("engine", cause.reason, failure, cause.outcome)
    return walk(draft, guard.otherwise, because) or go_on(draft, because)


def _locked(draft: Draft, target: str) -> Refused | None:
    lock = draft.definition.guarding.get(target)
    held = draft.job.lock(lock.scope) if lock else None
    if held is None or not draft.job.live or held.run_id == draft.job.run_id:
        return None
    return Refused(
        "JOB_ALREADY_RUNNING", f"run {held.run_id} is working on this job", run_id=held.run_id
    )


def _take(draft: Draft, edge: Edge, target: str, cause: Cause) -> Refused | None:
    source = draft.job.status
    to = draft.definition.states[target]
    untouched = draft.job
    if not to.rests and not draft.job.live:
        _open_run(draft)
    if edge.money and (refused := move_money(draft, edge.money, cause.reason)):
        draft.job = untouched
        return refused
    if to.failing and cause.failure is None:
        cause = _blamed(draft, to, cause)
    _leave(draft, target, cause)
    if edge.audit is not None:
        draft.audits += (AuditRecord(edge.audit.event, draft.actor.name, edge.audit.fields),)
        draft.log(edge.audit.event, **edge.audit.fields)
    draft.decided = True
    draft.hops += (hop(draft, source, target, cause),)
    draft.log("job.transition", from_status=source, to_status=target)
    enter(draft, to, source, cause)
    return None


def _blamed(draft: Draft, to: State, cause: Cause) -> Cause:
    """Give an end of a failing kind a failure, also where nobody named one. A job that comes from
    a failure keeps the reason of that."""
    if draft.state.failing and draft.job.failure_code is not None:
        return cause
    text = cause.reason or f"moved to {to.name!r} without a reason"
    return replace(cause, failure=named(draft, Failure(unnamed(to), text, retryable=False)))


def hop(draft: Draft, source: str | None, target: str, cause: Cause) -> EdgeTaken:
    trigger = cause.trigger
    event_id = draft.event.event_id if draft.event else None
    by_hand = trigger in ("user", "admin", "workflow")
    actor = draft.actor.name if by_hand else trigger
    return EdgeTaken(source, target, trigger, actor, cause.reason, draft.job.run_id, event_id)


def _leave(draft: Draft, target: str, cause: Cause) -> None:
    quit_attempt(draft, cause, target)
    job = draft.job
    if job.timers:
        draft.disarm(*OF_A_STATE)
    if job.line_at is not None or job.next_attempt_at is not None or job.deadline_at is not None:
        draft.set(line_at=None, next_attempt_at=None, deadline_at=None)


def _open_run(draft: Draft) -> None:
    """Open a run, since work is to be done."""
    opener = draft.actor.badge if draft.opener == "callback" else ""
    run = Run(draft.case.moment.id, draft.opener, draft.now, opener=opener)
    draft.set(run=run, tries={}, worked="", deaths=0)


def enter(draft: Draft, state: State, source: str | None, cause: Cause) -> None:
    """Stamps, run, locks, clocks and line of a state that was just entered."""
    came = draft.definition.states[source].kind if source else ""
    if came == "settled":
        _revive(draft)
    if state.kind == "active" or (state.ended and not state.failing):
        _forget(draft, state)
    job, run, locks = draft.job, draft.job.run, _locks_in(draft, state)
    progress = job.progress if state.entry is None else state.entry
    begins = came == "queued" or (run is not None and run.started_at == draft.now)
    works = state.kind == "active"
    draft.job = replace(
        job, status=state.name, kind=state.kind, progress=progress, locks=locks,
        entered_at=draft.now,
        started_at=draft.now if works and begins else job.started_at,
        heartbeat_at=draft.now if works else job.heartbeat_at,
    )  # fmt: skip
    if state.rests and run is not None and run.live:
        draft.set(run=Run(run.id, run.opened_by, run.started_at, live=False))
    if state.kind == "queued":
        _queue(draft)
    if works:
        open_attempt(draft, state.name, cause.not_before)
    else:
        _clock(draft, state)
    if state.ended:
        _end(draft, state)
    if state.kind == "final" and draft.job.paused is not None:
        draft.set(paused=None)
    if state.failing or state.remarks or state.dead_letter:
        _take_failure(draft, state, cause)


def _revive(draft: Draft) -> None:
    draft.set(
        completed_at=None,
        failure_code=None,
        failure_message=None,
        failed_stage=None,
        result=None,
        result_url=None,
        progress=0,
        progress_message=None,
        scheduled_at=None,
    )


def _forget(draft: Draft, state: State) -> None:
    """Clear what was said of an earlier try: of the next one, and of a good end, it would not be
    true."""
    if draft.job.failure_code is not None or draft.job.failure_message is not None:
        draft.set(failure_code=None, failure_message=None, failed_stage=None)
    if state.kind == "active" and draft.job.progress_message is not None:
        said_of_this = getattr(draft.case.message, "to", "") == state.name
        if not (said_of_this and draft.report.message):
            draft.set(progress_message=None)


def _locks_in(draft: Draft, state: State) -> tuple[HeldLock, ...]:
    """Scopes that the state lies outside of are freed; one that guards it is taken or kept."""
    definition, job = draft.definition, draft.job
    scopes, guarding = definition.scopes[state.name], definition.guarding.get(state.name)
    kept = {held.scope: held for held in job.locks if held.scope in scopes}
    if guarding is not None:
        outside = not definition.at(state.name, job.job_type).in_house
        kept[guarding.scope] = lock_for(draft, guarding.scope, outside)
    return tuple(kept.values())


def _queue(draft: Draft) -> None:
    job, now = draft.job, draft.now
    line_at = now if calls_for_slot(draft) else job.line_at
    scheduled_at = now if job.scheduled_at is None else job.scheduled_at
    draft.job = replace(job, line_at=line_at, scheduled_at=scheduled_at)


def calls_for_slot(draft: Draft) -> bool:
    """Say whether a stage of ours works behind this queue, and the time for it has come."""
    definition, job = draft.definition, draft.job
    behind = definition.onward_of(job.status, job.job_type)
    return bool(behind) and definition.in_house(behind, job.job_type) and not postponed(draft)


def postponed(draft: Draft) -> bool:
    """Say whether a later start was asked for. After its timer the clock may be set back."""
    timer = draft.job.timer("run_at")
    return timer is not None and timer.due_at > draft.now


def _clock(draft: Draft, state: State) -> None:
    """Set the deadline of a state where nobody works, and the lapse of a run that may be dead."""
    if state.deadline is not None and state.deadline.after_s:
        due_at = draft.now + int(state.deadline.after_s * 1000)
        draft.arm("deadline", due_at)
        draft.set(deadline_at=due_at)
    if draft.job.timers or state.name in draft.definition.holding:
        watch_lapse(draft, state)


def watch_lapse(draft: Draft, state: State) -> None:
    """Arm the clock that closes a run which rests here and nobody outside takes on."""
    lock = draft.definition.holding.get(state.name)
    lapses = lock is not None and lock.lapse_s and draft.job.live
    if lock is None or not lapses or _passes_on(draft, state):
        draft.disarm("lapse")
    elif draft.job.timer("lapse") is None:
        draft.arm("lapse", draft.now + int(lock.lapse_s * 1000))


def _end(draft: Draft, state: State) -> None:
    job, good = draft.job, state.ends in ("completed", "partial")
    url = job.asset_url if good else job.result_url
    draft.job = replace(
        job, completed_at=draft.now, timers=(), line_at=None, run_at=None, result_url=url
    )
    if good:
        draft.log(
            "job.completed",
            status=state.name,
            asset_types=job.asset_types,
            artifacts=sorted(job.artifacts),
        )
    if state.ends == "canceled":
        draft.log("job.canceled")


def _take_failure(draft: Draft, state: State, cause: Cause) -> None:
    """Store why in a failure state; also in one that only remarks on it."""
    failure = cause.failure
    if failure is not None and (state.failing or state.remarks):
        draft.set(
            failure_code=failure.code,
            failure_message=failure.message,
            failed_stage=failure.stage or None,
            correlation_id=draft.job.correlation_id or draft.job.run_id or draft.job.id,
        )
    if state.dead_letter:
        why = cause.reason if cause.reason in ("exhausted", "superseded") else "permanent"
        known = failure or Failure(
            draft.job.failure_code or "",
            draft.job.failure_message or "",
            draft.job.failed_stage or "",
        )
        draft.dead_letters += (DeadLetter(why, known, hidden=why == "superseded"),)
    if state.ends == "failed":
        _log_failure(draft)


def _log_failure(draft: Draft) -> None:
    job = draft.job
    draft.log(
        "job.failed",
        failure_code=job.failure_code,
        failure_message=job.failure_message,
        failed_stage=job.failed_stage,
        correlation_id=job.correlation_id,
        refund=job.cost if job.credits in ("refunded", "released") else 0,
    )


def _next(draft: Draft) -> str:
    job = draft.job
    here = draft.definition.at(job.status, job.job_type)
    state, target = here.state, here.onward
    if job.stuck or job.paused:
        return ""
    if state.kind == "active":
        return state.done if state.produces and _superfluous(draft, state) else ""
    if not target:
        return ""
    if state.kind == "queued":
        waits = draft.definition.states[target].kind == "active" or postponed(draft)
        return "" if waits else target
    return target if _passes_on(draft, state) and not postponed(draft) else ""


def _superfluous(draft: Draft, state: State) -> bool:
    """Say whether the product of the stage is there, and its file reads back as recorded."""
    job, made = draft.job, draft.job.artifacts.get(state.produces)
    if made is None or not made.asset or made.asset not in draft.case.facts.verified:
        return False
    due = job.attempt is not None and job.attempt.status == "due"
    return due and draft.definition.goes_on(state.name, job.job_type)


def _passes_on(draft: Draft, state: State) -> bool:
    target = draft.definition.onward_of(state.name, draft.job.job_type)
    if state.kind != "waiting" or not target:
        return False
    nobody_works = draft.definition.states[target].kind != "active"
    return nobody_works or (draft.job.live and draft.definition.goes_on(target, draft.job.job_type))
