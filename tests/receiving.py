"""A receiver of notifications on loopback: what it was sent, and whatever it is told to do with it.
It verifies by its own reading of Standard Webhooks, with none of our code."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

Writer = asyncio.StreamWriter


@dataclass
class Sent:
    """One request, whole."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def is_signed_with(self, secret: str) -> bool:
        said = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        key = base64.b64decode(secret.removeprefix("whsec_"))
        mine = base64.b64encode(hmac.new(key, said, hashlib.sha256).digest()).decode()
        return f"v1,{mine}" in self.headers["webhook-signature"].split(" ")


Script = Callable[[Sent, Writer], Awaitable[None]]


def says(status: str, body: bytes = b"", **headers: str) -> Script:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return raw("\r\n".join([*lines, "", ""]).encode() + body)


def raw(data: bytes) -> Script:
    async def script(sent: Sent, writer: Writer) -> None:
        writer.write(data)
        await writer.drain()

    return script


async def silence(sent: Sent, writer: Writer) -> None:
    await asyncio.get_running_loop().create_future()


@dataclass
class Receiver:
    """``scripts`` are played in turn, the last one for ever after."""

    port: int = 0
    scripts: list[Script] = field(default_factory=lambda: [says("200 OK")])
    sent: list[Sent] = field(default_factory=list)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str = "/hook") -> str:
        return f"http://{self.place}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            pairs = (line.partition(":") for line in head[1:] if line)
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            sent = Sent(head[0], headers, body)
            self.sent.append(sent)
            script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
            await script(sent, writer)
        writer.close()


@asynccontextmanager
async def receiving(*scripts: Script) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    if scripts:
        receiver.scripts = list(scripts)
    open_now: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: Writer) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_now.add(task)
        try:
            await receiver.serve(reader, writer)
        except asyncio.CancelledError:
            writer.close()
        finally:
            open_now.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in open_now:
            task.cancel()
        await asyncio.gather(*open_now, return_exceptions=True)
