"""A plain function in a thread of its own, for calls that release the interpreter's lock. Trusted
code too: a thread cannot be ended from outside. One whose attempt is over is fenced (its context
refuses every further word, which ends it at the next one), and keeps its slot until it is gone.
"""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

import anyio

from jobrunner.core.messages import Ended, Report
from jobrunner.ports import Children
from jobrunner.stages.api import Stage
from jobrunner.stages.context import PlainContext
from jobrunner.stages.given import Given, Host
from jobrunner.stages.outcomes import Fenced, raised, returned
from jobrunner.stages.requests import Answer, Question

T = TypeVar("T")


async def run_in_thread(
    stage: Stage, given: Given, params: Any, host: Host, children: Children
) -> Ended:
    fenced = FencedHost(host, asyncio.get_running_loop())
    context = PlainContext(given, fenced, params, fenced.wait)
    done = children.thread(lambda: _performed(stage, context), f"stage {stage.name}")
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        fenced.fence()
        children.stray(done)
        with anyio.CancelScope(shield=True):
            await asyncio.wait({done})
        raise


def _performed(stage: Stage, context: PlainContext[Any]) -> Ended:
    try:
        outcome = stage.run(context)
    except BaseException as fault:
        return raised(fault)
    return returned(outcome, context.saved)


class FencedHost:
    """The host as a thread sees it: everything is handed to the loop, until the attempt is over."""

    def __init__(self, host: Host, loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._loop = loop
        self._under_way: set[Future[Any]] = set()
        self.over = False

    def fence(self) -> None:
        """Call off what the thread waits for now, and let it know."""
        self.over = True
        for doing in list(self._under_way):
            doing.cancel()

    async def progress(self, percent: int | None, message: str | None) -> None:
        await self._host.progress(percent, message)

    async def keep(self, name: str, value: Any) -> None:
        await self._host.keep(name, value)

    async def checkpoint(self, made: Report) -> None:
        await self._host.checkpoint(made)

    async def ask(self, question: Question) -> Answer:
        return await self._host.ask(question)

    def room(self, size: int) -> None:
        self._host.room(size)

    async def block(self, function: Callable[[], T]) -> T:
        return function()

    def log(self, line: str) -> None:
        self._check()
        self._loop.call_soon_threadsafe(self._host.log, line)

    def monotonic(self) -> float:
        return self._host.monotonic()

    def fresh(self) -> str:
        return self._host.fresh()

    def wait(self, doing: Coroutine[Any, Any, T]) -> T:
        """Wait in the thread until the loop has done it."""
        try:
            self._check()
        except Fenced:
            doing.close()
            raise
        under_way = asyncio.run_coroutine_threadsafe(doing, self._loop)
        self._under_way.add(under_way)
        if self.over:  # it became so in between
            under_way.cancel()
        try:
            return under_way.result()
        except CancelledError as called_off:
            raise Fenced from called_off
        finally:
            self._under_way.discard(under_way)

    def _check(self) -> None:
        if self.over:
            raise Fenced
