"""Recovers at a start from the death of the process before: one message per attempt that was
running.

Jobs that wait for a timer, a slot, a callback or a person are not even read: their rows are their
state. Only attempts that ran here died with the process.
"""

from collections.abc import Awaitable, Callable

from jobrunner.actors.shared import World
from jobrunner.actors.suspects import suspected
from jobrunner.core.declaration.states import AWAY
from jobrunner.core.messages import Message, Recovered
from jobrunner.core.questions import OpenAttempt

Deliver = Callable[[str, Message], Awaitable[object]]


async def recover(world: World, deliver: Deliver) -> list[str]:
    """Tell each job whose attempt died. Return those that are to be started one at a time."""
    died = await world.reader.open_attempts(world.store.epoch)
    here = [attempt for attempt in died if not attempt.stage.endswith(AWAY)]
    suspects = suspected(here, await world.reader.last_life(world.store.epoch))
    for attempt in died:
        guilty = suspects == [attempt] and not _is_apart(world, attempt)
        await deliver(attempt.job_id, Recovered(guilty))
    if died:
        world.say("service.recovered", attempts=len(died), one_at_a_time=bool(suspects))
    return [attempt.job_id for attempt in suspects]


def _is_apart(world: World, attempt: OpenAttempt) -> bool:
    """A stage in a process of its own cannot end the service: somebody else did. It starts one at a
    time nevertheless, since many at once may use up the memory."""
    stage = world.registry.stage(attempt.stage)
    return stage is not None and stage.runs == "process"
