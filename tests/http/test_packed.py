"""Bodies that stand for more than they weigh: never unpacked, whoever sends them, wherever to."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from aiohttp import compression_utils, http_parser

from jobrunner.config.settings import ServerSection
from tests.http.serving import House, definitions, opened
from tests.http.uploading import files, parts

pytestmark = pytest.mark.anyio

BOUND_S = 30
CONNECTIONS = 100
MIB = 1024 * 1024
UNPACKERS = ("ZLibDecompressor", "BrotliDecompressor", "ZSTDDecompressor")
CODINGS = ("gzip", "x-gzip", "deflate", "br", "zstd", "GZIP", "identity, gzip", "aes128gcm")
TUS = {"Tus-Resumable": "1.0.0", "Content-Type": "application/offset+octet-stream"}


@pytest.fixture
async def house(tmp_path: Path, anyio_backend: str) -> AsyncIterator[House]:
    """What it answers is not packed either: the client here would unpack it."""
    server = ServerSection(port=0, drain_seconds=1, gzip=0)
    async with opened(tmp_path, server=server, registry=definitions(names=("howera",))) as house:
        yield house


@pytest.fixture(autouse=True)
def unpacked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Whoever begins to unpack something is noted here, and fails."""
    noted: list[str] = []

    def noting(name: str) -> type:
        def begin(*given: object, **named: object) -> None:
            noted.append(name)
            raise AssertionError(f"{name} was asked to unpack a body")

        return type(name, (), {"__init__": begin})

    for name in UNPACKERS:
        monkeypatch.setattr(compression_utils, name, noting(name))
        monkeypatch.setattr(http_parser, name, noting(name))
    yield noted
    assert noted == []


@lru_cache(maxsize=1)
def small_and_large() -> bytes:
    """195 kB that stand for 200 MiB."""
    packer, nothing = zlib.compressobj(9, zlib.DEFLATED, 31), bytes(MIB)
    return b"".join(packer.compress(nothing) for _ in range(200)) + packer.flush()


def packed(path: str, coding: str, body: bytes, token: str | None = None) -> bytes:
    who = f"Authorization: Bearer {token}\r\n" if token else ""
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{who}"
        f"Content-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def first_line(house: House, sent: bytes) -> str:
    place = urlsplit(house.service.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        with anyio.fail_after(BOUND_S):
            writer.write(sent)
            await writer.drain()
            return (await reader.readline()).decode().strip()
    finally:
        writer.close()


@pytest.mark.parametrize("coding", CODINGS)
async def test_a_packed_body_is_refused_in_words(house: House, coding: str) -> None:
    """With and without a body struct, signed by a source, of a command, in a file."""
    job = await house.ada.submit("howera")
    body = zlib.compress(b'{"workflow":"howera"}')
    packing = {"Content-Encoding": coding}
    for method, path, more in (
        ("POST", "/jobs", {}),
        ("POST", f"/jobs/{job['id']}/cancel", {}),
        ("PUT", f"/jobs/{job['id']}/upload", {"Content-Type": "video/mp4"}),
        ("POST", "/assets", {"Content-Type": "video/mp4"}),
        ("POST", "/uploads", {"Upload-Length": "100", **TUS}),
        ("POST", "/webhooks/replicate", {}),
    ):
        said = await house.ada.ask(method, path, data=body, headers=packing | more)
        assert (said.status, said.code) == (415, "UNSUPPORTED_MEDIA_TYPE"), path
        assert said.headers["Accept-Encoding"] == "identity"
        assert "Content-Encoding" in said.json["detail"]
    assert parts(house) == files(house) == []
    shown = (await house.ada.get(f"/jobs/{job['id']}")).json
    assert shown["version"] == job["version"]


async def test_a_piece_that_is_packed_is_not_kept(house: House) -> None:
    made = await house.ada.ask("POST", "/uploads", headers={"Upload-Length": "100", **TUS})
    path = made.headers["Location"]
    headers = {"Content-Encoding": "gzip", "Upload-Offset": "0", **TUS}
    said = await house.ada.ask("PATCH", path, data=b"x" * 10, headers=headers)
    assert (said.status, said.code) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert (await house.ada.get(path)).json["offset"] == 0


@pytest.mark.parametrize("coding", ["identity", "Identity", " identity ", "identity, identity", ""])
async def test_a_body_that_says_it_is_plain_is_plain(house: House, coding: str) -> None:
    headers = {"Content-Encoding": coding}
    said = await house.ada.ask("POST", "/jobs", {"workflow": "howera"}, headers=headers)
    assert said.status == 201


async def test_without_a_body_nothing_is_packed(house: House) -> None:
    job = await house.ada.submit("howera")
    headers = {"Content-Encoding": "gzip"}
    said = await house.ada.ask("POST", f"/jobs/{job['id']}/cancel", headers=headers)
    assert said.status == 200


async def test_a_hundred_connections_that_stand_for_20_gib_stop_nobody(house: House) -> None:
    """R8, R11: to known and unknown paths, without a token; others are served meanwhile."""
    body, answers, served = small_and_large(), [], 0
    assert len(body) < 210_000
    wanted = {"/nowhere": "404", "/jobs": "401", "/webhooks/replicate": "415", "/healthz": "405"}

    async def send(path: str) -> None:
        answers.append((path, await first_line(house, packed(path, "gzip", body))))

    async with anyio.create_task_group() as group:
        for number in range(CONNECTIONS):
            group.start_soon(send, list(wanted)[number % len(wanted)])
        while len(answers) < CONNECTIONS:
            assert (await house.nobody.get("/healthz")).status == 200
            served += 1
    assert served
    assert {path: said.split()[1] for path, said in answers} == wanted
    own = await first_line(house, packed("/jobs", "gzip", body, house.ada.token))
    assert own.split()[1] == "415"
