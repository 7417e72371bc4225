"""Backups that an admin asks for, and those that the service makes by itself."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from msgspec.structs import replace

from jobrunner.config.settings import BackupSection
from jobrunner.files.stored_backups import DATABASE, StoredBackups
from jobrunner.ports import SystemChildren, system_ports
from jobrunner.store.fsck import check_copy
from tests.http.serving import House, opened

pytestmark = pytest.mark.anyio
T = TypeVar("T")
ASKED = "/admin/db/backup"


class Held(SystemChildren):
    """Threads that begin when they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = anyio.Event()
        self.go.set()

    async def in_thread(self, function: Callable[[], T]) -> T:
        await self.go.wait()
        return await super().in_thread(function)


def whole(folder: Path) -> list[str]:
    """The names of backups from which everything can be had."""
    stored = StoredBackups(str(folder))
    for name in stored.names():
        assert list(stored.faults(name)) == []
        assert check_copy(str(folder / name / DATABASE)) == ()
    return stored.names()


async def send(house: House) -> Any:
    """A file of ada's."""
    kind = {"Content-Type": "application/octet-stream"}
    return await house.ada.ask("POST", "/assets?name=a.txt", data=b"words", headers=kind)


async def told(house: House, event: str, count: int = 1) -> list[dict[str, Any]]:
    with anyio.fail_after(120):
        while len(found := [line for line in house.logged if line["event"] == event]) < count:
            await anyio.sleep(0.01)
    return found


async def test_an_admin_asks_for_one(house: House, tmp_path: Path) -> None:
    made = await house.ada.submit("howera")
    sent = await send(house)
    folder = str(tmp_path / "backups")
    assert (await house.admin.get(ASKED)).json["state"] == "idle"
    said = await house.admin.post(ASKED, {"folder": folder})
    assert (said.status, said.json["state"]) == (200, "done")
    assert (said.json["jobs"], said.json["files"], said.json["absent"]) == (1, 1, 0)
    assert (await house.admin.get(ASKED)).json == said.json
    assert whole(tmp_path / "backups") == [said.json["name"]]
    copy = StoredBackups(folder)
    assert copy.place_of(sent.json["sha256"]).read_bytes() == b"words"
    last = (await house.service.store.reader.backups())[0]
    assert (last.folder, last.name, last.files) == (folder, said.json["name"], 1)
    record = (await house.admin.get("/admin/audit?limit=1")).json["audit"][0]
    assert (record["event"], record["fields"]["folder"]) == ("db.backup", folder)
    assert (await told(house, "backup.made"))[0]["name"] == said.json["name"]
    assert (await house.ada.get(f"/jobs/{made['id']}")).status == 200


@pytest.mark.parametrize("folder", ["", "backups", "ASSETS", "ASSETS/ada"])
async def test_a_place_that_cannot_be_meant(house: House, folder: str) -> None:
    given = folder.replace("ASSETS", house.service.facade.world.assets)
    said = await house.admin.post(ASKED, {"folder": given})
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")
    assert (await house.ada.post(ASKED)).code == "FORBIDDEN"


async def test_one_at_a_time_and_the_second_is_told_so(tmp_path: Path) -> None:
    children = Held()
    ports = replace(system_ports(), children=children)
    async with opened(tmp_path, ports=ports) as house, anyio.create_task_group() as group:
        children.go = anyio.Event()
        folder = {"folder": str(tmp_path / "backups")}
        group.start_soon(house.admin.post, ASKED, folder)
        while (await house.admin.get(ASKED)).status != 202:
            await anyio.lowlevel.checkpoint()
        said = await house.admin.post(ASKED, folder)
        assert (said.status, said.code) == (409, "BACKUP_UNDER_WAY")
        children.go.set()
        assert (await house.admin.get(f"{ASKED}?wait=30")).json["state"] == "done"


async def test_what_is_deleted_meanwhile_keeps_its_file_until_the_backup_is_whole(
    tmp_path: Path,
) -> None:
    children = Held()
    ports = replace(system_ports(), children=children)
    async with opened(tmp_path, ports=ports) as house, anyio.create_task_group() as group:
        sent = (await send(house)).json
        place = tmp_path / "assets" / sent["storage_path"]
        children.go = anyio.Event()
        group.start_soon(house.admin.post, ASKED, {"folder": str(tmp_path / "backups")})
        while not house.service.facade.world.files_wanted:
            await anyio.lowlevel.checkpoint()
        with anyio.fail_after(120):
            assert (await house.ada.delete(f"/assets/{sent['id']}")).status == 204
        assert place.exists()
        children.go.set()
        assert (await house.admin.get(f"{ASKED}?wait=30")).json["absent"] == 0
        with anyio.fail_after(120):
            while await house.service.store.reader.clearings(9):
                await anyio.sleep(0.01)
        assert not place.exists()


async def test_the_service_makes_them_by_itself_and_keeps_as_many_as_it_is_told(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "backups"
    backup = BackupSection(str(folder), every=0.01, keep=2)
    async with opened(tmp_path, backup=backup) as house:
        made = await told(house, "backup.made", 4)
        metrics = (await house.admin.get("/metrics")).raw.decode()
    assert 'jobrunner_backup_seconds_count{outcome="done"}' in metrics
    assert "jobrunner_backup_timestamp_seconds 1.7" in metrics or "seconds 1.8" in metrics
    names = whole(folder)
    assert len(names) <= 3  # the last may have been cut off before the oldest went
    assert made[0]["name"] not in names


async def test_a_start_does_not_begin_the_count_anew(tmp_path: Path) -> None:
    backup = BackupSection(str(tmp_path / "backups"), every=86400)
    async with opened(tmp_path, backup=backup) as house:
        await told(house, "backup.made")
    async with opened(tmp_path, backup=backup) as house:
        last = house.service.facade.world
        assert (await house.admin.post(ASKED)).json["state"] == "done"
        assert last.files_wanted == 0
        assert len(await told(house, "backup.made")) == 1
    assert len(whole(tmp_path / "backups")) == 2


async def test_one_that_failed_is_logged_counted_and_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    (folder / "letters.txt").write_text("mine")
    backup = BackupSection(str(folder), every=0.05)
    async with opened(tmp_path, backup=backup) as house:
        failed = (await told(house, "backup.failed"))[0]
        assert failed["level"] == "error"
        assert "letters.txt" in failed["detail"]
        said = await house.nobody.get("/readyz")
        assert (said.status, said.json["ready"]) == (200, True)
        assert "letters.txt" in said.json["warnings"]["backup"]
        metrics = (await house.admin.get("/metrics")).raw.decode()
        assert 'jobrunner_backup_seconds_count{outcome="failed"}' in metrics
        last = (await house.service.store.reader.backups())[0]
        assert "letters.txt" in last.failure
        (folder / "letters.txt").unlink()
        await told(house, "backup.made")
        warned = (await house.nobody.get("/readyz")).json["warnings"]
        assert "letters.txt" not in str(warned)


async def test_a_folder_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    """Its disk may not be mounted, and the one below it would be filled."""
    folder = tmp_path / "backups"
    async with opened(tmp_path) as house:
        assert (await house.admin.post(ASKED, {"folder": str(folder)})).json["state"] == "done"
        shutil.rmtree(folder)
        said = await house.admin.post(ASKED, {"folder": str(folder)})
        assert said.json["state"] == "failed"
        assert "mount its disk" in said.json["detail"]
        assert not folder.exists()
        folder.mkdir()
        assert (await house.admin.post(ASKED, {"folder": str(folder)})).json["state"] == "done"


async def test_a_service_that_stops_does_not_wait_for_one(tmp_path: Path) -> None:
    """It is broken off, is no backup, and the next one clears it away."""
    children = Held()
    ports = replace(system_ports(), children=children)
    folder = tmp_path / "backups"
    async with opened(tmp_path, ports=ports) as house, anyio.create_task_group() as group:
        children.go = anyio.Event()
        group.start_soon(house.admin.post, ASKED, {"folder": str(folder)})
        while not house.service.facade.world.files_wanted:
            await anyio.lowlevel.checkpoint()
        house.service.facade.world.draining = True
        children.go.set()
        with anyio.fail_after(120):
            while house.service.facade.world.files_wanted:
                await anyio.sleep(0.01)
        assert (await house.admin.get(ASKED)).json["state"] == "failed"
        house.service.facade.world.draining = False
        assert not [line for line in house.logged if line["event"] == "backup.made"]
    assert whole(folder) == []


async def test_a_drill_says_whether_a_backup_could_be_put_back(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    more: dict[str, Any] = {"backup": BackupSection(path=str(folder), every=0)}
    async with opened(tmp_path, **more) as house:
        await send(house)
        assert (await house.admin.post(ASKED, {})).json["state"] == "done"
        (one,) = (await house.admin.get("/admin/db/backups")).json["backups"]
        assert (one["files"], one["drill"], one["fault"]) == (1, None, None)
        path = f"/admin/db/backups/{one['name']}/verify"
        assert (await house.admin.post(path)).json["faults"] == []
        file = next((folder / one["name"]).glob("*.db"))
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
        said = (await house.admin.post(path)).json
        assert said["faults"]
        (again,) = (await house.admin.get("/admin/db/backups")).json["backups"]
        assert again["drill"] == said
        for other in ("2026-01-01T000000.000Z", "..", "%2e%2e"):
            assert (await house.admin.post(f"/admin/db/backups/{other}/verify")).status == 404
        assert (await house.ada.post(path)).status == 403
        assert await told(house, "backup.read", 2)


async def test_without_a_folder_there_are_no_backups_to_read(house: House) -> None:
    assert (await house.admin.get("/admin/db/backups")).json["backups"] == []
    name = "2026-01-01T000000.000Z"
    assert (await house.admin.post(f"/admin/db/backups/{name}/verify")).status == 404
