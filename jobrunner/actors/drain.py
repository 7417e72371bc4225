"""Ends the actors: nothing new begins, stages get their time, and their last words are kept."""

import anyio

from jobrunner.actors.attempts import RunningAttempts
from jobrunner.actors.dispatcher import Dispatcher
from jobrunner.actors.features.notifications.sender import Deliveries
from jobrunner.actors.shared import World
from jobrunner.actors.supervisor import Supervisor

LAST_LETTERS_S = 5.0
LOOK_AGAIN_S = 0.01


class Drain:
    """Stages may run on for ``within_s``; for no second once nobody knows what is on disk."""

    def __init__(
        self,
        world: World,
        supervisor: Supervisor,
        attempts: RunningAttempts,
        dispatcher: Dispatcher,
        deliveries: Deliveries,
        within_s: float,
    ) -> None:
        self._world = world
        self._supervisor = supervisor
        self._attempts = attempts
        self._dispatcher = dispatcher
        self._deliveries = deliveries
        self._within_s = within_s

    async def __call__(self) -> None:
        """Begin nothing new and let stages end. Interrupt those that are left: they go on at the
        next start, and that costs them no attempt."""
        self._world.draining = True
        self._world.watchers.close()
        await self._attempts.drain(0 if self._world.loss.unknown else self._within_s)
        await self._deliveries.drain()
        with anyio.move_on_after(LAST_LETTERS_S):
            while self._dispatcher.is_asking or len(self._supervisor):
                await self._world.clock.sleep(LOOK_AGAIN_S)
