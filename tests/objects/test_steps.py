"""A file's whole way to the store and back, with a fault or a kill at each of its steps: nobody
ever sees half of it, and none is lost."""

import hashlib
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import anyio
import pytest

from jobrunner.actors.keeping.objects import brought
from jobrunner.cli import run
from jobrunner.files.library import inside
from jobrunner.files.objects import bucket
from jobrunner.http.routes.files import content
from tests.http.serving import House, opened
from tests.http.test_files import shelved
from tests.http.uploading import files
from tests.objects.buckets import (
    BUCKET,
    KEYS,
    Step,
    When,
    Wire,
    bucket_server,
    keys_in,
    section,
    until,
    wired,
)
from tests.objects.reader import readers
from tests.whole.process import Place, place

pytestmark = pytest.mark.anyio
SMALL, LARGE = b"small" * 1000, bytes(range(251)) * 25_000  # one request, and two parts
STEPS: tuple[Step, ...] = ("size", "put", "begin", "part", "whole")
WHENS: tuple[When, ...] = ("before", "after", "refuse")
SETTINGS = """
[objects]
bucket = "{bucket}"
endpoint = "{url}"
prefix = "jobs/"
place = "{place}"
part = "5MiB"
timeout = "5s"
keep_local = 0
keep_deleted = {keep_deleted}
"""


@pytest.fixture(scope="module")
async def behind(anyio_backend: str) -> AsyncIterator[str]:
    with pytest.MonkeyPatch.context() as patch, bucket_server() as url:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        yield url


@pytest.fixture(scope="module")
async def line(behind: str, anyio_backend: str) -> AsyncIterator[Wire]:
    async with wired(behind) as wire:
        yield wire


@pytest.fixture(scope="module")
async def house(
    line: Wire, tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[House]:
    """Files go to the store when somebody orders it."""
    folder = tmp_path_factory.mktemp("orders")
    where = section(line, prefix="orders/", keep_deleted=3600.0)
    async with opened(folder, registry=readers(), objects=where) as house:
        yield house


async def ordered(house: House, to: str) -> Any:
    """An order, when it is over."""
    said = await house.admin.post("/admin/file-moves", {"to": to})
    assert said.status == 202, said.raw
    told = said.json
    while told["status"] == "running":
        house.service.facade.file_moves.nudge()
        told = (await house.admin.get(f"{said.headers['Location']}?wait=0.2")).json
    return told


async def wanted(house: House, assets: dict[str, bytes]) -> None:
    for asset_id, data in assets.items():
        said = await house.ada.get(f"/assets/{asset_id}/content")
        assert (said.status, said.raw == data) == (200, True), asset_id


@pytest.mark.parametrize("when", WHENS)
async def test_a_fault_at_each_step(house: House, line: Wire, when: When) -> None:
    """There and back again: each step fails twice, which is more than the library bears, before the
    store hears of it, or after it did what was asked."""
    assets = {
        await shelved(house, BytesIO(data), name): data
        for data, name in ((SMALL, "small.csv"), (LARGE, "large.mp4"))
    }
    for step in STEPS:
        line.break_at(step, when, times=4)
        told = await ordered(house, "s3")
        assert (told["moved"], told["skipped"]) == (2, 0), (step, told)
        assert not files(house)
        await wanted(house, assets)
        line.break_at("read", when, times=2)
        told = await ordered(house, "disk")
        assert (told["moved"], told["skipped"]) == (2, 0), (step, told)
        assert len(files(house)) == 2
        await wanted(house, assets)
    sizes = (await keys_in(line)).values()
    assert set(sizes) <= {len(SMALL), len(LARGE)}
    for asset_id in assets:
        await house.ada.delete(f"/assets/{asset_id}")


@pytest.mark.parametrize("rotten", [b"?" + SMALL[1:], SMALL[:-1]], ids=["spoilt", "cut"])
async def test_a_copy_that_is_not_the_file_is_not_taken_for_it(house: House, rotten: bytes) -> None:
    """What lies in its place is replaced by what the store has, whose object would go later: for
    a job that is done again, and for good."""
    asset_id = await shelved(house, BytesIO(SMALL), "rotten.csv")
    await ordered(house, "s3")
    world, path = house.service.facade.world, f"ada/{asset_id}/rotten.csv"
    place = Path(world.assets, path)
    place.write_bytes(rotten)
    await brought(world, (path,))
    assert place.read_bytes() == SMALL
    place.write_bytes(rotten)
    told = await ordered(house, "disk")
    assert (told["status"], told["skipped"]) == ("done", 0), told
    assert place.read_bytes() == SMALL
    await wanted(house, {asset_id: SMALL})
    assert (await house.ada.delete(f"/assets/{asset_id}")).status == 204


async def test_a_disk_that_takes_nothing_holds_an_order_up(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one line of the log, and no fault of the service each second."""
    asset_id = await shelved(house, BytesIO(SMALL), "held.csv")
    await ordered(house, "s3")

    def full(draft: Path) -> int:
        raise OSError(28, "No space left on device")

    async def is_told() -> bool:
        return any("No space left" in str(one.get("detail")) for one in house.logged)

    with monkeypatch.context() as patch:
        patch.setattr(bucket, "_drafted", full)
        said = await house.admin.post("/admin/file-moves", {"to": "disk"})
        await until(is_told)
    where = f"{said.headers['Location']}?wait=60"
    told = (await house.admin.get(where)).json
    assert (told["status"], told["moved"], told["skipped"]) == ("done", 1, 0), told
    assert not [one for one in house.logged if one["event"] == "service.fault"]
    assert (await house.ada.delete(f"/assets/{asset_id}")).status == 204


async def test_an_order_is_counted_beforehand_and_given_once(house: House, line: Wire) -> None:
    asset_id = await shelved(house, BytesIO(SMALL), "one.csv")
    body = {"to": "s3", "dry_run": True}
    said = await house.admin.post("/admin/file-moves", body)
    assert (said.status, said.json["files"], said.json["bytes"]) == (200, 1, len(SMALL))
    line.down = True
    order = (await house.admin.post("/admin/file-moves", {"to": "s3"})).json
    again = await house.admin.post("/admin/file-moves", {"to": "disk"})
    assert (again.status, again.code) == (409, "ALREADY_EXISTS")
    ended = await house.admin.delete(f"/admin/file-moves/{order['id']}")
    assert ended.json["status"] == "aborted"
    line.down = False
    assert (await house.admin.get("/admin/file-moves/x")).status == 404
    assert (await house.ada.get("/admin/file-moves")).status == 403
    assert (await ordered(house, "s3"))["status"] == "done"
    first = (await house.admin.get("/admin/file-moves?limit=1")).json
    then = f"/admin/file-moves?limit=1&cursor={first['next_cursor']}"
    listed = first["file_moves"] + (await house.admin.get(then)).json["file_moves"]
    assert [one["status"] for one in listed] == ["done", "aborted"]
    await wanted(house, {asset_id: SMALL})


async def test_the_command_waits_for_the_end(
    house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await shelved(house, BytesIO(SMALL), "typed.csv")
    monkeypatch.setenv("JOBRUNNER_URL", house.service.url)
    monkeypatch.setenv("JOBRUNNER_TOKEN", house.admin.token or "")
    for more, said in (("--dry-run", "files"), ("", "done")):
        typed = ("asset", "move", "--to", "s3", *filter(None, [more]))
        assert await anyio.to_thread.run_sync(run, typed) == 0
        assert said in capsys.readouterr().out
    assert not [one for one in files(house) if ".scratch" not in one]


async def test_every_file_is_read_while_it_is_moved(house: House, line: Wire) -> None:
    """A reader in each moment, and stages that work on what is being moved."""
    assets = {}
    for number in range(6):
        data = SMALL + bytes([number])
        assets[await shelved(house, BytesIO(data), f"{number}.csv")] = data
    read, over = 0, False

    async def keep_reading() -> None:
        nonlocal read
        while not over:
            await wanted(house, assets)
            read += len(assets)

    async def keep_working() -> None:
        while not over:
            job = await house.ada.submit("thread", params={"asset": next(iter(assets))})
            done = (await house.ada.get(f"/jobs/{job['id']}?wait=60&until=ended")).json
            assert done["result"]["size"] == len(SMALL) + 1, done

    async with anyio.create_task_group() as group:
        group.start_soon(keep_reading)
        group.start_soon(keep_working)
        for to in ("s3", "disk", "s3", "disk", "s3"):
            await ordered(house, to)
        over = True
    assert read


async def test_what_a_stage_was_given_stays_until_it_is_done(house: House, tmp_path: Path) -> None:
    """Also when the file leaves the disk under it."""
    asset_id = await shelved(house, BytesIO(SMALL), "held.csv")
    gate = tmp_path / "gate"
    job = await house.ada.submit("thread", params={"asset": asset_id, "gate": str(gate)})
    path = f"/jobs/{job['id']}"

    async def has_it() -> bool:
        return bool((await house.ada.get(path)).json["progress_message"] == "has it")

    await until(has_it)
    await ordered(house, "s3")

    async def is_cleared() -> bool:
        house.service.facade.file_moves.nudge()
        return not [one for one in files(house) if ".scratch" not in one]

    await until(is_cleared)
    gate.touch()
    done = (await house.ada.get(f"{path}?wait=60&until=ended")).json
    assert (done["status"], done["result"]["size"]) == ("done", len(SMALL)), done


async def test_a_file_that_leaves_the_disk_before_it_is_opened(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It was seen there, and is found in the store."""
    asset_id = await shelved(house, BytesIO(SMALL), "quick.csv")
    place = inside
    await ordered(house, "s3")
    looks = iter((tmp_path / "quick.csv", tmp_path / "none"))
    (tmp_path / "quick.csv").write_bytes(SMALL)
    monkeypatch.setattr(content, "inside", lambda root, path: next(looks, place(root, path)))
    said = await house.ada.get(f"/assets/{asset_id}/content")
    assert (said.status, said.raw) == (200, SMALL)


class Mover:
    """Lives of a service that is killed at a step of its files' way."""

    def __init__(self, home: Place, wire: Wire) -> None:
        self.home = home
        self.wire = wire
        self.sent: dict[str, bytes] = {}
        self.random = Random(7)
        self.reached = 0
        self.prefix = f"{home.folder.name}/"

    async def send(self) -> None:
        """Four new files, of which two go in parts."""
        for size in (len(SMALL), len(LARGE)) * 2:
            data = self.random.randbytes(size)
            said = await self.home.upload("/assets?name=a.bin", BytesIO(data))  # type: ignore[arg-type]
            assert said.status == 201, said
            self.sent[said.body["id"]] = data

    async def killed_at(self, step: Step, number: int) -> None:
        """When the store is asked for this the so many-th time, before it hears of it."""
        arrived, left = anyio.Event(), [number]

        async def stop(seen: Step, _: int) -> None:
            if seen == step:
                left[0] -= 1
                if left[0] == 0:
                    arrived.set()
                    await self.home.kill()

        self.wire.on_step = stop
        with anyio.move_on_after(8):
            await arrived.wait()
            self.reached += 1
        self.wire.on_step = None
        await self.home.kill()

    async def judged(self) -> None:
        """Every acknowledged file is whole, in the store or on the disk; no object is half."""
        assert self.home.faults() == ()
        for asset_id, data in self.sent.items():
            answer = await self.read(asset_id)
            assert answer == data, f"{asset_id}: {len(answer)} of {len(data)}"
        lie = (await keys_in(self.wire)).items()
        for key, size in ((key, size) for key, size in lie if key.startswith(self.prefix)):
            digest = key.split("/")[-2]
            assert any(
                (len(data), hashlib.sha256(data).hexdigest()) == (size, digest)
                for data in self.sent.values()
            ), key

    async def read(self, asset_id: str) -> bytes:
        sent = {"Authorization": f"Bearer {self.home.tokens['admin']}"}
        url = f"{self.home.url}/assets/{asset_id}/content"
        async with aiohttp.ClientSession() as session, session.get(url, headers=sent) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.read()


async def lives(folder: Path, wire: Wire, rounds: list[tuple[Step, int]]) -> Mover:
    more = SETTINGS.format(bucket=BUCKET, url=wire.url, place="s3", keep_deleted=0)
    more = more.replace('"jobs/"', f'"{folder.name}/"')  # the store is that of other tests, too
    async with place(folder, more=more) as home:
        mover = Mover(home, wire)
        await home.start()
        for step, number in rounds:
            await mover.send()
            await mover.killed_at(step, number)
            await home.start()
            await mover.judged()

        async def all_there() -> bool:
            left = [one for one in (folder / "data/assets").rglob("*.bin") if one.is_file()]
            return not left

        await until(all_there)
        await mover.judged()
        assert await home.stop() == 0
    return mover


async def test_killed_at_a_step(tmp_path: Path, behind: str) -> None:
    async with wired(behind) as wire:
        mover = await lives(tmp_path, wire, [("whole", 1)])
    assert mover.reached == 1


@pytest.mark.long
@pytest.mark.parametrize("step", STEPS)
async def test_killed_at_each_step(tmp_path: Path, behind: str, step: Step) -> None:
    async with wired(behind) as wire:
        mover = await lives(tmp_path, wire, [(step, 1), (step, 2), (step, 1), (step, 2)])
    print(f"\nkills at {step}: {mover.reached} of 4, files {len(mover.sent)}")
    assert mover.reached == 4
