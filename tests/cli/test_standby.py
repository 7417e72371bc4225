"""``standby`` and ``doctor`` say what they find in the place of a copy, and take nothing there."""

import os
from pathlib import Path

import pytest

from jobrunner.actors.keeping.standby.leases import Lease
from jobrunner.cli.doctor.findings import Patient
from jobrunner.cli.doctor.standby import standby
from jobrunner.config.settings import Config, StandbySection, StoreSection
from jobrunner.files.standby.tokens import TokenPlace
from jobrunner.ports import SystemClock, SystemFiles, SystemIds
from jobrunner.standing_by import machine_of
from tests.cli.conftest import Command
from tests.files.test_standby import Steady


def found(folder: Path, copy: Path | None) -> list[tuple[str, str]]:
    (folder / "data").mkdir(exist_ok=True)
    store = StoreSection(path=str(folder / "data/jobs.db"))
    config = Config(store=store, standby=StandbySection(path=str(copy) if copy else ""))
    patient = Patient(config, (), 0, "", None, "", None, "", {})
    return [(one.level, one.says) for one in standby(patient)]


def test_the_doctor_says_whose_the_copy_is(tmp_path: Path) -> None:
    assert found(tmp_path, None)[0][0] == "ok"
    copy = tmp_path / "copy"
    assert found(tmp_path, copy) == [("bad", f"standby.path ({copy}) is no folder")]
    copy.mkdir()
    same, empty = found(tmp_path, copy)
    assert (same[0], empty[0]) == ("warn", "ok")
    assert "on the disk of the file itself" in same[1]
    ids = SystemIds(SystemClock())
    name = machine_of(str(tmp_path / "data/jobs.db"), SystemFiles(), ids).name
    Lease(TokenPlace(str(copy)), name, 10, Steady()).claim()
    before = os.listdir(copy / "token")
    assert found(tmp_path, copy)[-1] == ("ok", f"{copy} is held by this machine, epoch 1")
    other = tmp_path / "other"
    other.mkdir()
    level, says = found(other, copy)[-1]
    assert (level, f"held by another machine ({name}, epoch 1)" in says) == ("warn", True)
    (copy / "token" / "held.00000001.000000000009.1000.z").touch()
    assert found(tmp_path, copy)[-1][0] == "bad"
    assert set(before) <= set(os.listdir(copy / "token"))


def test_a_place_without_a_copy_is_named(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, said = command("standby")
    assert (code, "name the folder" in said) == (1, True)
    code, _, said = command("standby", str(tmp_path / "copy"), "--take-over")
    assert (code, "has no token" in said) == (1, True)
