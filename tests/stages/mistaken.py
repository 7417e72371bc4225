"""Wrong declarations, each with the words by which its message tells the thing, the value and the
likely cure."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from jobrunner import (
    Birth,
    Call,
    Command,
    Deadline,
    Definition,
    Edge,
    Guard,
    JobType,
    Lock,
    Retry,
    State,
    Workflow,
)


class Params(Struct, frozen=True):
    text: str = ""


class Bare(Struct, frozen=True):
    must: str


class Plain:
    """No struct."""


STATES = (
    State("queued", "queued", onward={"*": "working"}),
    State(
        "working",
        "active",
        stage={"*": "external"},
        done="done",
        deadline=Deadline(60),
        retry=Retry("inside", failed=("failed",)),
    ),
    State("done", "final", ends="completed"),
    State("failed", "final", ends="failed"),
    State("canceled", "final", ends="canceled"),
)
EDGES = (
    Edge("queued", "working", by=("engine", "workflow")),
    Edge("working", "done", by=("stage", "workflow")),
    Edge("working", "failed", by=("stage", "timer", "engine", "workflow")),
    Edge("queued", "canceled", by=("user",)),
    Edge("working", "canceled", by=("user",)),
)
CANCEL = Command("cancel", walks={"queued": ("canceled",), "working": ("canceled",)})
GOOD = Workflow(
    name="mistaken",
    version="1",
    initial="queued",
    states=STATES,
    edges=EDGES,
    job_types=(JobType("any", params="params"),),
    commands=(CANCEL,),
    locks=(Lock("job", guarded=("working",)),),
)


def declared(structs: Any = None, settings: Any = None, **changes: Any) -> Definition:
    brought = structs or {"params": Params}
    return Definition(replace(GOOD, **changes), structs=brought, settings=settings)


def state(name: str, **changes: Any) -> Definition:
    states = tuple(replace(one, **changes) if one.name == name else one for one in STATES)
    return declared(states=states)


def edge(target: str, **changes: Any) -> Definition:
    edges = tuple(replace(one, **changes) if one.target == target else one for one in EDGES)
    return declared(edges=edges)


def held(**money: Any) -> Definition:
    """With a hold at birth, which edges settle by their targets."""
    edges = tuple(replace(one, money=money.get(one.target)) for one in EDGES)
    kind = JobType("any", params="params", price=3)
    return declared(edges=edges, birth=Birth(money="hold"), job_types=(kind,))


def command(**changes: Any) -> Definition:
    return declared(commands=(replace(CANCEL, **changes),))


Mistake = tuple[Callable[[], Definition], tuple[str, ...]]
LOST = State("lost", "final", ends="failed")
MISTAKES: dict[str, Mistake] = {
    "a state twice": (
        lambda: declared(states=(*STATES, STATES[2])),
        ("state done", "declared 2 times", "keep one"),
    ),
    "no such initial state": (
        lambda: declared(initial="begin"),
        ("initial state", "'begin'", "declared are canceled, done"),
    ),
    "an edge to nowhere": (
        lambda: declared(edges=(*EDGES, Edge("working", "finished", by=("stage",)))),
        ("edge working -> finished", "'finished'", "declared are"),
    ),
    "a state that nobody reaches": (
        lambda: declared(states=(*STATES, LOST)),
        ("no edge leads a job to lost", "add one, or drop the state"),
    ),
    "no lock": (lambda: declared(locks=()), ("active state working", "add it to a scope")),
    "no such stage": (
        lambda: state("working", stage={"*": "press.nothere"}),
        ("working: no plugin brings stage 'press.nothere'", "install one", '"external"'),
    ),
    "a limit as text": (
        lambda: state("working", limit_s="60s"),
        ("state working: limit_s is '60s'", "write it without quotes"),
    ),
    "one trigger": (
        lambda: edge("done", by="stage"),
        ("edge working -> done: by is 'stage'", "write ('stage',)"),
    ),
    "one stage": (
        lambda: state("working", stage="external"),
        ("state working: stage is 'external'", "write {\"*\": 'external'}"),
    ),
    "onward to nowhere": (
        lambda: state("queued", onward={"*": "wrking"}),
        ("state queued: onward", "'wrking'", "did you mean 'working'?"),
    ),
    "no way on": (
        lambda: declared(edges=EDGES[1:]),
        ("onward of queued walks queued -> working", "declare the edge"),
    ),
    "a hold that is not settled": (
        lambda: held(done="capture", failed="release"),
        ("queued -> canceled: the hold of this run is not settled", 'money="capture" or "release"'),
    ),
    "a hold that is settled twice": (
        lambda: held(working="capture", done="capture", failed=None, canceled=None),
        ("working -> done", "a capture needs money that is held", "here it is captured"),
    ),
    "a command where there is no state": (
        lambda: command(walks={"que": ("canceled",)}),
        ("command cancel: walks", "'que'", "did you mean 'queued'?"),
    ),
    "a command along no edge": (
        lambda: command(walks={"queued": ("done",)}),
        ("command cancel walks queued -> done", "declare the edge or change the path"),
    ),
    "a command for nobody": (
        lambda: command(roles=("owner",)),
        ("command cancel: roles", "'owner'", "'user' or 'workflow' or 'admin'"),
    ),
    "a command twice": (
        lambda: declared(commands=(CANCEL, CANCEL)),
        ("command cancel", "declared 2 times", "keep one"),
    ),
    "no such guard": (
        lambda: edge("done", guards=(Guard(Call("verifed")),)),
        ("edge working -> done", "'verifed'", "did you mean 'verified'?"),
    ),
    "no such struct": (
        lambda: declared(job_types=(JobType("any", params="parms"),)),
        ("job type any", "'parms'", "did you mean 'params'?"),
    ),
    "a retry that ends nowhere": (
        lambda: state("working", retry=Retry("inside", failed=("failled",))),
        ("state working: retry.failed", "'failled'", "did you mean 'failed'?"),
    ),
    "no deadline": (
        lambda: state("working", deadline=None),
        ("working is driven from outside and has no deadline", "give it one"),
    ),
    "a kind that is none": (
        lambda: state("queued", kind="queue"),
        ("state queued: kind is 'queue'", "did you mean 'queued'?"),
    ),
    "an end that is none": (
        lambda: state("done", ends="complete"),
        ("state done: ends is 'complete'", "'failed'", "did you mean 'completed'?"),
    ),
    "money that is none": (
        lambda: edge("done", money="captured"),
        ("edge working -> done: money is 'captured'", "did you mean 'capture'?"),
    ),
    "money that is empty": (
        lambda: edge("done", money=""),
        ("edge working -> done: money is ''", "leave it out"),
    ),
    "a trigger that is none": (
        lambda: edge("done", by=("stag",)),
        ("edge working -> done: by, the 1st is 'stag'", "did you mean 'stage'?"),
    ),
    "a list": (lambda: declared(states=list(STATES)), ("states is [", "round brackets")),
    "one edge alone": (lambda: declared(edges=EDGES[0]), ("edges is Edge(", "with a comma")),
    "a lock on nothing": (
        lambda: declared(locks=(Lock("job", guarded=("workng",)),)),
        ("lock job", "'workng'", "did you mean 'working'?"),
    ),
    "a way out of the end": (
        lambda: declared(edges=(*EDGES, Edge("done", "queued", by=("user",)))),
        ("edge done -> queued leads out of a final state", "make done settled, or drop"),
    ),
    "no job type": (lambda: declared(job_types=()), ("no job type is declared", "declare one")),
    "a job type as text": (
        lambda: declared(job_types=("any",)),
        ("job_types, the 1st is 'any'", "write JobType('any', ...)"),
    ),
    "a deadline that leads along no edge": (
        lambda: state("queued", deadline=Deadline(5, ("failed",))),
        ("deadline of queued walks queued -> failed", "declare the edge"),
    ),
    "a deadline as a number": (
        lambda: state("working", deadline=60),
        ("state working: deadline is 60", "write Deadline(60)"),
    ),
    "a class that is no struct": (
        lambda: declared(structs={"params": Plain}),
        ("structs['params']", "Plain", "write class Plain(Struct)"),
    ),
    "settings without a default": (
        lambda: declared(settings=Bare),
        ("settings is Bare", "defaults", "'must'"),
    ),
    "a price below zero": (
        lambda: declared(job_types=(JobType("any", params="params", price=-1),)),
        ("any has the price -1", "make it 0 or more"),
    ),
    "a name with a space": (
        lambda: declared(name="my flow"),
        ("name is 'my flow'", "write 'my-flow'"),
    ),
}
