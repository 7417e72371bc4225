"""Who goes in one round together, with a server that takes none and writes down what it got."""

import asyncio
from pathlib import Path

import anyio
import pytest

from jobrunner.store.rounds import QUIET_TURNS, TURNS_MAX, Rounds
from tests.store.factory import opened, plain_hop, priced, stored

pytestmark = pytest.mark.anyio

MANY = 512


class Server:
    """Each round takes as many turns of the loop as it is told."""

    def __init__(self, turns: int = 0) -> None:
        self.rounds: list[list[int]] = []
        self._turns = turns

    async def __call__(self, asked: list[int]) -> list[int]:
        self.rounds.append(asked)
        await after(self._turns)
        return asked


async def after(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def asks(rounds: Rounds[int, int], number: int, turns: int) -> None:
    await after(turns)
    assert await rounds.ask(number) == number


async def all_ask(rounds: Rounds[int, int], turns: list[int]) -> None:
    """Each after so many turns of the loop."""
    async with anyio.create_task_group() as group:
        for number, turn in enumerate(turns):
            group.start_soon(asks, rounds, number, turn)


async def test_who_comes_in_the_next_turns_goes_along() -> None:
    """A request takes a few turns before it asks, so requests that arrive together do not ask
    in one turn; they are written together all the same."""
    server = Server()
    await all_ask(Rounds(server, MANY, gathers=True), [0, 1, 2, 4, 4, 6])
    assert server.rounds == [[0, 1, 2, 3, 4, 5]]


async def test_who_does_not_gather_waits_for_nobody() -> None:
    server = Server()
    await all_ask(Rounds(server, MANY), [0, 2, 4])
    assert server.rounds == [[0], [1], [2]]


async def test_nobody_waits_for_who_is_not_at_hand() -> None:
    server = Server()
    await all_ask(Rounds(server, MANY, gathers=True), [0, 4 * QUIET_TURNS])
    assert server.rounds == [[0], [1]]


async def test_a_loop_that_brings_ever_more_holds_nobody_up() -> None:
    """The first round starts after so many turns, however many more would come."""
    server, coming = Server(), 4 * TURNS_MAX
    await all_ask(Rounds(server, MANY, gathers=True), list(range(coming)))
    assert len(server.rounds[0]) <= TURNS_MAX + 1
    assert [number for one in server.rounds for number in one] == list(range(coming))


async def test_a_full_round_waits_for_nobody() -> None:
    server = Server()
    await all_ask(Rounds(server, 2, gathers=True), [0, 0, 1, 1])
    assert server.rounds == [[0, 1], [2, 3]]


async def test_those_who_wait_when_a_round_is_over_gather_too() -> None:
    """Who was just answered asks again at once: the next round is theirs as well."""
    server = Server(turns=8)
    during, just_over = 2 * QUIET_TURNS, QUIET_TURNS + 8 + 2
    await all_ask(Rounds(server, MANY, gathers=True), [0, 0, during, just_over])
    assert server.rounds == [[0, 1], [2, 3]]


async def test_what_waits_is_served_before_the_end() -> None:
    server = Server()
    rounds: Rounds[int, int] = Rounds(server, MANY, gathers=True)
    async with anyio.create_task_group() as group:
        group.start_soon(asks, rounds, 1, 0)
        await after(1)
        assert len(rounds) == 1
        await rounds.close()
        assert server.rounds == [[1]]


async def test_what_the_loop_still_brings_shares_the_commit(tmp_path: Path) -> None:
    """Requests that arrive together become units a turn or two apart; nobody commits the first of
    them alone and lets the others wait for that."""
    write, read = plain_hop(tmp_path), plain_hop(tmp_path)
    async with opened(tmp_path, writer_hop=write, reader_hop=read) as store:
        before = write.commits

        async def commit(number: int) -> None:
            await after(number)
            await stored(store, priced(number, cost=1, user_id=f"u{number}"))

        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(commit, number)
        assert write.commits - before == 1
    write.connection.close()
    read.connection.close()
