"""A client that costs little: requests prepared in advance, over connections that stay open."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from urllib.parse import urlsplit

import anyio
from msgspec import Struct

from jobrunner.ports import Clock

RAMP_S = 0.5
Body = Callable[[int], bytes]
Path = Callable[[int], str]


class Measured(Struct, frozen=True):
    """How many answers of which status within the time, and their delays in ms, sorted: of those
    that did what was asked, and of refusals. ``made`` is where what was made can be found."""

    seconds: float
    answers: dict[int, int]
    delays_ms: list[float]
    refusals_ms: list[float] = []
    made: list[str] = []

    @property
    def per_s(self) -> float:
        return len(self.delays_ms) / self.seconds

    def delay_ms(self, share: float) -> float:
        return _at(self.delays_ms, share)

    def refusal_ms(self, share: float) -> float:
        return _at(self.refusals_ms, share)


async def load(
    clock: Clock,
    url: str,
    token: str,
    path: Path,
    body: Body,
    clients: int,
    seconds: float,
    first: int = 0,
    rest_s: float = 0,
) -> Measured:
    """``clients`` connections, each sending its next request as soon as the last was answered, or
    when a refusal said to come again. They come one after the other, within a moment. ``first``
    is the number of the first body; ``rest_s`` is how long each rests between two requests."""
    place = urlsplit(url)
    numbers = count(first)
    answers: dict[int, int] = {}
    delays: list[float] = []
    refusals: list[float] = []
    made: list[str] = []
    started = clock.monotonic()

    async def rest(wanted_s: float) -> None:
        left_s = seconds - (clock.monotonic() - started)
        await clock.sleep(max(min(wanted_s, left_s), 0))

    async def client(number: int) -> None:
        await clock.sleep(number / clients * RAMP_S)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        try:
            while clock.monotonic() - started < seconds:
                before = clock.monotonic()
                writer.write(_request(path(number), token, body(next(numbers))))
                status, headers = await _answer(reader)
                delay = (clock.monotonic() - before) * 1000
                answers[status] = answers.get(status, 0) + 1
                (delays if status < 400 else refusals).append(delay)
                if status < 400:
                    made.append(headers.get("location", ""))
                    await rest(rest_s)
                else:
                    await rest(float(headers.get("retry-after", 0)))
        finally:
            writer.close()

    async with anyio.create_task_group() as group:
        for number in range(clients):
            group.start_soon(client, number)
    took_s = clock.monotonic() - started
    return Measured(took_s, answers, sorted(delays), sorted(refusals), made)


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


def _request(path: str, token: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = await reader.readuntil(b"\r\n\r\n")
    lines: Iterator[str] = iter(head.decode("latin-1").split("\r\n"))
    status = int(next(lines).split()[1])
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    await reader.readexactly(int(headers.get("content-length", 0)))
    return status, headers
