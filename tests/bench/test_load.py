"""The client: each request once, or again and again; answers in pieces; refusals that say when."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from jobrunner.bench.load import MARK, LoadOrder, load, request

pytestmark = pytest.mark.anyio
Answering = Callable[[bytes], list[bytes]]
FINE = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0.01\r\nContent-Length: 0\r\n\r\n"


@asynccontextmanager
async def answering(answer: Answering) -> AsyncIterator[str]:
    """Each piece of an answer leaves by itself."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0] or 0)
            for piece in answer(head + await reader.readexactly(length)):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)

    async def until_gone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(until_gone, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"


async def test_each_request_is_sent_once_over_all_connections() -> None:
    seen: list[bytes] = []

    def answer(got: bytes) -> list[bytes]:
        seen.append(got)
        return [FINE]

    requests = [request("POST", f"/{number}", "t", b"{}") for number in range(50)]
    async with answering(answer) as url:
        told = await load(LoadOrder(url, requests, clients=4))
    assert sorted(seen) == sorted(requests)
    assert told.answers == {201: 50}
    assert len(told.delays_ms) == 50
    assert told.delays_ms == sorted(told.delays_ms)


async def test_an_answer_in_pieces_is_one_answer() -> None:
    pieces = [FINE[:9], FINE[9:40], FINE[40:-1], FINE[-1:]]
    async with answering(lambda got: pieces) as url:
        told = await load(LoadOrder(url, [request("GET", "/")] * 5, clients=1))
    assert told.answers == {201: 5}


async def test_again_and_again_each_with_a_number_of_its_own() -> None:
    seen: list[bytes] = []

    def answer(got: bytes) -> list[bytes]:
        seen.append(got)
        return [FINE]

    template = request("POST", "/jobs", body=b'{"key": "' + MARK + b'"}')
    async with answering(answer) as url:
        told = await load(LoadOrder(url, [template], clients=3, seconds=1, first=7, rest_s=0.01))
    assert len(set(seen)) == len(seen) == told.answers[201]
    assert any(b'"000000000007"' in one for one in seen)


@pytest.mark.parametrize("in_turn", [True, False])
async def test_a_connection_asks_one_of_the_requests_or_all_in_turn(in_turn: bool) -> None:
    seen = list[bytes]()

    def answer(got: bytes) -> list[bytes]:
        seen.append(got.split()[1])
        return [FINE]

    asked = [request("GET", "/one"), request("GET", "/other")]
    async with answering(answer) as url:
        await load(LoadOrder(url, asked, 1, 1, rest_s=0.01, in_turn=in_turn))
    assert [one != after for one, after in pairwise(seen)] == [in_turn] * (len(seen) - 1)
    assert len(seen) > 1


async def test_a_refusal_is_counted_apart_and_asked_again_when_it_says() -> None:
    answers = iter([[FULL], [FULL], [FINE]])
    async with answering(lambda got: next(answers, [FINE])) as url:
        told = await load(LoadOrder(url, [request("GET", "/")], clients=1, seconds=1, rest_s=0.01))
    assert told.answers[503] == len(told.refusals_ms) == 2
    assert told.answers[201] == len(told.delays_ms)


async def test_a_connection_keeps_its_pace_however_soon_it_is_answered() -> None:
    async with answering(lambda got: [FINE]) as url:
        told = await load(LoadOrder(url, [request("GET", "/")], clients=2, seconds=1, every_s=0.4))
    assert 2 <= told.answers[201] <= 6


async def test_a_connection_that_is_closed_is_an_error() -> None:
    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(ConnectionError):
            await load(LoadOrder(url, [request("GET", "/")], clients=1))


async def test_one_connection_that_is_closed_ends_the_others() -> None:
    """Those whose answers nobody waits for any more do not stay open."""
    came, gone = 0, asyncio.Event()

    async def close_the_second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal came
        came += 1
        if came == 1:
            await reader.read()
            gone.set()
        writer.close()

    server = await asyncio.start_server(close_the_second, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(ConnectionError):
            await load(LoadOrder(url, [request("GET", "/")] * 2, clients=2))
        await asyncio.wait_for(gone.wait(), 30)


def test_a_request_as_it_is_sent() -> None:
    sent = request("POST", "/jobs", "secret", b"{}", Idempotency_Key="k")
    assert sent == (
        b"POST /jobs HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer secret\r\n"
        b"Idempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )
