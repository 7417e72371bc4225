"""What the check promises, the engine keeps: a declaration without faults loses no money, whatever
happens to its jobs and in whatever order.

The declarations are the sample with other money, kinds, deadlines and paths; those that the check
refuses are left aside. What happens is drawn too, and decided by the engine itself.
"""

from collections.abc import Callable
from random import Random
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from jobrunner.core.births import born
from jobrunner.core.decide import decide
from jobrunner.core.decision import Decision
from jobrunner.core.declaration.workflow import Command, Deadline, Definition, Edge, Money, Workflow
from jobrunner.core.facts import Facts
from jobrunner.core.job import Actor, Failure, Snapshot
from jobrunner.core.messages import (
    Claim,
    Do,
    Edit,
    Ended,
    Fired,
    Message,
    Moment,
    Move,
    Recovered,
    Report,
    Start,
    Stop,
    Submit,
    Supersede,
)
from tests.core.declared import EDGES, SAMPLE, STATES, define, faults

ADMIN, OWNER, OUTSIDE = Actor("root", "admin"), Actor("ada", "user"), Actor("hook", "workflow")
CHARGED = {"hold": "charge", "release": "refund", "capture": None}
REPORT = Report(failure_code="BROKEN", failure_message="it broke", failed_stage="running")


def charging(edge: Edge) -> Edge:
    return replace(edge, money=CHARGED[edge.money] if edge.money else None)


PAID_AHEAD = replace(SAMPLE, edges=tuple(charging(edge) for edge in EDGES))
WHOLE = replace(
    PAID_AHEAD,
    commands=(
        *SAMPLE.commands,
        Command("again", walks={"draft": ("queued",), "failed": ("queued",)}, opens_run=True),
    ),
)


@st.composite
def altered(draw: st.DrawFn) -> Workflow:
    workflow = draw(st.sampled_from([SAMPLE, PAID_AHEAD, WHOLE]))
    for _ in range(draw(st.integers(0, 2))):
        workflow = draw(st.sampled_from(ACCIDENTS))(draw, workflow)
    return workflow


def other_money(draw: st.DrawFn, workflow: Workflow) -> Workflow:
    at = draw(st.integers(0, len(workflow.edges) - 1))
    edges = list(workflow.edges)
    edges[at] = replace(edges[at], money=draw(st.sampled_from([None, *get_args(Money)])))
    return replace(workflow, edges=tuple(edges))


def other_deadline(draw: st.DrawFn, workflow: Workflow) -> Workflow:
    at = draw(st.sampled_from([0, 1, 3]))
    targets = [edge.target for edge in workflow.edges if edge.source == STATES[at].name]
    states = list(workflow.states)
    states[at] = replace(states[at], deadline=Deadline(5, (draw(st.sampled_from(targets)),)))
    by = ("user", "timer", "engine", "stage", "workflow")
    return replace(
        workflow, states=tuple(states), edges=tuple(replace(e, by=by) for e in workflow.edges)
    )


def other_edge(draw: st.DrawFn, workflow: Workflow) -> Workflow:
    """A shortcut from an open state, with any money."""
    source = draw(st.sampled_from([s.name for s in STATES if s.kind != "final"]))
    target = draw(st.sampled_from([s.name for s in STATES]))
    if source == target or any((e.source, e.target) == (source, target) for e in workflow.edges):
        return workflow
    money = draw(st.sampled_from([None, *get_args(Money)]))
    return replace(workflow, edges=(*workflow.edges, Edge(source, target, ("admin",), money=money)))


def other_lapse(draw: st.DrawFn, workflow: Workflow) -> Workflow:
    (lock,) = workflow.locks
    return replace(workflow, locks=(replace(lock, lapse_s=draw(st.sampled_from([0, 9]))),))


ACCIDENTS = [other_money, other_money, other_deadline, other_edge, other_edge, other_lapse]


# ---------------------------------------------------------------- what may happen


def _move(job: Snapshot, pick: int, definition: Definition) -> Message:
    targets = definition.targets(job.status) or [job.status]
    return Move(ADMIN if pick % 2 else OUTSIDE, targets[pick % len(targets)], REPORT)


def _ended(job: Snapshot, pick: int, definition: Definition) -> Message:
    failure = Failure("BROKEN", "it broke", retryable=bool(pick % 3))
    outcome = ["done", "failed", "rejected", "interrupted", "parked"][pick % 5]
    serial = job.attempt.serial if job.attempt else 0
    return Ended(serial, outcome, REPORT if outcome == "failed" else Report(), failure)


def _do(job: Snapshot, pick: int, definition: Definition) -> Message:
    names = [name for name in definition.commands if name != "note"]
    return Do(OWNER, names[pick % len(names)])


def _fired(job: Snapshot, pick: int, definition: Definition) -> Message:
    if not job.timers:
        return Start()
    timer = job.timers[pick % len(job.timers)]
    return Fired(timer.purpose, timer.due_at)


def _superseded(job: Snapshot, pick: int, definition: Definition) -> Message:
    return Supersede("other") if job.status in definition.workflow.recipe.freed else Start()


def _next(job: Snapshot, pick: int, definition: Definition) -> Message:
    """What most jobs meet most of the time."""
    if job.attempt is not None and job.attempt.status == "running":
        return _ended(job, 0 if pick % 2 else pick, definition)
    if job.kind in ("queued", "active"):
        return Claim(OUTSIDE) if pick % 4 == 0 else Start()
    if job.timers:
        return _fired(job, pick, definition)
    return _do(job, pick, definition)


HAPPENINGS: list[Callable[[Snapshot, int, Definition], Message]] = [
    *[_next] * 8,
    _move,
    _ended,
    _do,
    _fired,
    _superseded,
    lambda *_: Recovered(alone=True),
    lambda *_: Stop(ADMIN),
    lambda *_: Edit(OWNER, "text", "words"),
]
happenings = st.lists(
    st.tuples(st.sampled_from(HAPPENINGS), st.integers(0, 29)), min_size=20, max_size=60
)


@settings(max_examples=200, deadline=None)
@given(altered(), st.sampled_from(["near", "far"]), happenings)
def test_a_declaration_without_faults_loses_no_money(
    workflow: Workflow, job_type: str, story: list[tuple[Any, int]]
) -> None:
    if faults(workflow):
        event("refused")
    else:
        event("passed")
        live(workflow, job_type, story)


@pytest.mark.parametrize("base", [SAMPLE, PAID_AHEAD], ids=["held", "charged"])
@pytest.mark.parametrize("at", range(len(EDGES)), ids=[f"{e.source}-{e.target}" for e in EDGES])
def test_money_that_is_moved_elsewhere_is_lost_or_refused(base: Workflow, at: int) -> None:
    """Every edge with every money: what the check lets pass survives some lives of jobs."""
    chance = Random(at)
    for money in (None, *get_args(Money)):
        edges = list(base.edges)
        edges[at] = replace(edges[at], money=money)
        workflow = replace(base, edges=tuple(edges))
        for _ in range(0 if faults(workflow) else 20):
            story = [(chance.choice(HAPPENINGS), chance.randrange(30)) for _ in range(40)]
            live(workflow, "near", story)


def live(workflow: Workflow, job_type: str, story: list[tuple[Any, int]]) -> None:
    """One life of a job, with a ledger that is kept beside it."""
    priced = tuple(replace(declared, price=2) for declared in workflow.job_types)
    definition = define(replace(workflow, job_types=priced))
    submit = Submit(OWNER, "sample", job_type, {}, "job")
    first = born(definition, submit, Facts(balance=100), Moment(1_000, "run-0"), ())
    assert isinstance(first, Decision)
    ledger = Ledger()
    job = ledger.enter(first)
    for number, (happen, pick) in enumerate(story, 1):
        message = happen(job, pick, definition)
        now = max([1_000 + number, *(timer.due_at for timer in job.timers)])
        moment = Moment(now, f"run-{number}")
        decided = decide(definition, job, message, Facts(balance=100), moment)
        if isinstance(decided, Decision):
            job = ledger.enter(decided)


class Ledger(msgspec.Struct):
    """Keeps what moved, by run, and looks at every job that ended."""

    moved: set[tuple[str, str]] = set()
    balance: int = 0
    held: int = 0

    def enter(self, decision: Decision) -> Snapshot:
        for entry in decision.ledger:
            assert (entry.run_id, entry.kind) not in self.moved, "twice in one run"
            self.moved.add((entry.run_id, entry.kind))
            held = {"hold": 1, "capture": -1, "release": -1}.get(entry.kind, 0)
            spent = {"hold": -1, "release": 1, "charge": -1, "refund": 1}.get(entry.kind, 0)
            self.held += held * entry.amount
            self.balance += spent * entry.amount
            assert 0 <= self.held <= 2, "one hold at a time"
        job = decision.after
        if job.kind in ("settled", "final"):
            assert self.held == 0, f"{job.status} with {self.held} held"
        return job
