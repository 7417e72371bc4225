"""Files that came before their job, files going out, files that go with their job."""

import hashlib
import os
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path

import pytest

from jobrunner.core.units import Forget
from tests.http.serving import Caller, House, opened
from tests.http.uploading import CSV, VIDEO, files, head, line, root, send, takers

pytestmark = pytest.mark.anyio

BYTES = bytes(range(256)) * 40
SIZE = len(BYTES)
TAG = f'"{hashlib.sha256(BYTES).hexdigest()}"'


@pytest.fixture(scope="module")
async def house(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[House]:
    async with opened(tmp_path_factory.mktemp("files"), registry=takers()) as house:
        yield house


async def shelved(house: House, data: bytes | BytesIO = BYTES, name: str = "table.csv") -> str:
    """The id of a new file of ada's."""
    said = await send(house.ada, f"/assets?name={name}", data, method="POST")
    assert said.status == 201, said.raw
    assert said.headers["Location"] == f"/assets/{said.json['id']}"
    return str(said.json["id"])


async def test_a_file_before_its_job(house: House) -> None:
    asset_id = await shelved(house)
    entry = (await house.ada.get(f"/assets/{asset_id}")).json
    assert (entry["job_id"], entry["file_size"]) == (None, SIZE)
    assert entry["storage_path"] == f"ada/{asset_id}/table.csv"
    assert f'"{entry["sha256"]}"' == TAG
    library = (await house.ada.get("/assets")).json["assets"]
    assert library[0] == entry
    place = root(house) / entry["storage_path"]
    assert place.read_bytes() == BYTES
    assert place.stat().st_mode & 0o777 == 0o600
    assert (await house.admin.post("/admin/db/check")).json == {"ok": True, "faults": []}


async def test_an_admin_sees_the_files_of_all_or_of_one(house: House) -> None:
    asset_id = await shelved(house)

    async def newest(caller: Caller, query: str = "") -> str | None:
        found = (await caller.get(f"/assets?limit=1{query}")).json["assets"]
        return str(found[0]["id"]) if found else None

    assert await newest(house.admin) == asset_id
    assert await newest(house.admin, "&user_id=ada") == asset_id
    assert await newest(house.admin, "&user_id=eve") is None
    assert await newest(house.eve) is None
    assert (await house.eve.get("/assets?user_id=ada")).status == 403


WHOLE = (0, SIZE)
RANGES: list[tuple[dict[str, str], int, tuple[int, int]]] = [
    ({}, 200, WHOLE),
    ({"Range": "bytes=0-0"}, 206, (0, 1)),
    ({"Range": "bytes=0-99"}, 206, (0, 100)),
    ({"Range": "bytes=100-199"}, 206, (100, 200)),
    ({"Range": "bytes=100-"}, 206, (100, SIZE)),
    ({"Range": "bytes=-1"}, 206, (SIZE - 1, SIZE)),
    ({"Range": "bytes=-100"}, 206, (SIZE - 100, SIZE)),
    ({"Range": f"bytes=-{SIZE + 5}"}, 200, WHOLE),
    ({"Range": f"bytes=5-{SIZE * 9}"}, 206, (5, SIZE)),
    ({"Range": f"bytes=0-{SIZE - 1}"}, 200, WHOLE),
    ({"Range": f"bytes={SIZE - 1}-"}, 206, (SIZE - 1, SIZE)),
    ({"Range": f"bytes={SIZE}-"}, 416, (0, 0)),
    ({"Range": f"bytes={SIZE + 9}-{SIZE + 10}"}, 416, (0, 0)),
    ({"Range": "bytes=-0"}, 416, (0, 0)),
    ({"Range": "bytes=999999999999999999-"}, 416, (0, 0)),
    ({"Range": "bytes=9999999999999999999-"}, 200, WHOLE),
    ({"Range": "bytes=9-3"}, 200, WHOLE),
    ({"Range": "bytes=-"}, 200, WHOLE),
    ({"Range": "bytes="}, 200, WHOLE),
    ({"Range": "bytes=a-b"}, 200, WHOLE),
    ({"Range": "bytes=-5-9"}, 200, WHOLE),
    ({"Range": "bytes=0-1,5-6"}, 200, WHOLE),
    ({"Range": "lines=0-1"}, 200, WHOLE),
    ({"Range": "0-1"}, 200, WHOLE),
    ({"Range": "bytes=0x1-0x2"}, 200, WHOLE),
    ({"Range": "bytes=٣-٤"}, 200, WHOLE),
    ({"Range": "bytes=0-9", "If-Range": TAG}, 206, (0, 10)),
    ({"Range": "bytes=0-9", "If-Range": '"other"'}, 200, WHOLE),
    ({"Range": "bytes=0-9", "If-Range": f"W/{TAG}"}, 200, WHOLE),
    ({"Range": "bytes=0-9", "If-Range": "Wed, 21 Oct 2099 07:28:00 GMT"}, 200, WHOLE),
    ({"Range": f"bytes={SIZE}-", "If-Range": '"other"'}, 200, WHOLE),
    ({"If-None-Match": TAG}, 304, (0, 0)),
    ({"If-None-Match": f"W/{TAG}"}, 304, (0, 0)),
    ({"If-None-Match": f'"a", {TAG}'}, 304, (0, 0)),
    ({"If-None-Match": "*"}, 304, (0, 0)),
    ({"If-None-Match": '"a"'}, 200, WHOLE),
]


@pytest.fixture(scope="module")
async def stored(house: House) -> str:
    return await shelved(house)


@pytest.mark.parametrize(("asked", "status", "span"), RANGES, ids=lambda value: str(value)[:60])
async def test_ranges(
    house: House, stored: str, asked: dict[str, str], status: int, span: tuple[int, int]
) -> None:
    for method in ("GET", "HEAD"):
        said = await house.ada.ask(method, f"/assets/{stored}/content", headers=asked)
        assert said.status == status, said.raw[:200]
        wanted = BYTES[slice(*span)]
        if status == 416:
            assert said.headers["Content-Range"] == f"bytes */{SIZE}"
            continue
        assert said.headers["ETag"] == TAG
        assert said.raw == (wanted if method == "GET" else b"")
        if status != 304:
            assert int(said.headers["Content-Length"]) == len(wanted)
            assert said.headers["Accept-Ranges"] == "bytes"
        if status == 206:
            first, behind = span
            assert said.headers["Content-Range"] == f"bytes {first}-{behind - 1}/{SIZE}"


async def test_a_file_is_handed_over_and_never_shown(house: House) -> None:
    for name, media_type in (
        ("page.html", "application/octet-stream"),
        ("drawing.svg", "application/octet-stream"),
        ("script.js", "application/octet-stream"),
        ("table.csv", "text/csv"),
        ("film.MP4", "video/mp4"),
    ):
        asset_id = await shelved(house, b"<script>", name)
        said = await house.ada.get(f"/assets/{asset_id}/content")
        assert said.headers["Content-Type"] == media_type
        assert said.headers["Content-Disposition"] == f'attachment; filename="{name}"'
        assert said.headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in said.headers["Content-Security-Policy"]


async def test_a_strangers_file_is_no_file(house: House, stored: str) -> None:
    """Byte for byte as one that does not exist, with every verb."""
    for method, tail in (("GET", ""), ("GET", "/content"), ("HEAD", "/content"), ("DELETE", "")):
        said = await house.eve.ask(method, f"/assets/{stored}{tail}")
        none = await house.eve.ask(method, f"/assets/{stored[:-1]}x{tail}")
        assert said.status == none.status == 404
        if method != "HEAD":
            told, nothing = said.json, none.json
            assert told.pop("detail").replace(stored, "") == nothing.pop("detail").replace(
                f"{stored[:-1]}x", ""
            )
            told.pop("correlation_id"), nothing.pop("correlation_id")
            assert told == nothing
    assert (await house.nobody.get(f"/assets/{stored}/content")).status == 401
    assert (await house.ada.get(f"/assets/{stored}/content")).status == 200
    assert stored not in (await house.eve.get("/assets")).raw.decode()


async def test_a_row_without_its_file_says_so(house: House) -> None:
    for harm in ("missing", "shorter", "link", "folder"):
        asset_id = await shelved(house)
        place = root(house) / f"ada/{asset_id}/table.csv"
        place.unlink()
        if harm == "shorter":
            place.write_bytes(b"x")
        elif harm == "link":
            place.symlink_to("/etc/hostname")
        elif harm == "folder":
            place.mkdir()
        for method in ("GET", "HEAD"):
            said = await house.ada.ask(method, f"/assets/{asset_id}/content")
            assert said.status == 410, harm
        assert (await house.ada.get(f"/assets/{asset_id}/content")).code == "ASSET_GONE"


async def test_a_report_cannot_point_at_anothers_file(house: House, stored: str) -> None:
    """What a worker says of a file is a claim: only what lies with the job is handed over."""
    job = await house.eve.submit("howera")
    for path in (f"ada/{stored}/table.csv", "../jobs.db", "/etc/hostname", ""):
        asset = {"asset_type": "video", "url": "https://x.example/v", "storage_path": path}
        body = {"to": "UPLOADING" if not path else "UPLOADED", "assets": [asset]}
        await house.worker.post(f"/jobs/{job['id']}/transitions", body)
    entries = (await house.eve.get(f"/jobs/{job['id']}/assets")).json["assets"]
    for entry in entries:
        said = await house.eve.get(f"/assets/{entry['id']}/content")
        assert (said.status, said.code) == (410, "ASSET_GONE")


async def test_a_file_of_no_job_can_be_deleted(house: House) -> None:
    asset_id = await shelved(house)
    assert (await house.ada.delete(f"/assets/{asset_id}")).status == 204
    assert (await house.ada.get(f"/assets/{asset_id}/content")).status == 404
    assert (await house.ada.delete(f"/assets/{asset_id}")).status == 404
    assert not (root(house) / f"ada/{asset_id}").exists()
    job = await house.ada.submit("howera")
    sent = await send(house.ada, f"/jobs/{job['id']}/upload", CSV, VIDEO)
    said = await house.ada.delete(f"/assets/{sent.json['asset']['id']}")
    assert (said.status, said.code) == (409, "ASSET_ATTACHED")


async def test_a_slow_reader_costs_nobody_else_anything(house: House) -> None:
    """It stops reading and hangs up in the middle; the service goes on."""
    big = bytes(20 * 1024 * 1024)
    asset_id = await shelved(house, BytesIO(big), "big.bin")
    async with line(house) as (reader, writer):
        writer.write(head(house, "GET", f"/assets/{asset_id}/content"))
        assert b" 200 " in await reader.readline()
        assert (await house.ada.get(f"/assets/{asset_id}/content")).raw == big
        writer.transport.abort()
    assert (await house.ada.get("/healthz")).status == 200


async def test_pages_of_a_jobs_files(house: House) -> None:
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}"
    made = []
    for number in range(5):
        said = await send(house.ada, f"{path}/upload", b"%d" % number, VIDEO)
        made.append(said.json["asset"]["id"])
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        more = f"&cursor={cursor}" if cursor else ""
        page = (await house.ada.get(f"{path}/assets?limit=2{more}")).json
        assert len(page["assets"]) <= 2
        seen += [entry["id"] for entry in page["assets"]]
        cursor = page["next_cursor"]
    assert seen == made[::-1]
    for bad in ("limit=0", "limit=101", "cursor=x"):
        assert (await house.ada.get(f"{path}/assets?{bad}")).status == 400


async def test_files_go_with_their_job(house: House) -> None:
    """What is deleted is gone from the disk too; its tombstone remembers what it accepted."""
    job, kept = await house.ada.submit("howera"), await shelved(house)
    path = f"/jobs/{job['id']}"
    await send(house.ada, f"{path}/upload", CSV, VIDEO)
    event = {"event_id": "e-1", "status": "CANCELLED", "occurred_at": "2026-01-01T00:00:00Z"}
    assert (await house.worker.post(f"/internal{path}/status", event)).status == 204
    assert files(house, f"ada/{job['id']}") != []
    assert (await house.ada.delete(path)).status == 204
    assert not (root(house) / f"ada/{job['id']}").exists()
    reader = house.service.store.reader
    assert await reader.clearings(10) == ()
    seen = await reader.event(job["id"], "e-1")
    assert seen is not None
    assert seen[0] == "e-1"
    assert (await house.ada.get(f"/assets/{kept}/content")).status == 200
    assert (await house.worker.post(f"/internal{path}/status", event)).status == 404


async def test_a_crash_between_row_and_files(tmp_path: Path) -> None:
    """The rows went, the process died, the files were still there: the next start removes them."""
    async with opened(tmp_path, registry=takers()) as house:
        job = await house.ada.submit("howera")
        await send(house.ada, f"/jobs/{job['id']}/upload", CSV, VIDEO)
        await house.ada.post(f"/jobs/{job['id']}/cancel")
        snapshot = await house.service.store.reader.job(job["id"])
        assert snapshot is not None
        folder = f"ada/{job['id']}"
        await house.service.store.commit(Forget(snapshot, 1, "ada", (folder,)))
        assert files(house, folder) != []
    async with opened(tmp_path, registry=takers()) as house:
        for _ in range(500):
            if not await house.service.store.reader.clearings(1):
                break
            await house.admin.get("/healthz")
        assert not (root(house) / folder).exists()
        assert (await house.admin.post("/admin/db/check")).json["faults"] == []


async def test_old_files_before_their_job_are_not_swept(tmp_path: Path) -> None:
    """A day-old file with a row of its own stays, one without goes."""
    async with opened(tmp_path, registry=takers()) as house:
        asset_id = await shelved(house)
        token = house.ada.token
        place = root(house) / f"ada/{asset_id}/table.csv"
        stray = place.with_name("stray")
        stray.write_bytes(b"x")
        for path in (place, stray):
            os.utime(path, (1, 1))
    async with opened(tmp_path, registry=takers()) as house:
        while stray.exists():
            await house.admin.get("/healthz")
        assert (await house.caller(token).get(f"/assets/{asset_id}/content")).raw == BYTES
