"""Moving a job that is under way from its older declaration to the one of today.

Nothing of the job is done again or undone: it stands in the state of the same name, or in the one
that says it ``was`` that, with its run, its money and whatever clock it has. Where today's
declaration would have it otherwise (another stage, a deadline where there was none) it gets the
shape that it would have if it had come there now. Whoever is at work on it is not disturbed: such a
job stays, and so does one that could not go on there; it is told why.

A verdict is decided under the declaration of today. Of the older one nothing is asked but what the
snapshot says.
"""

from msgspec.structs import replace

from jobrunner.core.attempts import lock_for
from jobrunner.core.decision import NoOp
from jobrunner.core.declaration.params import Stale, params_of
from jobrunner.core.declaration.workflow import EXTERNAL, Definition, State
from jobrunner.core.draft import Case, Cause, Draft
from jobrunner.core.features.rebinding import begun, bring
from jobrunner.core.features.upgrades.upgrades import SHORT, Repinned, formerly
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import Migrate
from jobrunner.core.replies import Verdict
from jobrunner.core.steps import go_on, hop


def migrate(case: Case[Migrate]) -> Verdict:
    """Move it, or say in the answer of a no-op why it ``stays``."""
    today, job, message = case.definition, case.job, case.message
    if job.digest == today.digest or job.ended:
        return NoOp("satisfied", job)
    names = renamed(today)
    status = names.get(job.status, job.status)
    if why := _hindrance(today, job, status, names, message.settles):
        return NoOp("stays", job, {"stays": why})
    draft = _moved(case, status, names)
    if refused := go_on(draft, Cause("engine", message.reason)):
        return NoOp("stays", job, {"stays": f"{refused.code}: {refused.detail}"})
    decision = draft.tear_out()
    return replace(decision, repinned=Repinned(message.upgrade, job.digest, today.digest))


def renamed(today: Definition) -> dict[str, str]:
    """Map the names that states had before to those that they have."""
    return {was: state.name for state in today.workflow.states for was in formerly(state)}


def _moved(case: Case[Migrate], status: str, names: dict[str, str]) -> Draft:
    """The job in its new place, and every clock and lock of it as it has to be there."""
    today, job = case.definition, case.job
    draft = Draft(case, case.message.actor, "upgrade")
    attempt = job.attempt and replace(job.attempt, state=names.get(job.attempt.state, status))
    draft.decide(
        digest=today.digest,
        status=status,
        worked=names.get(job.worked, job.worked),
        tries={names.get(state, state): counted for state, counted in job.tries.items()},
        attempt=attempt,
    )
    if attempt is not None:
        draft.attempts[attempt.serial] = attempt
    text = f"moved from {job.digest[:SHORT]} to version {today.workflow.version}"
    reason = f"{text} ({today.digest[:SHORT]})"
    said = f"{reason}: {case.message.reason}" if case.message.reason else reason
    draft.hops += (hop(draft, job.status, status, Cause("admin", said)),)
    draft.log("job.migrated", was=job.digest, digest=today.digest, status=status)
    _guard(draft)
    bring(draft)
    _mind_deadline(draft)
    return draft


def _guard(draft: Draft) -> None:
    """The lock of the new place, where the job has none of its scope."""
    guarding = draft.definition.guarding.get(draft.job.status)
    if guarding is None or draft.job.lock(guarding.scope) is not None:
        return
    outside = not draft.definition.in_house(draft.job.status, draft.job.job_type)
    fresh = lock_for(draft, guarding.scope, outside)
    draft.set(locks=(*draft.job.locks, fresh))


def _mind_deadline(draft: Draft) -> None:
    """A deadline that runs keeps its moment; one that is new here begins now."""
    state, attempt = draft.state, draft.job.attempt
    wanted = state.deadline is not None and bool(state.deadline.after_s)
    ours = attempt is not None and attempt.stage != EXTERNAL
    armed = draft.job.timer("deadline") is not None
    if armed and (not wanted or ours):
        draft.disarm("deadline")
        draft.set(deadline_at=None)
    elif wanted and not ours and not armed and state.deadline is not None:
        due_at = draft.now + int(state.deadline.after_s * 1000)
        draft.arm("deadline", due_at)
        draft.set(deadline_at=due_at)


def _hindrance(
    today: Definition,
    job: Snapshot,
    status: str,
    names: dict[str, str],
    settles: frozenset[tuple[str, str, bool]],
) -> str:
    """Say why it cannot be moved; nothing, when it can."""
    state = today.states.get(status)
    if state is None:
        return f"no state of today is {job.status}, or was; give one `was`"
    if state.kind != job.kind:
        return f"{job.status} is {job.kind}, and {status} of today is {state.kind}"
    return (
        _unfit(today, job)
        or _at_work(job, state)
        or _in_another_run(job, state)
        or _locked_otherwise(today, job, status)
        or _lost_on_the_way_back(today, job, status, names)
        or _unsettled(job, status, settles)
    )


def _unfit(today: Definition, job: Snapshot) -> str:
    if job.job_type not in today.job_types:
        return f"the job type {job.job_type} is gone"
    try:
        params_of(today, job)
    except Stale as stale:
        return str(stale)
    return ""


def _at_work(job: Snapshot, state: State) -> str:
    attempt = job.attempt
    if attempt is None:
        return f"no attempt is open in {job.status}" if state.kind == "active" else ""
    if attempt.status != "due" or begun(job, attempt):
        return f"an attempt is under way in {job.status}; move it when that is over"
    if state.kind != "active" and not state.on_demand:
        return f"an attempt waits in {job.status}, where today none is started"
    return ""


def _in_another_run(job: Snapshot, state: State) -> str:
    waits = state.rests and job.live
    return f"its run is open, and {state.name} of today waits for a person" if waits else ""


def _locked_otherwise(today: Definition, job: Snapshot, status: str) -> str:
    known = {lock.scope: (*lock.guarded, *lock.held) for lock in today.workflow.locks}
    lost = [one.scope for one in job.locks if status not in known.get(one.scope, ())]
    return f"it holds the lock {lost[0]}, which is not held in {status} of today" if lost else ""


def _lost_on_the_way_back(
    today: Definition, job: Snapshot, status: str, names: dict[str, str]
) -> str:
    """A retry that is to come needs its state, and must rest where the job does."""
    if job.timer("retry") is None:
        return ""
    worked = today.states.get(names.get(job.worked, job.worked))
    retry = worked.retry if worked is not None else None
    if retry is not None and retry.mode == "round_trip" and retry.failed[:1] == (status,):
        return ""
    return f"it waits in {job.status} for its retry, and today none leads back from there"


def _unsettled(job: Snapshot, status: str, settles: frozenset[tuple[str, str, bool]]) -> str:
    if not job.cost or (status, job.credits, job.live) in settles:
        return ""
    return f"its credits are {job.credits}, which {status} of today would not settle"
