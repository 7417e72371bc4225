"""The census is taken when somebody asks, and again only after a hundred times as long as it took:
whoever asks sooner gets the last one. So it costs at most a hundredth of a processor, with ten jobs
that rest or with a million."""

import anyio

from jobrunner.actors.shared import World
from jobrunner.core.keeping.census import Census
from jobrunner.core.keeping.retention import RetentionTerms

RESTS = 100


class CensusTaker:
    def __init__(self, world: World, terms: RetentionTerms) -> None:
        self._keeper = world.store.keeper
        self._clock = world.clock
        self._terms = terms
        self._turn = anyio.Lock()
        self._again_at = float("-inf")
        self._last = Census()

    async def latest(self) -> Census:
        """Raises: StorageError."""
        async with self._turn:
            began_at = self._clock.monotonic()
            if began_at >= self._again_at:
                self._last = await self._keeper.census(self._terms, self._clock.now())
                now = self._clock.monotonic()
                self._again_at = now + (now - began_at) * RESTS
        return self._last
