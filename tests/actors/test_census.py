"""The census costs at most a hundredth of the time, whoever asks how often."""

from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from jobrunner.actors.keeping.census import RESTS, CensusTaker
from jobrunner.core.keeping.census import Census
from jobrunner.core.keeping.retention import RetentionTerms

pytestmark = pytest.mark.anyio


class Slow:
    """A keeper of a file, and a clock: each census takes so long."""

    def __init__(self, takes_s: float) -> None:
        self.takes_s = takes_s
        self.time_s = 1000.0
        self.taken = 0

    def now(self) -> int:
        return int(self.time_s * 1000)

    def monotonic(self) -> float:
        return self.time_s

    async def census(self, terms: RetentionTerms, now: int) -> Census:
        await anyio.lowlevel.checkpoint()
        self.time_s += self.takes_s
        self.taken += 1
        return Census(at=now, dead_letters=self.taken)

    async def under_way(self) -> None:
        raise AssertionError("nobody asks what is under way")


def taker(slow: Slow) -> CensusTaker:
    world: Any = SimpleNamespace(store=SimpleNamespace(keeper=slow), clock=slow)
    return CensusTaker(world, RetentionTerms())


async def test_who_asks_too_soon_gets_the_last_one() -> None:
    slow = Slow(0.25)
    asking = taker(slow)
    assert (await asking.latest()).dead_letters == 1
    slow.time_s += 0.25 * RESTS - 0.01
    assert (await asking.latest()).dead_letters == 1
    slow.time_s += 0.02
    assert (await asking.latest()).dead_letters == 2
    assert slow.taken == 2


async def test_those_who_ask_together_are_told_the_same() -> None:
    slow = Slow(0.1)
    asking = taker(slow)
    told: list[int] = []

    async def ask() -> None:
        told.append((await asking.latest()).dead_letters)

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(ask)
    assert told == [1] * 5
