"""The seven seams through which this program touches the world, and their real forms.

Clock · Ids (and jitter) · Hop (run this batch on the store's thread) · Files · Children (processes
and threads) · Connector (HTTP going out) · Signals. Only ``app`` binds them. Nobody else imports
time, random, uuid, secrets, threading, subprocess, socket or tempfile, so the same service runs on
a simulated world, and no line of it ever asks which world that is.
"""

import hashlib
import os
import random
import secrets
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import anyio

T = TypeVar("T")


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


class Children(Protocol):
    """Threads and processes of ours."""

    async def in_thread(self, function: Callable[[], T]) -> T: ...

    def watchdog(self, silence_s: float, on_silence: Callable[[], None]) -> "Watchdog": ...


class Watchdog(Protocol):
    def tick(self) -> None: ...

    def close(self) -> None: ...


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
    async def in_thread(self, function: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(function)

    def watchdog(self, silence_s: float, on_silence: Callable[[], None]) -> "SystemWatchdog":
        return SystemWatchdog(silence_s, on_silence)


class SystemWatchdog:
    """A thread that acts when nobody ticked for a while: it alone sees a loop that hangs."""

    def __init__(self, silence_s: float, on_silence: Callable[[], None]) -> None:
        self._silence_s = silence_s
        self._on_silence = on_silence
        self._seen = time.monotonic()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def tick(self) -> None:
        self._seen = time.monotonic()

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(self._silence_s / 4):
            if time.monotonic() - self._seen > self._silence_s:
                self._on_silence()
                return


def end_process(code: int) -> None:
    """At once, without cleaning up: the disk is right, the memory is not to be trusted."""
    sys.stderr.flush()
    os._exit(code)


class SystemSignals:
    @asynccontextmanager
    async def stops(self) -> AsyncIterator[Any]:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
            yield received


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


Sleep = Callable[[float], Awaitable[None]]
