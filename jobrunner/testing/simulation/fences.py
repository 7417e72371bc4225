"""Sees whatever a stage reaches for beside its context, and refuses what a simulation cannot have:
the network, threads, programs in the loop. Sees files that it leaves outside of its folders, and a
loop that it holds.

Python tells of most of it by itself (its audit events). What computes on and on is found by the
time of the processor, never by that of the clock: a busy machine accuses nobody.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from anyio._backends import _asyncio as backend

from jobrunner.stages.api import Stage
from jobrunner.testing.simulation.loop import RealWorld, SimLoop
from jobrunner.testing.simulation.passes import AT_WORK, Pass

TICK_S = 0.5
HELD_TICKS, ENDLESS_TICKS = 4, 120
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
NOBODYS = ("/dev/", "/proc/", "/sys/")
BESIDE = "beside ctx.http: it is not guarded, and the proof does not see it"
HOLDS = "holds the loop, and everybody in it"
THREAD_ENDS_S = 1.0
REAL_START = threading.Thread.start
_watching: list[bool] = []


class HeldUp(BaseException):
    """Unwinds a stage that computes on and on."""


def _network(work: Pass, arguments: tuple[Any, ...]) -> None:
    family = getattr(arguments[0], "family", None) if arguments else None
    if family is not None and int(family) == 1:  # a socket of this machine's own
        return
    _refuse(work, f"reaches for the network {BESIDE}")


def _program(work: Pass, arguments: tuple[Any, ...]) -> None:
    """A plain function has a process of its own in the service, and may start others."""
    if not work.plain:
        _refuse(work, f"starts a process from an async def; {HOLDS}: make it a plain function")


def _sleep(work: Pass, arguments: tuple[Any, ...]) -> None:
    if not work.plain and float(arguments[0]) > 0:
        _refuse(work, f"{HOLDS}: it sleeps; await asyncio.sleep, or be a plain function")


def _opened(work: Pass, arguments: tuple[Any, ...]) -> None:
    path, mode, flags = (*arguments, None, None)[:3]
    writes = any(letter in mode for letter in "wax+") if mode else int(flags or 0) & WRITING
    if writes and not (isinstance(path, str | bytes) and os.path.isdir(path)):
        _written(work, (path,))  # a file without a name is opened by its folder


def _written(work: Pass, arguments: tuple[Any, ...]) -> None:
    for path in arguments[:2]:
        if isinstance(path, str | bytes) and path:
            work.files.setdefault(os.path.abspath(os.fsdecode(path)), work.here())


WATCHED: dict[str, Callable[[Pass, tuple[Any, ...]], None]] = {
    **dict.fromkeys(("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"), _network),
    **dict.fromkeys(("socket.bind", "socket.sendto"), _network),
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.fork", "os.posix_spawn"), _program),
    **dict.fromkeys(("os.mkdir", "os.rename", "os.link", "os.symlink"), _written),
    "time.sleep": _sleep,
    "open": _opened,
}


def _refuse(work: Pass, text: str) -> None:
    work.fault(text, work.here())
    raise RealWorld(f"{work} {text}")


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    look = WATCHED.get(event)
    if look is None:
        return
    work = AT_WORK.get(None)
    if work is not None:
        look(work, arguments)


@contextmanager
def fenced(loop: SimLoop) -> Iterator[None]:
    """Put up the fences for as long as a simulation runs."""
    if not _watching:
        _watching.append(True)
        sys.addaudithook(_audit)
    with _patched(loop), _timed(loop):
        yield


@contextmanager
def _patched(loop: SimLoop) -> Iterator[None]:
    """A plain function that sleeps passes simulated time. Work handed to a thread is done at a
    later step; programs that are started are remembered."""
    sleep, start, thread = time.sleep, subprocess.Popen.__init__, threading.Thread.start
    in_thread = backend.AsyncIOBackend.run_sync_in_worker_thread

    def slept(seconds: Any) -> None:
        work = AT_WORK.get(None)
        if work is None or seconds < 0:
            sleep(seconds)
        elif work.plain:
            loop.pass_time(seconds)
        else:
            _sleep(work, (seconds,))

    def started(self: Any, *arguments: Any, **more: Any) -> None:
        start(self, *arguments, **more)
        work = AT_WORK.get(None)
        if work is not None:
            work.programs.append((self, work.here()))

    def begun(thread: threading.Thread) -> Any:
        """A plain function may have threads, as long as they end with it. In the loop there are
        none: a real one would go on by itself, outside of time."""
        work = AT_WORK.get(None)
        if work is not None and work.plain:
            work.threads.append((thread, work.here()))
            return REAL_START(thread)
        if work is not None:
            work.fault(
                "starts a thread: hand the work to anyio.to_thread, and await it", work.here()
            )
        return loop.refuse(thread)

    async def threaded(cls: Any, func: Any, args: Any, *more: Any, **options: Any) -> Any:
        return await loop.later(lambda: aside(lambda: func(*args)))

    time.sleep = slept
    threading.Thread.start = begun  # type: ignore[assignment, method-assign]
    subprocess.Popen.__init__ = started  # type: ignore[method-assign]
    backend.AsyncIOBackend.run_sync_in_worker_thread = classmethod(threaded)  # type: ignore[assignment]
    try:
        yield
    finally:
        time.sleep = sleep
        threading.Thread.start = thread  # type: ignore[method-assign]
        subprocess.Popen.__init__ = start  # type: ignore[method-assign]
        backend.AsyncIOBackend.run_sync_in_worker_thread = in_thread  # type: ignore[method-assign]


@contextmanager
def lent_folder(stage: Stage, scratch: str) -> Iterator[None]:
    """A process has its temporary files in the folder of its attempt, as in the service."""
    if stage.runs != "process":
        yield
        return
    before, tempfile.tempdir = tempfile.tempdir, scratch
    try:
        yield
    finally:
        tempfile.tempdir = before


def aside(function: Callable[[], Any]) -> Any:
    """Run what a stage does in a thread, where it holds up nobody."""
    work = AT_WORK.get(None)
    if work is None:
        return function()
    plain, work.plain = work.plain, True
    try:
        return function()
    finally:
        work.plain = plain


@contextmanager
def _timed(loop: SimLoop) -> Iterator[None]:
    """Look for a step without an end; only in the main thread, which alone hears signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen, patience = [-1, 0], [HELD_TICKS, ENDLESS_TICKS]

    def tick(number: int, frame: FrameType | None) -> None:
        work = AT_WORK.get(None)
        same = work is not None and seen[0] == loop.steps
        seen[:] = [loop.steps, seen[1] + 1 if same else 0]
        if work is not None and seen[1] >= patience[work.plain]:
            seen[1], patience[:] = 0, [1, 1]
            _held(work)

    before = signal.signal(signal.SIGPROF, tick)
    signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _held(work: Pass) -> None:
    computed = (ENDLESS_TICKS if work.plain else HELD_TICKS) * TICK_S
    does = "does not come to an end" if work.plain else HOLDS
    work.fault(f"{does}: it has computed for {computed:.0f} s in one go", work.here())
    raise HeldUp


# ---------------------------------------------------------------- what is left behind


def left_behind(work: Pass, folder: str) -> None:
    """Once a pass is over: nothing of it goes on, and nothing lies where nobody looks."""
    for task, where in work.tasks:
        if not task.done() and not task.cancelling():
            work.fault(
                "left a task behind, which goes on without it: await it, or cancel it", where
            )
            task.cancel()
    for program, where in work.programs:
        if program.poll() is None:
            work.fault("left a process behind: wait for it, or end it", where)
            program.kill()
            program.wait()
            _closed(program)
    for thread, where in work.threads:
        thread.join(THREAD_ENDS_S)
        if thread.is_alive():
            work.fault("left a thread behind: join it", where)
    kept = os.path.realpath(folder) + os.sep
    for path, where in work.files.items():
        if _is_left(path, kept):
            text = f"left {path} behind, outside of its folders: ctx.scratch goes with the attempt"
            work.fault(text, where)


def _closed(program: Any) -> None:
    for pipe in (program.stdin, program.stdout, program.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _is_left(path: str, kept: str) -> bool:
    if path.startswith(NOBODYS) or "__pycache__" in path or not os.path.lexists(path):
        return False
    return not os.path.realpath(path).startswith(kept)
