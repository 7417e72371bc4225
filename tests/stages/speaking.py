"""A server on loopback that speaks exactly the bytes it is told to, also when they are nonsense."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import unquote

import anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
MIB = 1024 * 1024

Writer = asyncio.StreamWriter
Script = Callable[["Asked", Writer], Awaitable[None]]


class Asked:
    """One request as it came in."""

    def __init__(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = first.split(" ")
        pairs = (line.partition(":") for line in lines if line)
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}
        self.body = b""


class Server:
    """Speaks exactly the bytes it is told to; every script is one path."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        self.seen: list[Asked] = []
        self.never = asyncio.Event()
        self.port = 0
        self.connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def says(self, path: str, body: bytes, status: str = "200 OK", **headers: str) -> str:
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *lines])
        return self.plays(path, raw(head.encode() + b"\r\n\r\n" + body))

    def plays(self, path: str, script: Script) -> str:
        self.scripts[path] = script
        return self.url + path

    async def serve(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                asked = Asked(head)
                size = int(asked.headers.get("content-length", 0))
                asked.body = await reader.readexactly(size)
                self.seen.append(asked)
                await self.scripts[asked.target.partition("?")[0]](asked, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.connections -= 1
            writer.close()


def raw(data: bytes) -> Script:
    async def script(asked: Asked, writer: Writer) -> None:
        writer.write(data)
        await writer.drain()

    return script


def moved(location: str, status: int = 302) -> Script:
    head = f"HTTP/1.1 {status} Moved\r\nContent-Length: 4\r\nLocation: {location}\r\n\r\ngone"
    return raw(head.encode())


async def anywhere(asked: Asked, writer: Writer) -> None:
    """Redirects to what the query says."""
    await moved(unquote(asked.target.partition("?")[2]))(asked, writer)


@asynccontextmanager
async def listening() -> AsyncIterator[Server]:
    server = Server()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=MIB)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await listener.wait_closed()


async def endless(asked: Asked, writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + PNG)
    while True:
        writer.write(bytes(64 * 1024))
        await writer.drain()


async def silent(asked: Asked, writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + PNG[:700])
    await writer.drain()
    await asyncio.Event().wait()


async def mute(asked: Asked, writer: Writer) -> None:
    await asyncio.Event().wait()


async def dripping(asked: Asked, writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + PNG)
    while True:
        writer.write(b"x")
        await writer.drain()
        await anyio.sleep(0.01)
