"""Tasks that cannot end each other, nor the service.

In a plain group of tasks the first error that nobody foresaw cancels all of them: a disk that did
not answer for a second would stop everything, and nobody would have said why. Here such an error
is one line of the log. What must go on for good is started again after a moment.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from jobrunner.actors.requester import ask_for_nobody
from jobrunner.errors import OutcomeUnknown, StorageError, bug_told
from jobrunner.ports import Clock

AGAIN_S = 1.0
INSIST_S = 1.0
Say = Callable[..., None]
Serve = Callable[[], Awaitable[object]]
GiveUp = Callable[[OutcomeUnknown], None]


class Crew:
    """``give_up`` is told when only a new start can tell what is on disk."""

    def __init__(self, clock: Clock, say: Say, give_up: GiveUp) -> None:
        self._tasks: dict[asyncio.Task[object], None] = {}
        self._clock = clock
        self._say = say
        self._give_up = give_up

    def start_soon(
        self, function: Callable[..., Awaitable[object]], *arguments: Any
    ) -> "asyncio.Task[object]":
        """Run it once."""
        return self._started(self._try(function, *arguments), function)

    def keep(self, serve: Serve) -> None:
        """Run it for good: start it again whenever it ends."""
        self._started(self._again(serve), serve)

    async def gone(self) -> None:
        """Wait until everything has ended by itself."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Call off everything that still runs, and wait until it is gone."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=INSIST_S)

    def _started(
        self, doing: Coroutine[Any, Any, object], function: object
    ) -> "asyncio.Task[object]":
        task = asyncio.get_running_loop().create_task(doing, name=_name(function))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    async def _again(self, serve: Serve) -> None:
        while await self._try(serve):
            await self._clock.sleep(AGAIN_S)

    async def _try(self, function: Callable[..., Awaitable[object]], *arguments: Any) -> bool:
        """Run it; False when to try again makes no sense."""
        ask_for_nobody()
        try:
            await function(*arguments)
        except OutcomeUnknown as error:
            self._give_up(error)
            return False
        except StorageError as fault:
            self._say("storage.fault", level="error", detail=str(fault))
        except Exception as bug:  # noqa: BLE001 - it costs this task, and is told
            self._say("service.fault", level="error", task=_name(function), **bug_told(bug))
        return True


def _name(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__qualname__", function))
