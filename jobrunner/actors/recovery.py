"""What a start does about the end of the process before it: one message per attempt that died.

Jobs that wait for a timer, a slot, a callback or a person are not even read: their rows are their
state. Only attempts that ran here died with the process.
"""

from collections.abc import Awaitable, Callable, Sequence

from jobrunner.actors.shared import World
from jobrunner.core.messages import Recovered
from jobrunner.core.questions import LastLife, OpenAttempt

YOUNG_MS = 10 * 60 * 1000
CLEARED_AFTER_S = 60
Deliver = Callable[[str, Recovered], Awaitable[object]]


async def recover(world: World, deliver: Deliver) -> list[str]:
    """Tells each job whose attempt died; returns those to be started one at a time, the youngest
    attempt first: what kills a service mostly does so when it begins."""
    died = await world.reader.open_attempts(world.store.epoch)
    life = await world.reader.last_life(world.store.epoch)
    suspected = suspects(died, life)
    for attempt in died:
        guilty = suspected == [attempt] and not _is_apart(world, attempt)
        await deliver(attempt.job_id, Recovered(guilty))
    if died:
        world.say("service.recovered", attempts=len(died), one_at_a_time=bool(suspected))
    return [attempt.job_id for attempt in suspected]


def _is_apart(world: World, attempt: OpenAttempt) -> bool:
    """A stage in a process of its own cannot end the service: whoever did was somebody else. It
    starts one at a time all the same, since many at once may use up the memory."""
    stage = world.registry.stage(attempt.stage)
    return stage is not None and stage.runs == "process"


def suspects(died: Sequence[OpenAttempt], life: LastLife | None) -> list[OpenAttempt]:
    """Who had run for a minute when the service died did not kill it; unless nobody else is left
    who could have."""
    if life is None or not _died_young(life):
        return []
    latest = life.seen_at - CLEARED_AFTER_S * 1000
    fresh = [one for one in died if not one.started_at or one.started_at > latest]
    return sorted(fresh or died, key=lambda one: one.started_at, reverse=True)


def _died_young(life: LastLife) -> bool:
    """It did not say goodbye, and had not been up for long."""
    return life.ended_at is None and life.seen_at - life.started_at < YOUNG_MS
