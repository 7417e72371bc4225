"""Two programs want the file that holds everything: who waits, who is refused, who only looks."""

import asyncio
import os
from pathlib import Path

import anyio
import pytest

from jobrunner import cli
from jobrunner.errors import Misconfigured
from jobrunner.ports import SystemClock
from jobrunner.store.opening import FileInUse, ProcessLock
from jobrunner.store.store import open_store
from tests.store.factory import opened

pytestmark = pytest.mark.anyio


def config_of(folder: Path) -> str:
    path = folder / "config.toml"
    path.write_text(f'[store]\npath = "{folder}/data/jobs.db"\n[server]\nport = 1\n')
    return str(path)


def test_a_check_of_a_file_that_is_not_there_makes_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["db", "check", "--config", config_of(tmp_path)]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


async def test_a_check_changes_nothing(tmp_path: Path) -> None:
    """Not even the count of starts, by which a death of the service is told."""
    (tmp_path / "data").mkdir()
    async with opened(tmp_path / "data"):
        pass
    before = (tmp_path / "data" / "jobs.db").read_bytes()
    assert await asyncio.to_thread(cli.run, ["db", "check", "--config", config_of(tmp_path)]) == 0
    assert (tmp_path / "data" / "jobs.db").read_bytes() == before


async def test_a_service_waits_for_a_command_and_says_so(tmp_path: Path) -> None:
    path, heard, waited = str(tmp_path / "jobs.db"), asyncio.Event(), list[str]()
    command = ProcessLock(path, "db check")

    def on_wait(text: str) -> None:
        waited.append(text)
        heard.set()

    async def start() -> None:
        store = await open_store(path, clock=SystemClock(), on_wait=on_wait)
        await store.close()

    starting = asyncio.ensure_future(start())
    with anyio.fail_after(120):
        await heard.wait()
        command.release()
        await starting
    [text] = waited
    assert "db check" in text


async def test_nobody_waits_for_a_service(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.db")
    service = ProcessLock(path)
    for command in ("", "a command"):
        with pytest.raises(FileInUse, match="stop that one first"):
            await open_store(path, clock=SystemClock(), command=command)
    service.release()


class Hasty(SystemClock):
    """For whom no time passes while it sleeps, and a lot when it looks."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 4
        return self.seconds


async def test_a_command_that_takes_long_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.db")
    command = ProcessLock(path, "db check")
    with pytest.raises(Misconfigured, match="db check"):
        await open_store(path, clock=Hasty())
    command.release()


@pytest.mark.parametrize("command", ["check", "compact", "backup backups"])
async def test_root_leaves_nothing_beside_the_file_of_another(
    tmp_path: Path,
    command: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A lock that is root's would keep the service from its own file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    async with opened(tmp_path / "data"):
        pass
    if os.geteuid():
        monkeypatch.setattr(os, "geteuid", lambda: 0)
    else:
        os.chown(tmp_path / "data" / "jobs.db", 54321, -1)
    (tmp_path / "data" / "jobs.db.lock").unlink()
    before = sorted(os.listdir(tmp_path / "data"))
    asked = ["db", *command.split(), "--config", config_of(tmp_path)]
    assert await asyncio.to_thread(cli.run, asked) == 1
    assert "run this as that user (sudo -u " in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path / "data")) == before
