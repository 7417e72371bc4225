"""Many simulations of one workflow: whatever crashes and repeats, it ends and money adds up."""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct
from typing_extensions import Unpack

from jobrunner.core.declaration.workflow import Definition
from jobrunner.testing.simulation.callers import Given
from jobrunner.testing.simulation.declared import pairs, stages_of
from jobrunner.testing.simulation.granted import Endowment, Grants
from jobrunner.testing.simulation.loop import demand_no_loop
from jobrunner.testing.simulation.passes import named
from jobrunner.testing.simulation.simulation import Kit, Stages, Trace, simulate
from jobrunner.testing.simulation.world import Faults

AGAIN_EVERY = 100
AGAIN_FIRST = 2


class Proof(Struct, frozen=True):
    """The result of a proof: how many seeds, jobs by where they came to rest, jobs that are stuck,
    processes that lived, attempts of stages, steps of tasks. ``untaken`` are declared edges that no
    job took: of them nothing was proved. ``ended`` says of each stage that was given how its passes
    ended, by outcome or code."""

    seeds: int
    jobs: dict[str, int]
    aside: int
    lives: int
    stages: int
    steps: int
    untaken: tuple[str, ...] = ()
    ended: dict[str, dict[str, int]] = {}


def prove(
    definition: Definition,
    stages: Stages = (),
    *,
    seeds: Iterable[int] = range(200),
    steps: int = 60,
    faults: Faults | None = None,
    params: Given | None = None,
    fields: Given | None = None,
    never_done: Iterable[str] = (),
    whole: bool = True,
    **granted: Unpack[Grants],
) -> Proof:
    """Simulates each seed. The first under which something does not hold is raised as ``Broken``,
    with its seed, its trace and the last things that happened; ``simulate`` with the same
    arguments shows it again. Some seeds are run twice, to see that they do. A stage that was given
    and never came to ``done`` fails the proof, unless ``never_done`` lists it; not so
    where the seeds are not the ``whole`` of them."""
    kit = Kit(definition, stages, Endowment(**granted))
    proof = tried(kit, seeds, steps=steps, faults=faults, params=params, fields=fields)
    if whole:
        demand(kit, proof, frozenset(never_done))
    return proof


def tried(
    kit: Kit, seeds: Iterable[int], *, steps: int, faults: Faults | None, params: Given | None,
    fields: Given | None,
) -> Proof:  # fmt: skip
    """The same, whatever it shows of stages."""
    demand_no_loop("a simulation is a loop of its own: call this from a plain test function")
    jobs: Counter[str] = Counter()
    ended: dict[str, Counter[str]] = {name: Counter() for name in kit.stages}
    taken: set[tuple[str, str]] = set()
    count = aside = lives = attempts = done = 0
    for seed in seeds:
        trace = simulate(kit, seed=seed, steps=steps, faults=faults, params=params, fields=fields)
        if count % AGAIN_EVERY == 0 or (kit.stages and count < AGAIN_FIRST):
            again = simulate(
                kit, seed=seed, steps=steps, faults=faults, params=params, fields=fields
            )
            _compare(kit, trace, again)
        jobs.update(trace.jobs)
        taken.update(trace.walked)
        for name, outcome, _ in trace.passes:
            ended[name][outcome] += 1
        count, aside, lives = count + 1, aside + len(trace.aside), lives + trace.lives
        attempts, done = attempts + trace.stages, done + trace.steps
    assert jobs, "no job was ever made, so nothing is proved; more seeds, more steps, or params="
    untaken = tuple(
        f"{source} -> {target}"
        for source, target in pairs(kit.definition)
        if (source, target) not in taken
    )
    told = {name: dict(found.most_common()) for name, found in ended.items()}
    return Proof(count, dict(sorted(jobs.items())), aside, lives, attempts, done, untaken, told)


def demand(kit: Kit, proof: Proof, never_done: frozenset[str]) -> None:
    """Raises: AssertionError, where the proof is empty for a stage that was given."""
    faults = [*_empty(kit, proof, never_done), *_in_vain(kit, proof, never_done)]
    assert not faults, "\n".join(faults)


def _empty(kit: Kit, proof: Proof, never_done: frozenset[str]) -> Iterator[str]:
    bound = stages_of(kit.definition)
    for name, stage in kit.stages.items():
        ended = proof.ended[name]
        if ended.get("done") or name in never_done:
            continue
        if name not in bound:
            yield f"{named(stage)} was given, and no state of the workflow binds it"
            continue
        how = ", ".join(f"{outcome} × {count}" for outcome, count in ended.items())
        yield (
            f"{named(stage)} never came to done in {proof.seeds} seeds, so nothing is proved of "
            f"it: {how or 'it was never begun'}; {_cure(ended, bool(how))}, more seeds or steps, "
            f"or never_done=({name!r},)"
        )


def _cure(ended: dict[str, int], begun: bool) -> str:
    cures = {
        "NO_WAY_OUT": "give http=",
        "ASSET_NOT_FOUND": "give assets= and params=",
        "CORRUPT_INPUT": "give uploads=, or the stage that makes its input",
        "parked": "give answers=",
        "STAGE_TIMEOUT": "see what it waits for",
        "WORKFLOW_UNAVAILABLE": "make its children jobs of its own workflow, as PLUGINS.md says",
    }
    found = [cure for code, cure in cures.items() if ended.get(code)]
    return ", ".join(found) or ("give params=" if begun else "give what its state is entered by")


def _in_vain(kit: Kit, proof: Proof, never_done: frozenset[str]) -> Iterator[str]:
    for name in sorted(never_done):
        if name not in kit.stages:
            yield f"never_done lists {name!r}, which was not given"
        elif proof.ended[name].get("done"):
            yield f"never_done lists {name!r}, which came to done"


def _compare(kit: Kit, trace: Trace, again: Trace) -> None:
    """A seed is one story, or somebody decides by what the seed does not decide."""
    if (again.digest, again.passes) == (trace.digest, trace.passes):
        return
    firsts = zip(trace.passes, again.passes, strict=False)
    apart = next((one for one, other in firsts if one != other), None)
    whom = f": {named(kit.stages[apart[0]])} did one thing and then another" if apart else ""
    raise AssertionError(
        f"seed {trace.seed} went two ways ({trace.digest}, {again.digest}){whom}; a stage asks the "
        "real clock, draws a number of its own, keeps something from one attempt to another, or "
        "depends on the order of a set"
    )
