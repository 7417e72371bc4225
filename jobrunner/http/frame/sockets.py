"""Listening: so many connections and no more, and every refusal in the same shape, even of what
never became a request."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from aiohttp import web

from jobrunner.errors import Misconfigured, bug_told
from jobrunner.http.frame.answering import FIXED, HttpRequest, WrittenAnswer
from jobrunner.http.frame.endpoint import HttpDoor, HttpReply
from jobrunner.http.frame.problems import internal, invalid, phrase_of, problem
from jobrunner.http.front.waiting import Desk, Front
from jobrunner.ports import file_of, remove_socket, socket_at

HEADERS_MAX = 128
HEAD_MAX = 64 * 1024
LINGER_S = 1
BACKLOG = 1024


class Site(NamedTuple):
    """Serves a listener: ``submissions`` are the calls that its front holds back."""

    answer: Callable[[HttpRequest], Awaitable[web.StreamResponse]]
    submissions: Mapping[bytes, tuple[str, str]]


@contextlib.asynccontextmanager
async def open_site(
    site: Site, door: HttpDoor, host: str, port: int, what: str = "server"
) -> AsyncIterator[tuple[str, int]]:
    """Listen until the block is left; yields the address in use (a port of 0 takes a free one).
    ``what`` begins the names of the settings that say where.

    A client that hangs up cancels nothing: what it asked for may be half committed.

    Raises: Misconfigured
    """

    async def listen(gate: Gate) -> asyncio.Server:
        return await _listen(gate, host, port, what)

    async with _serving(site, door, listen) as server:
        address = server.sockets[0].getsockname()
        yield str(address[0]), int(address[1])


@contextlib.asynccontextmanager
async def open_socket(site: Site, door: HttpDoor, path: str, mode: int) -> AsyncIterator[None]:
    """The same at a Unix socket, which is removed in the end.

    Raises: Misconfigured
    """

    async def listen(gate: Gate) -> asyncio.Server:
        return await _listen_at(gate, path, mode)

    async with _serving(site, door, listen):
        ours = file_of(path)
        try:
            yield
        finally:
            remove_socket(path, ours)


@contextlib.asynccontextmanager
async def _serving(
    site: Site, door: HttpDoor, listen: "Callable[[Gate], Awaitable[asyncio.Server]]"
) -> AsyncIterator[asyncio.Server]:
    loop = asyncio.get_running_loop()

    def made(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> HttpRequest:
        request = HttpRequest(message, payload, protocol, writer, task, loop)
        request.door = door
        return request

    serving = web.Server(site.answer, request_factory=made)  # type: ignore[arg-type]
    runner = web.ServerRunner(serving, shutdown_timeout=door.settings.shutdown_s)
    await runner.setup()
    try:
        desk = Desk(door, site.submissions, FIXED)
        async with await listen(Gate(serving, door, desk)) as server:
            yield server
            server.close()
            await runner.cleanup()
    finally:
        await runner.cleanup()


class Gate:
    """Makes what serves one connection. One too many is told so and closed, without a look at what
    it wants."""

    def __init__(self, server: web.Server, door: HttpDoor, desk: Desk) -> None:
        self._desk = desk
        self._server = server
        self._door = door

    def __call__(self) -> asyncio.BaseProtocol:
        if len(self._server.connections) >= self._door.limits.bounds.connections:
            refused = self._door.limits.overloaded("no more connections are taken now")
            self._door.meter.refused(refused.code)
            return Refusing(_written(problem(refused, self._door.ids.fresh())))
        return Connection(
            self._server,
            self._door,
            self._desk,
            loop=asyncio.get_running_loop(),
            access_log=None,
            keepalive_timeout=self._door.settings.keepalive_s,
            max_headers=HEADERS_MAX,
            lingering_time=LINGER_S,
            auto_decompress=False,
        )


class Connection(Front):
    """As aiohttp serves it, but no body is ever unpacked: that would happen in the loop, before
    anybody knows who sends it and where to, at a thousand times what it weighs. What it cannot make
    a request of is refused in our words, and is no line of the log: everybody could fill it."""

    __slots__ = ("_door", "_head")

    def __init__(self, server: web.Server, door: HttpDoor, desk: Desk, **settings: Any) -> None:
        super().__init__(server, desk, **settings)
        self._door = door
        self._head = 0

    def pass_on(self, data: bytes) -> None:
        """Headers have a bound each and in number; that is a mebibyte in all, and of each
        connection. Who is still heard of nothing but headers after less than that is refused."""
        waiter = self._waiter
        super().pass_on(data)
        if waiter is None or waiter.done():
            self._head = 0
            return
        self._head += len(data)
        if self._head > HEAD_MAX and self.transport is not None:
            said = f"its headers have more than {HEAD_MAX} bytes"
            refused = invalid(f"the request cannot be read: {said}", ("request", said))
            self._door.meter.refused(refused.code)
            self.transport.write(_written(problem(refused, self._door.ids.fresh())))
            self.force_close()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer that is whole with one write; the second of what is returned says that it
        could not be sent: nobody is there to take it, or a stream has begun, which breaks off."""
        if isinstance(resp, WrittenAnswer) and isinstance(request, HttpRequest):
            begun = request.writer.output_size > 0
            if begun or self.transport is None or self.transport.is_closing():
                return resp, True
            self.transport.write(resp.said_to(request))
            if self.writing_paused:
                try:
                    await request.writer.drain()
                except ConnectionError:
                    return resp, True
            if "Upgrade" not in request.headers and request.method != "CONNECT":
                self.answered()
                return resp, False  # and what follows is read as requests
        return await super().finish_response(request, resp, start_time)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("an answer is under way already")
        refused = internal()
        if status < 500:
            said = (message or "").strip().partition("\n")[0] or "this is not HTTP"
            refused = invalid(f"the request cannot be read: {said}", ("request", said))
        else:
            self._door.log("http.fault", level="error", **(bug_told(exc) if exc else {}))
        self._door.meter.refused(refused.code)
        self.leave()
        assert isinstance(request, HttpRequest), "every request here is one of ours"
        request.correlation_id = self._door.ids.fresh()
        response = WrittenAnswer(problem(refused, request.correlation_id))
        response.force_close()
        return response


class Refusing(asyncio.Protocol):
    """Says one thing and hangs up."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._answer)
        transport.close()


def _written(reply: HttpReply) -> bytes:
    """An answer as it goes over the wire."""
    headers = FIXED | reply.headers | {"Content-Type": reply.content_type}
    headers |= {"Content-Length": str(len(reply.body)), "Connection": "close"}
    lines = [f"HTTP/1.1 {reply.status} {phrase_of(reply.status)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + reply.body


async def _listen(gate: Gate, host: str, port: int, what: str) -> asyncio.Server:
    """Raises: Misconfigured."""
    try:
        loop = asyncio.get_running_loop()
        return await loop.create_server(gate, host, port, backlog=BACKLOG)
    except OSError as error:
        number = error.errno or 0
        reason = os.strerror(number).lower() if number > 0 else str(error.strerror)
        keys = (
            ("server.host", "server.port") if what == "server" else (f"{what}host", f"{what}port")
        )
        raise Misconfigured(
            f"{keys[0]} = {host!r} and {keys[1]} = {port} cannot be listened on ({reason}): "
            "choose another port, or stop the program that has this one"
        ) from error


async def _listen_at(gate: Gate, path: str, mode: int) -> asyncio.Server:
    """Raises: Misconfigured."""
    try:
        made = socket_at(path, mode)
    except OSError as error:
        raise Misconfigured(
            f"server.socket = {path!r} cannot be listened on "
            f"({str(error.strerror or error).lower()}): name a path in a folder where this user "
            "may write, or stop the program that listens there"
        ) from error
    loop = asyncio.get_running_loop()
    return await loop.create_unix_server(gate, sock=made, backlog=BACKLOG)
