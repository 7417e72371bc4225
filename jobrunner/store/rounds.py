"""Everything that waits is served in one trip; whoever comes meanwhile goes with the next.

There is no clock: a round starts as soon as the one before is over. Under load rounds fill by
themselves, at rest each holds one question.

A round that gathers lets the loop first do what it can do at once, as long as that brings more
questions. A thread serves it, and while the loop has work that thread waits for the interpreter
between any two of its steps, and makes the loop wait in turn: both at once take longer than one
after the other, and the round holds fewer questions. Who was alone in the last round, and nobody
came while it was served, does not wait for others that are not there.

Who goes next, and how many at a time, is for the queue to say.

Whoever asks may be cancelled, and then only loses the answer, also while there is no place in the
line, as long as that is open. What must follow from an answer whoever is there to hear it is given
along as ``then``: the round itself does it, in the order of the questions.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from jobrunner.errors import StorageError

QUIET_TURNS = 6
TURNS_MAX = 32

Q = TypeVar("Q")
A = TypeVar("A")
Then = Callable[[A], None] | None


def unanswered() -> StorageError:
    return StorageError("the store was closed before it answered")


class Asked(Struct, Generic[Q, A]):
    """A question in line, and who waits for its answer."""

    question: Q
    answer: "asyncio.Future[A]"
    then: Then[A]

    def settle(self, answer: A) -> None:
        """Answer after ``then`` was called; its failure is told to whoever asked."""
        try:
            if self.then is not None:
                self.then(answer)
            if not self.answer.done():
                self.answer.set_result(answer)
        except Exception as bug:  # noqa: BLE001 - one that asked has failed, and not the others
            self.fail(bug)

    def fail(self, error: Exception) -> None:
        """Answer with an error, without a report: whoever waited may be gone as well."""
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()


class Queue(Protocol[Q, A]):
    """Those who wait for a round, in an order of its own; with ``most`` a round is full."""

    most: int

    def add(self, asked: Asked[Q, A]) -> None: ...

    def take(self) -> list[Asked[Q, A]]:
        """Take who is in the next round out of the line: somebody, if anybody waits."""


class InOrder(Generic[Q, A]):
    """A line of whoever came first, ``most`` at a time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._waiting: deque[Asked[Q, A]] = deque()

    def add(self, asked: Asked[Q, A]) -> None:
        self._waiting.append(asked)

    def take(self) -> list[Asked[Q, A]]:
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), self.most))]


class Rounds(Generic[Q, A]):
    """``lost`` is what somebody is told whose round was ended from outside: an error, since a
    cancellation that is not one's own would end whoever waits, without a word to those who wait
    for it. ``gathers``: a round waits until the loop brings no more questions for now. ``longest``
    bounds the line, in which ``waiting`` are: who comes then waits for a place in it; 0 is no
    bound."""

    def __init__(
        self,
        serve: Callable[[list[Q]], Awaitable[list[A]]],
        queue: Queue[Q, A],
        lost: Callable[[], Exception] = unanswered,
        *,
        gathers: bool = False,
        longest: int = 0,
    ) -> None:
        self._serve = serve
        self._queue = queue
        self._lost = lost
        self._gathers = gathers
        self._longest = longest
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._alone = False
        self.waiting = 0

    async def ask(self, question: Q, then: Then[A] = None) -> A:
        """The answer, after ``then`` was given it."""
        try:
            while self._longest and self.waiting >= self._longest:
                self._moved.clear()
                await self._moved.wait()
        except asyncio.CancelledError:
            if not self._closed:
                self._put(question, then)
            raise
        if self._closed:
            raise StorageError("the store is closed")
        return await self._put(question, then)

    def _put(self, question: Q, then: Then[A]) -> "asyncio.Future[A]":
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._queue.add(Asked(question, answer, then))
        self.waiting += 1
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="store round")
        return answer

    async def close(self) -> None:
        """Serves what waits, and takes nothing more."""
        self._closed = True
        while self._task is not None:
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        try:
            while self.waiting:
                if self._gathers and not self._alone:
                    await self._gather()
                await self._round(self._taken())
        finally:
            self._task = None
            while self.waiting:
                for asked in self._taken():
                    asked.fail(self._lost())
            self._moved.set()

    async def _gather(self) -> None:
        """A request takes a turn of the loop to be read and one to become a question, so a turn
        without a question says little, and several in a row that the loop has nothing more."""
        quiet = 0
        for _ in range(TURNS_MAX):
            before = self.waiting
            await asyncio.sleep(0)
            quiet = 0 if self.waiting > before else quiet + 1
            if quiet == QUIET_TURNS or self.waiting >= self._queue.most:
                return

    def _taken(self) -> list[Asked[Q, A]]:
        taken = self._queue.take()
        self.waiting -= len(taken)
        return taken

    async def _round(self, taken: list[Asked[Q, A]]) -> None:
        self._moved.set()
        try:
            answers = await self._serve([asked.question for asked in taken])
        except Exception as error:  # noqa: BLE001 - it is handed to everybody in this round
            for asked in taken:
                asked.fail(error)
            return
        except BaseException:
            for asked in taken:
                asked.fail(self._lost())
            raise
        self._alone = len(taken) == 1 and not self.waiting
        for asked, answer in zip(taken, answers, strict=True):
            asked.settle(answer)
