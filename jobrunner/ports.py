"""The seven seams through which this program touches the world, and their real forms.

Clock · Ids (and jitter) · Hop (run this batch on the store's thread) · Files · Children (processes
and threads) · Connector (HTTP going out) · Signals. Only ``app`` binds them. Nobody else imports
time, random, uuid, secrets, threading, subprocess, socket or tempfile, so the same service runs on
a simulated world, and no line of it ever asks which world that is.
"""

import asyncio
import hashlib
import json
import os
import random
import resource
import secrets
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio

from jobrunner.watchdog import SystemWatchdog

if TYPE_CHECKING:
    from aiohttp import BaseConnector
    from aiohttp.abc import AbstractResolver

T = TypeVar("T")
LENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")

CONNECTIONS_MAX = 256


class Clock(Protocol):
    """Wall time for what is stored, monotonic time for what is waited for."""

    def now(self) -> int:
        """Milliseconds since 1970, UTC."""
        ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    def fresh(self) -> str:
        """A UUIDv7, greater than every one before it."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1)."""
        ...

    def secret(self) -> str:
        """At least 128 random bits, printable. It begins with a mark that tells whose it is, and
        never with a dash, which a command line would take for an option."""
        ...


class Hop(Protocol):
    """Runs one function on the thread that owns a database handle; never torn by cancellation."""

    async def __call__(self, function: Callable[..., T], *arguments: Any) -> T: ...


class Files(Protocol):
    """Files that are whole or absent."""

    def write_private(self, path: str, data: bytes) -> None: ...

    def free(self, path: str) -> int:
        """How many bytes the disk of this path has left for us, whether the path exists or not."""
        ...


class Children(Protocol):
    """Threads and processes of ours."""

    async def in_thread(self, function: Callable[[], T]) -> T: ...

    def thread(self, function: Callable[[], T], name: str) -> "asyncio.Future[T]":
        """A thread of its own, which nobody can end and nobody waits for at the end."""
        ...

    def stray(self, thread: "asyncio.Future[Any]") -> None:
        """This thread goes on though its work is no longer wanted."""
        ...

    @property
    def strays(self) -> int:
        """How many of those there are."""
        ...

    async def spawn(
        self, program: Sequence[str], orders: Mapping[str, Any], folder: str, names: Sequence[str]
    ) -> "Child":
        """A program in a session of its own. It gets ``orders`` as one JSON argument, with the
        numbers of two pipes added: ``out``, to write to, and ``life``, which ends when it must end
        too. Of our environment it gets what finds programs and languages, and ``names``."""
        ...

    def watchdog(self, silence_s: float, on_silence: Callable[[], None]) -> "Watchdog": ...


class Child(Protocol):
    """A program under way. ``wait`` gives its exit code when all it had open is closed."""

    async def send(self, data: bytes) -> None: ...

    async def receive(self, size: int) -> bytes:
        """So many bytes, fewer only at the end."""
        ...

    async def printed(self) -> bytes:
        """What it printed next; nothing at the end."""
        ...

    async def wait(self) -> int: ...

    def stop(self) -> None:
        """It is asked to end what it started, and itself."""
        ...

    def cut(self) -> None:
        """It must end at once."""
        ...

    def kill(self) -> None:
        """It is ended, whatever it thinks of that."""
        ...


class Watchdog(Protocol):
    def tick(self) -> None: ...

    def close(self) -> None: ...


class Connector(Protocol):
    """Connections going out."""

    def guarded(self, judge: Callable[[str, int], None]) -> "BaseConnector":
        """A pool of them. ``judge`` is told the final address and port of each connection, and
        raises to prevent it, before there is a socket."""
        ...


class Signals(Protocol):
    def stops(self) -> Any:
        """An async context manager over an iterator of requests to stop (SIGTERM, SIGINT)."""
        ...


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class SystemIds:
    """UUIDv7 with a counter in the random bits, so that ids of one millisecond still rise. Random
    bytes are fetched many at a time: a system call for each would cost more than the id."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = (0, 0)
        self._pool = b""
        self._used = 0

    def fresh(self) -> str:
        now, drawn = self._clock.now(), self._draw()
        counter, tail = drawn >> 34, drawn & 0x3FFFFFFF
        if now <= self._last[0]:
            now, counter = self._last[0], self._last[1] + 1
        if counter >> 32:
            now, counter = now + 1, 0
        self._last = (now, counter)
        high = (now << 16) | 0x7000 | (counter >> 20)
        low = (0b10 << 62) | ((counter & 0xFFFFF) << 42) | tail
        text = f"{high:016x}{low:016x}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def _draw(self) -> int:
        """64 random bits."""
        if self._used == len(self._pool):
            self._pool, self._used = secrets.token_bytes(4096), 0
        self._used += 8
        return int.from_bytes(self._pool[self._used - 8 : self._used], "big")

    def jitter(self) -> float:
        return random.random()

    def secret(self) -> str:
        return "jr_" + secrets.token_urlsafe(32)


class SystemFiles:
    def free(self, path: str) -> int:
        place = os.path.abspath(path)
        while not os.path.exists(place) and place != os.path.dirname(place):
            place = os.path.dirname(place)
        disk = os.statvfs(place)
        return disk.f_bavail * disk.f_frsize

    def write_private(self, path: str, data: bytes) -> None:
        """Readable by its owner only, and whole: a reader never sees half of it."""
        draft = f"{path}.{os.getpid()}.new"
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)


class SystemChildren:
    def __init__(self) -> None:
        self._strays: set[asyncio.Future[Any]] = set()

    async def in_thread(self, function: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(function)

    def thread(self, function: Callable[[], T], name: str) -> "asyncio.Future[T]":
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(result: T) -> None:
            if not done.done():
                done.set_result(result)

        def work() -> None:
            result = function()
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, result)

        threading.Thread(target=work, name=name, daemon=True).start()
        return done

    def stray(self, thread: "asyncio.Future[Any]") -> None:
        self._strays.add(thread)
        thread.add_done_callback(self._strays.discard)

    @property
    def strays(self) -> int:
        return len(self._strays)

    async def spawn(
        self, program: Sequence[str], orders: Mapping[str, Any], folder: str, names: Sequence[str]
    ) -> "SystemChild":
        heard, out = os.pipe()
        life, held = os.pipe()
        try:
            told = json.dumps({**orders, "out": out, "life": life})
            environment = {name: os.environ[name] for name in (*LENT, *names) if name in os.environ}
            process = await asyncio.create_subprocess_exec(
                *program,
                told,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=environment | {"HOME": folder, "TMPDIR": folder},
                cwd=folder,
                pass_fds=(out, life),
                start_new_session=True,
            )
        except BaseException:
            os.close(heard)
            os.close(held)
            raise
        finally:
            os.close(out)
            os.close(life)
        return await SystemChild.listening(process, heard, held)

    def watchdog(self, silence_s: float, on_silence: Callable[[], None]) -> "SystemWatchdog":
        return SystemWatchdog(silence_s, on_silence)


class SystemChild:
    """Pipes and a process id; whoever spawned it waits for it in the end."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        heard: asyncio.StreamReader,
        pipe: asyncio.ReadTransport,
        held: int,
    ) -> None:
        self._process = process
        self._heard = heard
        self._pipe = pipe
        self._held = held

    @classmethod
    async def listening(
        cls, process: asyncio.subprocess.Process, heard: int, held: int
    ) -> "SystemChild":
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(heard, "rb", 0)
        )
        return cls(process, reader, pipe, held)

    async def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(ConnectionError):  # that it is gone will be noticed by who listens
            self._process.stdin.write(data)
            await self._process.stdin.drain()

    async def receive(self, size: int) -> bytes:
        try:
            return await self._heard.readexactly(size)
        except asyncio.IncompleteReadError as end:
            return end.partial

    async def printed(self) -> bytes:
        assert self._process.stdout is not None
        return await self._process.stdout.read(65_536)

    async def wait(self) -> int:
        code = await self._process.wait()
        self.cut()
        self._pipe.close()
        if self._process.stdin is not None:
            self._process.stdin.close()
        return code

    def stop(self) -> None:
        self._signal(signal.SIGTERM)

    def cut(self) -> None:
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)


class SystemConnector:
    """No two addresses of one name are tried at once: the first that is forbidden ends it."""

    def __init__(
        self,
        make_socket: Callable[[int, int, int], socket.socket] = socket.socket,
        resolver: "AbstractResolver | None" = None,
    ) -> None:
        self._make_socket = make_socket
        self._resolver = resolver

    def guarded(self, judge: Callable[[str, int], None]) -> "BaseConnector":
        from aiohttp import TCPConnector

        def opened(found: tuple[Any, ...]) -> socket.socket:
            family, kind, protocol, _, place = found
            judge(place[0], place[1])
            return self._make_socket(family, kind, protocol)

        return TCPConnector(
            socket_factory=opened,
            resolver=self._resolver,
            happy_eyeballs_delay=None,
            limit=CONNECTIONS_MAX,
        )


def one_at_a_time() -> "threading.Lock":
    """For the little that threads of one process have to share."""
    return threading.Lock()


def bound_send_buffer(transport: asyncio.WriteTransport, size: int) -> None:
    """What a client that does not read may make us keep: so much here, so much in the system."""
    transport.set_write_buffer_limits(high=size)
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)


def raise_open_files(wanted: int) -> int:
    """How many files this process may have open, when it may have more on asking."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


class SystemSignals:
    @asynccontextmanager
    async def stops(self) -> AsyncIterator[Any]:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
            yield received


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


Sleep = Callable[[float], Awaitable[None]]
