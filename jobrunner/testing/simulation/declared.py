"""Reads out of a declaration how to use it: which artifacts its guards ask for, what
a report to a state must say, how much money is needed."""

import random
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from jobrunner.core.declaration.workflow import (
    ANY,
    EXTERNAL,
    Command,
    Definition,
    Edge,
    State,
    Upload,
    Workflow,
)

SIMULATED = "simulated"
HOUR_S = 3600.0


def in_house(definition: Definition) -> Definition:
    """The same lifecycle with a stage of the simulation bound to every place where one can be. Such
    a stage may hang, so where the declaration sets no limit to an attempt, an hour is one."""
    workflow = bound_to_either(definition.workflow, lambda state: False)
    return Definition(
        workflow, definition.functions, definition.structs, settings=definition.settings
    )


def bound_to_either(workflow: Workflow, outside: Callable[[State], bool]) -> Workflow:
    """A stage of the simulation bound to every place where one can be, or ``external``."""
    return replace(
        workflow, states=tuple(_bound(state, outside(state)) for state in workflow.states)
    )


def stages_of(definition: Definition) -> dict[str, list[State]]:
    """The stages that it binds, and where."""
    found: dict[str, list[State]] = {}
    for state in definition.workflow.states:
        for name in dict.fromkeys((*state.stage.values(), state.on_demand)):
            if name and name != EXTERNAL:
                found.setdefault(name, []).append(state)
    return found


def artifact_names(definition: Definition) -> tuple[str, ...]:
    """List every artifact that the declaration names."""
    workflow = definition.workflow
    names = [name for state in workflow.states for name in (state.checkpoint, state.produces)]
    names += [editable.name for editable in workflow.editables]
    for edge in workflow.edges:
        names += asked_for(edge)
    return tuple(dict.fromkeys(name for name in names if name))


def asked_for(edge: Edge) -> list[str]:
    """The artifacts that the guards of an edge name in their arguments."""
    arguments = (guard.call.args for guard in edge.guards)
    named = (given.get(word) for given in arguments for word in ("artifact", "name"))
    return [name for name in named if isinstance(name, str)]


def needed(definition: Definition, source: str, target: str) -> list[str]:
    """List what should be there when this edge is taken."""
    edge = definition.table.get(source, {}).get(target)
    made = (definition.states[source].produces, definition.states[target].checkpoint)
    names = [*(asked_for(edge) if edge else ()), *made]
    return list(dict.fromkeys(name for name in names if name))


def failure_of(definition: Definition, source: str, draw: random.Random) -> dict[str, Any]:
    """Failure fields, as a report carries them."""
    stages = definition.workflow.failed_stages
    return {
        "failure_code": draw.choice(("NETWORK", "BAD_INPUT")),
        "failure_message": "nobody answers",
        "failed_stage": draw.choice(stages) if stages else source,
        "retryable": draw.random() < 0.7,
    }


def is_place(state: State) -> bool:
    """A stage can be bound there."""
    return state.kind == "active" or bool(state.on_demand)


def _bound(state: State, outside: bool) -> State:
    name = EXTERNAL if outside else f"{SIMULATED}.{state.name}"
    return replace(
        state,
        stage={ANY: name} if state.kind == "active" else state.stage,
        on_demand=name if state.on_demand else "",
        limit_s=state.limit_s or (HOUR_S if is_place(state) else 0),
    )


def declared(definition: Definition, source: str | None, target: str) -> bool:
    """Say whether a job may go from here to there; from nowhere it is born."""
    if source is None:
        return target == definition.workflow.initial
    return target in definition.table[source]


def pairs(definition: Definition) -> list[tuple[str, str]]:
    """List every declared edge, wildcards expanded."""
    return [(source, to) for source, targets in definition.table.items() for to in targets]


def ahead(definition: Definition, status: str) -> list[str]:
    """List where a job may go from here."""
    return definition.targets(status)


def way(command: Command, status: str) -> tuple[str, ...] | None:
    """The path that a command takes from here; None where it is not allowed."""
    return command.walks.get(status)


def takes(upload: Upload, status: str) -> bool:
    """Say whether a job takes this file where it stands."""
    return status in upload.walks


def a_few_jobs(definition: Definition) -> int:
    """Credits that are enough for some, and not for all."""
    return 6 * max(job_type.price for job_type in definition.workflow.job_types)
