"""The tus protocol 1.0.0: files in pieces, over connections and restarts."""

import errno
import hashlib
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from jobrunner.core.job import Actor
from jobrunner.errors import Refused
from jobrunner.files.incoming import OPEN_PER_USER, AnnouncedFile
from jobrunner.http.routes.files import resumable
from tests.http.serving import Caller, House, Said, opened
from tests.http.uploading import arrivals_of, files, head, line, parts, root, send, takers, until

pytestmark = pytest.mark.anyio

TUS = {"Tus-Resumable": "1.0.0"}
PIECE = {**TUS, "Content-Type": "application/offset+octet-stream"}
FILM = b"0123456789" * 10_000


@pytest.fixture(scope="module")
async def house(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[House]:
    async with opened(tmp_path_factory.mktemp("resumable"), registry=takers()) as house:
        yield house


def metadata(**told: str) -> dict[str, str]:
    pairs = [f"{name} {b64encode(value.encode()).decode()}" for name, value in told.items()]
    return {"Upload-Metadata": ",".join(pairs)}


async def create(
    caller: Caller, where: str = "/uploads", length: int = len(FILM), **more: Any
) -> Said:
    headers = {**TUS, "Upload-Length": str(length), **more.pop("headers", {})}
    headers |= metadata(filename="film.mp4", filetype="video/mp4")
    return await caller.ask("POST", where, headers=headers, **more)


async def piece(caller: Caller, where: str, offset: int, data: Any, **headers: str) -> Said:
    dashed = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {**PIECE, "Upload-Offset": str(offset), **dashed}
    return await caller.ask("PATCH", where, data=data, headers=sent)


async def offset_of(caller: Caller, where: str) -> int:
    said = await caller.ask("HEAD", where, headers=TUS)
    assert said.status == 200, said.status
    assert said.headers["Cache-Control"] == "no-store"
    assert int(said.headers["Upload-Length"]) > 0
    return int(said.headers["Upload-Offset"])


async def test_what_it_can_do(house: House) -> None:
    said = await house.nobody.ask("OPTIONS", "/uploads")
    assert said.status == 204
    assert said.headers["Tus-Version"] == said.headers["Tus-Resumable"] == "1.0.0"
    told = said.headers["Tus-Extension"].split(",")
    assert told == ["creation", "creation-with-upload", "termination", "checksum", "expiration"]
    assert int(said.headers["Tus-Max-Size"]) == 2 * 1024**3
    assert said.headers["Tus-Checksum-Algorithm"] == "sha256,sha1"


async def test_a_film_in_three_pieces(house: House) -> None:
    """H4: its first byte moves the job, its last one makes the asset."""
    job = await house.ada.submit("howera")
    said = await create(house.ada, f"/jobs/{job['id']}/uploads")
    assert said.status == 201, said.raw
    assert said.headers["Upload-Offset"] == "0"
    assert said.headers["Upload-Expires"].endswith(" GMT")
    where = said.headers["Location"]
    assert (await house.ada.get(f"/jobs/{job['id']}")).json["status"] == "CREATED"
    for start, end in ((0, 1), (1, 70_000), (70_000, len(FILM))):
        assert await offset_of(house.ada, where) == start
        said = await piece(house.ada, where, start, FILM[start:end])
        assert (said.status, said.headers["Upload-Offset"]) == (204, str(end)), said.raw
        assert said.headers["Tus-Resumable"] == "1.0.0"
        assert (await house.ada.get(f"/jobs/{job['id']}")).json["status"] == "UPLOADING"
    asset_id = said.headers["Content-Location"].rpartition("/")[2]
    got = await house.ada.get(f"/assets/{asset_id}/content")
    assert got.raw == FILM
    assert await offset_of(house.ada, where) == len(FILM)
    assert (await house.ada.get(where)).json["asset_id"] == asset_id
    confirmed = await house.ada.post(f"/jobs/{job['id']}/confirm-upload", {})
    assert confirmed.json["artifacts"]["video_uri"] == f"/assets/{asset_id}/content"
    again = await piece(house.ada, where, len(FILM), b"more")
    assert again.status == 413


async def test_created_with_its_first_piece(house: House) -> None:
    said = await create(house.ada, data=FILM[:10], headers=PIECE)
    assert (said.status, said.headers["Upload-Offset"]) == (201, "10"), said.raw
    whole = await create(house.ada, data=FILM, headers=PIECE)
    assert whole.headers["Upload-Offset"] == str(len(FILM))
    entry = (await house.ada.get(whole.headers["Content-Location"])).json
    assert (entry["job_id"], entry["file_size"]) == (None, len(FILM))
    assert entry["sha256"] == hashlib.sha256(FILM).hexdigest()


REFUSED_CREATIONS: list[tuple[int, dict[str, str]]] = [
    (412, {"Tus-Resumable": "0.2.2"}),
    (412, {"Tus-Resumable": ""}),
    (400, {"Upload-Length": "-1"}),
    (400, {"Upload-Length": "0"}),
    (400, {"Upload-Length": "1e3"}),
    (400, {"Upload-Length": "10 11"}),
    (400, {"Upload-Length": "٣"}),
    (400, {"Upload-Length": "99999999999999999999"}),
    (413, {"Upload-Length": str(2 * 1024**3 + 1)}),
    (400, {"Upload-Length": "5", "Upload-Defer-Length": "1"}),
    (400, {"Upload-Concat": "partial"}),
    (400, {"Upload-Concat": "final;/uploads/a /uploads/b"}),
    (400, {"Upload-Metadata": "filename !!!"}),
    (400, {"Upload-Metadata": "filename YQ==,filename YQ=="}),
    (400, {"Upload-Metadata": "filename /w=="}),
    (400, {"Upload-Metadata": "a " + "YQ" * 4000}),
]


@pytest.mark.parametrize(("status", "headers"), REFUSED_CREATIONS, ids=str)
async def test_refused_creations(house: House, status: int, headers: dict[str, str]) -> None:
    before = parts(house)
    said = await house.ada.ask(
        "POST", "/uploads", headers={**TUS, "Upload-Length": "10", **headers}
    )
    assert said.status == status, said.raw
    assert said.headers["Tus-Resumable"] == "1.0.0"
    if status == 412:
        assert said.headers["Tus-Version"] == "1.0.0"
    assert parts(house) == before


async def test_refused_pieces(house: House) -> None:
    where = (await create(house.ada)).headers["Location"]
    assert (await piece(house.ada, where, 0, FILM[:10])).status == 204
    for status, offset, headers in (
        (409, 0, {}),
        (409, 11, {}),
        (409, 10**15, {}),
        (400, "-1", {}),
        (400, "ten", {}),
        (400, "10, 10", {}),
        (415, 10, {"Content_Type": "application/octet-stream"}),
        (412, 10, {"Tus_Resumable": "9.0.0"}),
        (400, 10, {"Upload_Checksum": "md5 YQ=="}),
        (400, 10, {"Upload_Checksum": "sha256 !"}),
        (460, 10, {"Upload_Checksum": f"sha256 {b64encode(bytes(32)).decode()}"}),
        (460, 10, {"Upload_Checksum": "sha1 YQ=="}),
    ):
        said = await piece(house.ada, where, offset, b"more", **headers)  # type: ignore[arg-type]
        assert said.status == status, (offset, headers, said.raw)
        assert await offset_of(house.ada, where) == 10
    said = await piece(house.ada, where, 10, FILM)
    assert (said.status, said.code) == (413, "BODY_TOO_LARGE")
    assert await offset_of(house.ada, where) == 10
    assert (await piece(house.ada, where, 9, b"x")).json["offset"] == 10


async def test_a_piece_with_its_checksum(house: House) -> None:
    where = (await create(house.ada)).headers["Location"]
    for start, end, method in ((0, 50_000, "sha256"), (50_000, len(FILM), "sha1")):
        seal = b64encode(hashlib.new(method, FILM[start:end]).digest()).decode()
        said = await piece(
            house.ada, where, start, FILM[start:end], Upload_Checksum=f"{method} {seal}"
        )
        assert said.status == 204, said.raw
    got = await house.ada.get(f"{said.headers['Content-Location']}/content")
    assert got.raw == FILM


async def test_strangers_see_no_upload(house: House) -> None:
    where = (await create(house.ada)).headers["Location"]
    for method, headers in (("GET", TUS), ("HEAD", TUS), ("DELETE", TUS), ("PATCH", PIECE)):
        more = {"Upload-Offset": "0"} if method == "PATCH" else {}
        data = b"x" if method == "PATCH" else None
        said = await house.eve.ask(method, where, headers={**headers, **more}, data=data)
        assert said.status == 404, method
    job = await house.eve.submit("howera")
    assert (await create(house.ada, f"/jobs/{job['id']}/uploads")).status == 404
    assert await offset_of(house.ada, where) == 0


async def test_an_upload_that_is_given_up(house: House) -> None:
    where = (await create(house.ada)).headers["Location"]
    assert (await piece(house.ada, where, 0, b"x")).status == 204
    assert (await house.ada.ask("DELETE", where, headers=TUS)).status == 204
    assert (await house.ada.ask("HEAD", where, headers=TUS)).status == 404
    assert (await piece(house.ada, where, 1, b"x")).status == 404
    assert not any(name.startswith(where.rpartition("/")[2]) for name in parts(house))


async def test_what_expires_is_swept(house: House) -> None:
    where = (await create(house.ada)).headers["Location"]
    arrivals = arrivals_of(house)
    order = arrivals.orders[where.rpartition("/")[2]]
    await arrivals.promise(replace(order, expires_at=1))
    assert (await house.ada.ask("HEAD", where, headers=TUS)).status == 404
    assert await arrivals.sweep() == 1
    assert not any(name.startswith(order.id) for name in parts(house))
    assert await arrivals.sweep() == 0


async def test_so_many_open_uploads_of_one_user(house: House) -> None:
    opened_now = [(await create(house.eve)).headers["Location"] for _ in range(OPEN_PER_USER)]
    said = await create(house.eve)
    assert (said.status, said.code) == (429, "QUOTA_EXCEEDED")
    assert (await create(house.ada)).status == 201
    for where in opened_now:
        await house.eve.ask("DELETE", where, headers=TUS)
    assert (await create(house.eve)).status == 201


async def test_a_cut_piece_counts_as_far_as_it_came(house: House) -> None:
    where = (await create(house.ada)).headers["Location"]
    for checked in (False, True):
        start = await offset_of(house.ada, where)
        more = {"Upload_Checksum": "sha1 YQ=="} if checked else {}
        async with line(house) as (reader, writer):
            told = {"Tus_Resumable": "1.0.0", "Content_Type": PIECE["Content-Type"], **more}
            told |= {"Upload_Offset": str(start), "Content_Length": str(len(FILM) - start)}
            writer.write(head(house, "PATCH", where, Expect="100-continue", **told))
            assert b" 100 " in await reader.readuntil(b"\r\n\r\n"), "it waits for the piece"
            busy = await piece(house.ada, where, start, b"x")
            assert (busy.status, busy.code) == (409, "UPLOAD_IN_PROGRESS")
            writer.write(FILM[start : start + 5000])
            writer.write_eof()
        await until(lambda: not arrivals_of(house).busy)
        assert await offset_of(house.ada, where) == 5000, checked
    assert (await piece(house.ada, where, 5000, FILM[5000:])).status == 204


async def test_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    """What had come is still there; what no order speaks of is gone."""
    async with opened(tmp_path, registry=takers()) as house:
        job = await house.ada.submit("howera")
        where = (await create(house.ada, f"/jobs/{job['id']}/uploads")).headers["Location"]
        done = (await create(house.ada, data=FILM, headers=PIECE)).headers["Location"]
        assert (await piece(house.ada, where, 0, FILM[:777])).status == 204
        token = house.ada.token
        folder = root(house) / ".incoming"
        uid = where.rpartition("/")[2]
        for name in ("stranger.part", f"{uid}.chunk.part", "torn.json", f"{uid}.json.9.new"):
            (folder / name).write_bytes(b"{")
    async with opened(tmp_path, registry=takers()) as house:
        ada = house.caller(token)
        assert [name for name in parts(house) if name.startswith(("stranger", "torn"))] == []
        assert await offset_of(ada, where) == 777
        assert await offset_of(ada, done) == len(FILM)
        said = await piece(ada, where, 777, FILM[777:])
        assert said.status == 204, said.raw
        got = await ada.get(f"{said.headers['Content-Location']}/content")
        assert got.raw == FILM


async def test_an_announcement_that_is_refused_leaves_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it counted as an open upload of this user, whom nobody had told its address."""
    arrivals, before = arrivals_of(house), parts(house)
    known = dict(arrivals.orders)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no room")

    for place, instead in (("OPEN_MAX", 0), ("flush_folder", full)):
        with monkeypatch.context() as patch:
            patch.setattr(f"jobrunner.files.incoming.{place}", instead)
            said = await create(house.ada)
            assert said.status == 503, said.raw
        assert arrivals.orders == known, place
    assert [name for name in parts(house) if name.endswith(".part")] == [
        name for name in before if name.endswith(".part")
    ]


async def test_an_order_without_a_part_is_none(tmp_path: Path) -> None:
    """As a life of the service left it that died between the two."""
    async with opened(tmp_path, registry=takers()) as house:
        where = (await create(house.ada)).headers["Location"]
        (root(house) / f".incoming/{where.rpartition('/')[2]}.part").unlink()
        token = house.ada.token
    async with opened(tmp_path, registry=takers()) as house:
        ada = house.caller(token)
        assert (await ada.ask("HEAD", where, headers=TUS)).status == 404
        assert parts(house) == []


async def test_who_announces_the_same_twice_at_once_is_told(house: House) -> None:
    """A worker that heard nothing and announces its file again, while the first call goes on."""
    order = AnnouncedFile("a" * 36, "ada", 10, "f", "text/csv", 0, 2**60)
    actor = Actor("ada", "user")
    call: Any = SimpleNamespace(door=SimpleNamespace(arrivals=arrivals_of(house)), actor=actor)
    await resumable._announce(call, order)
    with pytest.raises(Refused, match="announced before"):
        await resumable._announce(call, replace(order, user_id="eve"))
    assert arrivals_of(house).orders[order.id].user_id == "ada"
    await arrivals_of(house).forget(order)


async def test_a_last_byte_whose_effect_was_lost(tmp_path: Path) -> None:
    """All bytes were there and the process died before the commit, or right after it: asked for
    with HEAD, the upload becomes one asset, once."""
    async with opened(tmp_path, registry=takers()) as house:
        job = await house.ada.submit("howera")
        where = (await create(house.ada, f"/jobs/{job['id']}/uploads")).headers["Location"]
        alone = (await create(house.ada)).headers["Location"]
        uid, token = where.rpartition("/")[2], house.ada.token
        lone = alone.rpartition("/")[2]
        for name in (uid, lone):
            (root(house) / f".incoming/{name}.part").write_bytes(FILM)
    async with opened(tmp_path, registry=takers()) as house:
        ada = house.caller(token)
        assert await offset_of(ada, where) == len(FILM)
        assert (await ada.get(f"/assets/{uid}/content")).raw == FILM
        assert await offset_of(ada, alone) == len(FILM)
        arrivals = arrivals_of(house)
        for name in (uid, lone):
            await arrivals.promise(replace(arrivals.orders[name], asset_id=""))
            (root(house) / f".incoming/{name}.part").write_bytes(FILM)
    async with opened(tmp_path, registry=takers()) as house:
        ada = house.caller(token)
        assert await offset_of(ada, where) == len(FILM)
        assert len((await ada.get(f"/jobs/{job['id']}/assets")).json["assets"]) == 1
        assert await offset_of(ada, alone) == len(FILM)
        assert (await ada.get(f"/assets/{lone}/content")).raw == FILM
        assert len(files(house)) == 2


async def test_what_the_job_refuses_at_the_end(house: House) -> None:
    """The upload is gone with its bytes; another one in the way only delays it."""
    job = await house.ada.submit("howera")
    where = (await create(house.ada, f"/jobs/{job['id']}/uploads")).headers["Location"]
    assert (await piece(house.ada, where, 0, FILM[:10])).status == 204
    with arrivals_of(house).alone(job["id"]):
        said = await piece(house.ada, where, 10, FILM[10:])
        assert (said.status, said.code) == (409, "UPLOAD_IN_PROGRESS")
    assert await offset_of(house.ada, where) == len(FILM)
    assert len((await house.ada.get(f"/jobs/{job['id']}/assets")).json["assets"]) == 1
    other = await house.ada.submit("ss", params={"inputs": {"fingerprint": "beef"}})
    where = (await create(house.ada, f"/jobs/{other['id']}/uploads")).headers["Location"]
    said = await piece(house.ada, where, 0, FILM)
    assert (said.status, said.code) == (409, "FINGERPRINT_MISMATCH")
    assert (await house.ada.ask("HEAD", where, headers=TUS)).status == 404
    assert files(house, f"ada/{other['id']}") == []


async def test_a_put_after_a_tus_of_the_same_file(house: House) -> None:
    """It is the same file, whichever way it came."""
    job = await house.ada.submit("howera")
    first = await send(house.ada, f"/jobs/{job['id']}/upload", FILM, {"Content-Type": "video/mp4"})
    where = (await create(house.ada, f"/jobs/{job['id']}/uploads")).headers["Location"]
    said = await piece(house.ada, where, 0, FILM)
    assert said.headers["Content-Location"] == f"/assets/{first.json['asset']['id']}"
    assert len(files(house, f"ada/{job['id']}")) == 1
    assert await offset_of(house.ada, where) == len(FILM)
