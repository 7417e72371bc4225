"""``check`` finds what is wrong with a workflow when it is loaded, not when a job gets there.

Each fault comes with a counter-example: the steps of one job, as its history would tell them, and
where it stands then. The rules look at declared data only. A guard may refuse whatever it likes,
so a way counts as walked by the engine only if no guard can bar it.

The order is that of understanding. Types first: whatever is read later may take them for granted.
Then names: with one that stands for nothing no further rule is asked, since it would tell echoes.
Then shapes, ways, life, money, locks.
"""

from collections.abc import Iterable, Iterator

from jobrunner.check.artifacts import unlistable
from jobrunner.check.credits import unsettled
from jobrunner.check.endings import stranded
from jobrunner.check.families import uncovered
from jobrunner.check.faults import Fault
from jobrunner.check.fields import misshapen
from jobrunner.check.locks import mislocked
from jobrunner.check.names import Taken, misnamed, unresolved
from jobrunner.check.one_at_a_time import without_turns
from jobrunner.check.singletons import crowded
from jobrunner.check.types import illformed
from jobrunner.check.ways import Chart, Way
from jobrunner.core.declaration.workflow import Definition, Edge, State

__all__ = ["Fault", "check"]

TRIGGERS = {
    "onward": ("engine",),
    "deadline": ("timer",),
    "again": ("timer",),
    "failed": ("stage", "timer", "engine"),
    "divert": ("engine",),
    "supersede": ("engine",),
}
FAILURES = ("failed", "rejected", "canceled", "expired")


def check(
    definition: Definition, taken: Taken = frozenset(), declared: Definition | None = None
) -> tuple[Fault, ...]:
    """Everything that is wrong. ``taken`` are the (method, path) patterns of the service itself,
    which a workflow's own routes must not shadow; ``declared`` is the same without what the
    operator has set: a price may be set to 0 by whoever asks for none."""
    return (
        _once(illformed(definition))
        or _once(misnamed(definition))
        or _once(_faults(Chart(definition), taken, declared or definition))
    )


def _faults(chart: Chart, taken: Taken, declared: Definition) -> Iterator[Fault]:
    yield from unresolved(chart.definition, taken)
    yield from uncovered(declared.workflow)
    yield from misshapen(chart)
    yield from unlistable(chart)
    yield from without_turns(chart)
    yield from crowded(chart.workflow)
    for ways in chart.ways.values():
        for way in ways:
            yield from _walked(chart, way)
    yield from _failures(chart)
    yield from stranded(chart)
    yield from unsettled(chart)
    yield from mislocked(chart)


def _once(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    return tuple({(fault.rule, fault.text): fault for fault in faults}.values())


# ---------------------------------------------------------------- ways


def _walked(chart: Chart, way: Way) -> Iterator[Fault]:
    """Say what is wrong with a way: a hop that is not declared, may not be taken by whoever takes
    it, or is barred by a guard."""
    if way.cause == "retry" and way.path == (way.source,):
        return
    for number, (source, target) in enumerate(way.hops):
        edge = chart.table[source].get(target)
        steps = chart.trace(way.source, *chart.told(way)[: number + 1])
        if edge is None:
            yield _undeclared(way, source, target, steps)
            return
        if fault := _untriggered(way, edge, number, source, steps):
            yield fault
        if fault := _barred(way, edge, source, steps):
            yield fault


def _undeclared(way: Way, source: str, target: str, steps: tuple[str, ...]) -> Fault:
    return Fault(
        "undeclared-edge",
        f"{_named(way)} walks {source} -> {target}, which is not "
        "declared; declare the edge or change the path",
        (*steps, f"here: there is no edge {source} -> {target}"),
    )


def _untriggered(
    way: Way, edge: Edge, number: int, source: str, steps: tuple[str, ...]
) -> Fault | None:
    groups = way.needs[number] if number < len(way.needs) else ()
    lacking = [" or ".join(group) for group in groups if not set(group) & set(edge.by)]
    if not lacking:
        return None
    pair = f"{source} -> {edge.target}"
    return Fault(
        "trigger",
        f"{_named(way)} walks {pair}, which is for {', '.join(edge.by)} only; "
        f"add {' and '.join(lacking)} to its triggers",
        (*steps, f"here: {pair} does not list {' and '.join(lacking)}"),
    )


def _barred(way: Way, edge: Edge, source: str, steps: tuple[str, ...]) -> Fault | None:
    """Find guards where the engine itself must get through: nobody is there to be told of a
    refusal."""
    triggers = set(TRIGGERS.get(way.cause, ()))
    for guard in edge.guards:
        asked = triggers & set(guard.on) if guard.on else triggers
        if asked and not guard.otherwise:
            who = " or ".join(sorted(asked))
            return Fault(
                "barred",
                f"{_named(way)} walks {source} -> {edge.target}, where guard "
                f"{guard.call.name} may refuse; give it `otherwise`, or limit it by `on`",
                (*steps, f"here: {guard.call.name} refuses the {who}, and the job is stuck"),
            )
    return None


def _named(way: Way) -> str:
    if way.cause in ("command", "edit", "divert"):
        return way.why
    nouns = {"failed": "the end of the retries", "done": way.why, "retry": "the retry"}
    return f"{nouns.get(way.cause, 'the ' + way.cause)} of {way.source}"


# ---------------------------------------------------------------- failures


def _failures(chart: Chart) -> Iterator[Fault]:
    for state in chart.workflow.states:
        retry = state.retry
        if retry is None or not retry.failed:
            continue
        end = chart.states[retry.failed[-1]]
        if end.ended and not _failing(end):
            yield Fault(
                "failure",
                f"the retries of {state.name} end in {end.name}, which does not "
                "read as a failure; give it `fails` or `ends`, or lead elsewhere",
                chart.trace(
                    state.name,
                    f"{state.name} fails for good",
                    f"here: {end.name} tells nobody that it failed",
                ),
            )
        if retry.mode == "round_trip":
            yield from _rest(chart, state, chart.states[retry.failed[0]])


def _failing(state: State) -> bool:
    return bool(state.fails) or state.dead_letter or state.ends in FAILURES


def _rest(chart: Chart, state: State, rest: State) -> Iterator[Fault]:
    if rest.kind != "waiting" or rest.person:
        yield Fault(
            "failure",
            f"the round trip of {state.name} rests in {rest.name}, where its run "
            "would end; make that a waiting state with person = False",
            chart.trace(
                state.name,
                f"here: {rest.name} is {rest.kind}, and a timer is to bring the job back",
            ),
        )
