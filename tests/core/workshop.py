"""Two lifecycles of the tests' own, so that the engine is shown on something it was not made for.

``WORKSHOP`` has its stages in the house and a price: the three places where retries may live, a
stage on demand, checkpoints passed in one commit, two lock scopes, a prompt that is looked at
again at pick-up, keys that become free. Jobs of type ``kit`` are cut by an outside worker.

``RELAY`` costs nothing. Its first leg is run here and its second one elsewhere, with a baton that
is held in between and let go when nobody comes.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from jobrunner.core.declaration.ask import Ask
from jobrunner.core.declaration.workflow import (
    EXTERNAL,
    Audit,
    Birth,
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
    State,
    Trigger,
    Workflow,
)
from jobrunner.core.job import Failure
from jobrunner.errors import Refused
from tests.driving import World, code


class Order(Struct, frozen=True):
    """What is to be made, and of what."""

    name: str = "stool"
    wood: str = "oak"


class Nothing(Struct, frozen=True):
    """No parameters at all."""


def allowed(ask: Ask) -> Refused | None:
    """Guard: the wood is not on the list."""
    wood = ask.params.get("wood")
    if wood not in ask.settings["banned"]:
        return None
    return Refused("WOOD_BANNED", f"{wood} is not worked here", status=422)


def same_order(ask: Ask) -> list[Any]:
    return [ask.actor.name, ask.params["name"]]


ALLOWED = Call("allowed")
HAS_PIECES = Guard(
    Call("artifact_present", {"name": "pieces", "code": "PIECES_MISSING", "detail": "no pieces"}),
    on=("stage", "workflow"),
)
LIMIT_S, SILENCE_S, HOUR_S = 60.0, 20.0, 3600.0

STATES = (
    State(
        "sketch",
        "waiting",
        on_demand="shop.sketch",
        done="queued",
        limit_s=LIMIT_S,
        retry=Retry("inside", failed=(), max=2, base_s=1, jitter=0),
    ),
    State(
        "queued",
        "queued",
        same="noop",
        onward={"*": "cutting"},
        deadline=Deadline(HOUR_S, ("failed",)),
    ),
    State(
        "cutting",
        "active",
        stage={"*": "shop.cut", "kit": EXTERNAL},
        done="cut",
        rejected="refused",
        limit_s=LIMIT_S,
        heartbeat_s=SILENCE_S,
        deadline=Deadline(2 * LIMIT_S),
        retry=Retry(
            "round_trip",
            failed=("resting", "failed"),
            again="queued",
            max=3,
            base_s=2,
            factor=3,
            cap_s=5,
            jitter=0.5,
        ),
    ),
    State("resting", "waiting", person=False),
    State("cut", "waiting", person=False, checkpoint="pieces", onward={"*": "gluing"}),
    State(
        "gluing",
        "active",
        stage={"*": "shop.glue"},
        done="glued",
        produces="frame",
        limit_s=LIMIT_S,
        deadline=Deadline(2 * LIMIT_S),
        same="retry",
        retry=Retry(
            "self_edge", failed=("failed",), max=3, base_s=1, factor=2, cap_s=30, jitter=0.1
        ),
    ),
    State("glued", "waiting", person=False, checkpoint="frame", onward={"*": "painting"}),
    State(
        "painting",
        "active",
        stage={"*": "shop.paint"},
        done="done",
        partial="partial",
        limit_s=LIMIT_S,
        deadline=Deadline(2 * LIMIT_S, ("expired",)),
        same="progress",
        entry=0,
        retry=Retry("inside", failed=("failed",), max=4, base_s=1, factor=2, cap_s=3, jitter=0),
    ),
    State("done", "final", entry=100, ends="completed"),
    State("partial", "final", entry=100, ends="partial", remarks=True),
    State("refused", "final", ends="rejected"),
    State("failed", "settled", ends="failed", dead_letter=True),
    State("expired", "settled", ends="expired"),
    State("canceled", "final", ends="canceled"),
)
AT_WORK = ("queued", "cutting", "resting", "cut", "gluing", "glued", "painting")
FAILING: tuple[Trigger, ...] = ("stage", "timer", "engine", "workflow")

EDGES = (
    Edge("sketch", "queued", by=("user", "stage"), money="hold"),
    Edge("sketch", "canceled", by=("user",)),
    Edge(
        "queued",
        "cutting",
        by=("engine", "workflow"),
        guards=(Guard(ALLOWED, otherwise=("refused",), code="WOOD_BANNED"),),
    ),
    Edge("queued", "refused", by=("engine",), money="capture", audit=Audit("WOOD_BLOCKED")),
    Edge("queued", "failed", by=("timer",), money="release"),
    Edge("cutting", "cut", by=("stage", "workflow"), guards=(HAS_PIECES,)),
    Edge("cutting", "refused", by=("stage", "workflow"), money="capture"),
    Edge("cutting", "resting", by=FAILING),
    Edge("resting", "queued", by=("timer",)),
    Edge("resting", "failed", by=("engine",), money="release"),
    Edge("cut", "gluing", by=("engine", "workflow")),
    Edge("gluing", "gluing", by=FAILING),
    Edge("gluing", "glued", by=("stage", "workflow")),
    Edge("gluing", "failed", by=FAILING, money="release"),
    Edge("glued", "painting", by=("engine", "workflow")),
    Edge("painting", "done", by=("stage", "workflow"), money="capture"),
    Edge("painting", "partial", by=("stage", "workflow"), money="capture"),
    Edge("painting", "failed", by=FAILING, money="release"),
    Edge("painting", "expired", by=("timer",), money="release"),
    *(Edge(name, "canceled", by=("user",), money="release") for name in AT_WORK),
    Edge("failed", "queued", by=("user",), money="hold"),
    Edge("expired", "queued", by=("user",), money="hold"),
)

COMMANDS = (
    Command("sketch", walks={"sketch": ()}, on_demand=True, status=202),
    Command("go", walks={"sketch": ("queued",)}, satisfied=AT_WORK, opens_run=True),
    Command("cancel", walks=dict.fromkeys(("sketch", *AT_WORK), ("canceled",))),
    Command("retry", walks=dict.fromkeys(("failed", "expired"), ("queued",)), opens_run=True),
    Command("note", walks={state.name: () for state in STATES}, roles=("admin",), audited=True),
)

WORKSHOP = Definition(
    Workflow(
        name="workshop",
        version="1",
        initial="sketch",
        states=STATES,
        edges=EDGES,
        job_types=(JobType("chair", params="order", price=3), JobType("kit", params="order")),
        commands=COMMANDS,
        editables=(Editable("wish", walks={"sketch": ("queued",), "queued": ()}),),
        birth=Birth(guards=(Guard(ALLOWED),)),
        recipe=Recipe(
            derive=Call("same_order"),
            client="additional",
            freed=("resting",),
            supersede=("failed",),
        ),
        locks=(
            Lock("bench", guarded=("cutting", "gluing"), held=("cut",)),
            Lock("brush", guarded=("painting",)),
        ),
        codes={"WOOD_BANNED": 422, "PIECES_MISSING": 409},
        settings={"banned": ["ivory"]},
    ),
    functions={"allowed": allowed, "same_order": same_order},
    structs={"order": Order},
)


def _leg(name: str, done: str, stage: str) -> State:
    return State(
        name,
        "active",
        stage={"*": stage},
        done=done,
        limit_s=LIMIT_S,
        deadline=Deadline(2 * LIMIT_S),
        retry=Retry("inside", failed=("lost",), max=2, base_s=1, jitter=0),
    )


RELAY = Definition(
    Workflow(
        name="relay",
        version="1",
        initial="line",
        states=(
            State("line", "queued", onward={"*": "first"}),
            _leg("first", "between", "track.run"),
            State("between", "waiting", person=False, onward={"*": "second"}),
            _leg("second", "home", EXTERNAL),
            State("home", "final", entry=100, ends="completed"),
            State("lost", "final", ends="failed"),
        ),
        edges=(
            Edge("line", "first", by=("engine", "workflow")),
            Edge("first", "between", by=("stage", "workflow")),
            Edge("first", "lost", by=FAILING),
            Edge("between", "second", by=("engine", "user", "workflow")),
            Edge("second", "home", by=("stage", "workflow")),
            Edge("second", "lost", by=FAILING),
        ),
        job_types=(JobType("team", params="nothing"),),
        commands=(Command("resume", walks={"between": ("second",)}, opens_run=True),),
        locks=(Lock("baton", guarded=("first", "second"), held=("between",), lapse_s=600),),
        lease_s=300,
    ),
    structs={"nothing": Nothing},
)


def rebound(definition: Definition, **stages: str) -> Definition:
    """The same lifecycle with some active states worked by another stage, or ``external``."""
    states = tuple(
        replace(state, stage={"*": stages.get(state.name, "")}) if state.name in stages else state
        for state in definition.workflow.states
    )
    workflow = replace(definition.workflow, states=states)
    return Definition(workflow, definition.functions, definition.structs)


# ---------------------------------------------------------------- standing in it

BROKEN = Failure("NETWORK", "the saw does not answer")
FOR_GOOD = Failure("BLUNT", "the saw is blunt", retryable=False)
PIECES: dict[str, Any] = {"artifacts": {"pieces": 7}}


def queued(world: World, **params: Any) -> str:
    """A chair that was ordered and waits for its slot."""
    job_id = world.born("chair", params)
    assert code(world.do(job_id, "go")) == "moved"
    return job_id


def cutting(world: World) -> str:
    job_id = queued(world)
    assert code(world.start(job_id)) == "moved"
    return job_id


def gluing(world: World, job_id: str = "") -> str:
    job_id = job_id or cutting(world)
    assert code(world.ended(job_id, "done", **PIECES)) == "moved"
    assert code(world.start(job_id)) == "noted"
    return job_id


def painting(world: World) -> str:
    job_id = gluing(world)
    assert code(world.ended(job_id, "done")) == "moved"
    assert code(world.start(job_id)) == "noted"
    return job_id


AT = {"cutting": cutting, "gluing": gluing, "painting": painting}


def fail_on(world: World, job_id: str) -> None:
    """The attempt that is due fails, as soon as it has waited and has its slot."""
    purposes = {timer.purpose for timer in world.jobs[job_id].timers}
    for purpose in ("retry", "backoff"):
        if purpose in purposes:
            assert code(world.fire(job_id, purpose)) in ("moved", "noted")
    if world.jobs[job_id].line_at is not None:
        world.start(job_id)
    assert code(world.ended(job_id, "failed", BROKEN)) in ("moved", "noted")


def effects(world: World) -> list[Any]:
    return [effect for _, effect in world.effects]
