"""A mailbox gives turns, one after the other, whoever goes away meanwhile."""

import asyncio
import random
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from jobrunner.actors.mailbox import Mailbox

pytestmark = pytest.mark.anyio


async def test_turns_are_given_in_order_inside_first() -> None:
    box, told = Mailbox(), list[str]()

    async def bring(letter: str, *, inside: bool) -> None:
        await box.turn(inside=inside)
        told.append(letter)
        await anyio.lowlevel.checkpoint()
        box.next()

    await box.turn(inside=False)
    async with anyio.create_task_group() as group:
        for letter in "abc":
            group.start_soon(lambda letter: bring(letter, inside=False), letter)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(lambda: bring("urgent", inside=True))
        await anyio.wait_all_tasks_blocked()
        assert (len(box), box.open) == (4, True)
        box.next()
    assert told == ["urgent", "a", "b", "c"]
    assert (len(box), box.open) == (0, False)


async def test_whoever_is_cancelled_as_its_turn_comes_hands_it_on() -> None:
    """Before it knows that it was cancelled, and after its turn had come."""
    for order in ("cancelled first", "turn first"):
        box, told = Mailbox(), list[int]()

        async def bring(number: int, box: Mailbox = box, told: list[int] = told) -> None:
            await box.turn(inside=False)
            told.append(number)
            box.next()

        await box.turn(inside=False)
        first, second = (asyncio.ensure_future(bring(number)) for number in (1, 2))
        await anyio.wait_all_tasks_blocked()
        steps: list[Callable[[], object]] = [first.cancel, box.next]
        for step in steps if order == "cancelled first" else reversed(steps):
            step()
        await asyncio.gather(first, second, return_exceptions=True)
        assert (told, len(box), box.open) == ([2], 0, False), order


@pytest.mark.parametrize("seed", range(20))
async def test_no_turn_is_lost_and_none_is_given_twice(seed: int) -> None:
    draw, box, inside = random.Random(seed), Mailbox(), list[int]()
    heard = list[int]()

    async def bring(number: int) -> None:
        await box.turn(inside=number % 3 == 0)
        try:
            inside.append(number)
            assert inside == [number]
            for _ in range(draw.randrange(3)):
                await anyio.lowlevel.checkpoint()
            heard.append(number)
        finally:
            inside.remove(number)
            box.next()

    tasks = [asyncio.ensure_future(bring(number)) for number in range(30)]
    cancelled = set()
    for _ in range(40):
        await anyio.lowlevel.checkpoint()
        number = draw.randrange(30)
        if draw.random() < 0.4 and tasks[number].cancel():
            cancelled.add(number)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert set(heard) >= set(range(30)) - cancelled
    assert (len(box), box.open, inside) == (0, False, [])
