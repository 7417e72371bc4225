"""Jobs moved to another declaration: from every kind of state that a job can be in they come into
the place of the new name, with run, money, locks and clocks, or stay and are told why.

Five lifecycles and two made-up ones, with every state renamed whose name means nothing else.
"""

from collections import Counter
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from jobrunner.check.checking import check
from jobrunner.check.credits import standings
from jobrunner.core.decide import decide
from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.declaration.workflow import (
    Deadline,
    Definition,
    Edge,
    Lock,
    State,
    Workflow,
)
from jobrunner.core.features.rebinding import begun
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import Migrate, Moment
from tests.core.explore import births_of, explore, plenty
from tests.core.homeward import MOODS
from tests.core.laws import standing
from tests.core.test_rebinding import PLAIN, comes_home, in_shape
from tests.core.test_totality import PARAMS
from tests.driving import ADMIN, bound, outside, varied

A_FEW = 120
MEANS_MORE = {"failed", "canceled", "completed", "partial", "rejected", "expired", "queued"}
MEANS_MORE |= {"waiting", "active", "settled", "final", "running", "done", "dead_letter"}


def renamed(definition: Definition) -> Definition:
    """The next version: the same under other names."""
    names = {state.name for state in definition.workflow.states} - MEANS_MORE
    told = msgspec.json.decode(msgspec.json.encode(definition.workflow))
    states = [state["name"] for state in told["states"]]
    told = _renamed(told, names)
    for was, state in zip(states, told["states"], strict=True):
        if was in names:
            state["was"] = was
    workflow = msgspec.convert(told | {"version": "2"}, Workflow, strict=False)
    return Definition(workflow, definition.functions, definition.structs)


def _renamed(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {_renamed(key, names): _renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, names) for inner in value]
    return f"{value}.new" if isinstance(value, str) and value in names else value


def migrated(today: Definition, job: Snapshot) -> Any:
    moment = Moment(job.updated_at + 5_000, f"run-{job.version + 1}", epoch=2)
    message = Migrate(ADMIN, "upgrade-1", "a new version", standings(today))
    return decide(today, job, message, plenty(), moment)


@pytest.mark.parametrize("house", [True, False], ids=["in the house", "outside"])
@pytest.mark.parametrize("name", PLAIN)
def test_every_job_at_rest_moves_and_goes_on(name: str, house: bool) -> None:
    """Nothing but the names has changed, so nothing but somebody at work may keep a job."""
    before = (bound if house else outside)(PLAIN[name])
    today = renamed(before)
    if check(before) or check(today):
        pytest.skip("the checker wants it otherwise")
    seen = Counter[str]()
    for job in explore(before, births_of(before, PARAMS), A_FEW, lambda *_: None):
        said = migrated(today, job)
        if job.ended:
            assert isinstance(said, NoOp)
            assert said.name == "satisfied"
            continue
        seen["stays" if isinstance(said, NoOp) else "moves"] += 1
        if isinstance(said, NoOp):
            assert said.answer["stays"].startswith("an attempt is under way"), said.answer
            assert job.attempt is not None
            assert job.attempt.status != "due" or begun(job, job.attempt)
            continue
        moved(today, job, said)
        assert migrated(today, said.after).name == "satisfied", "it is moved once"
        for mood in MOODS:
            comes_home(today, said.after, mood)
    assert seen["moves"]


def moved(today: Definition, job: Snapshot, said: Decision) -> None:
    after, (hop, *_) = said.after, said.hops
    standing(today, after)
    in_shape(today, after)
    assert after.version == job.version + 1
    assert after.digest == today.digest
    assert said.repinned is not None
    assert (said.repinned.was, said.repinned.became) == (job.digest, today.digest)
    assert (hop.from_status, hop.trigger, hop.actor) == (job.status, "admin", ADMIN.name)
    assert hop.reason is not None
    assert "version 2" in hop.reason
    assert "a new version" in hop.reason
    if len(said.hops) > 1:
        return  # the engine took it on, as it would have under the older one
    assert hop.to_status in (job.status, f"{job.status}.new")
    kept = (job.run, job.credits, job.cost, job.stuck, job.paused, job.artifacts, job.params)
    assert kept == (
        *(after.run, after.credits, after.cost, after.stuck, after.paused),
        *(after.artifacts, after.params),
    )
    assert {lock.scope for lock in job.locks} == {lock.scope for lock in after.locks}
    assert {t.purpose: t.due_at for t in job.timers} == {t.purpose: t.due_at for t in after.timers}


# ---------------------------------------------------------------- what keeps a job


def some_job(definition: Definition, status: str, **traits: Any) -> Snapshot:
    """One that stands there, as the search finds it."""
    for job in explore(definition, births_of(definition, PARAMS), 200, lambda *_: None):
        fits = all(getattr(job, name) == value for name, value in traits.items())
        if job.status == status and fits:
            return job
    raise AssertionError(f"no job stands in {status} with {traits}")


def states_with(definition: Definition, status: str, **changes: Any) -> tuple[State, ...]:
    return tuple(
        replace(state, **changes) if state.name == status else state
        for state in definition.workflow.states
    )


def stays(today: Definition, job: Snapshot) -> str:
    said = migrated(today, job)
    assert isinstance(said, NoOp), said
    return str(said.answer["stays"])


WORKSHOP = bound(PLAIN["workshop"])
NAMES = [state.name for state in WORKSHOP.workflow.states]


def rest(definition: Definition) -> tuple[str, Snapshot]:
    """A status in which a job can rest without an attempt, with such a job."""
    for job in explore(definition, births_of(definition, PARAMS), 200, lambda *_: None):
        if not job.ended and job.attempt is None and job.kind == "waiting":
            return job.status, job
    raise AssertionError("no job ever rests")


def test_a_state_that_is_gone_keeps_its_jobs() -> None:
    status, job = rest(WORKSHOP)
    states = tuple(state for state in WORKSHOP.workflow.states if state.name != status)
    edges = tuple(
        edge for edge in WORKSHOP.workflow.edges if status not in (edge.source, edge.target)
    )
    today = varied(WORKSHOP, states=states, edges=edges, version="2")
    said = decide(today, job, Migrate(ADMIN, "upgrade-1"), plenty(), Moment(job.updated_at))
    assert isinstance(said, NoOp)
    assert said.answer["stays"] == f"no state of today is {status}, or was; give one `was`"


def test_a_state_of_another_kind_keeps_its_jobs() -> None:
    status, job = rest(WORKSHOP)
    today = varied(WORKSHOP, states=states_with(WORKSHOP, status, kind="settled"), version="2")
    assert stays(today, job) == f"{status} is waiting, and {status} of today is settled"


def test_parameters_that_do_not_fit_any_more_keep_a_job() -> None:
    class Other(msgspec.Struct, frozen=True):
        wanted: int

    _, job = rest(WORKSHOP)
    today = varied(WORKSHOP, version="2")
    structs = dict.fromkeys(today.structs, Other)
    today = Definition(today.workflow, today.functions, structs)
    assert "parameters no longer fit Other" in stays(today, job)


def test_a_job_type_that_is_gone_keeps_its_jobs() -> None:
    _, job = rest(WORKSHOP)
    types = tuple(one for one in WORKSHOP.workflow.job_types if one.name != job.job_type)
    assert types
    today = varied(WORKSHOP, job_types=types, version="2")
    assert stays(today, job) == f"the job type {job.job_type} is gone"


def test_money_that_would_not_be_settled_keeps_a_job() -> None:
    """Held under the older one, at a place where the new one never has anything held."""
    before = bound(PLAIN["workshop"])
    held = next(
        job
        for job in explore(before, births_of(before, PARAMS), 300, lambda *_: None)
        if job.credits == "held" and job.attempt is None and not job.ended
    )
    edges = tuple(replace(edge, money=None) for edge in before.workflow.edges)
    commands = tuple(replace(command, money=None) for command in before.workflow.commands)
    birth = replace(before.workflow.birth, money=None)
    today = varied(before, edges=edges, commands=commands, birth=birth, version="2")
    assert stays(today, held).startswith("its credits are held, which ")
    assert isinstance(migrated(varied(before, version="2"), held), Decision)


def test_a_lock_that_nobody_would_free_keeps_a_job() -> None:
    before = outside(PLAIN["relay"])
    job = next(
        job
        for job in explore(before, births_of(before, PARAMS), 300, lambda *_: None)
        if job.locks and job.attempt is None and not job.ended
    )
    locks = tuple(replace(lock, scope=f"{lock.scope}.new") for lock in before.workflow.locks)
    today = varied(before, locks=locks, version="2")
    assert "it holds the lock " in stays(today, job)


def test_a_deadline_that_is_new_begins_now_and_one_that_runs_keeps_its_moment() -> None:
    status, job = rest(WORKSHOP)
    target = next(iter(WORKSHOP.table[status]))
    plain = states_with(WORKSHOP, status, deadline=None)
    timed = states_with(WORKSHOP, status, deadline=Deadline(60, (target,)))
    longer = states_with(WORKSHOP, status, deadline=Deadline(600, (target,)))
    without, with_, later = (
        varied(WORKSHOP, states=states, version=version)
        for states, version in ((plain, "2"), (timed, "3"), (longer, "4"))
    )
    first = migrated(without, job).after
    assert (first.timer("deadline"), first.deadline_at) == (None, None)
    second = migrated(with_, first).after
    due_at = second.updated_at + 60_000
    assert (second.timer("deadline").due_at, second.deadline_at) == (due_at, due_at)
    third = migrated(later, second).after
    assert (third.timer("deadline").due_at, third.deadline_at) == (due_at, due_at)
    fourth = migrated(replace_version(without, "5"), third).after
    assert (fourth.timer("deadline"), fourth.deadline_at) == (None, None)


def replace_version(definition: Definition, version: str) -> Definition:
    return varied(definition, version=version)


# ---------------------------------------------------------------- what a declaration may say


def test_a_former_name_tells_one_place() -> None:
    status, _ = rest(WORKSHOP)
    other = next(name for name in NAMES if name != status)
    both = states_with(WORKSHOP, status, was=other)
    (fault,) = check(varied(WORKSHOP, states=both))
    assert f"state {status} was {other!r}, which is a state of today as well" in fault.text
    twice = tuple(replace(state, was=("old",)) for state in WORKSHOP.workflow.states)
    assert "both were 'old'; say it of one of them" in check(varied(WORKSHOP, states=twice))[0].text
    fine = states_with(WORKSHOP, status, was=("old", "older"))
    assert not check(varied(WORKSHOP, states=fine))


def test_standings_are_what_a_job_may_hold() -> None:
    workflow = Workflow(
        "w",
        "1",
        "a",
        states=(State("a", "waiting"), State("b", "final", ends="completed")),
        edges=(Edge("a", "b", by=("user",), money="capture"),),
        job_types=PLAIN["workshop"].workflow.job_types,
        birth=replace(PLAIN["workshop"].workflow.birth, money="hold", guards=()),
        locks=(Lock("x", guarded=("a",)),),
    )
    assert standings(Definition(workflow)) == {("a", "held", False), ("b", "captured", False)}
