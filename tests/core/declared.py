"""A small valid declaration that uses most of what can be declared, and ways to spoil it."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from jobrunner.check.checking import Fault, check
from jobrunner.core.declaration.workflow import (
    Call,
    Command,
    Deadline,
    Definition,
    Edge,
    Editable,
    Guard,
    JobType,
    Lock,
    Recipe,
    Retry,
    Route,
    State,
    Workflow,
)


class Params(Struct):
    """What a submission of the sample says."""


def allowed(ask: Any, limit: int = 0) -> None:
    """A guard, an action, a recipe: whatever takes an ask."""


def read(body: Any) -> tuple[None, dict[str, Any]]:
    return None, {}


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "allowed": allowed,
    "known": allowed,
    "derive": allowed,
    "read": read,
}

STATES = (
    State("draft", "waiting"),
    State("queued", "queued", onward={"*": "running"}, deadline=Deadline(3600, ("failed",))),
    State(
        "running",
        "active",
        stage={"*": "sample.run", "far": "external"},
        done="checking",
        rejected="rejected",
        limit_s=60,
        deadline=Deadline(120),
        retry=Retry("round_trip", failed=("resting", "failed"), again="queued"),
    ),
    State("resting", "waiting", person=False, fails=("failure_message",)),
    State(
        "checking",
        "active",
        stage={"*": "sample.check"},
        done="done",
        limit_s=60,
        same="retry",
        retry=Retry("self_edge", failed=("failed",)),
    ),
    State("done", "final", ends="completed", entry=100),
    State("rejected", "final", ends="rejected"),
    State("failed", "settled", ends="failed", fails=("failure_message",)),
    State("canceled", "final", ends="canceled"),
)
OPEN = ("queued", "running", "resting", "checking")
EDGES = (
    Edge("draft", "queued", by=("user",), money="hold"),
    Edge("draft", "canceled", by=("user",)),
    Edge(
        "queued",
        "running",
        by=("engine", "workflow"),
        guards=(Guard(Call("allowed"), otherwise=("rejected",), code="BLOCKED"),),
    ),
    Edge("queued", "rejected", by=("engine",), money="capture"),
    Edge("queued", "failed", by=("timer",), money="release"),
    Edge("running", "checking", by=("stage", "workflow")),
    Edge("running", "rejected", by=("stage",), money="capture"),
    Edge("running", "resting", by=("stage", "timer")),
    Edge("resting", "queued", by=("timer",)),
    Edge("resting", "failed", by=("engine",), money="release"),
    Edge("checking", "checking", by=("stage", "timer")),
    Edge("checking", "done", by=("stage", "workflow"), money="capture"),
    Edge("checking", "failed", by=("stage", "timer", "engine"), money="release"),
    *(Edge(name, "canceled", by=("user",), money="release") for name in OPEN),
    Edge("failed", "queued", by=("user",), money="hold"),
)
COMMANDS = (
    Command("start", walks={"draft": ("queued",)}, satisfied=OPEN, opens_run=True),
    Command("cancel", walks=dict.fromkeys(("draft", *OPEN), ("canceled",))),
    Command("retry", walks={"failed": ("queued",)}, opens_run=True, aliases=("/again/{id}",)),
    Command("note", walks={state.name: () for state in STATES}, roles=("admin",)),
)
SAMPLE = Workflow(
    name="sample",
    version="1",
    initial="draft",
    states=STATES,
    edges=EDGES,
    job_types=(JobType("near", params="params", price=2), JobType("far", params="params")),
    commands=COMMANDS,
    editables=(Editable("text", walks={"draft": ("queued",), "queued": ()}),),
    recipe=Recipe(derive=Call("derive"), freed=("resting",), supersede=("failed",)),
    locks=(Lock("job", guarded=("running", "checking"), held=("resting",)),),
    routes=(Route("POST", "/sample/{id}/go", command="start", body="params", read="read"),),
    failed_stages=("running", "sample.check"),
    codes={"BLOCKED": 422},
)


def define(workflow: Workflow) -> Definition:
    return Definition(workflow, FUNCTIONS, {"params": Params})


def faults(workflow: Workflow) -> tuple[Fault, ...]:
    return check(define(workflow))


# ---------------------------------------------------------------- planting


def state(name: str, **changes: Any) -> Workflow:
    """The sample with one state changed."""
    states = tuple(replace(s, **changes) if s.name == name else s for s in STATES)
    return replace(SAMPLE, states=states)


def edge(source: str, target: str, **changes: Any) -> Workflow:
    found = [e for e in EDGES if (e.source, e.target) == (source, target)]
    assert found, "the sample has no such edge"
    edges = tuple(replace(e, **changes) if e in found else e for e in EDGES)
    return replace(SAMPLE, edges=edges)


def without_edge(source: str, target: str) -> Workflow:
    return replace(
        SAMPLE, edges=tuple(e for e in EDGES if (e.source, e.target) != (source, target))
    )


def also(**more: tuple[Any, ...]) -> Workflow:
    """The sample with something added to its lists."""
    return replace(SAMPLE, **{name: getattr(SAMPLE, name) + items for name, items in more.items()})


def command(name: str, **changes: Any) -> Workflow:
    commands = tuple(replace(c, **changes) if c.name == name else c for c in COMMANDS)
    return replace(SAMPLE, commands=commands)


def retry(name: str, **changes: Any) -> Workflow:
    policy = define(SAMPLE).states[name].retry
    assert policy is not None
    return state(name, retry=replace(policy, **changes))


def guard(name: str, **changes: Any) -> tuple[Guard, ...]:
    return (Guard(Call(name), **changes),)
