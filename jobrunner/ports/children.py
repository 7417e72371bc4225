"""Threads and processes that this process starts."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import anyio

from jobrunner.watchdog import SystemWatchdog

T = TypeVar("T")
# What finds programs and languages: of our environment this much is lent to every child.
LENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")


def lent_environment(*names: str) -> dict[str, str]:
    """Lend a program that a plugin starts what finds programs, languages and the time zone, and
    ``names``; no key of anybody's, since every key of the service stands in the environment."""
    return {name: os.environ[name] for name in (*LENT, *names) if name in os.environ}


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
            process = await asyncio.create_subprocess_exec(
                *program,
                told,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=lent_environment(*names) | {"HOME": folder, "TMPDIR": folder},
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


def one_at_a_time() -> "threading.Lock":
    """Make a lock for the little that threads of one process share."""
    return threading.Lock()
