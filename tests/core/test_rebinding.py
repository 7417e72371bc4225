"""What becomes of jobs when stages are bound otherwise: from every kind of state that a job can be
in under one binding it comes into a shape that it could have been given under the other.

Five lifecycles and two made-up ones, from outside to the house and back, all stages or only one.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from jobrunner.check.checking import check
from jobrunner.core.attempts import OUR_STAGE
from jobrunner.core.decide import decide
from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.declaration.states import REMOTE
from jobrunner.core.declaration.workflow import EXTERNAL, Definition
from jobrunner.core.features.bindings import differences, stage_behind
from jobrunner.core.job import Attempt, Failure, Snapshot
from jobrunner.core.messages import Answered, Beat, Moment, Rebound
from tests.core.explore import births_of, explore, plenty
from tests.core.homeward import MOODS, homeward
from tests.core.laws import lawful
from tests.core.test_totality import PARAMS
from tests.core.workshop import RELAY, WORKSHOP
from tests.driving import WORKER, World, bound, code, outside, varied
from tests.standing import CUTX, LIFECYCLES

A_FEW = 120
PLAIN = {"workshop": WORKSHOP, "relay": RELAY} | {
    name: lifecycle.definition for name, lifecycle in LIFECYCLES.items()
}


def some_outside(definition: Definition, but: str) -> Definition:
    """Everything in the house but one state."""
    states = tuple(
        replace(state, stage={"*": EXTERNAL}) if state.name == but else state
        for state in bound(definition).workflow.states
    )
    return varied(definition, states=states)


def elsewhere(definition: Definition) -> Definition:
    """Everything outside, and all of it run by workers that have the plugins."""
    states = tuple(
        replace(state, remote=("*",)) if state.kind == "active" or state.on_demand else state
        for state in outside(definition).workflow.states
    )
    return varied(definition, states=states)


def directions() -> Iterator[tuple[str, Definition, Definition]]:
    for name, definition in PLAIN.items():
        house, away = bound(definition), outside(definition)
        yield f"{name}, to the house", away, house
        yield f"{name}, to outside", house, away
        active = [state.name for state in definition.workflow.states if state.kind == "active"]
        if name in ("relay", "cutx"):
            far = elsewhere(definition)
            yield f"{name}, to workers elsewhere", away, far
            yield f"{name}, from workers elsewhere", far, away
        if len(active) > 1:
            mixed = some_outside(definition, active[1])
            yield f"{name}, {active[1]} to the house", mixed, house
            yield f"{name}, {active[1]} to outside", house, mixed


DIRECTIONS = {
    name: (before, after)
    for name, before, after in directions()
    if not (check(before) or check(after))
}


@pytest.mark.parametrize("name", DIRECTIONS)
def test_every_job_comes_into_the_shape_of_today(name: str) -> None:
    """Whatever state it is in: as if it had come there under today's bindings, in place, once."""
    before, today = DIRECTIONS[name]
    seen = changed = 0
    for job in explore(before, births_of(before, PARAMS), A_FEW, lambda *_: None):
        said = rebound(today, job)
        seen += 1
        lawful(today, job, Rebound(), said)
        after = said.after if isinstance(said, Decision) else job
        changed += after != job
        in_shape(today, after)
        if job.attempt is not None and begun(job, job.attempt):
            assert after.attempt == job.attempt, "somebody was at work on this"
        assert isinstance(rebound(today, after), NoOp), "a second time changes nothing"
        if isinstance(said, Decision) and not said.hops:
            assert (after.version, after.beat) == (job.version, job.beat + 1)
            assert untouched(job) == untouched(after)
        for mood in MOODS:
            comes_home(today, after, mood)
    assert seen
    assert changed, "nothing was ever brought anywhere"


@pytest.mark.parametrize("name", [name for name in DIRECTIONS if name.endswith("to outside")])
def test_there_and_back_fits_again(name: str) -> None:
    """Changed, and changed back before anybody came: the old binding's shape again."""
    before, between = DIRECTIONS[name]
    for job in explore(before, births_of(before, PARAMS), A_FEW, lambda *_: None):
        there = rebound(between, job)
        back = rebound(before, there.after) if isinstance(there, Decision) else there
        in_shape(before, back.after if isinstance(back, Decision) else job)


def test_what_awaits_an_answer_ends_where_it_was_begun() -> None:
    """Parked, and answered and in line again: the provider was asked, and is not asked twice. The
    attempt after it is an outside worker's."""
    world = World(bound(CUTX.definition))
    job_id = world.born("static_ad", {"product_id": "lamp-7"})
    world.start(job_id)
    world.ended(job_id, "parked", awaits="prediction-1", await_s=60)
    world.definition = outside(CUTX.definition)
    assert code(world.tell(job_id, Rebound())) == "stays"
    assert code(world.tell(job_id, Answered(WORKER, "prediction-1", {"url": "here"}))) == "noted"
    assert code(world.tell(job_id, Rebound())) == "stays"
    assert code(world.start(job_id)) == "noted"
    attempt = world.jobs[job_id].attempt
    assert attempt is not None
    assert (attempt.holder, attempt.answers) == (OUR_STAGE, {"prediction-1": {"url": "here"}})
    world.ended(job_id, "failed", Failure("NETWORK", "nobody answers"))
    assert code(world.claim(job_id)) == "JOB_ALREADY_RUNNING"
    world.fire(job_id, "backoff")
    assert code(world.claim(job_id)) == "noted"
    (lock,) = world.jobs[job_id].locks
    assert lock.holder == "external", "the lock goes with the work"


def test_what_a_worker_claimed_stays_the_workers_until_its_lease() -> None:
    world = World(outside(CUTX.definition))
    job_id = world.born("static_ad", {"product_id": "lamp-7"})
    world.claim(job_id)
    world.definition = bound(CUTX.definition)
    assert code(world.tell(job_id, Rebound())) == "stays"
    assert code(world.tell(job_id, Beat(WORKER, 50))) == "noted"
    world.fire(job_id, "lease")
    world.fire(job_id, "backoff")
    assert world.jobs[job_id].line_at is not None, "the next attempt is the house's"


def test_only_what_differs_is_looked_at() -> None:
    """Nothing on a start that is like the last one; a place alone where only that was changed."""
    before = bound(CUTX.definition)
    known = [replace(one, settled=True) for one in differences([before], (), 5)]
    assert differences([before], known, 6) == ()
    ad = {f"processing.{name}": "test.stage" for name in before.job_types}
    ad["processing.static_ad"] = EXTERNAL
    states = tuple(
        replace(state, stage={name.partition(".")[2]: stage for name, stage in ad.items()})
        if state.name == "processing"
        else state
        for state in before.workflow.states
    )
    today = Definition(
        replace(before.workflow, states=states), before.functions, before.structs, before.digest
    )
    changed = differences([today], known, 7)
    assert {(one.status, one.job_type) for one in changed} == {
        ("queued", "static_ad"),
        ("processing", "static_ad"),
    }
    assert {(one.was, one.stage, one.settled, one.changed_at) for one in changed} == {
        ("test.stage", EXTERNAL, False, 7)
    }


def test_workers_elsewhere_are_another_binding_than_outside() -> None:
    """To a job both are outside; to whoever reads what was changed they are not."""
    away, far = outside(CUTX.definition), elsewhere(CUTX.definition)
    far = Definition(far.workflow, away.functions, away.structs, away.digest)
    known = [replace(one, settled=True) for one in differences([away], (), 5)]
    there = differences([far], known, 6)
    assert {one.status for one in there} == {"pending", "queued", "processing"}
    assert {(one.was, one.stage) for one in there} == {(EXTERNAL, REMOTE)}
    back = differences([away], [replace(one, settled=True) for one in there], 7)
    assert {(one.was, one.stage) for one in back} == {(REMOTE, EXTERNAL)}
    assert differences([far], [replace(one, settled=True) for one in there], 7) == ()


def test_a_change_that_was_not_finished_is_made_again_whatever_is_bound_now() -> None:
    """The last start died in the middle: jobs stand in the one shape or in the other."""
    before, between = bound(CUTX.definition), outside(CUTX.definition)
    between = Definition(between.workflow, before.functions, before.structs, before.digest)
    known = [replace(one, settled=True) for one in differences([before], (), 5)]
    begun = differences([between], known, 6)
    assert {one.spot for one in differences([between], begun, 7)} == {one.spot for one in begun}
    back = differences([before], begun, 7)
    assert {one.spot for one in back} == {one.spot for one in begun}
    assert {(one.was, one.stage) for one in back} == {(EXTERNAL, "test.stage")}


def rebound(today: Definition, job: Snapshot) -> Any:
    moment = Moment(job.updated_at + 5_000, f"run-{job.version + 1}", epoch=2)
    return decide(today, job, Rebound(), plenty(), moment)


def in_shape(today: Definition, job: Snapshot) -> None:
    """Said without the code that brings it there."""
    state, attempt = today.states[job.status], job.attempt
    stage = stage_behind(today, job.status, job.job_type)
    lapse = next((lock.lapse_s for lock in today.workflow.locks if job.status in lock.held), 0)
    target = today.onward_of(job.status, job.job_type)
    passes = state.kind == "waiting" and job.live and bool(target)
    passes = passes and today.goes_on(target, job.job_type)
    if not state.on_demand and passes and not (job.stuck or job.paused):
        raise AssertionError(f"it rests in {job.status}, and {stage} waits for it")
    if state.kind == "waiting" and job.live and lapse:
        assert (job.timer("lapse") is None) == passes, "a run lapses where nobody takes it on"
    if attempt is None:
        return
    if begun(job, attempt):
        assert attempt.stage == EXTERNAL or attempt.started_at is not None
        return
    assert attempt.stage == stage, f"for {attempt.stage}, and {stage} is to work on it"
    guarding = today.guarding.get(job.status)
    held = job.lock(guarding.scope) if guarding else None
    assert held is None or (held.holder == "external") == (stage == EXTERNAL)
    deadline = state.deadline
    if stage != EXTERNAL:
        assert attempt.status == "due"
        assert (job.timer("deadline"), job.timer("lease"), attempt.holder) == (None, None, "")
    elif today.is_remote(job.status, job.job_type):
        assert job.timer("deadline") is None, "it waits for a worker as it would for a slot"
    elif deadline is not None and deadline.after_s:
        assert job.timer("deadline") is not None, "nobody outside need come, and no clock runs"


def begun(job: Snapshot, attempt: Attempt) -> bool:
    """A claimed one, one that runs here, and one that awaits an answer or has got it."""
    if attempt.status == "running":
        return attempt.holder == OUR_STAGE or job.timer("lease") is not None
    return attempt.status == "parked" or attempt.started_at is not None


def untouched(job: Snapshot) -> Any:
    """Everything that no binding has to do with."""
    timers = {one for one in job.timers if one.purpose not in ("deadline", "lapse")}
    attempt = job.attempt and (job.attempt.serial, job.attempt.number, job.attempt.not_before)
    return (
        job.status, job.run, job.tries, job.credits, job.artifacts, job.marks, job.stuck,
        job.paused, job.failure_code, job.progress, job.scheduled_at, timers, attempt,
        [(lock.scope, lock.run_id) for lock in job.locks],
    )  # fmt: skip


def comes_home(today: Definition, job: Snapshot, mood: Any) -> None:
    """Nobody looks after it any more, and it comes to rest all the same."""
    told = [job]

    def tell(message: Any) -> tuple[Snapshot, object]:
        now = told[-1].updated_at + 1_000
        now = max(now, getattr(message, "due_at", now))
        said = decide(today, told[-1], message, plenty(), Moment(now, f"run-{len(told)}"))
        told.append(said.after if isinstance(said, Decision) else told[-1])
        return told[-1], said

    for _ in homeward(today, job, mood, tell):
        pass
