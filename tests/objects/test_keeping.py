"""What keeps files looked after when they lie in a store: backups, restores, the sweep, the start,
jobs done again, and words for operators."""

from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from jobrunner.actors.keeping.object_clearing import sweep
from jobrunner.cli import run
from jobrunner.cli.doctor.settings_checks import objects
from jobrunner.config.settings import BackupSection, Config, ObjectsSection
from jobrunner.equipping import bucket_of
from jobrunner.errors import Misconfigured
from jobrunner.files.stored_backups import StoredBackups
from jobrunner.preflight import lacking
from jobrunner.stages import Registry
from tests.http.serving import House, opened
from tests.http.test_files import BYTES, SIZE, shelved
from tests.http.uploading import files
from tests.objects.buckets import (
    KEYS,
    Wire,
    keys_in,
    put_there,
    removed,
    section,
    until,
)
from tests.objects.reader import readers
from tests.work.living import STAGES
from tests.work.plugin import jobrunner_far

pytestmark = pytest.mark.anyio
DAY_S = 86_400


async def settled(house: House) -> None:
    """All files are in the store alone."""

    async def is_so() -> bool:
        house.service.facade.file_moves.nudge()
        return not [path for path in files(house) if ".scratch" not in path]

    await until(is_so)


async def test_a_backup_refers_to_what_is_in_the_store(wire: Wire, tmp_path: Path) -> None:
    """It says how many files it lacks and where they are, and what is restored finds them, also
    those that were deleted since."""
    where = section(wire, place="s3", prefix="kept/", keep_deleted=3600.0)
    kept = BackupSection(path=str(tmp_path / "backups"), every=0)
    async with opened(tmp_path / "one", registry=readers(), objects=where, backup=kept) as house:
        asset_id = await shelved(house, BytesIO(BYTES))
        await settled(house)
        made = (await house.admin.post("/admin/db/backup")).json
        assert (made["state"], made["far_files"], made["files"], made["absent"]) == (
            "done",
            1,
            0,
            0,
        )
        told = (await house.admin.get("/admin/db")).json
        assert (told["far_files"], told["far_bytes"]) == (1, SIZE)
        assert (await house.ada.delete(f"/assets/{asset_id}")).status == 204
        await drilled(wire, house, asset_id)
    archive = StoredBackups(str(tmp_path / "backups"))
    manifest = archive.manifest(archive.names()[-1])
    place = "s3://files/kept/"
    assert (manifest.far_files, manifest.far_bytes, manifest.far_place) == (1, SIZE, place)
    assert await anyio.to_thread.run_sync(run, ("db", "verify", str(tmp_path / "backups"))) == 0
    (tmp_path / "two").mkdir()
    (tmp_path / "config.toml").write_text(NAMED.format(folder=tmp_path, url=wire.url))
    await restored_by_hand(wire, tmp_path, asset_id)
    async with opened(tmp_path / "two", mode="none", registry=readers(), objects=where) as house:
        said = await house.admin.get(f"/assets/{asset_id}/content")
        assert (said.status, said.raw) == (200, BYTES)


async def drilled(wire: Wire, house: House, asset_id: str) -> None:
    """The drill looks there, too: the file is there, of another size, gone, not to be seen."""
    (one,) = (await house.admin.get("/admin/db/backups")).json["backups"]

    async def seen() -> tuple[int, str]:
        said = (await house.admin.post(f"/admin/db/backups/{one['name']}/verify")).json
        return len(said["faults"]), said["far_seen"]

    (key,) = [one for one in await keys_in(wire) if asset_id in one]
    assert await seen() == (0, "listed")
    await put_there(wire, key, BYTES[1:])
    assert await seen() == (1, "listed")
    await removed(wire, key)
    assert await seen() == (1, "listed")
    await put_there(wire, key, BYTES)
    wire.down = True
    faults, told = await seen()
    wire.down = False
    assert (faults, told[:4]) == (0, "no: ")


NAMED = """[store]
path = "{folder}/two/jobs.db"
assets = "{folder}/two/assets"
[objects]
bucket = "files"
endpoint = "{url}"
prefix = "kept/"
timeout = "1s"
"""


async def restored_by_hand(wire: Wire, folder: Path, asset_id: str) -> None:
    """By the command, which looks first whether the store has what it is to have: it is away, then
    has another content, then nothing under the key, and at last what was put there."""
    typed = ("--config", str(folder / "config.toml"))
    backups = str(folder / "backups")

    async def code(verb: str, *more: str) -> int:
        return await anyio.to_thread.run_sync(run, ("db", verb, backups, *more, *typed))

    (key,) = [one for one in await keys_in(wire) if asset_id in one]
    assert await code("verify") == await code("verify", "--contents") == 0
    await put_there(wire, key, bytes(reversed(BYTES)))
    assert await code("verify") == 0
    assert await code("verify", "--contents") == 1
    await put_there(wire, key, BYTES[1:])
    assert await code("verify") == 1
    assert await code("restore") == 1
    await removed(wire, key)
    assert await code("verify") == 1
    assert await code("restore") == 1
    wire.down = True
    assert await code("verify") == 1
    assert await code("restore") == 1
    wire.down = False
    assert not (folder / "two" / "jobs.db").exists()
    assert await code("restore", "--accept-loss") == 0
    await put_there(wire, key, BYTES)
    assert await code("restore", "--force") == 0


async def test_a_job_done_again_has_its_files(wire: Wire, tmp_path: Path) -> None:
    """What goes along is brought from the store, has a second name, and goes there, too."""
    registry = Registry()
    for one in (*STAGES, jobrunner_far.definition):
        registry.add(one)
    where = section(wire, place="s3", prefix="again/")
    async with opened(tmp_path, registry=registry, objects=where) as house:
        job = await house.ada.submit("far", params={"size": 5000})
        path = "/jobs/{}?wait=60&until=ended"
        first = (await house.ada.get(path.format(job["id"]))).json
        assert first["status"] == "done", first
        await settled(house)
        said = await house.ada.post(f"/jobs/{job['id']}/rerun", {"from": "counting"})
        assert said.status == 201, said.raw
        again = (await house.ada.get(path.format(said.json["id"]))).json
        assert (again["status"], again["result"]["shown"]) == ("done", first["result"]["shown"])
        await settled(house)
        listed = (await house.ada.get(f"/jobs/{said.json['id']}/assets")).json["assets"]
        for asset in listed:
            content = await house.ada.get(f"/assets/{asset['id']}/content")
            assert len(content.raw) == asset["file_size"]


async def test_what_never_came_to_a_row_is_swept(wire: Wire, tmp_path: Path) -> None:
    """A day later, of jobs that are known here; nobody else's."""
    where = section(wire, place="s3", prefix="swept/")
    async with opened(tmp_path, registry=readers(), objects=where) as house:
        asset_id = await shelved(house, BytesIO(BYTES))
        await settled(house)
        job = await house.ada.submit("thread", params={"asset": asset_id})
        orphan = f"swept/ada/{job['id']}/{'a' * 64}/x.csv"
        foreign = f"swept/ada/{'0' * 36}/{'a' * 64}/x.csv"
        other = "swept/readme.txt"
        for key in (orphan, foreign, other):
            await put_there(wire, key, b"left")
        world: Any = house.service.facade.world
        before = await keys_in(wire)
        await sweep(world, world.surroundings.bucket)
        assert await keys_in(wire) == before
        now = world.clock.now

        class Later:
            def now(self) -> int:
                return int(now()) + (DAY_S + 60) * 1000

        world.clock, clock = Later(), world.clock
        try:
            await sweep(world, world.surroundings.bucket)
        finally:
            world.clock = clock
        assert set(before) - set(await keys_in(wire)) == {orphan}


async def test_files_there_without_a_store_here(wire: Wire, tmp_path: Path) -> None:
    """Settings that name no store any more lose nothing: the files wait for it."""
    where = section(wire, place="s3", prefix="left/")
    async with opened(tmp_path, registry=readers(), objects=where) as house:
        asset_id = await shelved(house, BytesIO(BYTES))
        await settled(house)
    async with opened(tmp_path, mode="none", registry=readers()) as house:
        said = await house.admin.get(f"/assets/{asset_id}/content")
        assert (said.status, said.code) == (503, "FILES_UNREACHABLE")
        said = await house.admin.post("/admin/file-moves", {"to": "s3"})
        assert (said.status, said.code) == (404, "NOT_FOUND")


async def test_doctor_asks_the_store(wire: Wire) -> None:
    class Patient:
        config = Config(objects=section(wire))

    patient: Any = Patient()
    (found,) = await objects(patient)
    assert found.level == "ok", found
    wire.fault = lambda step, number: "refuse"
    (found,) = await objects(patient)
    wire.fault = lambda step, number: None
    assert (found.level, "rights" in found.cure) == ("bad", True), found
    patient.config = Config()
    assert await objects(patient) == []


def test_keys_come_from_a_file_that_may_change(tmp_path: Path) -> None:
    file = tmp_path / "keys.ini"
    at = ObjectsSection(bucket="files", credentials=str(file))
    with pytest.raises(Misconfigured, match="cannot be read"):
        bucket_of(Config(objects=at), {})
    file.write_text("[default]\naws_access_key_id = one\n")
    with pytest.raises(Misconfigured, match="aws_access_key_id and aws_secret_access_key"):
        bucket_of(Config(objects=at), {})
    file.write_text("[default]\naws_access_key_id = one\naws_secret_access_key = secret\n")
    bucket = bucket_of(Config(objects=at), {})
    assert bucket is not None
    assert "secret" not in repr(bucket.keys)
    file.write_text("[default]\naws_access_key_id = two\naws_secret_access_key = other\n")
    bucket._renew()
    assert bucket.keys.access == "two"
    file.write_text("[def")
    bucket._renew()
    assert bucket.keys.access == "two"
    assert lacking(Config(objects=replace(at, credentials="")), Registry(), {})


def test_without_the_library_a_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(Misconfigured, match=r"pip install 'jobrunner\[s3\]'"):
        bucket_of(Config(objects=ObjectsSection(bucket="files")), KEYS)


def test_no_secret_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("JOBRUNNER_OBJECTS__BUCKET", "films")
    assert run(("config", "show")) == 0
    printed = capsys.readouterr()
    assert "films" in printed.out
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in printed.out + printed.err
