"""Tells the meter what a commit means: a job came to its end, a wait is over."""

from jobrunner.actors.shared import World
from jobrunner.core.features.tracing import waits_over
from jobrunner.core.job import Snapshot


def measure(world: World, before: Snapshot | None, job: Snapshot) -> None:
    """Tell of the end of a job once; of waits only if somebody follows them."""
    if job.ended and (before is None or before.status != job.status):
        world.meter.ended(job, _outcome(world, job))
    if (tracer := world.meter.tracer) is not None and before is not None:
        for wait in waits_over(before, job):
            tracer.waited(job, wait)


def _outcome(world: World, job: Snapshot) -> str:
    definition = world.registry.of(job)
    state = definition.states.get(job.status) if definition is not None else None
    return (state.ends if state is not None else "") or "ended"
