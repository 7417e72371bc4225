"""What is shown to somebody who has just arrived: one job of each kind, from nothing to results."""

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from tests.served import clean

MADE = {
    "asset-pattern": "*.zip",
    "cutx": "static_ad*.png",
    "howera": "how-to-*.pdf",
    "image-generation": "original*.png",
    "ss": "report*.md",
}
MARKS = {".zip": b"PK", ".png": b"\x89PNG", ".pdf": b"%PDF", ".md": b"# Report"}
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300


def test_one_job_of_each_kind_ends_well(tmp_path: Path) -> None:
    assert {entry.name for entry in entry_points(group="jobrunner.demos")} == set(MADE)
    into = tmp_path / "out"
    command = [sys.executable, "-m", "jobrunner.bench.demo", "--into", str(into)]
    done = subprocess.run(
        command, env=clean(), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name, pattern in MADE.items():
        assert f"{name}: ended well" in done.stdout
        (found,) = (into / name).glob(pattern)
        assert found.read_bytes().startswith(MARKS[found.suffix])
        assert (into / name / "job.json").is_file()


def test_a_demo_that_is_not_there_is_no_success(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jobrunner.bench.demo", "--into", str(tmp_path / "x"), "no"]
    done = subprocess.run(
        command, env=clean(), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 1


def test_make_shows_it() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo: .*\n\t\$\(PY\) -m jobrunner\.bench\.demo", makefile, re.MULTILINE)
