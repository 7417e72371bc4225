"""Checks that a declaration can be meant: fields that contradict each other or their state's kind,
repeats, commands. A field that the engine would never look at is a fault,
since whoever wrote it counts on it.
"""

import re
from collections.abc import Iterator

from jobrunner.check.faults import Fault
from jobrunner.check.uploads import unfit
from jobrunner.check.ways import Chart
from jobrunner.core.declaration.workflow import ANY, Command, Editable, Retry, State, Workflow

EDIT_MAX = 4 * 1024 * 1024
FOLDER = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


def misshapen(chart: Chart) -> Iterator[Fault]:
    """List everything that is wrong with one state, edge or command alone."""
    yield from _initial(chart)
    for state in chart.workflow.states:
        for problem in _problems(state):
            yield Fault(
                "shape",
                f"{state.kind} state {state.name} {problem}",
                chart.trace(state.name, f"here: {state.name} {problem.split(';')[0]}"),
            )
        yield from _repeats(chart, state)
    yield from _edges(chart)
    yield from _on_demand(chart)
    yield from _otherwise(chart.workflow)
    yield from _folder(chart.workflow)
    yield from _freed(chart)
    for command in chart.workflow.commands:
        yield from _command(chart, command)
    for editable in chart.workflow.editables:
        yield from _editable(chart, editable)
    for upload in chart.workflow.uploads:
        yield from unfit(chart, upload)
        for walks in (upload.begins, upload.walks):
            yield from _from_final(chart, f"upload {upload.name}", walks)


# ---------------------------------------------------------------- states


def _initial(chart: Chart) -> Iterator[Fault]:
    state = chart.states[chart.workflow.initial]
    if state.ended:
        yield Fault(
            "initial",
            f"the initial state {state.name} is {state.kind}: nothing would be "
            "done; begin in a waiting, queued or active one",
            (f"born in {state.name}", f"here: {state.name} is {state.kind} already"),
        )


def _problems(state: State) -> Iterator[str]:
    works = state.kind == "active" or bool(state.on_demand)
    if state.ended and (state.deadline or state.onward or state.retry):
        yield "declares a deadline, onward or retries; nothing happens there by itself"
    if state.kind != "active" and state.stage:
        yield "binds a stage, and only active states run one; drop it or change the kind"
    if state.kind == "active" and state.onward:
        yield "declares onward, and only its stage leads out of it; use done"
    if not works and (state.retry or state.done or state.partial or state.rejected):
        yield "declares retries or outcomes, and no attempt is ever made there; drop them"
    if state.on_demand and state.kind != "waiting":
        yield "declares a stage on demand, and only a waiting state may; bind it as its stage"
    if state.kind != "active" and state.deadline is not None and not state.deadline.path:
        yield "has a deadline without a path, and no attempt that it could fail; give it a path"
    if state.along and not state.produces:
        yield "names what goes along with its product, and has none; declare produces"
    if state.retry is not None:
        yield from _retry(state.retry)


def _retry(retry: Retry) -> Iterator[str]:
    if retry.mode == "round_trip" and (len(retry.failed) < 2 or not retry.again):
        yield (
            "retries by a round trip, which needs `again` and two states in `failed`: where to "
            "rest, and where it ends; name them"
        )
    if retry.mode != "round_trip" and retry.again:
        yield f"declares retry.again with mode {retry.mode}; only a round trip comes back"


def _repeats(chart: Chart, state: State) -> Iterator[Fault]:
    self_edge = state.name in chart.table[state.name]
    logged = state.retry is not None and state.retry.mode == "self_edge"
    again = state.same == "retry"
    if not self_edge == logged == again:
        parts = (
            f"self edge: {_yes(self_edge)}",
            f"retry mode self_edge: {_yes(logged)}",
            f'same = "retry": {_yes(again)}',
        )
        yield Fault(
            "repeat",
            f"{state.name} must have all of these or none: {', '.join(parts)}",
            chart.trace(state.name, f"here: {state.name} is asked for again"),
        )
    if state.same == "progress" and state.kind != "active":
        yield Fault(
            "repeat",
            f"{state.name} is {state.kind}; only an active state reports progress "
            '(same = "noop" accepts a repeat)',
            chart.trace(state.name, f"here: progress in {state.name} means nothing"),
        )


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"


# ---------------------------------------------------------------- edges and stages on demand


def _edges(chart: Chart) -> Iterator[Fault]:
    for edge in chart.workflow.edges:
        pair = f"{edge.source} -> {edge.target}"
        final = edge.source != ANY and chart.states[edge.source].kind == "final"
        if final:
            yield Fault(
                "final-exit",
                f"edge {pair} leads out of a final state; make {edge.source} "
                "settled, or drop the edge",
                chart.trace(
                    edge.source, f"here: {edge.source} is final, yet goes on to {edge.target}"
                ),
            )
        if not edge.by:
            yield Fault(
                "trigger",
                f'edge {pair} has no trigger; name who takes it ("admin" at least)',
                (f"edge {pair}", "here: nobody may take it"),
            )


def _on_demand(chart: Chart) -> Iterator[Fault]:
    """A command starts it outright, or by what its action answers."""
    starts = {
        name
        for command in chart.workflow.commands
        if command.on_demand or command.action is not None
        for name in command.walks
    }
    for state in chart.workflow.states:
        if state.on_demand and state.name not in starts:
            yield Fault(
                "shape",
                f"{state.name} has the stage {state.on_demand} on demand, and no command that is "
                "allowed there starts it; add one with on_demand",
                chart.trace(state.name, f"here: in {state.name} nobody can demand it"),
            )


def _otherwise(workflow: Workflow) -> Iterator[Fault]:
    """Refuse another path where there is no edge that it could replace."""
    places = [("birth", workflow.birth.guards)]
    places += [(f"command {command.name}", command.guards) for command in workflow.commands]
    for where, guards in places:
        for guard in guards:
            if guard.otherwise:
                yield Fault(
                    "shape",
                    f"{where}: guard {guard.call.name} declares otherwise, and only "
                    "a guard of an edge is walked around; move it to the edge",
                    (where, f"here: {guard.call.name} refuses, and that is all"),
                )


def _folder(workflow: Workflow) -> Iterator[Fault]:
    if workflow.folder and not FOLDER.fullmatch(workflow.folder):
        yield Fault(
            "shape",
            f"folder is {workflow.folder!r}; one name of letters, digits, '.', '_' and '-', "
            "without a dot in front",
            (f"workflow {workflow.name}", "here: its files have no place to lie in"),
        )


def _freed(chart: Chart) -> Iterator[Fault]:
    """Find states whose jobs may lose their key to a newer one and have no way to their end."""
    recipe = chart.workflow.recipe
    for name in recipe.freed if not recipe.supersede else ():
        if chart.states[name].kind != "final":
            yield Fault(
                "shape",
                f"recipe.freed names {name}, which is {chart.states[name].kind}, and supersede is "
                "empty; name the path by which the old job ends",
                chart.trace(name, f"here: two jobs have one key, and this one stays in {name}"),
            )


# ---------------------------------------------------------------- commands and editables


def _command(chart: Chart, command: Command) -> Iterator[Fault]:
    place = f"command {command.name}"
    if not command.walks:
        yield _unusable(place, " is allowed in no state; name one in walks", "it is always refused")
    if not command.roles:
        yield _unusable(place, " is for no role; name one", "it is forbidden")
    for name in command.satisfied:
        if name in command.walks:
            yield Fault(
                "command",
                f"{place} is both satisfied in {name} and walks from it; keep one",
                chart.trace(name, f"here: {place} is met, and walks are never looked at"),
            )
    if not 200 <= (status := command.status) < 300:
        text = f" answers {status}; a success is a 2xx"
        yield _unusable(place, text, f"success reads as {status}")
    for name in command.status_from:
        if name not in command.walks:
            text = f": status_from names {name}, where it is not allowed"
            yield _unusable(place, text, f"nothing is ever answered from {name}")
    if command.on_demand and not any(chart.states[name].on_demand for name in command.walks):
        text = " starts a stage on demand, and none of its states has one"
        yield _unusable(place, text, f"nothing to start in {', '.join(command.walks)}")
    yield from _from_final(chart, place, command.walks)


def _editable(chart: Chart, editable: Editable) -> Iterator[Fault]:
    place = f"editable {editable.name}"
    if not editable.walks:
        text = " can be written in no state; name one in walks"
        yield _unusable(place, text, "it is always refused")
    if not 0 <= (size := editable.max_size) <= EDIT_MAX:
        text = f" takes {size} bytes, which are read at once; 0 to {EDIT_MAX} are"
        yield _unusable(place, text, "max_size")
    yield from _from_final(chart, place, editable.walks)


def _unusable(place: str, text: str, here: str) -> Fault:
    return Fault("command", f"{place}{text}", (place, f"here: {here}"))


def _from_final(chart: Chart, place: str, walks: dict[str, tuple[str, ...]]) -> Iterator[Fault]:
    for name, path in walks.items():
        if path and chart.states[name].kind == "final":
            yield Fault(
                "command",
                f"{place} walks {name} -> {path[0]}, out of a final state; only "
                "an empty path is possible there",
                chart.trace(name, f"here: {name} is final, {place} would leave it"),
            )
