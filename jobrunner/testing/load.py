"""A client that costs little: requests prepared in advance, over connections that stay open."""

import asyncio
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import anyio
from msgspec import Struct

from jobrunner.ports import Clock

Body = Callable[[int], bytes]
Path = Callable[[int], str]


class Measured(Struct, frozen=True):
    """How many answers of which status within the time, and their delays in ms, sorted."""

    seconds: float
    answers: dict[int, int]
    delays_ms: list[float]

    @property
    def per_s(self) -> float:
        return sum(self.answers.values()) / self.seconds

    def delay_ms(self, share: float) -> float:
        return self.delays_ms[min(int(len(self.delays_ms) * share), len(self.delays_ms) - 1)]


async def load(
    clock: Clock, url: str, token: str, path: Path, body: Body, clients: int, seconds: float
) -> Measured:
    """``clients`` connections, each sending its next request as soon as the last was answered."""
    place = urlsplit(url)
    numbers = iter(range(10**9))
    answers: dict[int, int] = {}
    delays: list[float] = []
    started = clock.monotonic()

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        try:
            while clock.monotonic() - started < seconds:
                before = clock.monotonic()
                writer.write(_request(path(number), token, body(next(numbers))))
                status = await _answer(reader)
                delays.append((clock.monotonic() - before) * 1000)
                answers[status] = answers.get(status, 0) + 1
        finally:
            writer.close()

    async with anyio.create_task_group() as group:
        for number in range(clients):
            group.start_soon(client, number)
    return Measured(clock.monotonic() - started, answers, sorted(delays))


def _request(path: str, token: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _answer(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    lines: Iterator[bytes] = iter(head.split(b"\r\n"))
    status = int(next(lines).split()[1])
    for line in lines:
        if line[:15].lower() == b"content-length:":
            await reader.readexactly(int(line[15:]))
    return status
