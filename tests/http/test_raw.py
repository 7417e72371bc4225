"""Bytes on a socket that no honest client sends: refused in bounded time, in our own words, and the
next client notices nothing."""

import asyncio
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import msgspec
import pytest

from jobrunner.config.settings import LimitsSection
from jobrunner.http.frame import endpoint
from tests.http.serving import House, definitions, opened

pytestmark = pytest.mark.anyio

BOUND_S = 20
KEEPALIVE_S = 1.0
HOST = b"Host: here\r\n"
BODY = b'{"workflow":"howera"}'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNK = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)


@pytest.fixture
async def house(
    tmp_path: Path, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[House]:
    """Patient for a second only, so that running out of patience can be waited for."""
    hasty = partial(endpoint.Settings, keepalive_s=KEEPALIVE_S, read_timeout_s=KEEPALIVE_S)
    monkeypatch.setattr(endpoint, "Settings", hasty)
    async with opened(tmp_path, registry=definitions(names=("howera",)), fresh=True) as house:
        yield house


def request(house: House, headers: bytes, body: bytes = b"", line: bytes = b"POST /jobs") -> bytes:
    token = f"Authorization: Bearer {house.ada.token}\r\n".encode()
    kind = b"Content-Type: application/json\r\n"
    return line + b" HTTP/1.1\r\n" + HOST + token + kind + headers + b"\r\n" + body


async def said_to(house: House, sent: bytes, *more: bytes) -> bytes:
    """All that comes back until the service hangs up, or has nothing further to say."""
    place = urlsplit(house.service.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        with anyio.fail_after(BOUND_S):
            for piece in (sent, *more):
                writer.write(piece)
                await writer.drain()
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


SMUGGLED = {
    "both a length and chunks": (LENGTH + b"Transfer-Encoding: chunked\r\n", CHUNK),
    "two lengths": (LENGTH + b"Content-Length: 5\r\n", BODY),
    "two equal lengths": (LENGTH + LENGTH, BODY),
    "a length with a sign": (b"Content-Length: +21\r\n", BODY),
    "a negative length": (b"Content-Length: -1\r\n", BODY),
    "a list of lengths": (b"Content-Length: 21, 21\r\n", BODY),
    "identity and chunked": (b"Transfer-Encoding: identity, chunked\r\n", CHUNK),
    "chunked twice": (b"Transfer-Encoding: chunked, chunked\r\n", CHUNK),
    "two transfer encodings": (
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", CHUNK,
    ),
    "an unknown encoding": (b"Transfer-Encoding: xchunked\r\n", CHUNK),
    "compressed chunks": (b"Transfer-Encoding: gzip, chunked\r\n", CHUNK),
    "a folded header": (b"X-Folded: one\r\n two\r\n" + LENGTH, BODY),
    "a space before the colon": (b"Content-Length : 21\r\n", BODY),
    "a NUL in a header": (b"X-Nul: a\0b\r\n" + LENGTH, BODY),
    "a bare line feed": (b"X-Bare: a\nContent-Length: 21\r\n", BODY),
    "a header of 9 kB": (b"X-Long: " + b"a" * 9000 + b"\r\n" + LENGTH, BODY),
    "200 headers": (b"".join(b"X-%d: a\r\n" % n for n in range(200)) + LENGTH, BODY),
    "two hosts": (HOST + LENGTH, BODY),
    "a chunk size that overflows": (
        b"Transfer-Encoding: chunked\r\n", b"fffffffffffffffff1\r\n" + BODY,
    ),
    "a chunk size that is none": (b"Transfer-Encoding: chunked\r\n", b"zz\r\n" + BODY + b"\r\n"),
    "a chunk longer than it says": (
        b"Transfer-Encoding: chunked\r\n", b"2\r\n" + BODY + b"\r\n0\r\n\r\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SMUGGLED)
async def test_two_readings_of_one_request_are_none(house: House, name: str) -> None:
    """R8: a 4xx in the shape of every refusal; what follows on the connection is not served."""
    headers, body = SMUGGLED[name]
    after = request(house, LENGTH, BODY)
    said = await said_to(house, request(house, headers, body) + after)
    answers = [int(part[:3]) for part in re.split(rb"HTTP/1\.[01] ", said)[1:]]
    assert answers, said[:300]
    assert 400 <= answers[0] < 500, said[:300]
    assert 201 not in answers
    problem = msgspec.json.decode(said.split(b"\r\n\r\n", 1)[1])
    assert problem["error_code"] in ("VALIDATION_ERROR", "BODY_TOO_LARGE"), problem
    head = said.split(b"\r\n\r\n", 1)[0].lower()
    assert b"content-type: application/problem+json" in head
    assert b"x-content-type-options: nosniff" in head
    assert b"content-security-policy: default-src 'none'" in head
    assert (await house.ada.get("/jobs")).json["jobs"] == []


NOT_HTTP = {
    "a TLS greeting": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64 + b"\r\n\r\n",
    "noise": b"\xff" * 200 + b"\r\n\r\n",
    "no version": b"GET /nowhere\r\n\r\n",
    "a version to come": b"GET / HTTP/9.9\r\nHost: here\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a line of 20 kB": b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: here\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "an address of elsewhere": b"GET http://[::1 HTTP/1.1\r\nHost: here\r\n\r\n",
    "a method of its own": b"G@T /healthz HTTP/1.1\r\nHost: here\r\n\r\n",
}


@pytest.mark.parametrize("name", NOT_HTTP)
async def test_what_is_not_http_is_told_so(house: House, name: str) -> None:
    said = await said_to(house, NOT_HTTP[name])
    assert not said or re.match(rb"HTTP/\d\.\d 4", said), said[:200]
    if said:
        problem = msgspec.json.decode(said.split(b"\r\n\r\n", 1)[1])
        assert problem["status"] == int(said[9:12])
    assert (await house.nobody.get("/healthz")).status == 200
    assert bugs(house) == []


def bugs(house: House) -> list[dict[str, Any]]:
    """Every error that was logged, but that the machine was busy elsewhere for seconds: the bytes
    sent here are answered in far less, and a neighbour's work is no fault of theirs."""
    return [
        line
        for line in house.logged
        if line["level"] == "error" and line["event"] != "loop.blocked"
    ]


async def test_a_chunk_extension_of_20_kb_costs_nothing(house: House) -> None:
    """It is not asked for, not kept, and bounded where it is not refused."""
    extended = b"%x;%s\r\n%s\r\n0\r\n\r\n" % (len(BODY), b"a=" + b"b" * 20_000, BODY)
    said = await said_to(house, request(house, b"Transfer-Encoding: chunked\r\n", extended))
    assert re.match(rb"HTTP/1\.[01] (201|4)", said), said[:100]
    assert said.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("line", [b"POST /jobs", b"GET /jobs", b"HEAD /jobs"])
async def test_an_expectation_that_nobody_knows_changes_nothing(house: House, line: bytes) -> None:
    """Neither the words nor the headers of an answer come from the server underneath."""
    length, body = (LENGTH, BODY) if line.startswith(b"POST") else (b"", b"")
    closing = b"Connection: close\r\n"
    plain = await said_to(house, request(house, length + closing, body, line))
    odd = await said_to(house, request(house, b"Expect: 999\r\n" + length + closing, body, line))
    assert odd.partition(b"\r\n")[0] == plain.partition(b"\r\n")[0]
    assert re.search(rb"X-Request-Id: \S", odd)


async def test_headers_have_a_bound_in_all(house: House) -> None:
    """R11: who never ends them is refused before they fill the memory, in one piece or in many."""
    lines = [b"X-%d: %s\r\n" % (number, b"a" * 8000) for number in range(9)]
    begun = request(house, b"", line=b"GET /jobs")[:-2]
    for said in (
        await said_to(house, begun + b"".join(lines)),
        await said_to(house, begun, *lines),
    ):
        assert said.startswith(b"HTTP/1.1 400 Bad Request\r\n"), said[:300]
        assert b"its headers have more than 65536 bytes" in said
        assert b"\r\nConnection: close\r\n" in said
    whole = begun + b"".join(lines[:-1]) + b"Connection: close\r\n\r\n"
    assert (await said_to(house, whole)).startswith(b"HTTP/1.1 200 ")


async def test_silence_ends_a_connection(house: House) -> None:
    """Nothing, half a line, half of the headers, one byte at a time: nobody waits for ever."""
    for sent in (b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: he"):
        assert not (await said_to(house, sent)).startswith(b"HTTP/1.1 2")


async def test_headers_that_drip_end_a_connection(house: House) -> None:
    place = urlsplit(house.service.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(b"GET /healthz HTTP/1.1\r\n" + HOST)
    ended = asyncio.ensure_future(reader.read())
    with anyio.fail_after(BOUND_S):
        while not ended.done():
            writer.write(b"X")
            await asyncio.wait({ended}, timeout=0.1)
    writer.close()
    assert ended.exception() is not None or not ended.result().startswith(b"HTTP/1.1 2")


async def test_a_body_that_does_not_come_ends_a_request(house: House) -> None:
    """Announced and never sent, or a byte now and then: told so, once."""
    for headers, body in (
        (LENGTH, b""),
        (LENGTH, BODY[:5]),
        (b"Transfer-Encoding: chunked\r\n", b"5\r\n"),
    ):
        said = await said_to(house, request(house, headers, body))
        assert said.startswith(b"HTTP/1.1 408 "), said[:100]
        assert said.count(b"HTTP/1.1 ") == 1


async def test_requests_in_a_row_are_answered_in_a_row(house: House) -> None:
    """Pipelining of a bounded kind: a hundred at once, each answered, none of them twice."""
    one = request(house, b"", line=b"GET /credits")
    said = await said_to(
        house, one * 99 + request(house, b"Connection: close\r\n", line=b"GET /credits")
    )
    assert said.count(b"HTTP/1.1 200") == 100


async def test_one_connection_too_many_is_told_so(tmp_path: Path) -> None:
    registry = definitions(names=("howera",))
    async with opened(tmp_path, limits=LimitsSection(connections=40), registry=registry) as house:
        place = urlsplit(house.service.url)
        held = [await asyncio.open_connection(place.hostname, place.port) for _ in range(60)]
        told = []
        for reader, _ in held:
            with anyio.move_on_after(0.05):
                told.append(await reader.read())
        refused = [one for one in told if one]
        assert len(refused) >= 20
        assert refused[0].startswith(b"HTTP/1.1 503 "), refused[0]
        assert b"\r\nRetry-After: " in refused[0]
        problem = msgspec.json.decode(refused[0].split(b"\r\n\r\n", 1)[1])
        assert problem["error_code"] == "OVERLOADED"
        for _, writer in held:
            writer.close()
        with anyio.fail_after(BOUND_S):
            while not (
                await said_to(house, request(house, b"Connection: close\r\n", line=b"GET /jobs"))
            ).startswith(b"HTTP/1.1 200"):
                await anyio.sleep(0.01)
