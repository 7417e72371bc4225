"""The seams of the service in a world that is made up: time from the loop, chance from the seed, a
disk that may fail, and a process that may die in the middle of a transaction.

The database is the real one, in a file, through the same functions as ever; only the moment at
which they run is drawn. A write can be cut off before it begins, before its COMMIT, and between
its COMMIT and the answer.
"""

import asyncio
import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
from msgspec import Struct

from jobrunner.ports import Ports, SystemIds
from jobrunner.store.opening import prepare_writer
from jobrunner.testing.simulation.loop import SimLoop

T = TypeVar("T")
DAWN_MS = 1_767_225_600_000
DELAYS_S = (0.0, 0.0, 0.001, 0.001, 0.004, 0.02)
SLOW_S = 3.0
POINTS_APART = 90  # places to die at, between two crashes, where there are but a few
A_FEW = 4


class Faults(Struct, frozen=True):
    """The mishaps of one simulation. ``crashes`` and ``restarts`` are how many there are at
    the most; ``full`` and ``unknown`` the share of commits that find the disk full, or end with an
    error that leaves open what happened; ``slow`` of those that take seconds; ``jumps`` whether
    the wall clock is set, forwards and backwards; ``rebinds`` whether stages are bound otherwise at
    each start, to the house or to outside;
    ``upgrades`` whether each life finds the declaration under another version, an admin moves jobs
    over, and all decisions are on record and made again."""

    crashes: int = 4
    restarts: int = 1
    full: float = 0.01
    unknown: float = 0.003
    slow: float = 0.01
    jumps: bool = True
    rebinds: bool = False
    upgrades: bool = False


CALM = Faults(crashes=0, restarts=0, full=0, unknown=0, slow=0, jumps=False)


class Killed(BaseException):
    """Unwinds what ran in the process when it died. Nothing of ours catches it."""


class Fate:
    """When what goes wrong. ``point`` is asked at every place where a process may die."""

    def __init__(self, seed: int | str, faults: Faults) -> None:
        self._random = random.Random(f"fate {seed}")
        self.faults = faults
        self._crashes = self._random.randint(0, faults.crashes)
        self._restarts = faults.restarts
        self._points_left = 0
        self._draw()

    def calm(self) -> None:
        """Let all be well from here on."""
        self.faults, self._crashes, self._restarts = CALM, 0, 0

    def point(self) -> bool:
        """True: the process dies here."""
        self._points_left -= 1
        if self._points_left > 0 or not self._crashes:
            return False
        self._crashes -= 1
        self._draw()
        return True

    @property
    def kills(self) -> bool:
        """Say whether a stage may still take the service down."""
        return self._crashes > 0

    def killed(self) -> None:
        self._crashes -= 1

    def may_restart(self) -> bool:
        self._restarts -= 1
        return self._restarts >= 0

    def strikes(self, share: float) -> bool:
        return share > 0 and self._random.random() < share

    def delay_s(self) -> float:
        if self.strikes(self.faults.slow):
            return self._random.uniform(0.1, SLOW_S)
        return self._random.choice(DELAYS_S)

    def _draw(self) -> None:
        """The more often a process may die, the closer together."""
        apart = POINTS_APART * A_FEW / max(self.faults.crashes, A_FEW)
        self._points_left = int(self._random.expovariate(1 / apart)) + 1


class SimClock:
    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.ahead_ms = 0

    def now(self) -> int:
        return DAWN_MS + int(self._loop.time() * 1000) + self.ahead_ms

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class SimIds(SystemIds):
    """The same ids, from the seed."""

    def __init__(self, clock: SimClock, seed: int | str) -> None:
        super().__init__(clock)
        self._random = random.Random(f"ids {seed}")

    def _draw(self) -> int:
        return self._random.getrandbits(64)

    def jitter(self) -> float:
        return self._random.random()

    def secret(self) -> str:
        return f"jr_{self._random.getrandbits(128):032x}"


class SimFiles:
    def __init__(self) -> None:
        self.written: dict[str, bytes] = {}

    def read(self, path: str) -> bytes:
        if path not in self.written:
            raise FileNotFoundError(path)
        return self.written[path]

    def write_private(self, path: str, data: bytes) -> None:
        self.written[path] = data

    def free(self, path: str) -> int:
        return 1024**4

    def flushes_s(self, folder: str, times: int) -> list[float]:
        return [0.0] * times


class SimChildren:
    """Runs the work of threads at a later step; a real thread, or a process, cannot be had."""

    strays = 0

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    async def in_thread(self, function: Callable[[], T]) -> T:
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()
        return function()

    def thread(self, function: Callable[[], T], name: str) -> "asyncio.Future[T]":
        self._loop.refuse(name)
        raise AssertionError

    def stray(self, thread: "asyncio.Future[Any]") -> None:
        """There are no threads."""

    async def spawn(self, *program: Any) -> Any:
        self._loop.refuse(*program)

    def watchdog(self, silence_s: float, on_silence: Callable[[], None]) -> "SimWatchdog":
        return SimWatchdog()


class SimWatchdog:
    """The loop's own guard sees what it would see."""

    def tick(self) -> None: ...

    def close(self) -> None: ...


class SimSignals:
    """Nobody sends any."""

    @asynccontextmanager
    async def stops(self) -> AsyncIterator[Any]:
        yield self


class WatchedConnection(sqlite3.Connection):
    """A connection that has somebody look at each COMMIT."""

    at_commit: Callable[["WatchedConnection"], None] = staticmethod(lambda handle: None)

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            self.at_commit(self)
        return super().execute(sql, *parameters)


class SimHop:
    """One handle on the database, and the moment at which it is used. ``mortal``: its owner may die
    at it."""

    mortal = False

    def __init__(self, loop: SimLoop, path: str, fate: Fate, die: Callable[[str], None]) -> None:
        self._loop = loop
        self._fate = fate
        self._die = die
        self.handle = sqlite3.connect(path, isolation_level=None, factory=WatchedConnection)

    async def __call__(self, function: Callable[..., T], *arguments: Any) -> T:
        answer: asyncio.Future[T] = self._loop.create_future()
        self._loop.call_later(self._fate.delay_s(), self._run, answer, function, arguments)
        with anyio.CancelScope(shield=True):
            found = await answer
        return found  # noqa: RET504 - by its type, a scope may swallow

    def _run(
        self, answer: "asyncio.Future[T]", function: Callable[..., T], arguments: tuple[Any, ...]
    ) -> None:
        try:
            found = self._mortal(function, arguments)
        except Killed:
            return
        except Exception as error:  # noqa: BLE001 - it is the answer
            answer.set_exception(error)
        else:
            self._loop.call_later(self._fate.delay_s(), _give, answer, found)

    def _mortal(self, function: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        if not self.mortal:
            return function(self.handle, *arguments)
        self._point("before a write")
        self.handle.at_commit = self._at_commit
        try:
            found = function(self.handle, *arguments)
        finally:
            self.handle.at_commit = WatchedConnection.at_commit
        self._point("between a commit and its answer")
        return found

    def _at_commit(self, handle: WatchedConnection) -> None:
        self._point("before a commit")
        if self._fate.strikes(self._fate.faults.full):
            raise _failing("database or disk is full", sqlite3.SQLITE_FULL)
        if self._fate.strikes(self._fate.faults.unknown):
            if self._fate.strikes(0.5):
                sqlite3.Connection.execute(handle, "COMMIT")
            raise _failing("disk I/O error", sqlite3.SQLITE_IOERR_FSYNC)

    def _point(self, where: str) -> None:
        if self._fate.point():
            self._die(where)
            raise Killed


def _give(answer: "asyncio.Future[T]", found: T) -> None:
    answer.set_result(found)


def _failing(text: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


def ports(loop: SimLoop, clock: SimClock, ids: SimIds, writer: SimHop, reader: SimHop) -> Ports:
    return Ports(clock, ids, SimFiles(), SimChildren(loop), SimSignals(), writer, reader)


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder, in memory where there is such a disk: what a power cut does is not tried
    here."""
    memory = "/dev/shm"  # noqa: S108 - the folder made there is our own
    where = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="jobrunner-sim-", dir=where) as name:
        yield Path(name)


_empty: list[bytes] = []


def empty_database(path: Path) -> None:
    """A file of today's schema without anything in it; made once, then copied."""
    if _empty:
        path.write_bytes(_empty[0])
        return
    with folder() as made:
        draft = made / "empty.db"
        connection = sqlite3.connect(draft, isolation_level=None)
        prepare_writer(connection, str(draft), DAWN_MS)
        connection.execute("DELETE FROM lives")
        connection.close()
        _empty.append(draft.read_bytes())
        shutil.copy(draft, path)
