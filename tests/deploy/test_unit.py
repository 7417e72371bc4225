"""The unit for systemd: its own tools find no fault with it, and its rights are few."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobrunner.config.settings import Config
from jobrunner.ending import LATE_S

UNIT = Path(__file__).parents[2] / "deploy" / "jobrunner.service"
EXPOSURE_MAX = 2.0
LEVEL = re.compile(r"Overall exposure level for jobrunner\.service: ([0-9.]+)")
ANALYZE = shutil.which("systemd-analyze")

pytestmark = pytest.mark.skipif(not ANALYZE, reason="make system installs systemd-analyze")


def analyzed(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert ANALYZE is not None
    return subprocess.run(
        [ANALYZE, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_it_is_a_unit(tmp_path: Path) -> None:
    """With a program that is there in the place of ours."""
    text = UNIT.read_text().replace("/opt/jobrunner/bin/jobrunner", sys.executable)
    (tmp_path / UNIT.name).write_text(text)
    said = analyzed("verify", "--man=no", str(tmp_path / UNIT.name))
    assert (said.returncode, said.stderr) == (0, "")


def exposure(unit: Path) -> float:
    said = analyzed("security", "--offline=yes", "--no-pager", str(unit))
    found = LEVEL.search(said.stdout)
    assert found, said.stdout + said.stderr
    return float(found[1])


def test_it_may_do_little(tmp_path: Path) -> None:
    """And the measure sees the difference: a unit that says nothing of rights is far above."""
    assert exposure(UNIT) <= EXPOSURE_MAX
    (tmp_path / UNIT.name).write_text("[Service]\nExecStart=/bin/true\n")
    assert exposure(tmp_path / UNIT.name) > 9


def test_it_gives_the_time_that_the_service_takes() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNIT)
    service = unit["Service"]
    assert service["Type"] == "notify"
    assert int(service["TimeoutStopSec"]) > Config().server.drain_seconds + LATE_S
    assert int(service["WatchdogSec"]) > LATE_S
