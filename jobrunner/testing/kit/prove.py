"""Many simulations of one workflow: whatever crashes and repeats, it ends and money adds up."""

import asyncio
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from jobrunner.core.declaration.workflow import Definition
from jobrunner.testing.simulation.callers import Given
from jobrunner.testing.simulation.declared import pairs
from jobrunner.testing.simulation.simulation import Kit, Stages, simulate
from jobrunner.testing.simulation.world import Faults

AGAIN_EVERY = 100


class Proof(Struct, frozen=True):
    """The result of a proof: how many seeds, jobs by where they came to rest, jobs that are stuck,
    processes that lived, attempts of stages, steps of tasks. ``untaken`` are declared edges that no
    job took: of them nothing was proved."""

    seeds: int
    jobs: dict[str, int]
    aside: int
    lives: int
    stages: int
    steps: int
    untaken: tuple[str, ...] = ()


def prove(
    definition: Definition,
    stages: Stages = (),
    *,
    seeds: Iterable[int] = range(200),
    steps: int = 60,
    faults: Faults | None = None,
    params: Given | None = None,
    fields: Given | None = None,
) -> Proof:
    """Simulates each seed. The first under which something does not hold is raised as ``Broken``,
    with its seed, its trace and the last things that happened; ``simulate`` with the same
    arguments shows it again. Some seeds are run twice, to see that they do."""
    _outside_of_a_loop()
    kit = Kit(definition, stages)
    jobs: Counter[str] = Counter()
    taken: set[tuple[str, str]] = set()
    tried = aside = lives = attempts = done = 0
    for seed in seeds:
        trace = simulate(kit, seed=seed, steps=steps, faults=faults, params=params, fields=fields)
        if tried % AGAIN_EVERY == 0:
            again = simulate(
                kit, seed=seed, steps=steps, faults=faults, params=params, fields=fields
            )
            assert again.digest == trace.digest, (
                f"seed {seed} went two ways ({trace.digest}, {again.digest}): a stage asks the "
                "real clock, draws a number of its own, or depends on the order of a set"
            )
        jobs.update(trace.jobs)
        taken.update(trace.walked)
        tried, aside, lives = tried + 1, aside + len(trace.aside), lives + trace.lives
        attempts, done = attempts + trace.stages, done + trace.steps
    assert jobs, "no job was ever made, so nothing is proved; more seeds, more steps, or params="
    untaken = tuple(
        f"{source} -> {target}"
        for source, target in pairs(kit.definition)
        if (source, target) not in taken
    )
    return Proof(tried, dict(sorted(jobs.items())), aside, lives, attempts, done, untaken)


def _outside_of_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise AssertionError("a simulation is a loop of its own: call this from a plain test function")
