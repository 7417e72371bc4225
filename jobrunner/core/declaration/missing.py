"""Functions and stages that a declaration names and its plugin does not bring today.

A stored declaration passed the check of its day. When its plugin has renamed a stage, a guard or an
action since, only what needs that name is held up: it says so, and goes on when the name is back.
Nothing here is stored.
"""

from collections.abc import Callable, Iterator

from jobrunner.core.declaration.guards import BUILT_IN
from jobrunner.core.declaration.workflow import EXTERNAL, Call, Definition, Guard, State, Workflow
from jobrunner.core.job import Snapshot

Brought = Callable[[str], bool]
BY_ITSELF = frozenset({"engine", "stage", "timer"})


def absent(definition: Definition, is_stage: Brought) -> tuple[str, ...]:
    """List everything that a declaration names and that is not here."""
    found = {f"stage {name}" for name in _stages(definition) if not is_stage(name)}
    found |= {name for name in functions_named(definition.workflow) if not _has(definition, name)}
    structs = structs_named(definition.workflow)
    found |= {f"struct {name}" for name in structs if name not in definition.structs}
    return tuple(sorted(found))


def lacking(definition: Definition, job: Snapshot, is_stage: Brought) -> tuple[str, ...]:
    """Name what this job lacks to move by itself from where it stands."""
    state = definition.states.get(job.status)
    if state is None or job.ended:
        return ()
    return tuple(dict.fromkeys(_needed(definition, job, state, is_stage)))


def _needed(
    definition: Definition, job: Snapshot, state: State, is_stage: Brought
) -> Iterator[str]:
    works = state.kind == "active"
    target = state.name if works else definition.onward_of(state.name, job.job_type)
    if state.on_demand and job.attempt is not None:
        yield from _of_a_stage(definition, job, state.on_demand, is_stage)
    if not target:
        return
    if works or definition.states[target].kind == "active":
        stage = definition.stage_of(target, job.job_type)
        if stage == EXTERNAL:
            return
        yield from _of_a_stage(definition, job, stage, is_stage)
    edges = [*definition.table[target].values()]
    if not works:
        edges += [edge for edge in (definition.table[state.name].get(target),) if edge]
    for edge in edges:
        if not edge.guards or BY_ITSELF.isdisjoint(edge.by):
            continue
        for guard in edge.guards:
            asked = not guard.on or not BY_ITSELF.isdisjoint(guard.on)
            if asked and not _has(definition, guard.call.name):
                yield guard.call.name
    if works and state.sift is not None and not _has(definition, state.sift.name):
        yield state.sift.name


def _of_a_stage(
    definition: Definition, job: Snapshot, stage: str, is_stage: Brought
) -> Iterator[str]:
    if stage != EXTERNAL and not is_stage(stage):
        yield f"stage {stage}"
    declared = definition.job_types.get(job.job_type)
    if declared is not None and declared.params not in definition.structs:
        yield f"struct {declared.params}"


def _stages(definition: Definition) -> set[str]:
    found = {name for state in definition.workflow.states for name in state.stage.values()}
    found |= {state.on_demand for state in definition.workflow.states}
    return found - {EXTERNAL, ""}


def _has(definition: Definition, function: str) -> bool:
    return function in definition.functions or function in BUILT_IN


def functions_named(workflow: Workflow) -> set[str]:
    """List the functions that a guard, an action, a recipe or a route names."""
    return {call.name for _, call, _ in calls_of(workflow)}


def structs_named(workflow: Workflow) -> set[str]:
    return {name for _, name, _ in struct_names(workflow) if name}


def calls_of(workflow: Workflow) -> Iterator[tuple[str, Call, int]]:
    """List every function named: where, how, and with how many positional arguments."""
    for where, guard in guards_of(workflow):
        yield where, guard.call, 1
    for where, call in _asked(workflow):
        if call is not None:
            yield where, call, 1
    for route in workflow.routes:
        place = f"route {route.method} {route.path}"
        if route.read:
            yield place, Call(route.read), 1
        if route.answer:
            yield place, Call(route.answer), 3


def _asked(workflow: Workflow) -> Iterator[tuple[str, Call | None]]:
    for state in workflow.states:
        yield f"state {state.name}: sift", state.sift
        yield f"state {state.name}: one_at_a_time", state.one_at_a_time
    for command in workflow.commands:
        yield f"command {command.name}: identity", command.identity
        yield f"command {command.name}: action", command.action
    for editable in workflow.editables:
        yield f"editable {editable.name}: action", editable.action
    for upload in workflow.uploads:
        yield f"upload {upload.name}: action", upload.action
    yield "recipe.derive", workflow.recipe.derive
    yield "singleton: key", workflow.singleton.key if workflow.singleton else None


def struct_names(workflow: Workflow) -> Iterator[tuple[str, str, bool]]:
    for job_type in workflow.job_types:
        yield f"job type {job_type.name}", job_type.params, True
    for command in workflow.commands:
        yield f"command {command.name}", command.fields, False
    for route in workflow.routes:
        yield f"route {route.method} {route.path}", route.body, False


def guards_of(workflow: Workflow) -> Iterator[tuple[str, Guard]]:
    places = [("birth", workflow.birth.guards)]
    places += [(f"command {command.name}", command.guards) for command in workflow.commands]
    places += [(f"upload {upload.name}", upload.guards) for upload in workflow.uploads]
    places += [(f"edge {edge.source} -> {edge.target}", edge.guards) for edge in workflow.edges]
    for place, guards in places:
        yield from ((place, guard) for guard in guards)
