"""A client that costs little: requests prepared in advance, over connections that stay open.

``load`` runs in this process. As a process of its own, ``python -m jobrunner.bench.load`` is asked
on stdin and answers on stdout, in msgpack.
"""

import asyncio
import re
import sys
import time
from collections import Counter
from itertools import count
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

MARK = b"000000NUMBER"
STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
LOCATION = re.compile(rb"\r\nlocation: *(\S+)", re.IGNORECASE)
RETRY_AFTER = re.compile(rb"\r\nretry-after: *([\d.]+)", re.IGNORECASE)


class LoadOrder(Struct, frozen=True):
    """Whole requests, to be sent over so many connections. With ``seconds`` each connection sends
    one of them again and again, as soon as it was answered or when a refusal said to come again,
    with a number of its own in the place of ``MARK``, ``in_turn`` the next of them each time;
    without, each request is sent once.
    ``rest_s`` is how long a connection rests between two requests, ``every_s`` how long after it
    sent one it sends the next, if it was answered by then."""

    url: str
    requests: list[bytes]
    clients: int
    seconds: float = 0
    first: int = 0
    rest_s: float = 0
    every_s: float = 0
    in_turn: bool = False


class Measured(Struct, frozen=True):
    """How many answers of which status within the time, and their delays in ms, sorted: of those
    that did what was asked, and of refusals. ``made`` is where what was made can be found, ``busy``
    the share of a core that asking took."""

    seconds: float
    answers: dict[int, int]
    delays_ms: list[float]
    refusals_ms: list[float] = []
    made: list[str] = []
    busy: float = 0.0

    @property
    def per_s(self) -> float:
        return len(self.delays_ms) / self.seconds

    def delay_ms(self, share: float) -> float:
        return at_share(self.delays_ms, share)


class LoadRun:
    """Shared by all connections of one load: its requests, and what came of them."""

    def __init__(self, asked: LoadOrder) -> None:
        self.asked = asked
        self.numbers = count(asked.first)
        self.left = iter(asked.requests)
        self.answers: Counter[int] = Counter()
        self.delays: list[float] = []
        self.refusals: list[float] = []
        self.made: list[str] = []
        self.started = time.perf_counter()

    def request(self, line: int) -> bytes | None:
        """The next one, or None when there is no more to do."""
        asked = self.asked
        if not asked.seconds:
            return next(self.left, None)
        if self.left_s() <= 0:
            return None
        number = next(self.numbers)
        template = asked.requests[(number if asked.in_turn else line) % len(asked.requests)]
        return template.replace(MARK, b"%012d" % number)

    def left_s(self) -> float:
        return self.started + self.asked.seconds - time.perf_counter()

    def answered(self, status: int, head: bytes, delay_s: float) -> None:
        self.answers[status] += 1
        (self.delays if status < 400 else self.refusals).append(delay_s * 1000)
        if status < 400 and (place := LOCATION.search(head)):
            self.made.append(place[1].decode())


class LoadLine(asyncio.Protocol):
    """Sends, waits for the whole answer, and sends again."""

    def __init__(self, run: LoadRun, number: int) -> None:
        self.run = run
        self.number = number
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wire: asyncio.Transport | None = None
        self._got = b""
        self._sent_at = 0.0

    async def open(self, host: str, port: int) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self, host, port)

    def leave(self) -> None:
        """Also where another one was closed, and nobody waits for this one any more."""
        self.over.cancel()
        if self._wire is not None:
            self._wire.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._wire = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, found, rest = self._got.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if not found or len(rest) < (int(length[1]) if length else 0):
            return
        self._got = b""
        status = STATUS.match(head)
        assert status is not None, head
        self.run.answered(int(status[1]), head, time.perf_counter() - self._sent_at)
        self._rest(head if int(status[1]) >= 400 else b"")

    def connection_lost(self, error: Exception | None) -> None:
        if not self.over.done():
            self.over.set_exception(error or ConnectionError("the server closed a connection"))

    def _rest(self, refusal: bytes) -> None:
        again = RETRY_AFTER.search(refusal)
        rest_s = float(again[1]) if again else self._pause_s()
        if rest_s > 0:
            wait_s = max(min(rest_s, self.run.left_s()), 0)
            asyncio.get_running_loop().call_later(wait_s, self._send)
        else:
            self._send()

    def _pause_s(self) -> float:
        asked = self.run.asked
        return max(asked.rest_s, self._sent_at + asked.every_s - time.perf_counter())

    def _send(self) -> None:
        if self.over.done() or self._wire is None:
            return
        request = self.run.request(self.number)
        if request is None:
            self.over.set_result(None)
            self._wire.close()
            return
        self._sent_at = time.perf_counter()
        self._wire.write(request)


async def load(asked: LoadOrder) -> Measured:
    """Raises: ConnectionError, where the server closes a connection."""
    place = urlsplit(asked.url)
    worked_s, run = time.process_time(), LoadRun(asked)
    lines = [LoadLine(run, number) for number in range(asked.clients)]
    try:
        for line in lines:
            await line.open(place.hostname or "", place.port or 0)
        await asyncio.gather(*(line.over for line in lines))
    finally:
        for line in lines:
            line.leave()
    took_s = time.perf_counter() - run.started
    busy = (time.process_time() - worked_s) / took_s
    answers, delays_ms, refusals_ms = dict(run.answers), sorted(run.delays), sorted(run.refusals)
    return Measured(took_s, answers, delays_ms, refusals_ms, run.made, busy)


def at_share(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


def request(method: str, path: str, token: str = "", body: bytes = b"", **headers: str) -> bytes:
    """A whole one. An underscore in the name of a header is a dash."""
    lines = [f"{method} {path} HTTP/1.1", "Host: bench"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([*lines, "", ""]).encode() + body


if __name__ == "__main__":
    wanted = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=LoadOrder)
    sys.stdout.buffer.write(msgspec.msgpack.encode(asyncio.run(load(wanted))))
