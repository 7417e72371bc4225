"""What a start does about the end of the process before it: one message per attempt that died.

Jobs that wait for a timer, a slot, a callback or a person are not even read: their rows are their
state. Only attempts that ran here died with the process.
"""

from collections.abc import Awaitable, Callable

from jobrunner.actors.world import World
from jobrunner.core.messages import Recovered
from jobrunner.core.queries import LastLife

YOUNG_MS = 10 * 60 * 1000
Deliver = Callable[[str, Recovered], Awaitable[object]]


async def recover(world: World, deliver: Deliver) -> list[str]:
    """Tells each job whose attempt died; returns those to be started one at a time."""
    died = await world.reader.open_attempts(world.store.epoch)
    life = await world.reader.last_life(world.store.epoch)
    suspicious = bool(died) and _died_young(life)
    alone = suspicious and len(died) == 1
    for attempt in died:
        await deliver(attempt.job_id, Recovered(alone))
    if died:
        world.say("service.recovered", attempts=len(died), one_at_a_time=suspicious)
    return [attempt.job_id for attempt in died] if suspicious else []


def _died_young(life: LastLife | None) -> bool:
    """It did not say goodbye, and had not been up for long."""
    if life is None or life.ended_at is not None:
        return False
    return life.seen_at - life.started_at < YOUNG_MS
