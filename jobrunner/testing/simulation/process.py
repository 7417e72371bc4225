"""The service as a process: it starts on the file that is there, dies in the middle of something,
or is stopped, and starts again. Callers see what callers see: an answer, a refusal, or silence.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
from msgspec.structs import replace

from jobrunner import app
from jobrunner.actors import Facade
from jobrunner.config.settings import Config
from jobrunner.errors import StorageError
from jobrunner.stages import Registry
from jobrunner.stages.equipment import Surroundings
from jobrunner.store.store import Store, open_store
from jobrunner.testing.simulation.loop import LIFE, SimLoop
from jobrunner.testing.simulation.world import (
    Fate,
    SimClock,
    SimFiles,
    SimHop,
    SimIds,
    ports,
)

T = TypeVar("T")
Note = Callable[..., None]
Found = Callable[[], Registry]
Around = Callable[[], Surroundings | None]
DOWN_S = (0.0, 0.1, 1.0, 5.0, 90.0)


class Gone(Exception):
    """The process that was asked is not there any more: whether it did it, nobody knows."""


class Life:
    """One process. ``calls`` are those who wait for its answer."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.facade: Facade | None = None
        self.store: Store | None = None
        self.hops: list[SimHop] = []
        self.calls: dict[asyncio.Future[Any], None] = {}
        self.stop = asyncio.Event()
        self.over = asyncio.Event()
        self.context = copy_context()
        self.context.run(LIFE.set, self)


class Process:
    """``registry`` is what each life finds installed, ``around`` what its stages reach the world
    by; ``note`` is told everything that happens to it, ``on_end`` when a life is over."""

    def __init__(
        self, loop: SimLoop, folder: Path, config: Config, registry: Found, seed: int | str,
        fate: Fate, note: Note, log: Note, around: Around = lambda: None,
    ) -> None:  # fmt: skip
        self.clock = SimClock(loop)
        self.ids = SimIds(self.clock, seed)
        self.folder = folder
        self.up = asyncio.Event()
        self.broken = asyncio.Event()
        self.on_end: Callable[[], None] = lambda: None
        self.fault: BaseException | None = None
        self._loop = loop
        self._config = config
        self._registry = registry
        self.fate = fate
        self._note = note
        self._log = log
        self._around = around
        self._files = SimFiles()  # a disk outlives a crash
        self._life: Life | None = None
        self._lives = 0
        self._closing = False

    async def run(self) -> None:
        """Live until it is closed: a life, a while of nothing, the next one."""
        while not self._closing and self.fault is None:
            self._lives += 1
            life = self._life = Life(self._lives)
            self._note("starts", life=life.number)
            self._loop.create_task(self._live(life), name="process", context=life.context)
            await life.over.wait()
            self._end(life, "ended")
            self.on_end()
            if not self._closing:
                await anyio.sleep(self._loop.rng.choice(DOWN_S))

    async def close(self) -> None:
        """Stopped as an operator would; returns when it is over."""
        self._closing = True
        if self._life is not None:
            self._life.stop.set()
            await self._life.over.wait()

    def restart(self) -> None:
        """Asked to stop; it takes its time for that, and is started again."""
        if self._life is not None:
            self._note("is asked to stop")
            self._life.stop.set()

    def die(self, where: str) -> None:
        """At once: no step more, no word more, and what it had not committed is undone."""
        if self._life is not None and not self._life.over.is_set():
            self._end(self._life, f"dies: {where}")

    async def call(self, ask: Callable[[Facade], Awaitable[T]]) -> T:
        """Ask the service, and hear the answer as from outside its process."""
        life = self._life
        if life is None or life.facade is None or life.over.is_set():
            raise Gone
        answer: asyncio.Future[T] = self._loop.create_future()
        life.calls[answer] = None
        task = self._loop.create_task(
            _asked(ask, life.facade), name="request", context=life.context.copy()
        )
        task.add_done_callback(partial(_hand_over, answer))
        try:
            return await answer
        finally:
            life.calls.pop(answer, None)

    async def _live(self, life: Life) -> None:
        try:
            await self._serve(life)
        except (StorageError, BaseExceptionGroup) as error:
            if not _is_of_the_disk(error):
                self.fault = error
            self._note("could not go on", error=repr(error)[:300])
        except Exception as error:  # noqa: BLE001 - told to whoever reads the trace
            self.fault = error
        finally:
            life.over.set()

    async def _serve(self, life: Life) -> None:
        path = str(self.folder / "jobs.db")
        writer, reader = (SimHop(self._loop, path, self.fate, self.die) for _ in range(2))
        life.hops = [writer, reader]
        bound = ports(self._loop, self.clock, self.ids, writer, reader)
        bound = replace(bound, files=self._files)
        store = life.store = await open_store(
            path,
            clock=self.clock,
            initial_credits=self._config.credits.initial,
            writer_hop=writer,
            reader_hop=reader,
        )
        writer.mortal = True
        try:
            found, around = self._registry(), self._around()
            async with app.working(self._config, store, found, bound, self._log, around) as (
                facade,
                _,
            ):
                life.facade = facade
                self.up.set()
                await _first_of(life.stop, facade.loss.failed)
                await facade.drain()
                await self._shut(life)
        finally:
            self.up.clear()
            with anyio.CancelScope(shield=True):
                await store.close()

    async def _shut(self, life: Life) -> None:
        """The door closes: nobody comes in any more, and who is in is heard out."""
        self.up.clear()
        life.facade = None
        with anyio.move_on_after(self._config.server.drain_seconds):
            while life.calls:
                await self.clock.sleep(0.01)

    def _end(self, life: Life, how: str) -> None:
        """The system takes back what a process had: handles, locks, memory, connections."""
        if self._life is not life:
            return
        self._life = None
        self._note(how, life=life.number)
        self.up.clear()
        self._loop.end_life(life)
        for hop in life.hops:
            hop.handle.close()
        if life.store is not None:
            life.store.lock.release()
        for answer in list(life.calls):
            if not answer.done():
                answer.set_exception(Gone())
        life.over.set()


async def _asked(ask: Callable[[Facade], Awaitable[T]], facade: Facade) -> T:
    return await ask(facade)


def _hand_over(answer: "asyncio.Future[Any]", task: "asyncio.Task[Any]") -> None:
    error = Gone() if task.cancelled() else task.exception()
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(task.result())


async def _first_of(*events: asyncio.Event) -> None:
    async with anyio.create_task_group() as group:

        async def until(event: asyncio.Event) -> None:
            await event.wait()
            group.cancel_scope.cancel()

        for event in events:
            group.start_soon(until, event)


def _is_of_the_disk(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_of_the_disk(one) for one in error.exceptions)
    return isinstance(error, StorageError)
