"""Says what is wrong with what a plugin brings: a stage that cannot run here, a value of another
type, a declaration that does not pass the check."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from jobrunner.check.checking import check
from jobrunner.check.excluded import Excluded, excluded
from jobrunner.check.faults import Fault
from jobrunner.check.types import slips
from jobrunner.core.declaration.spelling import NAME, shown
from jobrunner.core.declaration.states import AWAY
from jobrunner.core.declaration.workflow import EXTERNAL, Definition
from jobrunner.core.features.turns.rates import RATE_ALLOWED, rate_of
from jobrunner.stages.answers import asked_twice
from jobrunner.stages.api import Stage, is_async
from jobrunner.stages.process.host import address

AMOUNTS = (
    "concurrency", "memory", "cpu_s", "file_size", "open_files", "processes", "output",
)  # fmt: skip


def misfit(stage: Stage, resources: Mapping[str, int] | None = None) -> str:
    """Why this stage cannot run, whatever it does; empty when it can."""
    run: object = stage.run
    if not callable(run):
        return f"runs {run!r}, which is no function"
    if stage.runs != "process" and is_async(stage.run) != (stage.runs == "loop"):
        return 'does not fit how it runs: "loop" is for async def, "thread" for plain functions'
    if stage.runs == "process" and not address(stage.run):
        return "must be a function that stands in a module, for a process to find it there"
    below = [f"{name}={getattr(stage, name)}" for name in AMOUNTS if getattr(stage, name) < 0]
    amounts = (*stage.resources.items(), *stage.supply.items())
    below += [f"{name}={count}" for name, count in amounts if count < 0]
    if below:
        return f"has {below[0]}, which is below 0; 0 is no limit"
    if fault := _misrated(stage):
        return fault
    if resources is None:
        return asked_twice(stage.asks)
    short = [name for name, count in stage.resources.items() if count > resources.get(name, 0)]
    return _too_much(short[0], stage, resources) if short else asked_twice(stage.asks)


def _too_much(name: str, stage: Stage, resources: Mapping[str, int]) -> str:
    asked, there = stage.resources[name], resources.get(name, 0)
    text = f"asks for more {name} than there is ({asked}, and there is {there})"
    return f"{text}; raise [resources] {name}"


def _misrated(stage: Stage) -> str:
    for name, count in stage.rates.items():
        if count < 1 or not NAME.fullmatch(name):
            return f"takes {count} of rate {name!r}; it must be a name and a whole number from 1"
    for name, text in stage.pace.items():
        if rate_of(text) is None:
            return f"says {text!r} of rate {name!r}; it must be {RATE_ALLOWED}"
    return ""


def known_as(name: object, called: str) -> str:
    """Choose the name of a refusal: the thing's own if that is one, else its entry point's."""
    good = isinstance(name, str) and NAME.fullmatch(name)
    return str(name) if good else called or shown(name)


def wrong(brought: Struct, kind: type[Struct]) -> str:
    """List every value in it that is not what its type says."""
    return "; ".join(str(slip) for slip in slips(brought, kind, ""))


def proof(definition: Definition) -> tuple[Excluded, ...]:
    """Show what each edge of a sound declaration keeps from happening."""
    return tuple(excluded(definition))


def checked(
    definition: Definition, taken: frozenset[tuple[str, str]], declared: Definition
) -> tuple[str, ...]:
    return tuple(told(fault) for fault in check(definition, taken, declared))


def told(fault: Fault) -> str:
    """Put a fault with its counter-example into one line."""
    return f"{fault.text} ({'; '.join(fault.trace)})"


def unbound(
    definition: Definition, brings: Callable[[str], bool], refused: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """List the states that bind a stage which nobody brings, each with the likely cure."""
    bound = {
        (state.name, stage)
        for state in definition.workflow.states
        for stage in (*state.stage.values(), state.on_demand)
    }
    section = f"[workflows.{definition.workflow.name}.stages]"
    return tuple(
        _why_unbound(state, stage, section, refused.get(stage.removesuffix(AWAY), ()))
        for state, stage in sorted(bound)
        if stage and stage != EXTERNAL and not brings(stage)
    )


def _why_unbound(state: str, stage: str, section: str, reasons: tuple[str, ...]) -> str:
    if reasons:
        return f"{state}: stage {stage!r} {'; '.join(reasons)}"
    cure = f'install one that does, or bind {section} {state} = "external"'
    return f"{state}: no plugin brings stage {stage!r}; {cure}"
