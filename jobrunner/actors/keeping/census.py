"""Takes the census when somebody asks, and again only after a hundred times as long as it took;
until then everybody gets the last one. So it costs at most a hundredth of a processor, with ten
jobs that rest or with a million."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

from jobrunner.actors.shared import World
from jobrunner.core.features.upgrades.upgrades import UnderWay
from jobrunner.core.keeping.census import Census
from jobrunner.core.keeping.retention import RetentionTerms
from jobrunner.ports import Clock

RESTS = 100
T = TypeVar("T")


class Seldom(Generic[T]):
    """An answer, asked for anew when that costs little."""

    def __init__(self, clock: Clock, question: Callable[[], Awaitable[T]]) -> None:
        self._clock = clock
        self._question = question
        self._turn = anyio.Lock()
        self._again_at = float("-inf")
        self._last: list[T] = []

    async def latest(self) -> T:
        """Raises: StorageError."""
        async with self._turn:
            began_at = self._clock.monotonic()
            if began_at >= self._again_at:
                self._last = [await self._question()]
                now = self._clock.monotonic()
                self._again_at = now + (now - began_at) * RESTS
        return self._last[0]


class CensusTaker:
    def __init__(self, world: World, terms: RetentionTerms) -> None:
        keeper, clock = world.store.keeper, world.clock
        self._census = Seldom(clock, lambda: keeper.census(terms, clock.now()))
        self._under_way = Seldom(clock, keeper.under_way)

    async def latest(self) -> Census:
        """Raises: StorageError."""
        return await self._census.latest()

    async def under_way(self) -> tuple[UnderWay, ...]:
        """Jobs that have not ended, by declaration and place.

        Raises: StorageError.
        """
        return await self._under_way.latest()
