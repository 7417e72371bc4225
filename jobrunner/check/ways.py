"""Every way in which a job may move, and how it gets to a state: the map that ``check`` reads.

A *way* is one thing that can happen to a job in a state: an edge taken by hand or by callback, a
command, a deadline, the end of the retries … with the path it walks in one commit, who takes each
hop of it, and the words by which a trace tells it. Ways are listed with those that have a reason
first and bare edges last, so that the shortest trace is also the one that explains most.
"""

from collections import deque
from collections.abc import Iterator
from functools import cached_property
from typing import Literal

from msgspec import Struct

from jobrunner.core.declaration.workflow import EXTERNAL, Definition, Money, Retry, State, Workflow

WayCause = Literal[
    "edge",
    "command",
    "edit",
    "deadline",
    "done",
    "retry",
    "again",
    "failed",
    "onward",
    "divert",
    "supersede",
    "lapse",
]
OneOf = tuple[str, ...]


class Way(Struct, frozen=True):
    """``needs`` holds, for each hop, the groups of triggers of which its edge must list one.
    ``job_types`` limits a way to some of them (empty: all). ``opens_run`` and a lapse close the
    run that is open; ``replays`` is a command that knows its own repeat."""

    cause: WayCause
    source: str
    path: tuple[str, ...]
    by: tuple[str, ...]
    why: str = ""
    needs: tuple[tuple[OneOf, ...], ...] = ()
    money: Money | None = None
    opens_run: bool = False
    replays: bool = False
    job_types: tuple[str, ...] = ()

    @property
    def hops(self) -> list[tuple[str, str]]:
        return list(zip((self.source, *self.path), self.path, strict=False))

    @property
    def end(self) -> str:
        return self.path[-1] if self.path else self.source


class Chart:
    """A definition with its ways. All names of states in it are known to resolve."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.workflow = definition.workflow
        self.states = definition.states
        self.table = definition.table
        self.job_types = list(definition.job_types) or [""]

    @cached_property
    def ways(self) -> dict[str, list[Way]]:
        """Group the ways by the state in which they begin."""
        found: dict[str, list[Way]] = {name: [] for name in self.states}
        for way in all_ways(self):
            found[way.source].append(way)
        return found

    @cached_property
    def traces(self) -> dict[str, tuple[str, ...]]:
        """The shortest story of how a job comes to stand in each state that it can come to."""
        initial = self.workflow.initial
        traces: dict[str, tuple[str, ...]] = {initial: (f"born in {initial}",)}
        frontier = deque([initial])
        while frontier:
            source = frontier.popleft()
            for way in self.ways[source]:
                if way.end not in traces and self.walkable(way):
                    traces[way.end] = (*traces[source], *self.told(way))
                    frontier.append(way.end)
        return traces

    def trace(self, status: str, *lines: str) -> tuple[str, ...]:
        """Tell how a job comes to a state, and what is to be said about it there."""
        unreached = (f"{status} is declared, though nothing leads to it",)
        return (*self.traces.get(status, unreached), *lines)

    def walkable(self, way: Way) -> bool:
        return all(target in self.table[source] for source, target in way.hops)

    def told(self, way: Way) -> list[str]:
        return [self.hop(way, source, target) for source, target in way.hops]

    def hop(self, way: Way, source: str, target: str) -> str:
        """One line of a trace."""
        edge = self.table[source].get(target)
        why = f": {way.why}" if way.why else ""
        money = f" ({edge.money})" if edge and edge.money else ""
        return f"{source} -> {target} by {' or '.join(way.by)}{why}{money}"

    def external_for(self, state: State) -> list[str]:
        """The types of job for which no stage of ours works on this active state."""
        return [
            job_type
            for job_type in self.job_types
            if self.definition.stage_of(state.name, job_type) == EXTERNAL
        ]

    def house_for(self, state: State) -> list[str]:
        outside = self.external_for(state)
        return [job_type for job_type in self.job_types if job_type not in outside]


def all_ways(chart: Chart) -> Iterator[Way]:
    """List all ways: those with a reason first, bare edges last."""
    for state in chart.workflow.states:
        yield from _of_a_state(chart, state)
    yield from _of_commands(chart.workflow)
    yield from _of_uploads(chart.workflow)
    yield from _of_guards(chart)
    for lock in chart.workflow.locks:
        if lock.lapse_s:
            for status in lock.held:
                yield Way(
                    "lapse", status, (), ("timer",), f"no sign of life for {lock.lapse_s:g} s"
                )
    for status in chart.workflow.recipe.freed:
        if chart.states[status].kind == "final":
            continue
        path = chart.workflow.recipe.supersede
        yield Way(
            "supersede",
            status,
            path,
            ("engine",),
            "superseded by a new submission",
            each(path, ("engine",)),
        )
    for source, edges in chart.table.items():
        for target, edge in edges.items():
            yield Way("edge", source, (target,), edge.by or ("admin",))


def each(path: tuple[str, ...], *groups: OneOf) -> tuple[tuple[OneOf, ...], ...]:
    """The same needs for every hop."""
    return (groups,) * len(path)


# ---------------------------------------------------------------- ways of a state


def _of_a_state(chart: Chart, state: State) -> Iterator[Way]:
    yield from _onward(chart, state)
    yield from _outcomes(chart, state)
    if state.retry is not None:
        yield from _retries(chart, state, state.retry)
    if state.deadline is not None and state.deadline.path:
        path = state.deadline.path
        yield Way(
            "deadline",
            state.name,
            path,
            ("timer",),
            f"deadline {_after(state)}",
            (*each(path[1:], ("engine", "timer")), (("timer",),)),
        )


def _after(state: State) -> str:
    after_s = state.deadline.after_s if state.deadline else 0
    return f"{after_s:g} s" if after_s else "(off by default)"


def _onward(chart: Chart, state: State) -> Iterator[Way]:
    targets = {j: chart.definition.onward_of(state.name, j) for j in chart.job_types}
    for target in dict.fromkeys(targets.values()):
        if not target:
            continue
        job_types = tuple(job_type for job_type in targets if targets[job_type] == target)
        why = "" if len(job_types) == len(targets) else f"onward for {', '.join(job_types)}"
        yield Way(
            "onward",
            state.name,
            (target,),
            ("engine",),
            why or "onward",
            each((target,), ("engine",)),
            job_types=job_types,
        )


def _outcomes(chart: Chart, state: State) -> Iterator[Way]:
    inside = bool(state.on_demand) or (state.kind == "active" and bool(chart.house_for(state)))
    for outcome, target in _named_outcomes(state):
        needs = each((target,), ("stage",)) if inside else ()
        yield Way(
            "done",
            state.name,
            (target,),
            ("stage",) if inside else ("workflow",),
            f"outcome {outcome}",
            needs,
        )


def _named_outcomes(state: State) -> list[tuple[str, str]]:
    named = (("done", state.done), ("partial", state.partial), ("rejected", state.rejected))
    return [(outcome, target) for outcome, target in named if target]


def _retries(chart: Chart, state: State, retry: Retry) -> Iterator[Way]:
    """The bounded ones, and the end of them: exhaustion, a permanent error, or a crash."""
    in_house = state.kind == "active" and bool(chart.house_for(state))
    first = _failing(state, in_house)
    if retry.mode == "round_trip" and retry.failed and retry.again:
        yield Way("retry", state.name, retry.failed[:1], _who(first), "a failure, with budget left")
        yield Way(
            "again",
            retry.failed[0],
            (retry.again,),
            ("timer",),
            "backoff over",
            each((retry.again,), ("timer",)),
        )
    if retry.mode == "self_edge":
        yield Way(
            "retry", state.name, (state.name,), _who(first), "a failure, with budget left", (first,)
        )
    if retry.failed:
        later = each(retry.failed[1:], ("engine", "stage"))
        yield Way(
            "failed",
            state.name,
            retry.failed,
            _who(first),
            f"attempts exhausted ({retry.max})",
            (first, *later),
        )


def _failing(state: State, in_house: bool) -> tuple[OneOf, ...]:
    """Name those who must be allowed to report a failure: a stage of ours, and its clocks."""
    clocks = state.limit_s or state.heartbeat_s or (state.deadline and not state.deadline.path)
    return ((("stage",),) if in_house else ()) + ((("timer",),) if clocks else ())


def _who(groups: tuple[OneOf, ...]) -> tuple[str, ...]:
    return tuple(group[0] for group in groups) or ("workflow",)


# ---------------------------------------------------------------- ways that somebody asks for


def _of_commands(workflow: Workflow) -> Iterator[Way]:
    for command in workflow.commands:
        groups = tuple((role,) for role in command.roles if role != "admin")
        for status, path in command.walks.items():
            if path or command.money is not None:
                yield Way(
                    "command",
                    status,
                    path,
                    command.roles,
                    f"command {command.name}",
                    each(path, *groups),
                    command.money,
                    command.opens_run,
                    command.identity is not None,
                )
    for editable in workflow.editables:
        for status, path in editable.walks.items():
            if path:
                yield Way(
                    "edit",
                    status,
                    path,
                    ("user",),
                    f"edit of {editable.name}",
                    each(path, ("user",)),
                )


def _of_uploads(workflow: Workflow) -> Iterator[Way]:
    for upload in workflow.uploads:
        for what, walks in (("the first byte", upload.begins), ("the file", upload.walks)):
            for status, path in walks.items():
                if path:
                    why = f"{what} of upload {upload.name}"
                    yield Way("edit", status, path, ("user",), why, each(path, ("user",)))


# ---------------------------------------------------------------- ways instead of a refusal


def _of_guards(chart: Chart) -> Iterator[Way]:
    for source, edges in chart.table.items():
        for target, edge in edges.items():
            for guard in edge.guards:
                if guard.otherwise:
                    yield Way(
                        "divert",
                        source,
                        guard.otherwise,
                        ("engine",),
                        f"guard {guard.call.name} refuses {target}",
                        each(guard.otherwise, ("engine",)),
                    )
