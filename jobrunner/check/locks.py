"""Checks that every active state is locked against a second worker, and every lock is let go.

A scope is freed by leaving its states, so it cannot be forgotten on the way out. What can go wrong
is a state that is never left: there the scope would be held for good.
"""

from collections import Counter
from collections.abc import Iterator

from jobrunner.check.faults import Fault
from jobrunner.check.ways import Chart
from jobrunner.core.declaration.workflow import Lock, State


def mislocked(chart: Chart) -> Iterator[Fault]:
    """Look at every lock, and every state that should have one."""
    for lock in chart.workflow.locks:
        for name in lock.guarded:
            yield from _guarded(chart, lock, chart.states[name])
        for name in lock.held:
            yield from _held(chart, lock, chart.states[name])
    guarded = Counter(name for lock in chart.workflow.locks for name in lock.guarded)
    for state in chart.workflow.states:
        if state.kind == "active" and not guarded[state.name]:
            yield Fault(
                "lock",
                f"active state {state.name} is guarded by no lock, so two workers "
                "could work on one job; add it to a scope",
                chart.trace(state.name, f"here: a second attempt may begin in {state.name}"),
            )
        if guarded[state.name] > 1:
            yield Fault(
                "lock",
                f"{state.name} is guarded {guarded[state.name]} times; one scope guards a state",
                chart.trace(state.name, "here: which scope is taken?"),
            )


def _guarded(chart: Chart, lock: Lock, state: State) -> Iterator[Fault]:
    if state.rests:
        kind = "waits for a person" if state.kind == "waiting" else f"is {state.kind}"
        yield Fault(
            "lock",
            f"lock {lock.scope} guards {state.name}, which {kind}: it may never be "
            "released; guard the states in which work is done",
            chart.trace(state.name, f"here: lock {lock.scope} is held for good"),
        )


def _held(chart: Chart, lock: Lock, state: State) -> Iterator[Fault]:
    if state.ended:
        yield Fault(
            "lock",
            f"lock {lock.scope} is held in {state.name}, which is {state.kind}; it "
            "would never be released",
            chart.trace(state.name, f"here: lock {lock.scope} is held for good"),
        )
    elif not lock.lapse_s and not _moves_on(chart, state):
        yield Fault(
            "lock",
            f"lock {lock.scope} is held in {state.name}, which nothing leaves by "
            "itself, and it has no lapse_s; give it one",
            chart.trace(state.name, f"here: lock {lock.scope} is held until somebody comes"),
        )


def _moves_on(chart: Chart, state: State) -> bool:
    timed = state.deadline is not None and state.deadline.after_s > 0
    if timed or state.kind == "active":
        return True
    if any(way.cause == "again" for way in chart.ways[state.name]):
        return True
    return all(_in_house(chart, state, job_type) for job_type in chart.job_types)


def _in_house(chart: Chart, state: State, job_type: str) -> bool:
    target = chart.definition.onward_of(state.name, job_type)
    return bool(target) and chart.definition.goes_on(target, job_type)
