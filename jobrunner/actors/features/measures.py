"""The meaning of a commit to whoever measures: a job came to its end."""

from jobrunner.actors.shared import World
from jobrunner.core.job import Snapshot


def measure(world: World, before: Snapshot | None, job: Snapshot) -> None:
    """Tell of the end of a job, once."""
    if job.ended and (before is None or before.status != job.status):
        world.meter.ended(job.workflow, _outcome(world, job))


def _outcome(world: World, job: Snapshot) -> str:
    definition = world.registry.of(job)
    state = definition.states.get(job.status) if definition is not None else None
    return (state.ends if state is not None else "") or "ended"
