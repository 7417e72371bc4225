"""A gate that a test shuts, and one connection, byte by byte."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self
from urllib.parse import urlsplit

import anyio

from jobrunner.http.front.admission import Admission
from tests.http.serving import House, Said

BODY = b'{"workflow":"howera"}'
TURNS = 5


def gate(house: House) -> Admission:
    found: Admission = house.service.limits.admission
    return found


class Shut:
    """All places are taken, until the block is left or somebody opens."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._taken = 0

    def __enter__(self) -> Self:
        while self._admission.enter():
            self._taken += 1
        assert self._taken
        return self

    def __exit__(self, *error: object) -> None:
        self.open()

    def open(self) -> None:
        for _ in range(self._taken):
            self._admission.leave()
        self._taken = 0


class Wire:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def say(self, *pieces: bytes) -> None:
        """Each has arrived before the next: the service is in this loop, and has had turns."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            for _ in range(TURNS):
                await anyio.sleep(0)

    async def heard(self) -> Said:
        with anyio.fail_after(120):
            head = await self._reader.readuntil(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            pairs = [line.partition(": ") for line in lines[1:] if line]
            headers = {name: value for name, _, value in pairs}
            assert len(headers) == len(pairs), "no header twice"
            raw = await self._reader.readexactly(int(headers.get("Content-Length", 0)))
        return Said(int(lines[0].split()[1]), headers, raw)

    async def hung_up(self) -> bool:
        with anyio.fail_after(120):
            return await self._reader.read() == b""


async def open_wire(house: House) -> Wire:
    place = urlsplit(house.service.url)
    return Wire(*await asyncio.open_connection(place.hostname, place.port))


@asynccontextmanager
async def connected(house: House) -> AsyncIterator[Wire]:
    wire = await open_wire(house)
    try:
        yield wire
    finally:
        wire.writer.close()


def submission(
    house: House,
    body: bytes = BODY,
    more: bytes = b"",
    line: bytes = b"POST /jobs",
    token: str | None = None,
) -> bytes:
    bearer = f"Authorization: Bearer {token or house.ada.token}\r\n".encode()
    head = line + b" HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n" + bearer + more
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunked(house: House, token: str | None = None) -> bytes:
    """The same in a form that is never held back."""
    bearer = f"Authorization: Bearer {token or house.ada.token}\r\n".encode()
    head = b"POST /jobs HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n" + bearer
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
