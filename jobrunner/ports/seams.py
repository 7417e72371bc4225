"""The seams as protocols: each says what is promised, whatever stands behind it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from aiohttp import BaseConnector

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


class StoreThread(Protocol):
    """Runs one function on the thread that owns a database handle; never torn by cancellation."""

    async def __call__(self, function: Callable[..., T], *arguments: Any) -> T: ...


class Files(Protocol):
    """Files that are whole or absent."""

    def read(self, path: str) -> bytes: ...

    def write_private(self, path: str, data: bytes) -> None: ...

    def free(self, path: str) -> int:
        """Count the bytes that the disk of this path has left for us; the path need not exist."""
        ...

    def flushes_s(self, folder: str, times: int) -> list[float]:
        """Time some small flushes to its disk; the folder need not exist. There are none where
        nothing can be written."""
        ...


class Children(Protocol):
    """Threads and processes of ours."""

    async def in_thread(self, function: Callable[[], T]) -> T: ...

    def thread(self, function: Callable[[], T], name: str) -> "asyncio.Future[T]":
        """A thread of its own, which nobody can end and nobody waits for at the end."""
        ...

    def stray(self, thread: "asyncio.Future[Any]") -> None:
        """Count a thread that goes on though its work is no longer wanted."""
        ...

    @property
    def strays(self) -> int:
        """Count those threads."""
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
        """Receive so many bytes, fewer only at the end."""
        ...

    async def printed(self) -> bytes:
        """Read what it printed next; nothing at the end."""
        ...

    async def wait(self) -> int: ...

    def stop(self) -> None:
        """Ask it to end what it started, and itself."""
        ...

    def cut(self) -> None:
        """Tell it to end at once."""
        ...

    def kill(self) -> None:
        """End it by force."""
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


class Minder(Protocol):
    """The program that started this one and minds it."""

    @property
    def every_s(self) -> float:
        """How often it wants a sign of life; 0 is never."""
        ...

    def say(self, **words: str) -> bool:
        """Tell it; say whether it took the words, or nobody is there to take them."""
        ...


class Ports(Struct, frozen=True):
    """The world of one service, real or simulated."""

    clock: Clock
    ids: Ids
    files: Any
    children: Any
    signals: Any
    writer_hop: Any = None
    reader_hop: Any = None
    connector: Any = None
    minder: Any = None
