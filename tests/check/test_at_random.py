"""The check of declarations as accidents leave them: it always answers, and never cries wolf.

A story of lost money is walked again here, along the declared edges and with a ledger of its own.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from jobrunner.check.checking import Fault
from jobrunner.core.declaration.workflow import (
    Birth,
    Command,
    Deadline,
    Definition,
    Edge,
    Editable,
    Lock,
    Money,
    Recipe,
    Retry,
    Workflow,
)
from tests.core.declared import SAMPLE, STATES, define, faults, guard

NAMES = [*(state.name for state in STATES), "gone"]
names = st.sampled_from(NAMES)
paths = st.lists(names, max_size=3).map(tuple)


@st.composite
def mutated(draw: st.DrawFn) -> Workflow:
    """The sample after a few accidents: things dropped, renamed, exchanged."""
    workflow = SAMPLE
    for _ in range(draw(st.integers(1, 4))):
        workflow = draw(st.sampled_from(ACCIDENTS))(draw, workflow)
    return workflow


def drop(draw: st.DrawFn, workflow: Workflow) -> Workflow:
    field = draw(st.sampled_from(["states", "edges", "commands", "locks", "job_types", "routes"]))
    items = getattr(workflow, field)
    if not items:
        return workflow
    gone = draw(st.integers(0, len(items) - 1))
    return replace(workflow, **{field: items[:gone] + items[gone + 1 :]})


def change_edge(draw: st.DrawFn, workflow: Workflow) -> Workflow:
    if not workflow.edges:
        return workflow
    at = draw(st.integers(0, len(workflow.edges) - 1))
    changed: Callable[..., Edge] = draw(
        st.sampled_from(
            [
                lambda e: replace(e, money=draw(st.sampled_from([None, *get_args(Money)]))),
                lambda e: replace(e, source=draw(st.sampled_from(["*", *NAMES]))),
                lambda e: replace(e, target=draw(names)),
                lambda e: replace(e, by=()),
                lambda e: replace(e, guards=guard("allowed", otherwise=draw(paths))),
            ]
        )
    )
    edges = list(workflow.edges)
    edges[at] = changed(edges[at])
    return replace(workflow, edges=tuple(edges))


def change_state(draw: st.DrawFn, workflow: Workflow) -> Workflow:
    if not workflow.states:
        return workflow
    at = draw(st.integers(0, len(workflow.states) - 1))
    kinds = st.sampled_from(["waiting", "queued", "active", "settled", "final"])
    modes = st.sampled_from(["round_trip", "inside", "self_edge"])
    changed: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "name": names,
                "kind": kinds,
                "done": names,
                "onward": st.builds(dict, **{"*": names}),
                "deadline": st.builds(Deadline, st.sampled_from([0, 5]), paths),
                "retry": st.none() | st.builds(Retry, modes, paths, names),
                "person": st.booleans(),
                "stage": st.sampled_from([{}, {"*": "external"}, {"far": "sample.run"}]),
            },
        )
    )
    states = list(workflow.states)
    states[at] = replace(states[at], **changed)
    return replace(workflow, states=tuple(states))


def change_rest(draw: st.DrawFn, workflow: Workflow) -> Workflow:
    walks = draw(st.dictionaries(names, paths, max_size=3))
    money = draw(st.sampled_from([None, *get_args(Money)]))
    changes: list[dict[str, Any]] = [
        {"initial": draw(names)},
        {"birth": Birth(money=money)},
        {"commands": (*workflow.commands, Command("more", walks, money=money, opens_run=True))},
        {"editables": (Editable("text", walks),)},
        {"recipe": Recipe(freed=draw(paths), supersede=draw(paths))},
        {"locks": (Lock("job", draw(paths), draw(paths), lapse_s=draw(st.sampled_from([0, 9]))),)},
    ]
    return replace(workflow, **draw(st.sampled_from(changes)))


ACCIDENTS = [drop, change_edge, change_state, change_rest]
HOP = re.compile(r"^(\S+) -> (\S+) by .*?(?: \((hold|capture|release|charge|refund)\))?$")
ASKED = re.compile(r": command (\S+)")
COMMAND = re.compile(r"^\S+: command (\S+) by .* \((hold|capture|release|charge|refund)\)$")


@settings(max_examples=400, deadline=None)
@given(mutated())
def test_check_never_raises_and_its_money_faults_are_real(workflow: Workflow) -> None:
    """Whatever is declared is answered with faults; and a story of lost money really happens."""
    for fault in faults(workflow):
        assert fault.rule
        assert fault.text
        assert fault.trace[-1].startswith("here:")
        if fault.rule == "money":
            assert replayed(define(workflow), fault) is not None, fault


def replayed(definition: Definition, fault: Fault) -> str | None:
    """Walks a trace along the declared edges, with a ledger of its own; what goes wrong, if so."""
    status, live, moves = born(definition, fault.trace[0])
    walking = 0
    for line in fault.trace[1:-1]:
        walking = max(walking - 1, 0)
        if hop := HOP.match(line):
            source, target, money = hop.groups()
            assert status == source, "the steps of a trace follow each other"
            assert definition.table[source][target].money == money
            if not walking and (asked := ASKED.search(line)):
                declared = definition.commands[asked[1]]
                walking = len(declared.walks[source]) + (declared.money is not None)
                live = live and not declared.opens_run
            if not live and not ends(definition, target):
                live = True
                if unsettled(moves):
                    return "a new run over an open hold"
                moves.append("run")
            status, live = target, live and not ends(definition, target)
            moves += [money] if money else []
        elif command := COMMAND.match(line):
            declared = definition.commands[command[1]]
            live = live and bool(walking or not declared.opens_run)
            moves.append(command[2])
        elif "closed by timer" in line and unsettled(moves):
            return "closed over an open hold"
    if definition.states[status].kind in ("settled", "final") and unsettled(moves):
        return "ended over an open hold"
    return impossible(moves)


def born(definition: Definition, line: str) -> tuple[str, bool, list[str]]:
    initial, money = definition.workflow.initial, definition.workflow.birth.money
    assert line == f"born in {initial}" + (f" ({money})" if money else "")
    return initial, not ends(definition, initial), [money] if money else []


def ends(definition: Definition, status: str) -> bool:
    """A run ends with the job, or where a person is waited for."""
    found = definition.states[status]
    return found.kind in ("settled", "final") or (found.kind == "waiting" and found.person)


def unsettled(moves: list[str]) -> bool:
    money = [move for move in moves if move != "run"]
    return bool(money) and money[-1] == "hold"


def impossible(moves: list[str]) -> str | None:
    """The first move that a ledger would refuse."""
    money = [move for move in moves if move != "run"]
    for before, after in pairwise(["", *money]):
        if after in ("capture", "release") and before != "hold":
            return f"{after} without a hold"
        if after == "refund" and before != "charge":
            return "refund without a charge"
        if before == "hold" and after not in ("capture", "release"):
            return f"{after} over an open hold"
        if before == "charge" and after != "refund":
            return f"{after} over a charge"
        if after == "charge" and before in ("capture", "release"):
            return "charge after a hold"
        if after == "hold" and before == "refund":
            return "hold after a charge"
    return twice_in_a_run(moves)


def twice_in_a_run(moves: list[str]) -> str | None:
    seen: set[str] = set()
    for move in moves:
        if move == "run":
            seen = set()
        elif move in seen:
            return f"a second {move} in one run"
        else:
            seen.add(move)
    return None
