"""Files on their way to a store of objects and back from there, while people use them."""

import hashlib
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from jobrunner.files.objects.bucket import TRIES
from jobrunner.http.routes.files.objects import BLOCK
from tests.http.serving import House, Said, opened
from tests.http.test_files import BYTES, RANGES, SIZE, shelved
from tests.http.uploading import files
from tests.objects.buckets import (
    KEYS,
    Step,
    When,
    Wire,
    bucket_server,
    keys_in,
    put_there,
    section,
    until,
    wired,
)
from tests.objects.reader import readers
from tests.work.living import working

pytestmark = pytest.mark.anyio
LARGE = bytes(range(251)) * 30_000


class Stored:
    """A service whose files go to the store."""

    def __init__(self, house: House, wire: Wire) -> None:
        self.house = house
        self.wire = wire

    @property
    def moves(self) -> Any:
        return self.house.service.facade.file_moves

    async def settled(self) -> None:
        """All files are in the store and nowhere else."""

        async def is_so() -> bool:
            self.moves.nudge()
            return not [path for path in files(self.house) if ".scratch" not in path]

        await until(is_so)

    async def sent(self, data: bytes = BYTES, name: str = "table.csv") -> str:
        asset_id = await shelved(self.house, BytesIO(data), name)
        await self.settled()
        return asset_id

    async def content(self, asset_id: str, query: str = "", **headers: str) -> Said:
        return await self.house.ada.get(f"/assets/{asset_id}/content{query}", **headers)

    async def answers(self) -> None:
        """The store was found to answer again."""

        async def is_so() -> bool:
            self.moves.nudge()
            return not self.moves.away_s and not self.moves.warnings()

        await until(is_so)


@pytest.fixture(scope="module")
async def stored(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[Stored]:
    folder = tmp_path_factory.mktemp("objects")
    with pytest.MonkeyPatch.context() as patch, bucket_server() as behind:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        async with wired(behind) as wire:
            where = section(wire, place="s3", presign=60.0)
            async with opened(folder, registry=readers(), objects=where) as house:
                yield Stored(house, wire)


def key_of(asset_id: str, data: bytes, name: str) -> str:
    return f"jobs/ada/{asset_id}/{hashlib.sha256(data).hexdigest()}/{name}"


async def test_a_file_goes_there_and_comes_from_there(stored: Stored) -> None:
    asset_id = await stored.sent(LARGE, "film.mp4")
    entry = (await stored.house.ada.get(f"/assets/{asset_id}")).json
    assert (await keys_in(stored.wire))[key_of(asset_id, LARGE, "film.mp4")] == len(LARGE)
    assert {"begin", "part", "whole"} <= set(stored.wire.steps)
    assert entry["storage_path"] == f"ada/{asset_id}/film.mp4"
    stored.wire.steps.clear()
    said = await stored.content(asset_id)
    assert (said.status, said.raw) == (200, LARGE)
    assert stored.wire.steps.count("read") >= len(LARGE) // BLOCK, (
        "little is held for whoever reads"
    )
    assert (await stored.content(asset_id, Range="bytes=7000000-7000009")).raw == LARGE[
        7 * 10**6 :
    ][:10]
    assert (await stored.house.admin.post("/admin/db/check")).json == {"ok": True, "faults": []}


async def test_ranges_are_those_of_the_disk(stored: Stored) -> None:
    asset_id = await stored.sent()
    for asked, status, span in RANGES:
        for method in ("GET", "HEAD"):
            path = f"/assets/{asset_id}/content"
            said = await stored.house.ada.ask(method, path, headers=asked)
            assert said.status == status, (asked, said.raw[:200])
            if status in (200, 206):
                first, last = span
                assert said.headers["Content-Length"] == str(last - first)
                assert said.raw == (BYTES[first:last] if method == "GET" else b"")
            if status == 206:
                assert said.headers["Content-Range"] == f"bytes {first}-{last - 1}/{SIZE}"


async def test_an_address_at_the_store_is_for_who_may_read_the_file(stored: Stored) -> None:
    asset_id = await stored.sent()
    path = f"/assets/{asset_id}/content?direct=true"
    assert (await stored.house.eve.get(path)).status == 404
    assert (await stored.house.nobody.get(path)).status == 401
    said = await stored.house.ada.get(path)
    assert said.status == 307
    address = said.headers["Location"]
    assert address.startswith(stored.wire.url)
    assert "X-Amz-Expires=60" in address
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in address
    async with aiohttp.ClientSession() as session, session.get(address) as answer:
        assert await answer.read() == BYTES
        assert answer.headers["Content-Disposition"] == 'attachment; filename="table.csv"'
    assert (await stored.content(asset_id)).raw == BYTES


async def test_files_are_not_moved_against_the_settings(stored: Stored) -> None:
    for body in ({"to": "disk"}, {"to": "disk", "dry_run": True}):
        said = await stored.house.admin.post("/admin/file-moves", body)
        assert (said.status, said.code) == (409, "PLACE_OF_SETTINGS")


async def test_what_is_deleted_here_goes_there(stored: Stored) -> None:
    asset_id = await stored.sent()
    key = key_of(asset_id, BYTES, "table.csv")
    assert key in await keys_in(stored.wire)
    assert (await stored.house.ada.delete(f"/assets/{asset_id}")).status == 204

    async def is_gone() -> bool:
        stored.moves.nudge()
        return key not in await keys_in(stored.wire)

    await until(is_gone)
    assert (await stored.content(asset_id)).status == 404


async def test_an_outage_passes(stored: Stored) -> None:
    """Downloads say when to come again; what is sent is taken, and goes there later."""
    asset_id = await stored.sent()
    stored.wire.down = True
    said = await stored.content(asset_id)
    assert (said.status, said.code) == (503, "FILES_UNREACHABLE")
    assert said.headers["Retry-After"] == "5"
    later = await shelved(stored.house, BytesIO(BYTES), "later.csv")

    async def is_noticed() -> bool:
        stored.moves.nudge()
        return bool(stored.moves.away_s)

    await until(is_noticed)
    assert (await stored.content(later)).raw == BYTES
    ready = await stored.house.nobody.get("/readyz")
    assert ready.status == 200
    assert "objects" in ready.json["warnings"]
    figures = (await stored.house.admin.get("/metrics")).raw.decode()
    assert "jobrunner_objects_unreachable_seconds 0.0\n" not in figures
    (line,) = [one for one in stored.house.logged if one["event"] == "objects.unreachable"]
    assert (line["lasting"], line["level"]) == (False, "warning")
    stored.wire.down = False
    await stored.settled()
    await stored.answers()
    assert (await stored.content(asset_id)).raw == BYTES
    assert (await stored.content(later)).raw == BYTES
    assert [one for one in stored.house.logged if one["event"] == "objects.answers"]


async def test_a_store_that_refuses_us_is_the_operators_to_mend(stored: Stored) -> None:
    asset_id = await stored.sent()
    stored.wire.fault = lambda step, number: "refuse"
    said = await stored.content(asset_id)
    assert (said.status, said.code) == (503, "FILES_UNREACHABLE")
    assert "operator" in said.json["detail"]
    assert said.headers["Retry-After"] == "60"
    await shelved(stored.house, BytesIO(BYTES), "late.csv")

    async def is_told() -> bool:
        stored.moves.nudge()
        told = [one for one in stored.house.logged if one["event"] == "objects.unreachable"]
        return any(one["lasting"] and one["level"] == "error" for one in told)

    await until(is_told)
    stored.wire.fault = lambda step, number: None
    await stored.settled()
    await stored.answers()


async def test_another_content_under_a_key_is_not_taken_for_the_file(stored: Stored) -> None:
    """One byte is different, and the size is the same: the whole of it never arrives."""
    asset_id = await stored.sent(LARGE, "film.mp4")
    key = key_of(asset_id, LARGE, "film.mp4")
    await put_there(stored.wire, key, b"?" + LARGE[1:])
    with pytest.raises(aiohttp.ClientPayloadError):
        await stored.content(asset_id)
    await put_there(stored.wire, key, LARGE)
    assert (await stored.content(asset_id)).raw == LARGE


async def test_a_stage_is_not_given_another_content(stored: Stored) -> None:
    asset_id = await stored.sent()
    key = key_of(asset_id, BYTES, "table.csv")
    await put_there(stored.wire, key, b"?" + BYTES[1:])
    job = await stored.house.ada.submit("thread", params={"asset": asset_id})
    ended = (await stored.house.ada.get(f"/jobs/{job['id']}?wait=60&until=ended")).json
    assert (ended["status"], ended["failure_code"]) == ("failed", "CORRUPT_INPUT"), ended


@pytest.mark.parametrize("form", ["loop", "thread", "process"])
async def test_a_stage_works_on_a_file_of_the_store(stored: Stored, form: str) -> None:
    asset_id = await stored.sent()
    job = await stored.house.ada.submit(form, params={"asset": asset_id})
    done = (await stored.house.ada.get(f"/jobs/{job['id']}?wait=60&until=ended")).json
    assert done["status"] == "done", done
    assert done["result"]["size"] == SIZE
    assert ".scratch" in done["result"]["place"]
    assert not Path(done["result"]["place"]).exists()


async def test_an_outage_costs_a_job_no_attempt(stored: Stored) -> None:
    """Its attempt is interrupted, what it kept is kept, and its workflow waits until the store
    answers; nobody else does."""
    asset_id = await stored.sent()
    stored.wire.down = True
    path = "/jobs/{}?wait=60&until=ended"
    first = await stored.house.ada.submit("loop", params={"asset": asset_id})

    async def is_held() -> bool:
        said = (await stored.house.ada.get(f"/jobs/{first['id']}/explain")).json
        return "store of objects" in str(said["waits_for"])

    await until(is_held)
    second = await stored.house.ada.submit("loop", params={"asset": asset_id})
    assert (await stored.house.ada.get(f"/jobs/{second['id']}")).json["status"] == "queued"
    here = await shelved(stored.house, BytesIO(BYTES), "here.csv")
    third = await stored.house.ada.submit("thread", params={"asset": here})
    assert (await stored.house.ada.get(path.format(third["id"]))).json["status"] == "done"
    stored.wire.down = False
    await stored.answers()
    for job in (first, second):
        done = (await stored.house.ada.get(path.format(job["id"]))).json
        assert (done["status"], done["result"]["order"]) == ("done", 1)
    attempts = (await stored.house.ada.get(f"/jobs/{first['id']}/attempts")).json["attempts"]
    outcomes = sorted(one["outcome"] for one in attempts)
    assert outcomes == ["done", "interrupted"], attempts
    await stored.settled()


async def test_an_outage_costs_a_worker_elsewhere_no_attempt(
    stored: Stored, tmp_path: Path
) -> None:
    """It gives the work back, and nobody is given any before the store answers."""
    asset_id = await stored.sent()
    house, at_home = stored.house, readers(remote="")
    async with working(house, tmp_path, registry=at_home, workflow="away") as worker:
        stored.wire.down = True
        jobs = [await house.ada.submit("away", params={"asset": asset_id}) for _ in range(2)]

        async def are_held() -> bool:
            said = [(await house.ada.get(f"/jobs/{job['id']}/explain")).json for job in jobs]
            return all("store of objects" in str(one["waits_for"]) for one in said)

        async def outcomes() -> list[str]:
            paths = [f"/jobs/{job['id']}/attempts" for job in jobs]
            told = [one for path in paths for one in (await house.ada.get(path)).json["attempts"]]
            return sorted(one["outcome"] for one in told if one["status"] == "ended")

        await until(are_held)
        interrupted = await outcomes()
        assert set(interrupted) == {"interrupted"}
        stored.wire.down = False
        await stored.answers()
        for job in jobs:
            done = (await house.ada.get(f"/jobs/{job['id']}?wait=60&until=ended")).json
            assert (done["status"], done["retry_count"]) == ("done", 0), (done, worker.logged)
            assert done["result"]["order"] == 1
        assert await outcomes() == ["done"] * 2 + interrupted
    await stored.settled()


async def test_a_file_that_breaks_off_is_gone_on_with_by_a_worker_elsewhere(
    stored: Stored, tmp_path: Path
) -> None:
    """The service sent most of it when the store went away, for longer than the library tries:
    no attempt is spent on that, and what has come is not asked for again."""
    asset_id = await stored.sent(LARGE, "film.mp4")
    house, at_home = stored.house, readers(remote="")
    pieces, reads = -(-len(LARGE) // BLOCK), [0]

    def fault(step: Step, number: int) -> When | None:
        reads[0] += step == "read"
        return "before" if step == "read" and 10 < reads[0] <= 11 + TRIES else None

    async with working(house, tmp_path, registry=at_home, workflow="away") as worker:
        stored.wire.fault = fault
        job = await house.ada.submit("away", params={"asset": asset_id})
        done = (await house.ada.get(f"/jobs/{job['id']}?wait=60&until=ended")).json
        assert (done["status"], done["retry_count"]) == ("done", 0), (done, worker.logged)
        assert done["result"]["size"] == len(LARGE)
        assert 11 + TRIES + pieces - 10 <= reads[0] < 11 + TRIES + pieces
