"""Checks that every job comes to an end without a person, where none is waited for.

Three questions. Can each state be reached, and left for good in the end? Where nobody is waited
for, is there a way out that happens by itself? And do the ways that happen by themselves lead
anywhere, or in a circle? Retries are a circle too, but a counted one: their budget ends them.
"""

from collections import deque
from collections.abc import Iterator

from jobrunner.check.faults import Fault
from jobrunner.check.ways import Chart, Way
from jobrunner.core.declaration.workflow import State

BY_ITSELF = frozenset({"deadline", "failed", "onward"})
WHILE_NOBODY_IS_WAITED_FOR = frozenset({"done", "divert"})


def stranded(chart: Chart) -> Iterator[Fault]:
    """Ask all three questions."""
    yield from _unreached(chart)
    yield from _trapped(chart)
    for state in chart.workflow.states:
        if state.kind == "active":
            yield from _outside(chart, state)
            yield from _inside(chart, state)
        elif state.kind == "queued" or (state.kind == "waiting" and not state.person):
            yield from _idle(chart, state)
    yield from _circles(chart)


# ---------------------------------------------------------------- in, and out for good


def _unreached(chart: Chart) -> Iterator[Fault]:
    for name in chart.states:
        if name not in chart.traces:
            yield Fault(
                "reachable",
                f"no edge leads a job to {name}; add one, or drop the state",
                (
                    f"born in {chart.workflow.initial}",
                    "every declared way was followed",
                    f"here: {name} was never met",
                ),
            )


def _trapped(chart: Chart) -> Iterator[Fault]:
    ended = {name for name, state in chart.states.items() if state.ended}
    while found := {
        name
        for name, edges in chart.table.items()
        if name not in ended and any(target in ended for target in edges)
    }:
        ended |= found
    for name in chart.states:
        if name not in ended:
            yield Fault(
                "trap",
                f"from {name} no settled or final state can be reached; add an edge to one",
                chart.trace(name, f"here: whatever is done in {name}, the job never ends"),
            )


# ---------------------------------------------------------------- a way out of each state


def _outside(chart: Chart, state: State) -> Iterator[Fault]:
    """States in which an outside worker is awaited: it may never come."""
    job_types = chart.external_for(state)
    if not job_types:
        return
    deadline = state.deadline
    here = f"here: {state.name} is bound to external{_of(chart, job_types)}, and nobody need come"
    if deadline is None or not deadline.after_s:
        text = f"{state.name} is driven from outside and has no deadline; give it "
        yield _no_way(chart, state, f"{text}one, with a path or (with retries) without", here)
    elif not deadline.path and not _fails_out(state):
        text = f"the deadline of {state.name} fails the attempt, and the retries lead nowhere; "
        text += "give the deadline a path, or the state a retry policy"
        yield _no_way(chart, state, text, here, f"here: {deadline.after_s:g} s are over")
    elif deadline.path and deadline.path[-1] == state.name:
        text = f"the deadline of {state.name} leads back to it; lead it elsewhere"
        yield _no_way(chart, state, text, here)


def _inside(chart: Chart, state: State) -> Iterator[Fault]:
    """States in which a stage of ours works: it may hang, and it may fail."""
    job_types = chart.house_for(state)
    if not job_types:
        return
    works = f"here: the stage of {state.name}{_of(chart, job_types)}"
    if not state.limit_s:
        text = f"an attempt in {state.name} has no time limit (a deadline does not run while a "
        text += "stage works); give the state a limit_s"
        yield _no_way(chart, state, text, f"{works} hangs, and nothing can happen any more")
    if not _fails_out(state):
        text = f"a failed attempt in {state.name} leads nowhere; give the state a "
        text += "retry policy whose `failed` leaves it"
        yield _no_way(chart, state, text, f"{works} fails, and nothing can happen any more")
    if not state.done:
        text = f"success in {state.name} leads nowhere; say in `done` where to"
        yield _no_way(chart, state, text, f"{works} is done, and that counts as a failure")


def _no_way(chart: Chart, state: State, text: str, *here: str) -> Fault:
    return Fault("way-out", text, chart.trace(state.name, *here))


def _fails_out(state: State) -> bool:
    retry = state.retry
    return retry is not None and bool(retry.failed) and retry.failed[-1] != state.name


def _idle(chart: Chart, state: State) -> Iterator[Fault]:
    """States in which nobody works and nobody is waited for."""
    if state.deadline is not None and state.deadline.after_s and state.deadline.path:
        return
    if any(way.cause == "again" for way in chart.ways[state.name]) or _lapses(chart, state):
        return
    stuck = [job_type for job_type in chart.job_types if not _taken_on(chart, state, job_type)]
    if stuck:
        text = f"nothing takes a job{_of(chart, stuck)} out of {state.name}; add "
        text += "`onward`, a deadline, or (if a person is meant to come) `person`"
        here = f"here: {state.name} waits for no person, and nothing can happen any more"
        yield _no_way(chart, state, text, here)


def _lapses(chart: Chart, state: State) -> bool:
    """The run is closed after a while, and a command may resume from here."""
    return any(state.name in lock.held and lock.lapse_s for lock in chart.workflow.locks)


def _taken_on(chart: Chart, state: State, job_type: str) -> bool:
    """The engine takes it on; or, from a line, an outside worker does, whose claim is a pick-up."""
    definition = chart.definition
    target = definition.onward_of(state.name, job_type)
    if not target or target == state.name:
        return False
    if state.kind == "waiting" or definition.goes_on(target, job_type):
        return definition.goes_on(target, job_type)
    edge = chart.table[state.name].get(target)
    return chart.states[target].kind != "active" or (edge is not None and "workflow" in edge.by)


def _of(chart: Chart, job_types: list[str]) -> str:
    if len(job_types) == len(chart.job_types):
        return ""
    return f" (of type {', '.join(job_types)})"


# ---------------------------------------------------------------- circles without a count


def _circles(chart: Chart) -> Iterator[Fault]:
    known: set[frozenset[str]] = set()
    for job_type in chart.job_types:
        for name in chart.states:
            circle = _circle(chart, name, job_type)
            members = frozenset(way.source for way in circle)
            if circle and members not in known:
                known.add(members)
                yield Fault(
                    "endless",
                    f"{' -> '.join(w.source for w in circle)} -> {name} goes "
                    "round by itself without a budget; break it, or make it a retry",
                    chart.trace(
                        name,
                        *(line for way in circle for line in chart.told(way)),
                        f"here: again in {name}, and nothing counts how often",
                    ),
                )


def _circle(chart: Chart, name: str, job_type: str) -> list[Way]:
    """The shortest round that a job makes by itself from this state back to it."""
    before: dict[str, list[Way]] = {name: []}
    frontier = deque([name])
    while frontier:
        source = frontier.popleft()
        for way in _by_itself(chart, source, job_type):
            if way.end == name:
                return [*before[source], way]
            if way.end not in before:
                before[way.end] = [*before[source], way]
                frontier.append(way.end)
    return []


def _by_itself(chart: Chart, source: str, job_type: str) -> Iterator[Way]:
    causes = BY_ITSELF
    if not chart.states[source].rests:
        causes |= WHILE_NOBODY_IS_WAITED_FOR
    for way in chart.ways[source]:
        applies = not way.job_types or job_type in way.job_types
        if way.cause in causes and applies and chart.walkable(way):
            yield way
