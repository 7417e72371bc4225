"""Lets jobs give way to a newer one of their key, each by its own declaration."""

from collections.abc import Callable

from jobrunner.actors.shared import World
from jobrunner.core.facts import Facts
from jobrunner.core.features.turns.singletons import (
    SingletonKey,
    alone,
    displace,
    singleton_digest,
)
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import Do, Moment, Submit
from jobrunner.core.replies import Verdict
from jobrunner.errors import Refused


def made_alone(
    world: World,
    submission: Submit,
    facts: Facts,
    moment: Moment,
    made: Callable[[Submit, Facts], Verdict],
) -> Verdict:
    """Decide about a submission, under its key if it has one; ``made`` decides about its birth."""
    key = singleton_digest(submission)
    if key is None:
        return made(submission, facts)

    def displaced(job: Snapshot, order: Do, known: Facts) -> Verdict:
        own = world.registry.of(job)
        if own is None:
            text = f"the declaration of {job.id}, which would give way, is not loaded now"
            return Refused("WORKFLOW_UNAVAILABLE", text)
        return world.recorder.kept(displace(own, job, order, known, moment), order, known, moment)

    held = SingletonKey(key, facts.singleton)
    return alone(submission, facts, moment, held, made, displaced)
