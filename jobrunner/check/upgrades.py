"""Checks what a declaration says about older ones: the old names of its states, functions and
structs."""

from collections.abc import Iterator

from jobrunner.check.faults import Fault, meant
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.upgrades.upgrades import formerly


def misremembered(definition: Definition) -> Iterator[Fault]:
    """Find a former name that does not tell where a job belongs, or leads to nothing."""
    workflow = definition.workflow
    yield from _lost(definition)
    declared = {state.name for state in workflow.states}
    taken: dict[str, str] = {}
    for state in workflow.states:
        for was in formerly(state):
            other = taken.setdefault(was, state.name)
            if was in declared:
                text = f"state {state.name} was {was!r}, which is a state of today as well"
                yield _fault(f"{text}; a job that stands there stays there", state.name, was)
            elif other != state.name:
                text = f"states {other} and {state.name} both were {was!r}"
                yield _fault(f"{text}; say it of one of them", state.name, was)


def _lost(definition: Definition) -> Iterator[Fault]:
    known = {*definition.functions, *definition.structs}
    for was, name in definition.was.items():
        if name not in known:
            text = f"was[{was!r}] leads to {name!r}, and there is neither function nor struct"
            yield Fault("was", f"{text}; {meant(name, known)}", (f"was[{was!r}]", f"here: {name}?"))


def _fault(text: str, state: str, was: str) -> Fault:
    return Fault("was", text, (f"state {state}", f"here: where does a job in {was} belong?"))
