"""Checks that jobs are taken one at a time where work is done, and how many at a time."""

from collections.abc import Iterator

from jobrunner.check.faults import Fault
from jobrunner.check.ways import Chart
from jobrunner.core.declaration.workflow import State


def without_turns(chart: Chart) -> Iterator[Fault]:
    for state in chart.workflow.states:
        if problem := _problem(state):
            yield Fault(
                "one-at-a-time",
                f"{state.name} {problem}",
                (state.name, f"here: it {problem.split(';', maxsplit=1)[0]}"),
            )


def _problem(state: State) -> str:
    if state.at_a_time < 1:
        return f"takes {state.at_a_time} at a time; it must be a whole number from 1"
    if state.one_at_a_time is None:
        return "says at_a_time and no one_at_a_time; say by what" if state.at_a_time > 1 else ""
    if state.kind != "active":
        return f"is a {state.kind} state; one_at_a_time is for the active state where work is done"
    return ""
