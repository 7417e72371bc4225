"""Connections, the limits that the system sets on them, and its signals."""

import asyncio
import errno
import os
import resource
import signal
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from aiohttp import BaseConnector
    from aiohttp.abc import AbstractResolver

CONNECTIONS_MAX = 256
KNOCK_S = 1.0


class SystemConnector:
    """Tries the addresses of a name one after the other: the first that is forbidden ends it."""

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


def bound_send_buffer(transport: asyncio.WriteTransport, size: int) -> None:
    """Bound what we keep for a client that does not read: so much here, so much in the system."""
    transport.set_write_buffer_limits(high=size)
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)


def socket_at(path: str, mode: int) -> socket.socket:
    """Make a Unix socket that whoever may open the file with this mode can speak to. One that a
    dead process left is replaced. Nobody gets in before it has its mode: it does not listen yet.

    Raises: OSError, EADDRINUSE for one that somebody answers at, EEXIST for what is no socket.
    """
    if os.path.lexists(path):
        _remove_dead(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(path)
        os.chmod(path, mode)
    except OSError:
        made.close()
        raise
    return made


def file_of(path: str) -> tuple[int, int] | None:
    """Identify the file at this path, to tell it from another that comes there later."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def remove_socket(path: str, was: tuple[int, int] | None) -> None:
    """Remove our socket, unless another one has taken its place."""
    if was is not None and file_of(path) == was:
        os.unlink(path)


def _remove_dead(path: str) -> None:
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise FileExistsError(errno.EEXIST, "there is a file that is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knocking:
        knocking.settimeout(KNOCK_S)
        try:
            knocking.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise OSError(errno.EADDRINUSE, "somebody answers there")


def raise_open_files(wanted: int) -> int:
    """Ask for so many open files, and say how many this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def open_files_max() -> int | None:
    """How many files a process of this user may have open; None where there is no limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if hard == resource.RLIM_INFINITY else hard


def cannot_listen(host: str, port: int) -> str:
    """Say why nobody can listen there; empty if somebody could, a moment ago."""
    try:
        kind, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(kind, socket.SOCK_STREAM) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(place)
            tried.listen(1)
    except OSError as error:
        return error.strerror or str(error)
    return ""


class SystemSignals:
    @asynccontextmanager
    async def stops(self) -> AsyncIterator[Any]:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
            yield received
