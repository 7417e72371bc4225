"""Rounds: everybody in one is answered for oneself, and a line has an end."""

import asyncio
import threading
from pathlib import Path
from typing import cast

import anyio
import pytest

from jobrunner.core.features.meter import Meter
from jobrunner.core.job import Snapshot
from jobrunner.ports import Clock, SystemClock
from jobrunner.store.batch import Verdict
from jobrunner.store.compiling import Work
from jobrunner.store.pace import FEW, SHORT_ROUNDS, AskedUnit, WriterQueue
from jobrunner.store.rounds import Asked, InOrder, Rounds
from jobrunner.store.statements import SEEN
from tests.store.factory import NOON, birth, job, moved, opened, stored

pytestmark = pytest.mark.anyio


async def test_what_fails_after_an_answer_is_told_to_whoever_asked() -> None:
    async def serve(questions: list[int]) -> list[int]:
        return questions

    def stumble(answer: int) -> None:
        raise ZeroDivisionError(answer)

    rounds: Rounds[int, int] = Rounds(serve, InOrder(8))
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

    rounds: Rounds[int, int] = Rounds(serve, InOrder(8))
    await asyncio.gather(ask(1), ask(2))
    assert told == ["1 follows", "2 follows", "1 heard", "2 heard"]


async def test_a_line_that_is_full_takes_the_next_when_it_moves() -> None:
    gate, asked = anyio.Event(), list[int]()

    async def serve(questions: list[int]) -> list[int]:
        asked.extend(questions)
        await gate.wait()
        return questions

    rounds: Rounds[int, int] = Rounds(serve, InOrder(1), longest=2)
    answers = [asyncio.ensure_future(rounds.ask(number)) for number in range(6)]
    await anyio.wait_all_tasks_blocked()
    assert (len(asked), rounds.waiting) == (1, 2)
    gate.set()
    assert await asyncio.gather(*answers) == list(range(6))


async def test_who_is_cancelled_before_there_is_a_place_only_loses_the_answer() -> None:
    """What follows from the answer may be that a slot comes free."""
    gate, told = anyio.Event(), list[int]()

    async def serve(questions: list[int]) -> list[int]:
        await gate.wait()
        return questions

    rounds: Rounds[int, int] = Rounds(serve, InOrder(1), longest=1)
    answers = [asyncio.ensure_future(rounds.ask(number, told.append)) for number in range(3)]
    await anyio.wait_all_tasks_blocked()
    answers[2].cancel()
    await anyio.wait_all_tasks_blocked()
    gate.set()
    await rounds.close()
    assert told == [0, 1, 2]
    assert [one.cancelled() for one in answers] == [False, False, True]


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

    rounds: Rounds[int, int] = Rounds(serve, InOrder(8), gathers=True)
    await asyncio.gather(rounds.ask(1), ask_after(4, 2))
    await rounds.ask(3)
    assert served == [[1, 2], [3]]
    await asyncio.gather(rounds.ask(4), ask_after(4, 5), ask_after(12, 6))
    assert served[2:] == [[4], [5, 6]]


class Ticking(SystemClock):
    """A second between any two looks of the loop at it, and ``flush_s`` for a flush."""

    def __init__(self, flush_s: float) -> None:
        self.time_s, self.flush_s, self.flushes = 0.0, flush_s, True

    def monotonic(self) -> float:
        if threading.current_thread() is threading.main_thread():
            self.time_s += 1
        else:
            self.flushes = not self.flushes
            self.time_s += self.flush_s * self.flushes
        return self.time_s


class Counting(Meter):
    def __init__(self) -> None:
        self.rounds = list[int]()

    def committed(self, units: int, batch_s: float, commit_s: float) -> None:
        self.rounds.append(units)


@pytest.mark.parametrize(("flush_s", "rounds"), [(1, [10, 8]), (100, [18])])
async def test_jobs_that_move_are_not_held_up_by_those_that_join_the_line(
    tmp_path: Path, flush_s: float, rounds: list[int]
) -> None:
    """Only where the disk takes so long that more of them hold up nobody, all are written."""
    meter, written = Counting(), list[str]()

    def note(job: Snapshot | None) -> None:
        assert job is not None
        written.append(job.id)

    async with opened(tmp_path, clock=Ticking(flush_s), meter=meter) as store:
        jobs = [await stored(store, birth(job(number))) for number in range(6)]
        newborn = [birth(job(number, line_at=NOON + number)) for number in range(6, 18)]
        moves = [moved(one, "working") for one in jobs]
        meter.rounds.clear()
        await asyncio.gather(*[store.commit(one, note) for one in newborn + moves])
        assert meter.rounds == rounds
    assert written == [one.after.id for one in moves + newborn]


def test_who_joins_the_line_is_written_beside_any_number_of_others() -> None:
    queue = WriterQueue(5, SystemClock())
    for number in range(20):
        queue.add(asked(job(number)))
    queue.add(asked(job(20, line_at=NOON)))
    assert [unit.question.snapshot.id for unit in queue.take() if unit.question.snapshot] == [
        *(job(number).id for number in range(4)),
        job(20).id,
    ]


def drained(queue: WriterQueue) -> list[list[str]]:
    """Whose units are in each of the rounds that are left."""
    rounds = list[list[str]]()
    while queue:
        units = [unit.question.snapshot for unit in queue.take()]
        rounds.append([unit.user_id for unit in units if unit is not None])
    return rounds


def flooded(most: int = 256, clock: Clock | None = None) -> WriterQueue:
    """A queue through which much of eve's has gone, and nothing of others."""
    queue = WriterQueue(most, clock or SystemClock())
    for number in range(2_000):
        queue.add(asked(job(number, user_id="eve"), 20))
    drained(queue)
    return queue


def test_who_had_little_goes_first_and_in_short_rounds() -> None:
    queue = flooded()
    for number in range(100):
        queue.add(asked(job(number, user_id="eve")))
    assert [len(one) for one in drained(queue)] == [100], "nobody else is about"
    for number in range(7 * FEW):
        queue.add(asked(job(number, user_id="eve")))
    queue.add(asked(job(100, user_id="ada")))
    first, *others = drained(queue)
    assert (first.count("ada"), first.index("ada"), len(first)) == (1, 0, FEW)
    assert [len(one) for one in others] == [FEW] * 6 + [1], "she may come again"
    for number in range(100):
        queue.add(asked(job(number, user_id="eve")))
    rest = SHORT_ROUNDS - 8
    assert [len(one) for one in drained(queue)] == [FEW] * rest + [100 - rest * FEW], "not for good"


def test_as_many_others_go_as_had_little() -> None:
    """Of jobs that join the line, too; and a full round is for both."""
    for joins in ({}, {"line_at": NOON}):
        queue = flooded(most=64)
        for number in range(100):
            queue.add(asked(job(number, user_id="eve", **joins)))
        for number in range(100, 150):
            queue.add(asked(job(number, user_id=f"user-{number}", **joins)))
        first, second, *_ = drained(queue)
        assert (len(first), first.count("eve")) == (64, 32)
        assert (len(second), second.count("eve")) == (36, 18)


def test_others_who_join_the_line_are_not_passed_for_good() -> None:
    """However few move in a round, and however often those come that had little."""
    queue, left = flooded(), 10
    for number in range(left):
        queue.add(asked(job(number, user_id="eve", line_at=NOON)))
    for number in range(10, 10 + left):
        queue.add(asked(job(number, user_id="eve")))
        queue.add(asked(job(number + 10, user_id="ada", line_at=NOON)))
        queue.add(asked(job(number + 20, user_id="kim", line_at=NOON)))
        units = [unit.question.snapshot for unit in queue.take()]
        left -= sum(one is not None and one.id < "job-000010" for one in units)
    assert not left


def test_a_long_line_has_longer_rounds() -> None:
    queue = flooded()
    for number in range(1_600):
        queue.add(asked(job(number, user_id="eve")))
    queue.add(asked(job(1_600, user_id="ada")))
    assert len(queue.take()) == 1_600 // SHORT_ROUNDS


def test_a_round_is_not_short_where_the_disk_takes_long() -> None:
    queue = flooded(clock=Ticking(0))
    queue.round_ended(40, 0.0)
    queue.round_ended(40, 0.75)
    for number in range(400):
        queue.add(asked(job(number, user_id="eve")))
    queue.add(asked(job(400, user_id="ada")))
    assert len(queue.take()) == 3 * 40


def test_what_is_the_services_own_makes_no_round_short() -> None:
    queue = flooded()
    for number in range(100):
        queue.add(asked(job(number, user_id="eve")))
    queue.add(asked(None))
    assert len(queue.take()) == 101


def asked(job: Snapshot | None, rows: int = 1) -> AskedUnit:
    """A unit of so many rows; nobody waits for its answer."""
    work = Work([SEEN.row(now=NOON, epoch=1)] * rows, job)
    return Asked(work, cast("asyncio.Future[Verdict]", None), None)
