"""The shipped recipes for proxies, run: whatever a client may do with the service, it may do
through them, under a path, with TLS, and at a socket."""

import json
import os
import shutil
import ssl
from collections.abc import AsyncIterator, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import anyio
import pytest

from tests.deploy.proxied import PREFIX, Proxied, Run, caddy, nginx, proxied

pytestmark = pytest.mark.anyio

FILM = os.urandom(3_000_000)
HALF = 1_234_567
TUS = {"Tus-Resumable": "1.0.0"}
HELLO = {"workflow": "hello", "params": {"name": "Ada"}}
REST = {"workflow": "howera"}
WAYS: dict[str, tuple[Run, bool]] = {
    "nginx": (nginx, False),
    "nginx at a socket": (nginx, True),
    "caddy": (caddy, False),
    "caddy at a socket": (caddy, True),
}


@pytest.fixture(scope="module", params=WAYS)
def way(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    name = request.param.split()[0]
    for program in (name, "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"make system installs {program}")
    run, at_socket = WAYS[request.param]
    folder: Path = tmp_path_factory.mktemp("way")
    with proxied(folder, run, at_socket=at_socket) as found:
        yield found


@pytest.fixture
async def client(way: Proxied) -> AsyncIterator[aiohttp.ClientSession]:
    """Read each answer whole: a connection with TLS that is broken off in the middle of one is
    closed at some later time, and the loop of its test may be gone by then."""
    headers = {"Authorization": f"Bearer {way.service.token}"}
    connector = aiohttp.TCPConnector(ssl=way.trust)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield session


def at(way: Proxied, link: str) -> str:
    """A link of the service, as its client follows it."""
    path = urlsplit(link).path
    assert path.startswith(f"{PREFIX}/"), link
    return way.url.removesuffix(PREFIX) + link if link.startswith("/") else link


async def submitted(way: Proxied, client: aiohttp.ClientSession, order: Any) -> tuple[str, Any]:
    async with client.post(f"{way.url}/jobs", json=order) as said:
        assert said.status == 201, await said.text()
        return at(way, said.headers["Location"]), await said.json()


async def test_a_job_from_its_order_to_its_end(way: Proxied, client: aiohttp.ClientSession) -> None:
    """Links carry the path, and what makes a request conditional passes both ways."""
    place, job = await submitted(way, client, HELLO)
    async with client.get(f"{place}?wait=60&until=ended") as said:
        ended = await said.json()
        tag = said.headers["ETag"]
        assert (ended["id"], ended["kind"]) == (job["id"], "final")
    assert not tag.startswith("W/")
    async with client.get(place, headers={"If-None-Match": tag}) as said:
        assert said.status == 304
    async with client.get(place, headers={"X-Request-Id": "who-asks"}) as said:
        await said.read()
        assert said.headers["X-Request-Id"] == "who-asks"
    async with client.get(f"{way.url}/openapi.json") as said:
        assert (await said.json())["servers"][0]["url"] == PREFIX


async def test_a_stream_is_told_as_it_happens(way: Proxied, client: aiohttp.ClientSession) -> None:
    """Each event before the next one is caused: nobody keeps them until there are more."""
    place, _ = await submitted(way, client, REST)
    with anyio.fail_after(120):
        async with client.get(f"{place}/events") as stream:
            assert stream.headers["Content-Type"].startswith("text/event-stream")
            assert await event(stream) == ("progress", "CREATED")
            async with client.post(f"{place}/cancel") as said:
                await said.read()
                assert said.status == 200
            assert await event(stream) == ("transition", "CANCELLED")
            assert await event(stream) == ("settled", "CANCELLED")
            assert (await stream.content.read()).strip() == b""


async def event(stream: aiohttp.ClientResponse) -> tuple[str, str]:
    name = ""
    async for line in stream.content:
        field, _, value = line.decode().strip().partition(": ")
        name = value if field == "event" else name
        if field == "data":
            return name, json.loads(value)["status"]
    raise AssertionError("the stream ended")


async def test_a_large_file_in_one_piece(way: Proxied, client: aiohttp.ClientSession) -> None:
    async with client.post(f"{way.url}/assets?name=film.mp4", data=BytesIO(FILM)) as said:
        assert said.status == 201, await said.text()
        place = at(way, said.headers["Location"])
    await is_there(client, f"{place}/content")


async def is_there(client: aiohttp.ClientSession, place: str) -> None:
    async with client.get(place) as said:
        assert await said.read() == FILM
    async with client.get(place, headers={"Range": "bytes=1000-1999"}) as said:
        assert (said.status, await said.read()) == (206, FILM[1000:2000])


async def test_an_upload_that_breaks_off_is_resumed(
    way: Proxied, client: aiohttp.ClientSession
) -> None:
    """The proxy keeps nothing back: what it was given before the line broke has arrived."""
    announced = TUS | {"Upload-Length": str(len(FILM)), "Upload-Metadata": "filename ZmlsbS5tcDQ="}
    async with client.post(f"{way.url}/uploads", headers=announced) as said:
        assert said.status == 201, await said.text()
        place = at(way, said.headers["Location"])
    await broken_off(way, client, place)
    with anyio.fail_after(120):
        while not await finished(way, client, place):
            await anyio.sleep(0.02)


async def finished(way: Proxied, client: aiohttp.ClientSession, place: str) -> bool:
    """Go on from where it stands. While the service has still to notice that the line is broken, it
    says so, and one asks again."""
    offset = await arrived(client, place)
    assert 0 < offset <= HALF
    piece = TUS | {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
    async with client.patch(place, data=BytesIO(FILM[offset:]), headers=piece) as said:
        await said.read()
        if said.status == 409:
            return False
        assert said.status == 204, await said.text()
        await is_there(client, at(way, said.headers["Content-Location"]) + "/content")
    return True


async def broken_off(way: Proxied, client: aiohttp.ClientSession, place: str) -> None:
    """A piece that is announced whole, and of which not all is sent."""
    parts = urlsplit(place)
    head = f"PATCH {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nTus-Resumable: 1.0.0\r\n"
    head += f"Authorization: Bearer {way.service.token}\r\nUpload-Offset: 0\r\n"
    head += f"Content-Type: application/offset+octet-stream\r\nContent-Length: {len(FILM)}\r\n\r\n"
    stream = await anyio.connect_tcp(
        "127.0.0.1", parts.port or 0, ssl_context=way.trust, tls_standard_compatible=False
    )
    async with stream:
        await stream.send(head.encode() + FILM[:HALF])
        with anyio.fail_after(120):
            while await arrived(client, place) == 0:
                await anyio.sleep(0.02)


async def arrived(client: aiohttp.ClientSession, place: str) -> int:
    async with client.head(place, headers=TUS) as said:
        assert said.status == 200
        return int(said.headers["Upload-Offset"])


async def test_the_client_is_who_came_to_the_proxy(
    way: Proxied, client: aiohttp.ClientSession
) -> None:
    """Not who it says it is, and not the proxy."""
    order = {"name": "bob", "role": "user"}
    spoofed = {"X-Forwarded-For": "203.0.113.9"}
    async with client.post(f"{way.url}/admin/tokens", json=order, headers=spoofed) as said:
        await said.read()
        assert said.status == 201
    async with client.get(f"{way.url}/admin/audit") as said:
        records = (await said.json())["audit"]
    made = [one for one in records if one["fields"].get("name") == "bob"]
    assert made[0]["fields"]["address"] == "127.0.0.1"


async def test_the_figures_are_not_for_everybody(
    way: Proxied, client: aiohttp.ClientSession
) -> None:
    """Though the proxy comes from this machine."""
    async with client.get(f"{way.url}/metrics", headers={"Authorization": ""}) as said:
        await said.read()
        assert said.status == 401
    async with client.get(f"{way.url}/metrics") as said:
        await said.read()
        assert said.status == 200


async def test_large_answers_stay_packed(way: Proxied, client: aiohttp.ClientSession) -> None:
    packed = {"Accept-Encoding": "gzip"}
    async with client.get(f"{way.url}/openapi.json", headers=packed) as said:
        assert said.headers["Content-Encoding"] == "gzip"
        assert (await said.json())["openapi"].startswith("3.1")


async def test_nothing_else_is_at_that_name(way: Proxied) -> None:
    """And whoever does not know the certificate does not speak to it."""
    outside = way.url.removesuffix(PREFIX) + "/jobs"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=way.trust)) as session:
        async with session.get(outside) as said:
            await said.read()
            assert "X-Request-Id" not in said.headers
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(outside, ssl=ssl.create_default_context())
