"""Everything that waits is served in one trip; whoever comes meanwhile goes with the next.

No clock and no waiting for company: a round starts as soon as the one before is over. Under load
rounds fill by themselves, at rest each holds one question.

The round runs in a task of its own and not in that of its first asker, because an asker may be
cancelled from outside any scope of ours (an HTTP server at shutdown does so), and the others'
answers must not die with it. The task lives only while somebody waits, so it needs no owner.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

from jobrunner.errors import StorageError

Q = TypeVar("Q")
A = TypeVar("A")


def unanswered() -> StorageError:
    return StorageError("the store was closed before it answered")


class Rounds(Generic[Q, A]):
    """``lost`` is what somebody is told whose round was ended from outside: an error, since a
    cancellation that is not one's own would end whoever waits, without a word to those who wait
    for it."""

    def __init__(
        self,
        serve: Callable[[list[Q]], Awaitable[list[A]]],
        most: int,
        lost: Callable[[], Exception] = unanswered,
    ) -> None:
        self._serve = serve
        self._lost = lost
        self._most = most
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
                count = min(len(self._waiting), self._most)
                await self._round([self._waiting.popleft() for _ in range(count)])
        finally:
            self._task = None
            while self._waiting:
                self._give_up(self._waiting.popleft()[1])

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
