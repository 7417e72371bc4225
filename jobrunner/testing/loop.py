"""An event loop in which time is a number and the order of tasks is a seed.

Waiting moves the clock, at once. Whenever several tasks could take their next step, a seeded
generator decides who goes first; other callbacks keep the order that asyncio promises. Nothing
real happens: no thread, no socket, no process. When nobody can ever go on, that is a deadlock, and
when everybody goes on and time does not, that is a livelock; both are errors with a name.

A *life* is a process that may die: tasks and callbacks that were started in its context are
forgotten when it ends, in the middle of whatever they did.
"""

import asyncio
import hashlib
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Thread, get_ident
from typing import Any, TypeVar

from anyio._backends import _asyncio as backend

T = TypeVar("T")
STEPS_WITHOUT_TIME = 50_000
LIFE: ContextVar[object | None] = ContextVar("life", default=None)


REFUSED = (
    "simulated code reached for a thread, a socket or a process; hand it in as a port, "
    "or give the simulation a stage that does without"
)


class Deadlock(AssertionError):
    """Nothing is ready, nothing is due, and the simulation is not over."""


class Livelock(AssertionError):
    """Steps and steps, and the clock stands still: somebody spins, or swallows cancellation."""


class RealWorld(AssertionError):
    """Simulated code reached for the real world."""


class SimLoop(asyncio.BaseEventLoop):
    """``steps`` counts what tasks did; ``digest`` is a hash over who did it, and when."""

    def __init__(self, seed: int | str) -> None:
        super().__init__()
        self.rng = random.Random(f"order {seed}")
        self.steps = 0
        self._selector = _Nothing(self)
        self._clock_s = 0.0
        self._idle_steps = 0
        self._born = 0
        self._hash = hashlib.blake2b(digest_size=8)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def time(self) -> float:
        return self._clock_s

    def pass_time(self, seconds: float) -> None:
        self._clock_s += seconds
        self._idle_steps = 0

    def mark(self, text: str) -> None:
        """What happened is part of the trace, as who did it is."""
        self._hash.update(text.encode())

    def create_task(self, coro: Any, **options: Any) -> Any:
        """Named by the order of birth, so that a trace can be compared and read."""
        self._born += 1
        what = options.pop("name", None) or getattr(coro, "__qualname__", "task")
        return super().create_task(coro, name=f"{what}#{self._born}", **options)

    def end_life(self, life: object) -> None:
        """Of this life, nothing more will happen."""
        for handle in (*self._ready, *self._scheduled):  # type: ignore[attr-defined]
            if handle._context.get(LIFE) is life:
                handle.cancel()

    def _run_once(self) -> None:
        self._idle_steps += len(self._ready)  # type: ignore[attr-defined]
        if self._idle_steps > STEPS_WITHOUT_TIME:
            raise Livelock(f"{STEPS_WITHOUT_TIME} steps at {self._clock_s:.3f} s: {self._busy()}")
        self._draw()
        super()._run_once()  # type: ignore[misc]

    def _draw(self) -> None:
        """Task steps change places among themselves; whatever else is ready stays where it is."""
        ready = self._ready  # type: ignore[attr-defined]
        places = [place for place, handle in enumerate(ready) if _task_of(handle) is not None]
        if len(places) > 1:
            drawn = [ready[place] for place in places]
            self.rng.shuffle(drawn)
            for place, handle in zip(places, drawn, strict=True):
                ready[place] = handle
        for place in places:
            self._hash.update(b"%s %.6f" % (_name_of(ready[place]), self._clock_s))
        self.steps += len(places)

    def _busy(self) -> str:
        return ", ".join(sorted({_name_of(one).decode() for one in self._ready}))  # type: ignore[attr-defined]

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        if self._thread_id not in (None, get_ident()):  # type: ignore[attr-defined]
            raise RealWorld("a thread speaks to the simulated loop")

    def _refuse(self, *what: Any, **more: Any) -> Any:
        raise RealWorld(REFUSED)

    run_in_executor = _refuse
    getaddrinfo = _refuse
    getnameinfo = _refuse
    create_connection = _refuse
    create_server = _refuse
    create_unix_connection = _refuse
    create_unix_server = _refuse
    create_datagram_endpoint = _refuse
    connect_read_pipe = _refuse
    connect_write_pipe = _refuse
    subprocess_shell = _refuse
    subprocess_exec = _refuse
    add_reader = _refuse
    add_writer = _refuse
    add_signal_handler = _refuse


class _Nothing:
    """Where other loops ask the system for news. An idle wait of t seconds passes t seconds."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            names = sorted(task.get_name() for task in asyncio.all_tasks(self._loop))
            raise Deadlock(f"everybody waits and nobody will come: {', '.join(names[:20])}")
        if timeout > 0:
            self._loop.pass_time(timeout + 1e-9)
        return []


def simulated(main: Callable[[SimLoop], Coroutine[Any, Any, T]], seed: int | str) -> T:
    """What ``main`` returns, when all the time that it wanted has passed."""
    loop = SimLoop(seed)
    with _in_order(), _no_threads():
        try:
            return loop.run_until_complete(main(loop))
        finally:
            asyncio.set_event_loop(None)
            _bury(loop)
            loop.close()


def _bury(loop: SimLoop) -> None:
    """Tasks of ended lives, and of a simulation that failed, hang where they stood. Closing what
    they run lets go of everything they hold; what they still say is heard by nobody."""
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        coroutine: Any = task.get_coro()
        for _ in range(CLOSINGS_MAX):
            try:
                coroutine.close()
                break
            except BaseException:  # noqa: BLE001 - the dead protest in any way they like
                continue


CLOSINGS_MAX = 20


def _task_of(handle: Any) -> Any:
    owner = getattr(handle._callback, "__self__", None)
    return owner if isinstance(owner, asyncio.Task) else None


def _name_of(handle: Any) -> bytes:
    task = _task_of(handle)
    return task.get_name().encode() if task is not None else b"a callback"


class _Ordered(dict[Any, None]):
    """A set that remembers who came first."""

    def add(self, one: Any) -> None:
        self[one] = None

    def discard(self, one: Any) -> None:
        self.pop(one, None)

    def remove(self, one: Any) -> None:
        del self[one]


@contextmanager
def _in_order() -> Iterator[None]:
    """anyio keeps the tasks of a scope in sets, whose order is that of addresses in memory. For as
    long as a simulation runs, scopes and groups are made with ordered ones."""
    scope_init, group_init = backend.CancelScope.__init__, backend.TaskGroup.__init__

    def scope(self: Any, *arguments: Any, **more: Any) -> None:
        scope_init(self, *arguments, **more)
        self._tasks, self._child_scopes = _Ordered(), _Ordered()

    def group(self: Any) -> None:
        group_init(self)
        self._tasks = _Ordered()

    backend.CancelScope.__init__ = scope  # type: ignore[method-assign]
    backend.TaskGroup.__init__ = group  # type: ignore[method-assign]
    try:
        yield
    finally:
        backend.CancelScope.__init__ = scope_init  # type: ignore[method-assign]
        backend.TaskGroup.__init__ = group_init  # type: ignore[method-assign]


@contextmanager
def _no_threads() -> Iterator[None]:
    """A thread would go on by itself, outside of time; it would never come back either."""
    start = Thread.start

    def refuse(thread: Thread) -> None:
        raise RealWorld(REFUSED)

    Thread.start = refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        Thread.start = start  # type: ignore[method-assign]
