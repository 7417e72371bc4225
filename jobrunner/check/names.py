"""Checks that everything that a declaration names is there: states, pairs, types, functions,
structs, codes, routes. A misspelt name is reported here as one; later rules would only see its
consequences.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from inspect import signature
from itertools import combinations
from typing import Any

from msgspec import Struct

from jobrunner.check.faults import Fault, meant
from jobrunner.check.structs import perilous
from jobrunner.check.upgrades import misremembered
from jobrunner.core.declaration.guards import BUILT_IN
from jobrunner.core.declaration.missing import calls_of, guards_of, struct_names
from jobrunner.core.declaration.spelling import NOT, PATH
from jobrunner.core.declaration.workflow import (
    ANY,
    EXTERNAL,
    Call,
    Definition,
    Guard,
    Route,
    State,
    Workflow,
)
from jobrunner.errors import STATUS_OF_CODE

Taken = frozenset[tuple[str, str]]


class Mention(Struct, frozen=True):
    """A name, and the place in the declaration where it stands."""

    where: str
    name: str


class Entrance(Struct, frozen=True):
    """A method and a path pattern under which a workflow can be called. ``built_in``: behind the
    pattern that the service keeps for all commands."""

    method: str
    path: str
    owner: str
    built_in: bool = False


def misnamed(definition: Definition) -> Iterator[Fault]:
    """Faults that make it pointless to look any further: what is meant is not clear."""
    workflow = definition.workflow
    yield from _twice(workflow)
    yield from misremembered(definition)
    for mention in state_mentions(workflow):
        if mention.name not in definition.states:
            text = f"{mention.where} names the state {mention.name!r}, which is not declared"
            yield Fault(
                "unknown-state",
                f"{text}; {meant(mention.name, definition.states)}",
                (mention.where, f"here: there is no state {mention.name}"),
            )
    if not workflow.job_types:
        yield Fault(
            "job-type",
            "no job type is declared, so nothing can be submitted; declare one",
            (f"workflow {workflow.name}", "here: a submission has no type to be of"),
        )


def unresolved(definition: Definition, taken: Taken) -> Iterator[Fault]:
    """Names that stand for functions, structs, types, stages, codes and paths."""
    yield from _job_types(definition)
    yield from _functions(definition)
    yield from _structs(definition)
    yield from perilous(definition)
    yield from _codes(definition.workflow)
    yield from _failed_stages(definition.workflow)
    yield from _settings(definition.workflow)
    yield from _routes(definition, taken)


# ---------------------------------------------------------------- names used twice


def _twice(workflow: Workflow) -> Iterator[Fault]:
    lists = {
        "state": [state.name for state in workflow.states],
        "command": [command.name for command in workflow.commands],
        "editable": [editable.name for editable in workflow.editables],
        "upload": [upload.name for upload in workflow.uploads],
        "artifact": [artifact.name for artifact in workflow.artifacts],
        "job type": [job_type.name for job_type in workflow.job_types],
        "edge": [f"{edge.source} -> {edge.target}" for edge in workflow.edges],
        "lock scope": [lock.scope for lock in workflow.locks],
        "child workflow": [child.workflow for child in workflow.children],
    }
    for noun, names in lists.items():
        for name, count in Counter(names).items():
            if count > 1:
                yield Fault(
                    "duplicate",
                    f"{noun} {name} is declared {count} times; keep one",
                    (f"{noun} {name}", f"here: which of the {count} is meant?"),
                )


# ---------------------------------------------------------------- states


def state_mentions(workflow: Workflow) -> Iterator[Mention]:
    """Everywhere that a state is named."""
    yield Mention("the initial state", workflow.initial)
    for state in workflow.states:
        yield from _in_state(state)
    for edge in workflow.edges:
        place = f"edge {edge.source} -> {edge.target}"
        yield from _all(place, [name for name in (edge.source, edge.target) if name != ANY])
        if edge.target == ANY:
            yield Mention(place, edge.target)
        yield from _in_guards(place, edge.guards)
    yield from _in_commands(workflow)
    for artifact in workflow.artifacts:
        yield from _all(f"artifact {artifact.name}: states", artifact.states)
    for lock in workflow.locks:
        yield from _all(f"lock {lock.scope}", lock.guarded + lock.held)
    yield from _in_guards("birth", workflow.birth.guards)
    yield from _all("recipe.freed", workflow.recipe.freed)
    yield from _all("recipe.supersede", workflow.recipe.supersede)


def _all(where: str, names: Iterable[str]) -> Iterator[Mention]:
    return (Mention(where, name) for name in names)


def _in_state(state: State) -> Iterator[Mention]:
    place = f"state {state.name}"
    yield from _all(f"{place}: onward", state.onward.values())
    outcomes = (("done", state.done), ("partial", state.partial), ("rejected", state.rejected))
    for field, target in outcomes:
        if target:
            yield Mention(f"{place}: {field}", target)
    if state.deadline is not None:
        yield from _all(f"{place}: deadline", state.deadline.path)
    if state.retry is not None:
        yield from _all(f"{place}: retry.failed", state.retry.failed)
        if state.retry.again:
            yield Mention(f"{place}: retry.again", state.retry.again)


def _in_guards(place: str, guards: tuple[Guard, ...]) -> Iterator[Mention]:
    for guard in guards:
        yield from _all(f"{place}: guard {guard.call.name}: otherwise", guard.otherwise)


def _in_commands(workflow: Workflow) -> Iterator[Mention]:
    for command in workflow.commands:
        place = f"command {command.name}"
        yield from _walks(place, command.walks)
        yield from _all(f"{place}: satisfied", command.satisfied)
        yield from _all(f"{place}: status_from", command.status_from)
        yield from _in_guards(place, command.guards)
    for editable in workflow.editables:
        yield from _walks(f"editable {editable.name}", editable.walks)
    for upload in workflow.uploads:
        yield from _walks(f"upload {upload.name}", upload.walks)
        yield from _walks(f"upload {upload.name}: begins", upload.begins)
        yield from _in_guards(f"upload {upload.name}", upload.guards)


def _walks(place: str, walks: dict[str, tuple[str, ...]]) -> Iterator[Mention]:
    for status, path in walks.items():
        yield from _all(f"{place}: walks", (status, *path))


# ---------------------------------------------------------------- job types and stages


def _job_types(definition: Definition) -> Iterator[Fault]:
    workflow = definition.workflow
    for job_type in workflow.job_types:
        if job_type.price < 0:
            yield Fault(
                "job-type",
                f"{job_type.name} has the price {job_type.price}; make it 0 or more",
                (f"job type {job_type.name}", "here: a job would pay its owner"),
            )
    known = {ANY, *definition.job_types}
    for place, names in _of_job_types(workflow):
        for name in names:
            if name not in known:
                yield Fault(
                    "job-type",
                    f"{place} names the job type {name!r}; {meant(name, definition.job_types)}",
                    (place, f"here: no job is of type {name}"),
                )
    for state in workflow.states:
        yield from _unbound(definition, state)


def _of_job_types(workflow: Workflow) -> Iterator[tuple[str, Iterable[str]]]:
    """List all that is declared by job type."""
    for state in workflow.states:
        yield f"state {state.name}: stage", state.stage
        yield f"state {state.name}: onward", state.onward
    yield "results", workflow.results


def _unbound(definition: Definition, state: State) -> Iterator[Fault]:
    """Find job types that nobody is bound to: they would wait for an outside worker for ever."""
    if state.kind != "active" or ANY in state.stage:
        return
    for name in definition.job_types:
        if name not in state.stage:
            yield Fault(
                "unbound",
                f"state {state.name} binds no stage for the job type {name!r}; name one, or say "
                f'stage={{{name!r}: "{EXTERNAL}"}} if it is for outside workers',
                (f"state {state.name}", f"here: a job of type {name} waits for nobody"),
            )


def _failed_stages(workflow: Workflow) -> Iterator[Fault]:
    known = {state.name for state in workflow.states}
    for state in workflow.states:
        known |= {state.on_demand, *state.stage.values()}
    for name in workflow.failed_stages:
        if name not in known:
            yield Fault(
                "unknown-stage",
                f"failed_stages names {name!r}, neither a state nor a "
                f"stage; {meant(name, known - {''})}",
                ("failed_stages", f"here: nothing called {name} can fail"),
            )


def _settings(workflow: Workflow) -> Iterator[Fault]:
    for state in workflow.states:
        setting = state.onward_if.removeprefix(NOT)
        if setting and setting not in workflow.settings:
            yield Fault(
                "unknown-setting",
                f"state {state.name}: onward_if names the setting {setting!r}; "
                f"{meant(setting, workflow.settings)}",
                (f"state {state.name}", f"here: nobody could switch {setting} on"),
            )


# ---------------------------------------------------------------- functions and structs


def _functions(definition: Definition) -> Iterator[Fault]:
    known = {**BUILT_IN, **definition.functions}
    for where, call, arguments in calls_of(definition.workflow):
        function = known.get(call.name)
        if function is None:
            yield Fault(
                "unknown-function",
                f"{where} names the function {call.name!r}, which was "
                f"not brought along; {meant(call.name, known)}",
                (where, f"here: {call.name} would be asked, and there is no such function"),
            )
        elif problem := _misfit(function, call, arguments):
            yield Fault(
                "arguments",
                f"{where}: {call.name} cannot be called like this: {problem}",
                (where, f"here: {call.name}({', '.join(sorted(call.args))}) breaks"),
            )


def _misfit(function: Callable[..., Any], call: Call, arguments: int) -> str:
    try:
        signature(function).bind(*range(arguments), **call.args)
    except TypeError as problem:
        return str(problem)
    except ValueError:
        return ""
    return ""


def _structs(definition: Definition) -> Iterator[Fault]:
    for where, name, wanted in struct_names(definition.workflow):
        if name not in definition.structs and (name or wanted):
            text = f"{where} names the struct {name!r}, which was not brought along"
            yield Fault(
                "unknown-struct",
                f"{text}; {meant(name, definition.structs)}",
                (where, "here: what is sent could not be read"),
            )


# ---------------------------------------------------------------- codes


def _codes(workflow: Workflow) -> Iterator[Fault]:
    known = {**workflow.codes, **STATUS_OF_CODE}
    for code, status in workflow.codes.items():
        if not 400 <= status < 500:
            yield Fault(
                "code",
                f"code {code} has the status {status}; a refusal is a 4xx",
                (f"codes: {code}", f"here: a caller would be told {status}"),
            )
        elif known[code] != status:
            yield Fault(
                "code",
                f"code {code} means {known[code]} everywhere; choose another name",
                (f"codes: {code}", f"here: {status} for one, {known[code]} for the rest"),
            )
    for where, code in _used_codes(workflow):
        if code not in known:
            yield Fault(
                "code",
                f"{where} refuses with {code!r}, which has no status; add it to "
                f"the workflow's codes, or {meant(code, known)}",
                (where, f"here: {code} is told, and nobody knows with which status"),
            )


def _used_codes(workflow: Workflow) -> Iterator[tuple[str, str]]:
    """A diverting guard's code is a failure code, which is free."""
    for where, guard in guards_of(workflow):
        code = guard.code or guard.call.args.get("code", "")
        if code and not guard.otherwise:
            yield f"{where}: guard {guard.call.name}", str(code)
    for editable in workflow.editables:
        yield f"editable {editable.name}: locked", editable.locked
    for upload in workflow.uploads:
        yield f"upload {upload.name}: locked", upload.locked


# ---------------------------------------------------------------- routes


def _routes(definition: Definition, taken: Taken) -> Iterator[Fault]:
    workflow = definition.workflow
    for route in workflow.routes:
        yield from _route(definition, route)
    doors = list(_doors(workflow))
    for door in doors:
        for method, path in sorted(taken):
            if door.method == method and _overlap(door, path):
                yield Fault(
                    "route",
                    f"{door.owner} opens {method} {door.path}, which is the "
                    f"service's own {path}; choose another path",
                    (door.owner, f"here: {method} {door.path} would never reach it"),
                )
    for one, other in combinations(doors, 2):
        if one.method == other.method and _overlap(one, other.path):
            call = f"{one.method} {one.path}"
            yield Fault(
                "route",
                f"{one.owner} and {other.owner} both open {call}; keep one",
                (one.owner, f"here: {call} may mean {other.owner}"),
            )


def _route(definition: Definition, route: Route) -> Iterator[Fault]:
    place = f"route {route.method} {route.path}"
    problems = []
    if route.job_type and route.job_type not in definition.job_types:
        problems.append(f"there is no job type {route.job_type!r}")
    if route.command and route.command not in definition.commands:
        problems.append(f"there is no command {route.command!r}")
    if route.job_type and route.command:
        problems.append("it is either a submission or a command, not both")
    if route.command and "{id}" not in route.path:
        problems.append("a command needs {id} in its path")
    if not route.path.startswith("/"):
        problems.append("its path must begin with /")
    elif not PATH.fullmatch(route.path):
        problems.append("its path is words and {names} between slashes, nothing else")
    for problem in problems:
        yield Fault("route", f"{place}: {problem}", (place, "here: a call could not be answered"))


def _doors(workflow: Workflow) -> Iterator[Entrance]:
    for route in workflow.routes:
        yield Entrance(route.method, route.path, f"route {route.method} {route.path}")
    for command in workflow.commands:
        owner = f"command {command.name}"
        yield Entrance("POST", f"/jobs/{{id}}/{command.name}", owner, built_in=True)
        for alias in command.aliases:
            yield Entrance("POST", alias.removeprefix("POST "), owner)


def _overlap(door: Entrance, path: str) -> bool:
    """A call might mean either. The pattern that all commands live behind is no rival of theirs."""
    one, other = door.path.strip("/").split("/"), path.strip("/").split("/")
    if len(one) != len(other) or (door.built_in and "{" in other[-1]):
        return False
    return all(a == b or "{" in a or "{" in b for a, b in zip(one, other, strict=True))
