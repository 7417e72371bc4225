"""Files for jobs in one request: what they move, what is refused unread, what a cut leaves."""

import errno
import hashlib
import os
import resource
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import msgspec
import pytest

from jobrunner.config.settings import ServerSection
from jobrunner.errors import Refused
from jobrunner.http.frame.endpoint import Settings
from jobrunner.http.frame.streaming import Stream
from jobrunner.ports import SystemClock
from tests.http.serving import House, opened
from tests.http.uploading import (
    CSV,
    VIDEO,
    Leaping,
    arrivals_of,
    dripping,
    files,
    head,
    incoming,
    line,
    parts,
    root,
    send,
    silent,
    takers,
    until,
)

SHA = hashlib.sha256(CSV).hexdigest()
pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def house(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[House]:
    async with opened(tmp_path_factory.mktemp("uploads"), registry=takers()) as house:
        yield house


async def test_a_video_moves_its_job(house: House) -> None:
    """H4, H5: the first byte leads to UPLOADING; confirm-upload needs no address then."""
    job = await house.ada.submit("howera")
    said = await send(house.ada, f"/jobs/{job['id']}/upload?name=my film.mp4", b"film" * 99, VIDEO)
    assert said.status == 200, said.raw
    assert said.json["status"] == "UPLOADING"
    asset = said.json["asset"]
    confirmed = await house.ada.post(f"/jobs/{job['id']}/confirm-upload", {})
    assert confirmed.status == 200, confirmed.raw
    assert confirmed.json["status"] == "UPLOADED"
    assert confirmed.json["artifacts"]["video_uri"] == asset["url"]
    entry = (await house.ada.get(f"/assets/{asset['id']}")).json
    assert entry["storage_path"] == f"ada/{job['id']}/my_film.mp4"
    assert (root(house) / entry["storage_path"]).read_bytes() == b"film" * 99
    assert parts(house) == []


async def test_an_input_is_what_the_job_was_made_for(house: House) -> None:
    """S10 and the inputs after creation: another digest than the given one is refused."""
    made = {"requirement": "one", "inputs": {"fingerprint": f"sha256:{SHA.upper()}"}}
    job = await house.ada.submit("ss", params=made)
    path = f"/jobs/{job['id']}/upload"
    before = files(house)
    wrong = await send(house.ada, path, b"another file")
    assert (wrong.status, wrong.code) == (409, "FINGERPRINT_MISMATCH")
    assert wrong.json["received"] == hashlib.sha256(b"another file").hexdigest()
    assert files(house) == before
    right = await send(house.ada, f"{path}?name=sales.csv")
    assert right.status == 200, right.raw
    assert right.json["artifacts"]["fingerprint"] == SHA
    assert right.json["artifacts"]["input"] == right.json["asset"]["url"]


async def test_an_input_without_a_fingerprint_is_recorded(house: House) -> None:
    """With none given the digest is recorded, and a plan covers it; the key stays as it was."""
    made = {"requirement": "two"}
    job = await house.ada.submit("ss", params=made)
    path = f"/jobs/{job['id']}"
    assert (await send(house.ada, f"{path}/upload")).json["artifacts"]["fingerprint"] == SHA
    again = await house.ada.post("/jobs", {"workflow": "ss", "params": made})
    assert (again.status, again.json["id"]) == (200, job["id"])
    assert (await house.ada.post(f"{path}/draft", {"draft": "sum it"})).status == 200
    frozen = await house.ada.post(f"{path}/freeze-plan", {})
    assert frozen.json["fingerprint"] == SHA, frozen.raw
    other = await send(house.ada, f"{path}/upload", b"other")
    assert (other.status, other.code) == (409, "JOB_LOCKED")
    assert (await house.ada.post(f"{path}/confirm", {"confirmed": True})).status == 200
    late = await send(house.ada, f"{path}/upload")
    assert (late.status, late.code) == (409, "JOB_LOCKED")
    assert late.json["current_status"] == "queued"


async def test_the_same_file_again_is_the_same_answer(house: House) -> None:
    """Whoever lost the answer repeats the upload: no second file, no second version."""
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}/upload"
    first = await send(house.ada, path, b"once", VIDEO)
    second = await send(house.ada, path, b"once", VIDEO)
    assert (first.json["replayed"], second.json["replayed"]) == (False, True)
    assert second.json["asset"] == first.json["asset"]
    assert second.json["version"] == first.json["version"]
    assert len(files(house, f"ada/{job['id']}")) == 1
    third = await send(house.ada, path, b"twice", VIDEO)
    assert third.json["asset"]["id"] != first.json["asset"]["id"]
    assert files(house, f"ada/{job['id']}") == [
        f"ada/{job['id']}/video",
        f"ada/{job['id']}/video-2",
    ]
    entries = (await house.ada.get(f"/jobs/{job['id']}/assets")).json["assets"]
    assert [entry["id"] for entry in entries] == [
        third.json["asset"]["id"],
        first.json["asset"]["id"],
    ]


async def test_no_file_beside_a_recorded_video(house: House) -> None:
    """A video is said once, at whichever door."""
    job = await house.ada.submit("howera")
    await house.ada.post(f"/jobs/{job['id']}/confirm-upload", {"video_uri": "s3://a/b.mp4"})
    said = await send(house.ada, f"/jobs/{job['id']}/upload", b"film", VIDEO)
    assert (said.status, said.code) == (409, "VIDEO_URI_CONFLICT")
    assert said.json["current_video_uri"] == "s3://a/b.mp4"


async def test_refused_before_a_byte_is_sent(house: House) -> None:
    """State, owner, role, name, type, size, version and digest: the sender is never invited."""
    ended = await house.ada.submit("howera")
    await house.ada.post(f"/jobs/{ended['id']}/cancel")
    job = await house.ada.submit("howera")
    foreign = await house.eve.submit("howera")
    path = f"/jobs/{job['id']}/upload"
    large = str(3 * 1024**3)
    cases: list[tuple[int, str, dict[str, str]]] = [
        (409, f"/jobs/{ended['id']}/upload", {}),
        (404, f"/jobs/{foreign['id']}/upload", {}),
        (404, "/jobs/nobody/upload", {}),
        (404, f"{path}?upload=audio", {}),
        (400, f"{path}?colour=red", {}),
        (413, path, {"Content_Length": large}),
        (415, path, {"Content_Type": "text/html"}),
        (415, path, {"Content_Type": "multipart/form-data; boundary=x"}),
        (415, path, {"Content_Encoding": "gzip"}),
        (400, path, {"If_Match": "seven"}),
        (400, path, {"Content_Digest": "sha-256=:short:"}),
        (400, path, {"Repr_Digest": "sha-256=nothing"}),
        (400, path, {"X_Content_SHA256": "beef"}),
        (413, "/assets", {"Content_Length": large}),
        (415, "/assets", {"Content_Encoding": "deflate"}),
    ]
    for status, where, more in cases:
        method = "POST" if where == "/assets" else "PUT"
        headers = {"Content_Length": "100", "Content_Type": "video/mp4"} | more
        async with line(house) as (reader, writer):
            writer.write(head(house, method, where, Expect="100-continue", **headers))
            first = (await reader.readline()).decode()
            assert f" {status} " in first, (where, more, first)
    shown = (await house.ada.get(f"/jobs/{job['id']}")).json
    assert (shown["status"], shown["version"]) == ("CREATED", job["version"])
    assert parts(house) == []


async def test_who_asks_first_is_invited(house: House) -> None:
    job = await house.ada.submit("howera")
    async with line(house) as (reader, writer):
        headers = {"Content_Length": "4", "Content_Type": "video/mp4", "Expect": "100-continue"}
        writer.write(head(house, "PUT", f"/jobs/{job['id']}/upload", **headers))
        assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert (await house.ada.get(f"/jobs/{job['id']}")).json["status"] == "CREATED"
        writer.write(b"film")
        await reader.readline()
        assert b" 200 " in await reader.readline()


async def test_a_stale_version_is_refused_at_the_first_byte(house: House) -> None:
    job = await house.ada.submit("howera")
    headers = {**VIDEO, "If-Match": '"7"'}
    said = await send(house.ada, f"/jobs/{job['id']}/upload", b"film", headers)
    assert (said.status, said.code) == (409, "JOB_VERSION_CONFLICT")
    assert (await house.ada.get(f"/jobs/{job['id']}")).json["status"] == "CREATED"
    assert files(house, f"ada/{job['id']}") == []


async def test_workflows_that_take_no_files(tmp_path: Path) -> None:
    from tests.http.test_codes import with_odd

    async with opened(tmp_path, registry=with_odd()) as house:
        job = await house.ada.submit("odd")
        said = await send(house.ada, f"/jobs/{job['id']}/upload")
        assert (said.status, said.code) == (404, "UNKNOWN_UPLOAD")


async def test_an_announced_digest_is_kept_to(house: House) -> None:
    for_ = {name: await house.ada.submit("howera") for name in ("right", "wrong")}
    seal = b64encode(hashlib.sha256(CSV).digest()).decode()
    for header in (
        {"Content-Digest": f"sha-256=:{seal}:"},
        {"Repr-Digest": f"sha-512=:YQ==:, sha-256=:{seal}:"},
        {"X-Content-SHA256": SHA.upper()},
    ):
        said = await send(
            house.ada, f"/jobs/{for_['right']['id']}/upload", CSV, {**VIDEO, **header}
        )
        assert said.status == 200, said.raw
        path = f"/jobs/{for_['wrong']['id']}/upload"
        said = await send(house.ada, path, CSV + b"!", {**VIDEO, **header})
        assert (said.status, said.code) == (400, "DIGEST_MISMATCH"), said.raw
    assert files(house, f"ada/{for_['wrong']['id']}") == []
    assert parts(house) == []


async def test_an_empty_file_is_none(house: House) -> None:
    job = await house.ada.submit("howera")
    for path, method in ((f"/jobs/{job['id']}/upload", "PUT"), ("/assets", "POST")):
        said = await send(house.ada, path, b"", VIDEO, method)
        assert (said.status, said.code) == (400, "VALIDATION_ERROR")

    async def nothing() -> AsyncIterator[bytes]:
        for _ in ():
            yield b""

    said = await send(house.ada, f"/jobs/{job['id']}/upload", nothing(), VIDEO)
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")
    assert parts(house) == []


async def test_chunks_beyond_the_limit_are_not_kept(tmp_path: Path) -> None:
    server = ServerSection(port=0, drain_seconds=1, max_upload=100_000)
    async with opened(tmp_path, registry=takers(), server=server) as house:
        job = await house.ada.submit("howera")
        async with line(house) as (reader, writer):
            told = {"Transfer_Encoding": "chunked", "Content_Type": "video/mp4"}
            writer.write(head(house, "PUT", f"/jobs/{job['id']}/upload", **told))
            writer.write(b"fa00\r\n" + b"x" * 0xFA00 + b"\r\n")
            writer.write(b"fa00\r\n" + b"x" * 0xFA00 + b"\r\n")
            assert b" 413 " in await reader.readline()
        assert parts(house) == files(house) == []
        just = await send(house.ada, f"/jobs/{job['id']}/upload", b"x" * 100_000, VIDEO)
        assert just.status == 200


@pytest.mark.parametrize("sent", [0, 1, 1000, 300_000, 999_999])
async def test_a_cut_leaves_nothing_and_can_be_repeated(house: House, sent: int) -> None:
    """P10: an asset is whole or absent, wherever the connection breaks."""
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}/upload"
    async with line(house) as (_, writer):
        told = {"Content_Length": "1000000", "Content_Type": "video/mp4"}
        writer.write(head(house, "PUT", path, **told) + b"x" * sent)
        await writer.drain()
        await until(lambda: len(parts(house)) == 1)
        writer.transport.abort()
    await until(lambda: parts(house) == [] and not arrivals_of(house).busy)
    assert files(house, f"ada/{job['id']}") == []
    assert (await house.ada.get(f"/jobs/{job['id']}/assets")).json["assets"] == []
    whole = await send(house.ada, path, b"x" * 1_000_000, VIDEO)
    assert whole.status == 200, whole.raw


async def test_one_upload_of_a_job_at_a_time(house: House) -> None:
    job, other = await house.ada.submit("howera"), await house.ada.submit("howera")
    path = f"/jobs/{job['id']}/upload"
    async with line(house) as (reader, writer):
        told = {"Content_Length": "8", "Content_Type": "video/mp4"}
        writer.write(head(house, "PUT", path, **told) + b"film")
        await until(lambda: len(parts(house)) == 1)
        second = await send(house.ada, path, b"another", VIDEO)
        assert (second.status, second.code) == (409, "UPLOAD_IN_PROGRESS")
        assert (await send(house.ada, f"/jobs/{other['id']}/upload", b"x", VIDEO)).status == 200
        writer.write(b"film")
        assert b" 200 " in await reader.readline()
    assert (await send(house.ada, path, b"another", VIDEO)).status == 200


async def test_a_job_that_moves_on_meanwhile_gets_no_file(house: House) -> None:
    """Only the commit decides: what was admitted may be refused at the end."""
    job = await house.ada.submit("howera")
    async with line(house) as (reader, writer):
        told = {"Content_Length": "8", "Content_Type": "video/mp4"}
        writer.write(head(house, "PUT", f"/jobs/{job['id']}/upload", **told) + b"film")
        await until(lambda: len(parts(house)) == 1)
        assert (await house.ada.post(f"/jobs/{job['id']}/cancel")).status == 200
        writer.write(b"film")
        assert b" 409 " in await reader.readline()
    assert parts(house) == files(house, f"ada/{job['id']}") == []


async def test_no_body_holds_a_connection_for_ever(tmp_path: Path) -> None:
    """Silence and dripping both end in 408, with nothing left behind."""
    async with opened(tmp_path, registry=takers()) as house:
        slow = msgspec.structs.replace(Settings(), upload_idle_s=0.05)
        job = await house.ada.submit("howera")
        stream = Stream(silent(), slow, SystemClock())
        with pytest.raises(Refused) as refused:
            async for _ in stream.blocks(10):
                pass
        assert refused.value.code == "BODY_TIMEOUT"
        clock = Leaping()
        stream = Stream(dripping(200), Settings(), clock)
        with pytest.raises(Refused) as refused:
            async for _ in stream.blocks(10_000):
                pass
        assert refused.value.code == "BODY_TIMEOUT"
        assert "slower" in refused.value.detail
        assert job["status"] == "CREATED"


def failing(real: Callable[..., object]) -> Callable[..., object]:
    """The same act, for which there is no room where files come in."""

    def full(*given: object, **more: object) -> object:
        if incoming(given[0]):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*given, **more)

    return full


async def test_a_full_disk_is_a_plain_no(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every step on the disk: 503 STORAGE_FULL, nothing stays, and the next upload works."""
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}/upload"
    for step in ("write", "fsync", "link"):
        full = failing(getattr(os, step))
        with monkeypatch.context() as patch:
            patch.setattr(f"jobrunner.files.incoming.os.{step}", full)
            said = await send(house.ada, path, b"film", VIDEO)
        assert (said.status, said.code) == (503, "STORAGE_FULL"), (step, said.raw)
        assert int(said.headers["Retry-After"]) > 0
        assert parts(house) == files(house, f"ada/{job['id']}") == [], step
    assert (await send(house.ada, path, b"film", VIDEO)).status == 200


async def test_so_much_of_the_disk_stays_free(house: House) -> None:
    arrivals = arrivals_of(house)
    job = await house.ada.submit("howera")
    arrivals._min_free = 2**60
    try:
        async with line(house) as (reader, writer):
            told = {"Content_Length": "8", "Content_Type": "video/mp4", "Expect": "100-continue"}
            writer.write(head(house, "PUT", f"/jobs/{job['id']}/upload", **told))
            assert b" 503 " in await reader.readline()
    finally:
        arrivals._min_free = 0
    assert (await house.ada.get(f"/jobs/{job['id']}")).json["status"] == "CREATED"


async def test_fifty_at_once_in_bounded_memory(tmp_path: Path) -> None:
    """50 files of 8 MiB come in together: 400 MiB of bodies pass through a service that holds a
    small part of them at any time."""
    size = 8 * 1024 * 1024
    async with opened(tmp_path, registry=takers()) as house:
        jobs = [await house.ada.submit("howera") for _ in range(50)]

        async def body() -> AsyncIterator[bytes]:
            for _ in range(size // 65536):
                yield bytes(65536)

        async def one(job: dict[str, str]) -> None:
            said = await send(house.ada, f"/jobs/{job['id']}/upload", body(), VIDEO)
            assert said.status == 200, said.raw

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        async with anyio.create_task_group() as group:
            for job in jobs:
                group.start_soon(one, job)
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert len(files(house)) == 50
        assert grown_kib < 160 * 1024, grown_kib
