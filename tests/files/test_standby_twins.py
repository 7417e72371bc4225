"""A folder that was copied from a machine has that one's name, and not its right to serve."""

import shutil
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest

from jobrunner import standing_by as standing
from jobrunner.config.settings import Config, StandbySection, StoreSection
from jobrunner.errors import Misconfigured
from jobrunner.files.standby import tokens
from jobrunner.files.standby.tokens import TokenPlace, mark_of
from jobrunner.ports import system_ports

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def nobody_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "end_after", lambda seconds: None)


def served_in(
    tmp_path: Path, name: str, lease_s: float = 60
) -> AbstractAsyncContextManager[standing.Standby]:
    config = Config(
        store=StoreSection(path=str(tmp_path / name / "jobs.db")),
        standby=StandbySection(path=str(tmp_path / "copy"), lease=lease_s),
    )
    return standing.standing_by(config, system_ports(), lambda *said, **told: None, {})


async def test_a_copy_of_the_folder_does_not_serve_beside_it(tmp_path: Path) -> None:
    served = partial(served_in, tmp_path)
    async with served("one"):
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        with pytest.raises(Misconfigured, match="which is this machine's name"):
            async with served("two"):
                raise AssertionError("two serve")
    async with served("two"):
        found = TokenPlace(str(tmp_path / "copy")).find()
        assert found is not None
        assert found.standing == "held", "it was free: somebody has moved the folder"


async def test_a_clone_of_the_disk_does_not_serve_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files have the numbers of the first one's, so it is known by the start of its machine."""
    async with served_in(tmp_path, "one"):
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        place = tmp_path / "two" / "jobs.db.standby"
        name, root = place.read_text().split("\n")[:2]
        place.write_text("\n".join((name, root, mark_of(f"{place}.lock"), "")))
        (tmp_path / "boot").write_text("of another machine\n")
        monkeypatch.setattr(tokens, "BOOT", tmp_path / "boot")
        with pytest.raises(Misconfigured, match="which is this machine's name"):
            async with served_in(tmp_path, "two"):
                raise AssertionError("two serve")


async def test_who_was_killed_with_its_machine_serves_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one lease, in which nobody has renewed the token."""
    async with served_in(tmp_path, "one", 0.5):
        shutil.copytree(tmp_path / "copy", tmp_path / "as it was")
    shutil.rmtree(tmp_path / "copy")
    (tmp_path / "as it was").rename(tmp_path / "copy")
    found = TokenPlace(str(tmp_path / "copy")).find()
    assert found is not None
    assert found.standing == "held"
    monkeypatch.setattr(tokens, "BOOT", tmp_path / "none")
    async with served_in(tmp_path, "one", 0.5):
        again = TokenPlace(str(tmp_path / "copy")).find()
        assert again is not None
        assert (again.standing, again.epoch) == ("held", found.epoch)
