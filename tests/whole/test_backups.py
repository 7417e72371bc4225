"""Backups under load, restored somewhere else; killed at every point, on the way out and back."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from random import Random

import anyio
import pytest

from jobrunner.files.stored_backups import DATABASE, StoredBackups
from jobrunner.store.fsck import check_copy, check_file
from tests.whole.backing import RESTORED, Drill, Load, backed_up, commanded, drilled, missing
from tests.whole.process import Place, place, until

pytestmark = pytest.mark.anyio
UNHEARD = '[workflows.hello.notify]\nurl = "http://127.0.0.1:9/"\n'


async def drill(folder: Path, orders: Drill) -> None:
    """R21: each backup restores, and has all that was acknowledged before it began."""
    rounds = await drilled(folder, orders, print)
    assert [found for found in rounds if found.lost or found.faults] == []
    assert len({found.name for found in rounds}) == orders.rounds


async def test_a_backup_under_load_restores(tmp_path: Path) -> None:
    await drill(tmp_path, Drill(rounds=2))


@pytest.mark.long
async def test_a_hundred_backups_under_load_restore(tmp_path: Path) -> None:
    await drill(tmp_path, Drill(jobs=20_000, assets=1000, clients=16, rounds=100, before=200))


async def test_a_restored_service_says_what_it_cannot_know_and_goes_on(tmp_path: Path) -> None:
    """Once; tokens keep working, and waiting jobs go on."""
    async with place(tmp_path / "a", outside=True, more=UNHEARD) as home:
        await home.start()
        await home.user("ada")
        before = await home.submit("howera", "ada")
        told = await home.submit("hello", "ada", params={"name": "x"})
        await home.at(told["id"], "greeted")
        made = await backed_up(home, tmp_path / "backups")
        after = await home.submit("howera", "ada")
        await home.kill()
        again = [sys.executable, "-m", "jobrunner", "db", "restore", str(tmp_path / "backups")]
        done = subprocess.run(
            [*again, "--force"], cwd=home.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        await home.start()
        await until(lambda: bool(home.log("service.restored")))
        (line,) = home.log("service.restored")
        assert (line["backup"], line["since"]) == (made["name"], made["as_of"])
        assert line["until"] > line["since"]
        assert line["notifications_may_repeat"] == len(line["notifications"]) == 1
        assert line["lost"]["read"]
        assert line["lost"]["jobs_made"] == 1
        assert (await home.get(f"/jobs/{before['id']}", "ada"))["status"] == "CREATED"
        assert (await home.ask("GET", f"/jobs/{after['id']}", who="ada")).status == 404
        assert (await home.post(f"/jobs/{before['id']}/cancel", who="ada")).status == 200
        assert await home.stop() == 0
        await home.start()
        assert await home.stop() == 0
        assert home.log("service.ready")
        assert home.log("service.restored") == []


async def test_a_restore_beside_a_living_service_is_refused(service: Place, tmp_path: Path) -> None:
    await backed_up(service, tmp_path / "backups")
    command = [sys.executable, "-m", "jobrunner", "db", "restore", str(tmp_path / "backups")]
    for more in ([], ["--force"]):
        done = subprocess.run(
            [*command, *more, "--config", "config.toml"],
            cwd=service.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert f"in use by process {service.pid}" in done.stderr
    assert (await service.submit("howera"))["status"] == "CREATED"


async def killed_while_backing_up(folder: Path, kills: int) -> None:
    """What was whole stays whole, what was cut off is none, and the service loses nothing."""
    random, backups = Random(kills), folder / "backups"
    async with place(folder / "home", outside=True) as home:
        await home.start()
        load = Load(home, Drill(assets=30))
        await load.fill()
        for number in range(40):
            await home.submit("howera", labels={"n": str(number)})
        await backed_up(home, backups)
        for number in range(kills):
            async with anyio.create_task_group() as group:
                group.start_soon(home.try_to, "POST", "/admin/db/backup", {"folder": str(backups)})
                await until(lambda: bool(StoredBackups(str(backups)).folders()))
                for _ in range(random.randrange(200)):
                    await anyio.lowlevel.checkpoint()
                await home.kill()
            assert home.faults() == ()
            examine(backups)
            await home.start()
            if number % 3 == 0:
                await backed_up(home, backups)
                assert examine(backups) == StoredBackups(str(backups)).folders()
            assert len(StoredBackups(str(backups)).names()) > 0


def examine(backups: Path) -> list[str]:
    """Every backup that says it is whole is."""
    stored = StoredBackups(str(backups))
    for name in stored.names():
        assert list(stored.faults(name)) == []
        assert check_copy(str(backups / name / DATABASE)) == ()
    return stored.names()


async def test_killed_twice_in_a_backup(tmp_path: Path) -> None:
    await killed_while_backing_up(tmp_path, 2)


@pytest.mark.long
async def test_killed_twenty_times_in_a_backup(tmp_path: Path) -> None:
    await killed_while_backing_up(tmp_path, 20)


async def two_places(folder: Path) -> None:
    """``new`` in backups, ``old`` in a folder: each with jobs and files of its own."""
    for name, count in (("new", 3), ("old", 5)):
        async with place(folder / name, outside=True) as home:
            await home.start()
            load = Load(home, Drill(assets=count, asset_bytes=2000, seed=count))
            await load.fill()
            for _ in range(count):
                await home.submit("howera")
            if name == "new":
                await backed_up(home, folder / "backups")
            assert await home.stop() == 0
    kept = folder / "kept"
    kept.mkdir()
    for part in ("jobs.db", "assets", "notify.secret", "admin.token"):
        shutil.move(folder / "old" / "data" / part, kept / part)
    (kept / "config.toml").write_text(RESTORED)


def is_at(folder: Path) -> str:
    """``old`` or ``new``, wholly: rows, files and secrets agree."""
    import sqlite3
    from contextlib import closing

    assert check_file(str(folder / "jobs.db")) == ()
    with closing(sqlite3.connect(folder / "jobs.db")) as db:
        rows = db.execute("SELECT storage_path, sha256 FROM assets").fetchall()
        jobs = db.execute("SELECT count(*) FROM jobs").fetchone()[0]
    for path, digest in rows:
        assert sha256((folder / "assets" / path).read_bytes()).hexdigest() == digest
    name = {3: "new", 5: "old"}[jobs]
    assert len(rows) == jobs
    secret = (folder / "notify.secret").read_bytes()
    at = {"old": folder.parent / "kept", "new": newest(folder.parent / "backups")}[name]
    assert secret == (at / "notify.secret").read_bytes()
    return name


def newest(backups: Path) -> Path:
    return backups / StoredBackups(str(backups)).names()[-1]


def touched(folder: Path, number: int, *command: str) -> subprocess.CompletedProcess[str]:
    environ = {key: text for key, text in os.environ.items() if "JOBRUNNER_" not in key}
    environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    return subprocess.run(
        [sys.executable, "-m", "tests.whole.cut_off", str(number), *command],
        cwd=folder, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip


def cut_off_in_restores(folder: Path, points: Iterable[int]) -> dict[str, int]:
    """Old or new, wholly, whoever comes next; and the next restore ends well."""
    found = {"old": 0, "new": 0}
    for number in points:
        here = folder / "here"
        shutil.copytree(folder / "kept", here)
        command = ("db", "restore", str(folder / "backups"), "--force")
        done = touched(here, number, *command)
        assert done.returncode == -signal.SIGKILL, (number, done.stdout, done.stderr)
        if number % 2:
            opened = touched(here, 0, "token", "list", "-o", "json")
            assert opened.returncode == 0, (number, opened.stderr)
            found[is_at(here)] += 1
            assert json.loads(opened.stdout.rpartition("touched")[0])
        again = touched(here, 0, *command)
        assert again.returncode == 0, (number, again.stderr)
        assert is_at(here) == "new"
        assert list(here.glob("*.ready*")) == list(here.glob("*.restoring*")) == []
        assert len(list(here.glob("assets.replaced-*"))) >= 1
        shutil.rmtree(here)
    return found


async def all_points(folder: Path) -> int:
    await two_places(folder)
    here = folder / "here"
    shutil.copytree(folder / "kept", here)
    done = touched(here, 0, "db", "restore", str(folder / "backups"), "--force")
    assert done.returncode == 0, done.stderr
    assert is_at(here) == "new"
    shutil.rmtree(here)
    return int(done.stdout.split()[-1])


async def test_a_restore_cut_off_twice_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """Before it is decided, and in the middle of the renaming."""
    count = await all_points(tmp_path)
    found = await anyio.to_thread.run_sync(
        cut_off_in_restores, tmp_path, [count // 3 | 1, count - 4 | 1]
    )
    assert found == {"old": 1, "new": 1}


@pytest.mark.long
async def test_a_restore_cut_off_anywhere_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    count = await all_points(tmp_path)
    found = await anyio.to_thread.run_sync(cut_off_in_restores, tmp_path, range(1, count))
    print(f"{count - 1} points: {found}")
    assert min(found.values()) > 0


async def test_a_backup_on_another_path_is_a_service(tmp_path: Path) -> None:
    """With the command line alone, as an operator has it."""
    async with place(tmp_path / "a", outside=True) as home:
        await home.start()
        job = await home.submit("howera")
        assert await home.stop() == 0
        await commanded_in(home, "db", "backup", str(tmp_path / "backups"))
    said = await commanded(tmp_path / "b", "db", "restore", str(tmp_path / "backups"))
    assert "1 jobs" in said
    assert missing(tmp_path / "b", [job["id"]], {}) == []
    assert "ok" in await commanded(tmp_path / "b", "db", "check")
    assert "ok" in await commanded(tmp_path / "b", "db", "verify", str(tmp_path / "backups"))


async def commanded_in(home: Place, *arguments: str) -> None:
    (home.folder / "data" / "config.toml").write_text(RESTORED)
    await commanded(home.folder / "data", *arguments)
