"""A folder that was copied from a machine has that one's name, and not its right to serve."""

import shutil
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from jobrunner import standing_by as standing
from jobrunner.config.settings import Config, StandbySection, StoreSection
from jobrunner.errors import Misconfigured
from jobrunner.files.standby.tokens import TokenPlace
from jobrunner.ports import system_ports

pytestmark = pytest.mark.anyio


async def test_a_copy_of_the_folder_does_not_serve_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "end_after", lambda seconds: None)

    def served(name: str) -> AbstractAsyncContextManager[standing.Standby]:
        config = Config(
            store=StoreSection(path=str(tmp_path / name / "jobs.db")),
            standby=StandbySection(path=str(tmp_path / "copy"), lease=60),
        )
        return standing.standing_by(config, system_ports(), lambda *said, **told: None, {})

    async with served("one"):
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        with pytest.raises(Misconfigured, match="which is this machine's name"):
            async with served("two"):
                raise AssertionError("two serve")
    async with served("two"):
        found = TokenPlace(str(tmp_path / "copy")).find()
        assert found is not None
        assert found.standing == "held", "it was free: somebody has moved the folder"
