"""Everything that waits is served in one trip; whoever comes meanwhile goes with the next.

There is no clock: a round starts as soon as the one before is over. Under load rounds fill by
themselves, at rest each holds one question.

A round that gathers lets the loop first do what it can do at once, as long as that brings more
questions. A thread serves it, and while the loop has work that thread waits for the interpreter
between any two of its steps, and makes the loop wait in turn: both at once take longer than one
after the other, and the round holds fewer questions.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

from jobrunner.errors import StorageError

QUIET_TURNS = 6
TURNS_MAX = 32

Q = TypeVar("Q")
A = TypeVar("A")


def unanswered() -> StorageError:
    return StorageError("the store was closed before it answered")


class Rounds(Generic[Q, A]):
    """``lost`` is what somebody is told whose round was ended from outside: an error, since a
    cancellation that is not one's own would end whoever waits, without a word to those who wait
    for it. ``gathers``: a round waits until the loop brings no more questions for now."""

    def __init__(
        self,
        serve: Callable[[list[Q]], Awaitable[list[A]]],
        most: int,
        lost: Callable[[], Exception] = unanswered,
        *,
        gathers: bool = False,
    ) -> None:
        self._serve = serve
        self._lost = lost
        self._most = most
        self._gathers = gathers
        self._waiting: deque[tuple[Q, asyncio.Future[A]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def ask(self, question: Q) -> A:
        """Waits for the answer even when cancelled: it is under way, and soon there."""
        if self._closed:
            raise StorageError("the store is closed")
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="store round")
        with anyio.CancelScope(shield=True):
            answer = await future
        return answer  # noqa: RET504 - by its type, a scope may swallow

    def __len__(self) -> int:
        """How many wait for a round."""
        return len(self._waiting)

    async def close(self) -> None:
        """Serves what waits, and takes nothing more."""
        self._closed = True
        while self._task is not None:
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        try:
            while self._waiting:
                if self._gathers:
                    await self._gather()
                count = min(len(self._waiting), self._most)
                await self._round([self._waiting.popleft() for _ in range(count)])
        finally:
            self._task = None
            while self._waiting:
                self._give_up(self._waiting.popleft()[1])

    async def _gather(self) -> None:
        """A request takes a turn of the loop to be read and one to become a question, so a turn
        without a question says little, and several in a row that the loop has nothing more."""
        quiet = 0
        for _ in range(TURNS_MAX):
            before = len(self._waiting)
            await asyncio.sleep(0)
            quiet = 0 if len(self._waiting) > before else quiet + 1
            if quiet == QUIET_TURNS or len(self._waiting) >= self._most:
                return

    async def _round(self, taken: list[tuple[Q, asyncio.Future[A]]]) -> None:
        try:
            answers = await self._serve([question for question, _ in taken])
        except Exception as error:  # noqa: BLE001 - it is handed to everybody in this round
            for _, future in taken:
                if not future.done():
                    future.set_exception(error)
            return
        except BaseException:
            for _, future in taken:
                self._give_up(future)
            raise
        for (_, future), answer in zip(taken, answers, strict=True):
            if not future.done():
                future.set_result(answer)

    def _give_up(self, future: "asyncio.Future[A]") -> None:
        if not future.done():
            future.set_exception(self._lost())
            future.exception()  # whoever waited may be gone as well, which is no fault to report
