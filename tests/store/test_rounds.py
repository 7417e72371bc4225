"""Rounds: everybody in one is answered for oneself, and a line has an end."""

import asyncio

import anyio
import pytest

from jobrunner.store.rounds import Rounds

pytestmark = pytest.mark.anyio


async def test_what_fails_after_an_answer_is_told_to_whoever_asked() -> None:
    async def serve(questions: list[int]) -> list[int]:
        return questions

    def stumble(answer: int) -> None:
        raise ZeroDivisionError(answer)

    rounds: Rounds[int, int] = Rounds(serve, 8)
    said = await asyncio.gather(
        rounds.ask(1, stumble), rounds.ask(2), rounds.ask(3, stumble), return_exceptions=True
    )
    assert [type(one) for one in said] == [ZeroDivisionError, int, ZeroDivisionError]


async def test_what_follows_is_done_before_anybody_is_answered() -> None:
    told = list[str]()

    async def serve(questions: list[int]) -> list[int]:
        return questions

    async def ask(number: int) -> None:
        await rounds.ask(number, lambda answer: told.append(f"{answer} follows"))
        told.append(f"{number} heard")

    rounds: Rounds[int, int] = Rounds(serve, 8)
    await asyncio.gather(ask(1), ask(2))
    assert told == ["1 follows", "2 follows", "1 heard", "2 heard"]


async def test_a_line_that_is_full_takes_the_next_when_it_moves() -> None:
    gate, asked = anyio.Event(), list[int]()

    async def serve(questions: list[int]) -> list[int]:
        asked.extend(questions)
        await gate.wait()
        return questions

    rounds: Rounds[int, int] = Rounds(serve, 1, longest=2)
    answers = [asyncio.ensure_future(rounds.ask(number)) for number in range(6)]
    await anyio.wait_all_tasks_blocked()
    assert (len(asked), len(rounds)) == (1, 2)
    gate.set()
    assert await asyncio.gather(*answers) == list(range(6))


async def test_who_was_alone_is_served_soon_and_others_wait_for_each_other() -> None:
    """Somebody who came while the last one was served ends the haste."""
    served = list[list[int]]()

    async def serve(questions: list[int]) -> list[int]:
        served.append(questions)
        for _ in range(9):
            await asyncio.sleep(0)
        return questions

    async def ask_after(turns: int, number: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        await rounds.ask(number)

    rounds: Rounds[int, int] = Rounds(serve, 8, gathers=True)
    await asyncio.gather(rounds.ask(1), ask_after(4, 2))
    await rounds.ask(3)
    assert served == [[1, 2], [3]]
    await asyncio.gather(rounds.ask(4), ask_after(4, 5), ask_after(12, 6))
    assert served[2:] == [[4], [5, 6]]
