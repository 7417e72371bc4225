"""P9 P10: downloads and requests of stages, against a server on loopback that misbehaves."""

import gzip
import hashlib
import io
import os
from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from jobrunner.errors import PermanentFailure, RetryableFailure, StageFault
from jobrunner.files.kinds import HEAD_SIZE, sniff
from jobrunner.files.space import Room
from jobrunner.outgoing.calls import Patience
from jobrunner.outgoing.downloads import Downloaded, Downloader
from jobrunner.outgoing.exchange import OutgoingClient, OutgoingGate
from jobrunner.outgoing.rules import Rules, origins_of, rules_of
from jobrunner.ports import SystemChildren, SystemFiles
from jobrunner.providers.responses import retry_after_s
from tests.outgoing.outlets import Loopback, Watched, hostile
from tests.ports import free_port
from tests.stages.speaking import (
    MIB,
    PNG,
    Asked,
    Script,
    Server,
    Writer,
    anywhere,
    dripping,
    endless,
    listening,
    moved,
    mute,
    raw,
    silent,
)

pytestmark = pytest.mark.anyio

IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
SHORT = Patience(connect_s=5, idle_s=0.1, total_s=1e6)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with listening() as open_server:
        yield open_server


@pytest.fixture
async def connector() -> Watched:
    return Watched(Loopback)


@pytest.fixture
async def gate(server: Server, connector: Watched) -> AsyncIterator[OutgoingGate]:
    """Opens the server's address, and that alone."""
    async with aclosing(
        OutgoingGate(connector, rules_of((), [f"127.0.0.1:{server.port}"]))
    ) as opened:
        yield opened


@pytest.fixture
def downloader(gate: OutgoingGate) -> Downloader:
    return Downloader(gate, SystemChildren(), 10 * MIB)


async def refused(kind: type[StageFault], doing: Awaitable[Any]) -> StageFault:
    with pytest.raises(kind) as caught:
        await doing
    assert type(caught.value) is kind
    return caught.value


# ---------------------------------------------------------------- what comes whole


async def test_a_file_arrives_whole_with_its_size_digest_and_type(
    server: Server, downloader: Downloader, tmp_path: Path
) -> None:
    body = PNG * 300
    url = server.says("/a", body, Content_Type="text/html; charset=lies")
    done = await downloader.fetch(url, tmp_path / "a.png", types=IMAGES)
    assert done == Downloaded(len(body), hashlib.sha256(body).hexdigest(), "image/png", url)
    assert (tmp_path / "a.png").read_bytes() == body
    assert os.listdir(tmp_path) == ["a.png"]
    assert server.seen[0].headers["accept-encoding"] == "identity"


async def test_a_chunked_body_goes_into_an_open_file(
    server: Server, downloader: Downloader
) -> None:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (PNG[:7], PNG[7:]))
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    url = server.plays("/c", raw(head + chunks + b"0\r\n\r\n"))
    sink = io.BytesIO()
    done = await downloader.fetch(url, sink, types=["image/png"])
    assert sink.getvalue() == PNG
    assert done.size == len(PNG)


async def test_the_disk_is_looked_at_while_it_fills(
    server: Server, gate: OutgoingGate, tmp_path: Path
) -> None:
    """How large it will be, the server did not say."""

    class Filling(SystemFiles):
        left = [3 * MIB, 3 * MIB]

        def free(self, path: str) -> int:
            return self.left.pop() if self.left else 2 * MIB

    room = Room(Filling(), str(tmp_path), 2 * MIB)
    downloader = Downloader(gate, SystemChildren(), 10 * MIB, room=room)
    fault = await refused(
        RetryableFailure, downloader.fetch(server.plays("/x", endless), tmp_path / "x")
    )
    assert fault.code == "STORAGE_FAILED"
    assert "[store] min_free" in fault.detail
    assert os.listdir(tmp_path) == []


async def test_any_type_is_taken_when_none_is_asked_for(
    server: Server, downloader: Downloader
) -> None:
    assert (await downloader.fetch(server.says("/e", b""), io.BytesIO())).size == 0
    text = await downloader.fetch(server.says("/t", b"plain words"), io.BytesIO())
    assert text.content_type == "text/plain"


# ---------------------------------------------------------------- bodies that misbehave


async def test_an_endless_body_ends_at_the_cap(
    server: Server, downloader: Downloader, tmp_path: Path
) -> None:
    fetching = downloader.fetch(
        server.plays("/x", endless), tmp_path / "x", types=IMAGES, max_size=MIB
    )
    fault = await refused(PermanentFailure, fetching)
    assert fault.code == "DOWNLOAD_TOO_LARGE"
    assert os.listdir(tmp_path) == []


async def test_the_operators_cap_holds_whatever_a_stage_asks(
    server: Server, gate: OutgoingGate
) -> None:
    small = Downloader(gate, SystemChildren(), 1000)
    sink = io.BytesIO()
    for size, fits in ((1000, True), (1001, False)):
        url = server.says(f"/{size}", PNG[:size])
        if fits:
            assert (await small.fetch(url, sink, max_size=5000)).size == size
        else:
            await refused(PermanentFailure, small.fetch(url, sink, max_size=5000))
    assert sink.getvalue() == PNG[:1000]


async def test_a_size_that_is_told_is_refused_before_the_body(
    server: Server, downloader: Downloader, tmp_path: Path
) -> None:
    async def boasting(asked: Asked, writer: Writer) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
        await server.never.wait()

    fetching = downloader.fetch(server.plays("/b", boasting), tmp_path / "b")
    assert (await refused(PermanentFailure, fetching)).code == "DOWNLOAD_TOO_LARGE"


@pytest.mark.parametrize(
    ("script", "patience"),
    [
        (silent, SHORT),
        (mute, SHORT),
        (dripping, Patience(connect_s=5, idle_s=60, total_s=0.3)),
    ],
)
async def test_a_slow_body_ends_at_its_deadline(
    server: Server, downloader: Downloader, tmp_path: Path, script: Script, patience: Patience
) -> None:
    """Nothing for too long, nothing at all, and a little again and again."""
    url = server.plays("/s", script)
    fault = await refused(
        RetryableFailure, downloader.fetch(url, tmp_path / "s", patience=patience)
    )
    assert fault.code == "NETWORK_TIMEOUT"
    assert os.listdir(tmp_path) == []


async def test_a_bomb_is_never_unpacked(
    server: Server, downloader: Downloader, gate: OutgoingGate, tmp_path: Path
) -> None:
    """200 MB in 200 kB: as a file it is refused by its coding or its type; as an answer, as soon
    as what it unpacks to passes the cap."""
    bomb = gzip.compress(bytes(200_000_000), 1)
    coded = server.says("/coded", bomb, Content_Encoding="gzip")
    fault = await refused(PermanentFailure, downloader.fetch(coded, tmp_path / "z"))
    assert fault.code == "DOWNLOAD_WRONG_TYPE"
    plain = server.says("/plain", bomb)
    fault = await refused(PermanentFailure, downloader.fetch(plain, tmp_path / "z", types=IMAGES))
    assert "looks like application/gzip" in fault.detail
    fault = await refused(PermanentFailure, OutgoingClient(gate).get(coded, max_size=MIB))
    assert fault.code == "DOWNLOAD_TOO_LARGE"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("body", "looks"),
    [
        (b"<!DOCTYPE html><title>Sign in</title>", "looks like text/html"),
        (b'\n {"error": "expired"}', "looks like application/json"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>", "looks like image/svg+xml"),
        (b"", "is empty"),
        (b"\x00" * 900, "looks like application/octet-stream"),
    ],
)
async def test_a_file_of_another_type_is_refused_before_it_is_written(
    server: Server, downloader: Downloader, body: bytes, looks: str
) -> None:
    url = server.says("/w", body, Content_Type="image/png")
    sink = io.BytesIO()
    fault = await refused(PermanentFailure, downloader.fetch(url, sink, types=IMAGES))
    assert fault.code == "DOWNLOAD_WRONG_TYPE"
    assert looks in fault.detail
    assert sink.getvalue() == b""


@pytest.mark.parametrize(
    "script",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + PNG[:4000],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" + PNG[:5],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200",
        b"",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    ],
)
async def test_a_torn_answer_may_be_asked_for_again(
    server: Server, downloader: Downloader, tmp_path: Path, script: bytes
) -> None:
    async def torn(asked: Asked, writer: Writer) -> None:
        writer.write(script)
        await writer.drain()
        writer.close()

    url = server.plays("/torn", torn)
    fault = await refused(RetryableFailure, downloader.fetch(url, tmp_path / "t"))
    assert fault.code == "NETWORK_ERROR"
    assert os.listdir(tmp_path) == []


async def test_nobody_there_may_be_asked_again(gate: OutgoingGate, server: Server) -> None:
    port = free_port()
    async with aclosing(
        OutgoingGate(Watched(Loopback), rules_of((), [f"127.0.0.1:{port}"]))
    ) as other:
        fault = await refused(
            RetryableFailure, OutgoingClient(other).get(f"http://127.0.0.1:{port}/")
        )
    assert fault.code == "NETWORK_ERROR"


async def test_a_disk_that_fails_may_work_next_time(
    server: Server, downloader: Downloader, tmp_path: Path
) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any, /) -> int:
            raise OSError(28, "No space left on device")

    url = server.says("/f", PNG)
    fault = await refused(RetryableFailure, downloader.fetch(url, Full()))
    assert (fault.code, "No space left" in fault.detail) == ("STORAGE_FAILED", True)
    fault = await refused(RetryableFailure, downloader.fetch(url, tmp_path / "no" / "folder"))
    assert fault.code == "STORAGE_FAILED"
    (tmp_path / "l.part").symlink_to(tmp_path / "elsewhere")
    fault = await refused(RetryableFailure, downloader.fetch(url, tmp_path / "l"))
    assert fault.code == "STORAGE_FAILED"
    assert not (tmp_path / "elsewhere").exists()


async def test_a_download_that_is_given_up_leaves_nothing(
    server: Server, downloader: Downloader, tmp_path: Path
) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(downloader.fetch, server.plays("/g", silent), tmp_path / "g")
        while not os.listdir(tmp_path):
            await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- statuses


@pytest.mark.parametrize(
    ("status", "kind", "code", "after_s"),
    [
        ("429 Too Many Requests", RetryableFailure, "RATE_LIMITED", 17),
        ("500 Oops", RetryableFailure, "REMOTE_FAILED", 17),
        ("503 Later", RetryableFailure, "REMOTE_FAILED", 17),
        ("408 Slow", RetryableFailure, "REMOTE_FAILED", 17),
        ("400 Bad", PermanentFailure, "REMOTE_REFUSED", None),
        ("401 Who", PermanentFailure, "REMOTE_REFUSED", None),
        ("404 Gone", PermanentFailure, "REMOTE_REFUSED", None),
        ("304 Same", PermanentFailure, "REMOTE_REFUSED", None),
        ("206 Part", PermanentFailure, "REMOTE_REFUSED", None),
    ],
)
async def test_a_status_is_classed(
    server: Server,
    downloader: Downloader,
    gate: OutgoingGate,
    status: str,
    kind: type[StageFault],
    code: str,
    after_s: float | None,
) -> None:
    """H45 H46 C42: rate limits carry their Retry-After."""
    body = b"" if status.startswith("304") else b"why \x1b[31m\r\nnot"
    url = server.says("/st", body, status, Retry_After="17") + "?sig=S3CRET"
    faults = [await refused(kind, downloader.fetch(url, io.BytesIO()))]
    if not status.startswith("2"):
        faults.append(await refused(kind, OutgoingClient(gate).post(url, json={"a": 1})))
        assert faults[1].detail.endswith(f"answered {status[:3]}")
        assert body == b"" or faults[1].excerpt == "why [31m not"
    for fault in faults:
        assert fault.code == code
        assert "S3CRET" not in fault.detail
        assert getattr(fault, "retry_after_s", None) == after_s


@pytest.mark.parametrize(
    ("after", "seconds"),
    [
        ("0", 0), ("120", 120), (" 7 ", 7), ("999999999", 86_400), ("-5", 0), ("1.5", 0), ("x", 0),
        ("", 0), ("٣", 0), ("9" * 400, 0), ("1e9", 0),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30), ("Wed, 21 Oct 2015 07:27:30 GMT", 0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 86_400), ("Wed, 99 Oct 2015 07:28:30 GMT", 0),
    ],
)  # fmt: skip
def test_retry_after_is_read_in_both_its_forms(after: str, seconds: float) -> None:
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    assert retry_after_s({"retry-after": after, "date": date}) == seconds
    assert retry_after_s({"date": date}) == 0


# ---------------------------------------------------------------- redirects


async def test_redirects_are_followed_three_times(
    server: Server, downloader: Downloader, connector: Watched
) -> None:
    end = server.says("/end", PNG)
    for number, status in ((1, 301), (2, 303), (3, 308), (4, 307)):
        to = f"/hop{number - 1}" if number > 1 else "end"
        server.plays(f"/hop{number}", moved(to, status))
    done = await downloader.fetch(f"{server.url}/hop3#part", io.BytesIO())
    assert (done.final_url, done.size) == (end, len(PNG))
    fault = await refused(PermanentFailure, downloader.fetch(f"{server.url}/hop4", io.BytesIO()))
    assert fault.code == "DOWNLOAD_REFUSED"
    assert "more than 3 redirects" in fault.detail


async def test_a_loop_of_redirects_ends(server: Server, downloader: Downloader) -> None:
    url = server.plays("/loop", moved("/loop"))
    await refused(PermanentFailure, downloader.fetch(url, io.BytesIO()))
    assert len(server.seen) == 4


async def test_no_redirect_leads_inside(
    server: Server, gate: OutgoingGate, connector: Watched
) -> None:
    """P9 R9: every hostile URL as the end of a chain of one and of two redirects: the only
    connections are those to the server that redirects."""
    server.plays("/to", anywhere)
    let_through = []
    leading = [url for url in hostile() if leads(url)]
    assert len(leading) >= 200
    for number, url in enumerate(leading):
        chain = f"{server.url}/to?{quote(url)}"
        if number % 2:
            chain = f"{server.url}/to?{quote(chain)}"
        with pytest.raises(StageFault) as caught:
            await OutgoingClient(gate).get(chain)
        if caught.value.code != "DOWNLOAD_REFUSED":
            let_through.append((url, caught.value))
    assert not let_through
    assert set(connector.passed) == {("127.0.0.1", server.port)}
    assert len(server.seen) == len(leading) + len(leading) // 2


def leads(url: str) -> bool:
    """As a Location: it has no line break in it, and is not relative to the server itself."""
    return url.isprintable() and (":" in url.partition("/")[0] or url.startswith("//"))


async def test_a_redirect_into_another_port_of_this_machine_is_not_followed(
    server: Server, downloader: Downloader, connector: Watched
) -> None:
    async with listening() as inner:
        inner.says("/secret", PNG)
        url = server.plays("/in", moved(f"{inner.url}/secret"))
        fault = await refused(PermanentFailure, downloader.fetch(url, io.BytesIO()))
        assert fault.code == "DOWNLOAD_REFUSED"
        assert inner.seen == []
    assert connector.sockets == 1


async def test_a_strangers_redirect_does_not_enter_a_plugins_origin(
    server: Server, gate: OutgoingGate, connector: Watched
) -> None:
    """What the operator opened to the plugin is open to the plugin's own words only."""
    async with listening() as model:
        model.says("/delete-all", b"{}")
        model.plays("/jump", moved(f"{model.url}/delete-all"))
        url = server.plays("/evil", moved(f"{model.url}/delete-all"))
        plugin = OutgoingClient(gate, origins_of([model.url]))
        await refused(PermanentFailure, plugin.get(url))
        assert model.seen == []
        assert (await plugin.get(f"{model.url}/jump")).status == 200


async def test_what_the_caller_sent_stays_at_its_origin(server: Server, gate: OutgoingGate) -> None:
    async with listening() as other:
        other.plays("/on", moved(f"{server.url}/end"))
        server.says("/end", b"{}")
        server.plays("/same", moved("/first"))
        server.plays("/first", moved(f"{other.url}/on"))
        client = OutgoingClient(gate, origins_of([server.url, other.url]))
        sent = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Key": "k", "Accept": "a/b"}
        await client.get(f"{server.url}/same", headers=sent)
        kept = [{name.lower() for name in sent} & set(asked.headers) for asked in server.seen]
        everything = {"authorization", "cookie", "x-key", "accept"}
        assert kept == [everything, everything, {"accept"}]
        assert {"authorization", "cookie", "x-key"} & set(other.seen[0].headers) == set()


async def test_cookies_are_not_kept(server: Server, gate: OutgoingGate) -> None:
    url = server.says("/cookie", b"{}", Set_Cookie="a=b; Path=/")
    for _ in range(2):
        await OutgoingClient(gate).get(url)
    assert "cookie" not in server.seen[1].headers


async def test_only_reading_requests_follow(server: Server, gate: OutgoingGate) -> None:
    server.says("/end", b"{}")
    url = server.plays("/moved", moved("/end", 307))
    client = OutgoingClient(gate)
    fault = await refused(PermanentFailure, client.post(url, json={}))
    assert fault.code == "REMOTE_REFUSED"
    assert (await client.exchange("POST", url, data=b"x")).status == 307
    assert [asked.target for asked in server.seen] == ["/moved", "/moved"]


# ---------------------------------------------------------------- the client


async def test_json_goes_out_and_comes_back(server: Server, gate: OutgoingGate) -> None:
    url = server.says("/v1", b'{"id": "p1"}', "201 Created", X_Id="7")
    reply = await OutgoingClient(gate).post(
        url, json={"prompt": "ü"}, headers={"Idempotency-Key": "k"}
    )
    assert (reply.status, reply.json(), reply.headers["x-id"]) == (201, {"id": "p1"}, "7")
    asked = server.seen[0]
    assert asked.body == '{"prompt":"ü"}'.encode()
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["idempotency-key"] == "k"


async def test_an_answer_that_is_no_json_may_be_asked_for_again(
    server: Server, gate: OutgoingGate
) -> None:
    reply = await OutgoingClient(gate).get(server.says("/p", b"<html>gateway</html>"))
    with pytest.raises(RetryableFailure, match="no JSON"):
        reply.json()


async def test_an_answer_has_a_cap(server: Server, gate: OutgoingGate) -> None:
    url = server.says("/big", b"x" * 1001)
    assert len((await OutgoingClient(gate).get(url, max_size=1001)).body) == 1001
    fault = await refused(PermanentFailure, OutgoingClient(gate).get(url, max_size=1000))
    assert fault.code == "DOWNLOAD_TOO_LARGE"
    await refused(PermanentFailure, OutgoingClient(gate).get(server.plays("/e", endless)))


async def test_an_origin_that_opens_while_the_plugin_runs_is_its_own(server: Server) -> None:
    """A provider inside the plugin takes a free port and says so."""
    url = server.says("/v1", b"{}")
    async with aclosing(OutgoingGate(Watched(Loopback), Rules())) as gate:
        client = OutgoingClient(gate)
        await refused(PermanentFailure, client.get(url))
        client.origins |= origins_of([server.url])
        assert (await client.get(url)).json() == {}
        await refused(PermanentFailure, OutgoingClient(gate).get(url))


async def test_many_at_once_share_one_gate(server: Server, gate: OutgoingGate) -> None:
    url = server.says("/v1", b"{}")
    client = OutgoingClient(gate)
    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(client.get, url)
    assert len(server.seen) == 50


# ---------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "image/jpeg"),
        (b"GIF89a\x01\x00", "image/gif"),
        (b"RIFF\x24\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x24\x00\x00\x00WAVEfmt ", "audio/wav"),
        (b"RIFF\x24\x00\x00\x00????", "application/octet-stream"),
        (b"\x00\x00\x00\x18ftypmp42\x00\x00", "video/mp4"),
        (b"\x00\x00\x00\x18ftypisom\x00\x00", "video/mp4"),
        (b"\x00\x00\x00\x18ftypM4A \x00\x00", "audio/mp4"),
        (b"\x00\x00\x00\x14ftypqt  ", "video/quicktime"),
        (b"\x00\x00\x00\x18ftypavif", "image/avif"),
        (b"\x1a\x45\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm", "video/webm"),
        (b"\x1a\x45\xdf\xa3\x9fB\x86\x81\x01B\x82\x88matroska", "video/x-matroska"),
        (b"ID3\x04\x00", "audio/mpeg"),
        (b"\xff\xfb\x90\x00", "audio/mpeg"),
        (b"\xff\xf1\x50\x80", "audio/aac"),
        (b"\xff\xfe<\x00h\x00", "application/octet-stream"),
        (b"OggS\x00", "audio/ogg"),
        (b"fLaC\x00", "audio/flac"),
        (b"%PDF-1.7\n", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
        (b"\x1f\x8b\x08", "application/gzip"),
        (b"\xef\xbb\xbf <!DOCTYPE HTML>", "text/html"),
        (b"  <html><body>", "text/html"),
        (b"<!-- x --><p>", "text/html"),
        (b"<pre", "text/plain"),
        (b"<?xml version='1.0'?><feed/>", "application/xml"),
        (b"<?xml version='1.0'?><svg/>", "image/svg+xml"),
        (b'{"a": 1}', "application/json"),
        (b"[1, 2]", "application/json"),
        ("Übung".encode(), "text/plain"),
        (("a" * (HEAD_SIZE - 1) + "ü").encode()[:HEAD_SIZE], "text/plain"),
        (b"\xfc\xff\x00", "application/octet-stream"),
        (b"caf\xe9", "application/octet-stream"),
        (b"", "application/octet-stream"),
        (b"\xff", "application/octet-stream"),
        (b"plain", "text/plain"),
    ],
)
def test_a_type_is_told_by_the_first_bytes(head: bytes, kind: str) -> None:
    assert sniff(head) == kind
