"""Every way out of the process says why in the log, and has a time limit.

A service that does not work and will not go is worse than a dead one: it keeps the lock, and
nobody can take its place. So a thread that needs no loop counts the seconds, from the moment at
which something says stop, or at which the loop no longer turns; and what it has to say goes to
the log in one line, past every buffer, before the process is gone.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Protocol

import anyio

from jobrunner.errors import JobrunnerError, OutcomeUnknown, bug_named, bug_places
from jobrunner.log import Log
from jobrunner.ports import Children, Clock
from jobrunner.watchdog import end_process, stack_of_loop

TICK_S = 1.0
SILENCE_S = 10.0
LATE_S = 20.0
LATE, HUNG = 1, 70
End = Callable[[int, bytes], None]


class Losing(Protocol):
    """Finds out that nobody knows what is on disk: then ``failed`` is set."""

    unknown: OutcomeUnknown | None

    @property
    def failed(self) -> asyncio.Event: ...


class Ending:
    """``end`` ends the process at once, with so many bytes of last words; ``heard`` is told that it
    is on its way out, and within how many seconds."""

    def __init__(
        self,
        log: Log,
        children: Children,
        clock: Clock,
        end: End | None = None,
        heard: Callable[[float], None] = lambda within_s: None,
    ) -> None:
        self._log = log
        self._children = children
        self._clock = clock
        self._end = end or partial(end_process, places=log.descriptors)
        self._heard = heard
        self._reason = ""
        self.asked = anyio.Event()

    def begin(self, reason: str, within_s: float) -> None:
        """Begin the end: the first reason counts, and when time is up the process is gone."""
        if self._reason:
            return
        self._reason = reason
        self._say_stopping(reason=reason, within_s=within_s)
        self._heard(within_s)
        self._children.watchdog(within_s, self._overdue)

    async def listen(self, stops: AsyncIterator[signal.Signals], within_s: float) -> None:
        """The first request to stop lets work come to its end; the second is an order."""
        told = signal.Signals(await anext(stops)).name
        self.begin(f"told to stop ({told})", within_s)
        self.asked.set()
        number = signal.Signals(await anext(stops))
        reason = f"told to stop a second time ({number.name}), while: {self._reason}"
        self._cut(128 + number, reason)

    async def over(self, service: Losing) -> None:
        """Wait until somebody says stop, or the store is lost."""
        async with anyio.create_task_group() as group:

            async def until_failed() -> None:
                await service.failed.wait()
                self.begin(str(service.unknown), LATE_S)
                group.cancel_scope.cancel()

            group.start_soon(until_failed)
            await self.asked.wait()
            group.cancel_scope.cancel()

    async def watch(self) -> None:
        """Ticks for as long as the loop turns. The dog outlives it: what is left then is quick."""
        dog = self._children.watchdog(SILENCE_S, self._hung)
        while True:
            dog.tick()
            await self._clock.sleep(TICK_S)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Log whatever is raised in here: it ends the process."""
        try:
            yield
        except BaseException as error:
            known = isinstance(error, JobrunnerError)
            reason, trace = (str(error), "") if known else (bug_named(error), bug_places(error))
            self._log("service.failed", level="error", reason=reason, traceback=trace)
            raise

    def _overdue(self) -> None:
        """End it: acknowledged work is on disk, and interrupted work goes on at the next start."""
        self._cut(LATE, f"it did not come to its end in time: {self._reason}")

    def _hung(self) -> None:
        self._cut(HUNG, f"the event loop did not turn for {SILENCE_S:.0f} s")

    def _cut(self, code: int, reason: str) -> None:
        about = {"reason": reason, "code": code, "stack": stack_of_loop()}
        self._end(code, self._last_words(**about))

    def _say_stopping(self, **about: Any) -> None:
        self._log("service.stopping", **about)

    def _last_words(self, **about: Any) -> bytes:
        return self._log.last("service.cut", **about)


class WorkEnding(Ending):
    """The same of whoever runs stages for a service elsewhere."""

    def _say_stopping(self, **about: Any) -> None:
        self._log("work.stopping", **about)

    def _last_words(self, **about: Any) -> bytes:
        return self._log.last("work.cut", **about)


@asynccontextmanager
async def ungrouped() -> AsyncIterator[None]:
    """Raise one error of ours as it was, however many task groups it has passed through."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, JobrunnerError):
            raise error from group
        raise
