"""A whole workflow for one stage: a line, the work, the ways to end."""

from msgspec import Struct

from jobrunner.core.declaration.states import Trigger
from jobrunner.core.declaration.workflow import (
    Birth,
    Command,
    Deadline,
    Definition,
    Edge,
    JobType,
    Lock,
    Money,
    Retry,
    State,
    Workflow,
)
from jobrunner.stages.api import Stage

WAITS, WORKS, DONE, PARTIAL = "queued", "working", "done", "partial"
FAILED, REJECTED, CANCELED = "failed", "rejected", "canceled"


def one_stage(
    stage: Stage,
    params: type[Struct],
    *,
    name: str = "",
    version: str = "1",
    price: int = 0,
    limit_s: float = 600,
    wait_s: float = 86_400,
    tries: int = 3,
    pause_s: float = 2,
    settings: type[Struct] | None = None,
) -> Definition:
    """Declare the workflow of a single stage, called like it up to the first dot.

    A job is ``queued``, ``working``, and then ``done``, ``partial``, ``failed``, ``rejected`` or
    ``canceled``. ``price`` is held at birth, captured when all or some is done, else given back.
    ``limit_s`` is for one attempt, ``wait_s`` for one that awaits a callback or an outside worker;
    ``tries`` counts attempts in all, ``pause_s`` is the first pause between two."""
    called = name or stage.name.partition(".")[0]
    workflow = Workflow(
        name=called,
        version=version,
        initial=WAITS,
        states=_states(
            stage.name, limit_s, wait_s, Retry("inside", (FAILED,), max=tries, base_s=pause_s)
        ),
        edges=_edges(bool(price)),
        job_types=(JobType(called, params="params", price=price),),
        commands=(Command("cancel", walks={WAITS: (CANCELED,), WORKS: (CANCELED,)}),),
        birth=Birth(money="hold" if price else None),
        locks=(Lock("job", guarded=(WORKS,)),),
    )
    return Definition(workflow, structs={"params": params}, settings=settings)


def _states(stage: str, limit_s: float, wait_s: float, retry: Retry) -> tuple[State, ...]:
    work = State(
        WORKS,
        "active",
        stage={"*": stage},
        done=DONE,
        partial=PARTIAL,
        rejected=REJECTED,
        limit_s=limit_s,
        deadline=Deadline(wait_s),
        retry=retry,
    )
    return (
        State(WAITS, "queued", onward={"*": WORKS}),
        work,
        State(DONE, "final", entry=100, ends="completed"),
        State(PARTIAL, "final", entry=100, ends="partial", remarks=True),
        State(FAILED, "final", ends="failed", fails=("failure_message",)),
        State(REJECTED, "final", ends="rejected", remarks=True),
        State(CANCELED, "final", ends="canceled"),
    )


def _edges(priced: bool) -> tuple[Edge, ...]:
    spent: Money | None = "capture" if priced else None
    given_back: Money | None = "release" if priced else None
    work: tuple[Trigger, ...] = ("stage", "workflow")
    ends: tuple[Trigger, ...] = ("stage", "timer", "engine", "workflow")
    return (
        Edge(WAITS, WORKS, by=("engine", "workflow")),
        Edge(WORKS, DONE, by=work, money=spent),
        Edge(WORKS, PARTIAL, by=work, money=spent),
        Edge(WORKS, REJECTED, by=work, money=given_back),
        Edge(WORKS, FAILED, by=ends, money=given_back),
        Edge(WAITS, CANCELED, by=("user",), money=given_back),
        Edge(WORKS, CANCELED, by=("user",), money=given_back),
    )
