"""Companions: what a plugin keeps open beside its stages for as long as the service runs, as a
provider of its own that answers on loopback.

A companion is opened when the service listens, and closed after the last of its stages. What it
opened is laid over the settings of its workflow, and its origins are open to that workflow alone.
Until it is open the jobs of its workflow wait; one that does not open in time, or at all, costs
nobody else anything: it is logged, the jobs go on without it, and it is tried again.
"""

import asyncio
import inspect
import os
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import anyio
from msgspec import Struct

from jobrunner.ports import Clock
from jobrunner.stages.outcomes import said

OPEN_S = 30.0
CLOSE_S = 10.0
AGAIN_S, AGAIN_S_MAX = 1.0, 300.0


class Hosting(Struct, frozen=True):
    """The input of a companion: the operator's settings for its workflow, a folder of its own that
    stays, where the service is reached, where its lines go, and where the service is reached from
    this machine (``local_url``), whatever its public address is."""

    settings: dict[str, Any]
    folder: str
    base_url: str
    log: Callable[[str], None]
    local_url: str = ""


class Opened(Struct, frozen=True):
    """The result of opening a companion: settings, laid over those of its workflow, and the secrets
    with which it signs its webhooks, by their source."""

    settings: dict[str, Any] = {}
    secrets: dict[str, list[str]] = {}


Opening = Callable[[Hosting], AbstractAsyncContextManager[Opened]]


class Companion(Struct, frozen=True):
    """An entry point of the group ``jobrunner.companions`` leads to one of these."""

    workflow: str
    open: Opening


def companion(workflow: str) -> Callable[[Callable[[Hosting], Any]], Companion]:
    """Makes an async generator function, which yields one ``Opened``, the companion of a workflow:
    ``@companion("hello")``."""

    def made(opening: Callable[[Hosting], Any]) -> Companion:
        if inspect.isasyncgenfunction(opening):
            return Companion(workflow, asynccontextmanager(opening))
        return Companion(workflow, opening)

    return made


class Around(Protocol):
    """The listener that is told what companions opened."""

    base_url: str
    local_url: str

    def release(self, *workflows: str) -> None: ...

    def opened(self, workflow: str, opened: Opened) -> None: ...

    def closed(self, workflow: str) -> None: ...


Say = Callable[..., None]


class Companions:
    """Use ``running`` as an async context: inside, they are open, as far as they can be. Jobs wait
    ``open_s`` for one; when all are told to close, it gets ``close_s``, and one that is not open
    yet is not waited for."""

    def __init__(
        self,
        companions: Mapping[str, Companion],
        settings_of: Callable[[str], Mapping[str, Any]],
        folder: str,
        around: Around,
        clock: Clock,
        log: Say,
        open_s: float = OPEN_S,
        close_s: float = CLOSE_S,
    ) -> None:
        self._companions = companions
        self._settings_of = settings_of
        self._folder = folder
        self._around = around
        self._clock = clock
        self._log = log
        self._open_s = open_s
        self._close_s = close_s
        self._closing = asyncio.Event()
        self._opening: dict[str, anyio.CancelScope] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """They open beside each other, and nobody waits for them here."""
        async with anyio.create_task_group() as group:
            for one in self._companions.values():
                group.start_soon(self._keep, one)
                group.start_soon(self._in_time, one.workflow)
            try:
                yield
            finally:
                self._closing.set()
                for scope in self._opening.values():
                    scope.cancel()
                group.cancel_scope.deadline = anyio.current_time() + self._close_s

    async def _in_time(self, workflow: str) -> None:
        """The jobs of a workflow do not wait for ever."""
        await self._sleep(self._open_s)
        self._around.release(workflow)

    async def _keep(self, one: Companion) -> None:
        """Open it, and again when it died, with longer and longer pauses."""
        pause_s = AGAIN_S
        while not self._closing.is_set():
            began, reason = self._clock.monotonic(), None
            with anyio.CancelScope() as self._opening[one.workflow]:
                reason = await self._tried(one)
            self._opening.pop(one.workflow, None)
            self._around.closed(one.workflow)
            self._around.release(one.workflow)
            if reason is None:
                self._log("companion.closed", workflow=one.workflow)
                return
            self._log("companion.failed", level="error", workflow=one.workflow, **reason)
            if self._clock.monotonic() - began > AGAIN_S_MAX:
                pause_s = AGAIN_S
            await self._sleep(pause_s)
            pause_s = min(pause_s * 2, AGAIN_S_MAX)

    async def _tried(self, one: Companion) -> dict[str, str] | None:
        """Keep it open until it is told to close; return why it is not open any more, whatever it
        raised."""
        try:
            folder = os.path.join(self._folder, one.workflow)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            async with one.open(self._hosting(one.workflow, folder)) as opened:
                self._took(one.workflow, opened)
                await self._closing.wait()
        except asyncio.CancelledError:
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            return {"error": "it cancelled itself"}
        except BaseException as fault:  # noqa: BLE001 - whatever it is, it is a stranger's
            text = f"{type(fault).__name__}: {said(fault)}"
            return {"error": text, "traceback": "".join(traceback.format_exception(fault))}
        return None if self._closing.is_set() else {"error": "it closed by itself"}

    def _took(self, workflow: str, opened: object) -> None:
        if not isinstance(opened, Opened):
            raise TypeError(f"it yielded a {type(opened).__name__}, not an Opened")
        self._opening.pop(workflow, None)
        self._around.opened(workflow, opened)
        self._around.release(workflow)
        self._log("companion.opened", workflow=workflow, settings=sorted(opened.settings))

    def _hosting(self, workflow: str, folder: str) -> Hosting:
        def log(line: str) -> None:
            self._log("companion.said", workflow=workflow, line=str(line)[:2000])

        settings = dict(self._settings_of(workflow))
        around = self._around
        return Hosting(settings, folder, around.base_url, log, around.local_url)

    async def _sleep(self, seconds: float) -> None:
        """Sleep, but not longer than the service is up."""
        with anyio.move_on_after(seconds):
            await self._closing.wait()
