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
import inspect
import random
from asyncio import events, tasks
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from threading import Thread, get_ident
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from anyio._backends import _asyncio as backend

from jobrunner.testing.simulation.passes import AT_WORK

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


class Buried(BaseException):
    """Unwinds what is left of a task that nobody will run again."""


class NumberedTask(asyncio.Task[Any]):
    """Lies in a set by its number, so that a task group cancels in the same order each time."""

    def __init__(self, number: int, coro: Any, **options: Any) -> None:
        self._number = number  # before all else: every loop keeps its tasks in a set
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class SimLoop(asyncio.BaseEventLoop):
    """``steps`` counts what tasks did; ``digest`` is a hash over who did it, and when."""

    def __init__(self, seed: int | str) -> None:
        super().__init__()
        self.rng = random.Random(f"order {seed}")
        self.steps = 0
        self.reached = False
        self._selector = _Nothing(self)
        self._clock_s = 0.0
        self._idle_steps = 0
        self._born = 0
        self._births: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._kept: list[Any] = []
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
        """Note what happened, and who did it, in the trace."""
        self._hash.update(text.encode())

    def create_task(self, coro: Any, **options: Any) -> Any:
        """Numbered by birth, so that traces can be compared: a name may be anybody's."""
        self._born += 1
        options["name"] = options.get("name") or getattr(coro, "__qualname__", "task")
        task = NumberedTask(self._born, coro, loop=self, **options)
        self._births[task] = self._born
        work = AT_WORK.get()
        if work is not None:
            work.tasks.append((task, work.here()))
        return task

    async def later(self, function: Callable[[], T]) -> T:
        """Do at a later step what others do in a thread, whatever happens to its caller."""
        done: asyncio.Future[T] = self.create_future()
        self.call_soon(_do, done, function)
        return await asyncio.shield(done)

    def run_in_executor(self, executor: Any, func: Any, *arguments: Any) -> Any:  # type: ignore[override]
        """A stage may hand over what would hold up others; nobody else does so here."""
        if AT_WORK.get() is None:
            return self.refuse(func)
        return asyncio.ensure_future(self.later(lambda: func(*arguments)), loop=self)

    def end_life(self, life: object) -> None:
        """End this life: nothing more happens in it. Its tasks are kept where they stand: what is
        collected as garbage has a last word, at a moment that no seed decides."""
        self._kept += asyncio.all_tasks(self)
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
            birth = self._births.get(ready[place]._callback.__self__, 0)
            self._hash.update(b"%d %.6f" % (birth, self._clock_s))
        self.steps += len(places)

    def _busy(self) -> str:
        return ", ".join(sorted({_name_of(one) for one in self._ready}))  # type: ignore[attr-defined]

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        if self._thread_id not in (None, get_ident()):  # type: ignore[attr-defined]
            raise RealWorld("a thread speaks to the simulated loop")

    def refuse(self, *what: Any, **more: Any) -> Any:
        """Refuse whoever reaches for the world, and tell whoever simulates it, since between the
        two somebody may take it for a network that does not answer."""
        self.reached = True
        work = AT_WORK.get()
        if work is not None:
            text = "reaches for a socket or a process of the loop, beside its context"
            work.fault(text, work.here())
        raise RealWorld(REFUSED)


for _name in (
    *("getaddrinfo", "getnameinfo", "create_connection", "create_server"),
    *("create_unix_connection", "create_unix_server", "create_datagram_endpoint"),
    *("connect_read_pipe", "connect_write_pipe", "subprocess_shell", "subprocess_exec"),
    *("add_reader", "add_writer", "add_signal_handler"),
):
    setattr(SimLoop, _name, SimLoop.refuse)


class _Nothing:
    """Stands where other loops ask the system for news. An idle wait of t seconds passes t
    seconds."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            names = sorted(task.get_name() for task in asyncio.all_tasks(self._loop))
            raise Deadlock(f"everybody waits and nobody will come: {', '.join(names[:20])}")
        if timeout > 0:
            self._loop.pass_time(timeout + 1e-9)
        return []


def simulated(
    main: Callable[[SimLoop], Coroutine[Any, Any, T]],
    seed: int | str,
    fence: Callable[[SimLoop], AbstractContextManager[Any]] = nullcontext,
) -> T:
    """Run ``main`` until all the time that it wanted has passed, and return its value. ``fence``
    is put around it."""
    loop = SimLoop(seed)
    with _in_order(), _no_threads(loop), fence(loop):
        try:
            return loop.run_until_complete(main(loop))
        finally:
            _bury(loop)
            _forget(loop)
            loop.close()
            if loop.reached:
                raise RealWorld(REFUSED)


def _bury(loop: SimLoop) -> None:
    """Tasks of ended lives, and of a simulation that failed, hang where they stood. What they run
    is unwound, so that it lets go of everything it holds; what it still says is heard by nobody.
    (Closing it would not do: that does not reach into asynchronous generators.)"""
    events._set_running_loop(loop)
    try:
        for _ in range(UNWINDINGS_MAX):
            known = {*loop._kept, *asyncio.all_tasks(loop)}
            left = [task for task in known if not _unwound(task)]
            if not left:
                return
            left.sort(key=lambda task: -loop._births.get(task, 0))  # before the groups they are in
            loop._kept = []
            for task in left:
                _unwind(loop, task)
    finally:
        events._set_running_loop(None)


def _forget(loop: SimLoop) -> None:
    """anyio remembers a task by its scope, and the scope holds the task: one that did not leave its
    scopes by itself would be remembered for ever, and its loop with it."""
    for task in list(loop._births):
        backend._task_states.pop(task, None)


def _unwound(task: Any) -> bool:
    task._log_destroy_pending = False
    if task.done() and not task.cancelled():
        task.exception()  # it was seen
    return task.done() or inspect.getcoroutinestate(task.get_coro()) == inspect.CORO_CLOSED


def _unwind(loop: SimLoop, task: Any) -> None:
    """Again and again, for as long as it finds something else to wait for. One that was never begun
    is begun: it may carry another one, which nobody else knows of."""
    tasks._enter_task(loop, task)
    try:
        if inspect.getcoroutinestate(task.get_coro()) == inspect.CORO_CREATED:
            task.get_coro().send(None)
        for _ in range(UNWINDINGS_MAX):
            task.get_coro().throw(Buried())
    except BaseException:  # noqa: BLE001 - the dead protest in any way they like
        return
    finally:
        tasks._leave_task(loop, task)


UNWINDINGS_MAX = 20


def _do(done: "asyncio.Future[Any]", function: Callable[[], Any]) -> None:
    try:
        found = function()
    except Exception as error:  # noqa: BLE001 - it is the answer
        done.set_exception(error)
    else:
        done.set_result(found)


def _task_of(handle: Any) -> Any:
    owner = getattr(handle._callback, "__self__", None)
    return owner if isinstance(owner, asyncio.Task) else None


def _name_of(handle: Any) -> str:
    """A stage by its name and line, everybody else by the name of the task."""
    task = _task_of(handle)
    work = handle._context.get(AT_WORK)
    if work is not None:
        return str(work)
    return str(task.get_name()) if task is not None else "a callback"


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
def _no_threads(loop: SimLoop) -> Iterator[None]:
    """A thread would go on by itself, outside of time; it would never come back either."""
    start = Thread.start
    Thread.start = loop.refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        Thread.start = start  # type: ignore[method-assign]


def demand_no_loop(text: str) -> None:
    """Raises: AssertionError, with this text, where a loop runs already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise AssertionError(text)
