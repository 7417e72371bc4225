"""Checks that money is settled exactly once, whatever happens to a job.

All that can happen is tried: from birth on, every way out of every state is followed in every
standing that the money can have there, with what moved already in the current run. There are few
such standings, so this is a search of a small graph and not of an endless number of histories.
Prices play no part: what costs nothing today may cost something tomorrow.
"""

from collections import deque
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from jobrunner.check.faults import Fault
from jobrunner.check.ways import Chart, Way
from jobrunner.core.credits import AFTER, NEEDS, Standing
from jobrunner.core.declaration.workflow import Definition, Money

FORGOTTEN = "a new run begins while the hold of the last one is not settled; settle it before"
LEFT_OPEN = "the hold of this run is not settled and nothing can happen any more"
CURES = {
    FORGOTTEN: ", or keep the run open where a person is waited for (person=False, with a "
    "deadline), or let the stage ask; see PLUGINS.md, A hold over a person",
    LEFT_OPEN: '; give the edge that leads there money="capture" or "release"',
}


class CreditState(Struct, frozen=True):
    """A job's place, the state of its money, what moved in the current run, and whether that
    run is still open."""

    status: str
    credits: Standing
    moved: frozenset[str] = frozenset()
    live: bool = True


class Step(Struct, frozen=True):
    """A way tried: where it led, how a trace tells it, and what is wrong with it, if anything."""

    purse: CreditState
    lines: tuple[str, ...]
    problem: str = ""
    place: str = ""


def unsettled(chart: Chart) -> Iterator[Fault]:
    """List every impossible move of money and every hold left open, each by its shortest path."""
    return _searched(chart, {})


def standings(definition: Definition) -> frozenset[tuple[str, str, bool]]:
    """Everything that the money of a job can be, by status and by whether its run is open: from
    there a declaration without faults settles it."""
    stories: dict[CreditState, tuple[str, ...]] = {}
    deque(_searched(Chart(definition), stories), maxlen=0)
    return frozenset((one.status, one.credits, one.live) for one in stories)


def _searched(chart: Chart, stories: dict[CreditState, tuple[str, ...]]) -> Iterator[Fault]:
    """``stories`` gets every standing that is found, with the lines that lead there."""
    born = _birth(chart)
    if born.problem:
        yield _fault(born, ())
        return
    stories[born.purse] = born.lines
    frontier = deque([born.purse])
    told: set[tuple[str, str]] = set()
    while frontier:
        purse = frontier.popleft()
        for way in chart.ways[purse.status]:
            step = _try(chart, purse, way)
            if step.problem and (step.problem, step.place) not in told:
                told.add((step.problem, step.place))
                yield _fault(step, stories[purse])
            elif not step.problem and step.purse not in stories:
                stories[step.purse] = stories[purse] + step.lines
                frontier.append(step.purse)


def _fault(step: Step, story: tuple[str, ...]) -> Fault:
    cure = CURES.get(step.problem, "")
    trace = (*story, *step.lines, f"here: {step.problem}")
    return Fault("money", f"{step.place}: {step.problem}{cure}", trace)


def _birth(chart: Chart) -> Step:
    initial, money = chart.workflow.initial, chart.workflow.birth.money
    line = f"born in {initial}" + (f" ({money})" if money else "")
    purse, problem = CreditState(initial, "none"), ""
    if money:
        purse, problem = _move(purse, money)
    purse = msgspec.structs.replace(purse, live=not chart.states[initial].rests)
    return Step(purse, (line,), problem or _left_open(chart, purse), "birth")


def _try(chart: Chart, purse: CreditState, way: Way) -> Step:
    """The same order as when a job moves: a run is opened, money moves, the state is entered."""
    lines: list[str] = []
    if not chart.walkable(way):
        return Step(purse, ())
    if way.cause == "lapse":
        return _lapse(purse, way)
    if way.opens_run:
        purse = msgspec.structs.replace(purse, live=False)
    for source, target in way.hops:
        place, money = f"{source} -> {target}", chart.table[source][target].money
        lines.append(chart.hop(way, source, target))
        purse, problem = _hop(chart, purse, target, money)
        if problem:
            return Step(purse, tuple(lines), problem, place)
    return _finish(chart, purse, way, tuple(lines))


def _lapse(purse: CreditState, way: Way) -> Step:
    open_still = purse.live and purse.credits == "held"
    problem = "the run is closed while its hold is not settled; settle it before" * open_still
    line = f"{purse.status}: the run is closed by timer: {way.why}"
    return Step(msgspec.structs.replace(purse, live=False), (line,), problem, purse.status)


def _hop(
    chart: Chart, purse: CreditState, target: str, money: Money | None
) -> tuple[CreditState, str]:
    problem = ""
    closes = chart.states[target].rests
    if not purse.live and not closes:
        purse, problem = _open_run(purse)
    if money and not problem:
        purse, problem = _move(purse, money)
    return msgspec.structs.replace(purse, status=target, live=purse.live and not closes), problem


def _finish(chart: Chart, purse: CreditState, way: Way, lines: tuple[str, ...]) -> Step:
    """The money of a command itself, and the end of the walk."""
    place = f"{way.source} -> {way.end}" if way.path else f"{way.why} in {way.source}"
    if way.money and not (way.replays and purse.credits == AFTER[way.money]):
        lines = (*lines, f"{purse.status}: {way.why} by {' or '.join(way.by)} ({way.money})")
        purse, problem = _move(purse, way.money)
        if problem:
            return Step(purse, lines, problem, place)
    return Step(purse, lines, _left_open(chart, purse), place)


def _open_run(purse: CreditState) -> tuple[CreditState, str]:
    problem = ""
    if purse.credits == "held":
        problem = FORGOTTEN
    return msgspec.structs.replace(purse, moved=frozenset(), live=True), problem


def _move(purse: CreditState, money: Money) -> tuple[CreditState, str]:
    if purse.credits not in NEEDS[money]:
        return purse, _impossible(purse, money)
    if money in purse.moved:
        return purse, f"a second {money} in one run; a run moves money of a kind once"
    moved = purse.moved | {money}
    return msgspec.structs.replace(purse, credits=AFTER[money], moved=moved), ""


def _impossible(purse: CreditState, money: Money) -> str:
    needed = " or ".join(sorted(NEEDS[money]))
    stands = "nothing is held or charged" if purse.credits == "none" else f"it is {purse.credits}"
    return f"a {money} needs money that is {needed}, and here {stands}"


def _left_open(chart: Chart, purse: CreditState) -> str:
    ended = chart.states[purse.status].ended
    if not ended or purse.credits != "held":
        return ""
    return LEFT_OPEN
