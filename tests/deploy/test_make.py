"""``make`` sets itself up: what serves has no tools for tests, what is there stays, and it says how
far it is. The python that it is given writes down what it was asked for, and fetches nothing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.served import PATIENCE_S, clean

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = sorted(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))
PYTHON = """#!/bin/sh
echo "$*" >>"$ASKED"
case "$*" in
    "-m venv "*)
        mkdir -p "$3/bin"
        cp "$0" "$3/bin/python"
        printf '#!/bin/sh\\necho served "$@"\\n' >"$3/bin/jobrunner"
        chmod +x "$3/bin/jobrunner" ;;
    "-m pytest"*) [ "$BROKEN" != pytest ] || exit 4 ;;
    *"install"*"$BROKEN") echo "  Downloading half.whl (1 MB)"; echo "no such wheel" >&2; exit 3 ;;
    *"install"*) echo "Collecting noise"; echo "  Downloading some.whl (9 MB)" ;;
esac
"""


class Clone:
    """A fresh one: what ``make`` needs of the project, and a python of our own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked = folder / "asked"
        for path in (ROOT / "Makefile", ROOT / "pyproject.toml", *self.projects()):
            (folder / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / path.relative_to(ROOT))
        (folder / "python").write_text(PYTHON)
        (folder / "python").chmod(0o755)

    @staticmethod
    def projects() -> list[Path]:
        return [ROOT / "plugins" / name / "pyproject.toml" for name in PLUGINS]

    def make(self, *words: str, broken: str = "nothing") -> subprocess.CompletedProcess[str]:
        self.asked.write_text("")
        return subprocess.run(
            ["make", *words, "UV=", f"PYTHON={self.folder}/python"],
            cwd=self.folder,
            env=_of_nobody() | {"ASKED": str(self.asked), "BROKEN": broken},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def installed(self) -> list[str]:
        """What the last call installed, in order."""
        lines = self.asked.read_text().splitlines()
        return [line.rpartition("-e ")[2] for line in lines if line.startswith("-m pip install")]


def _of_nobody() -> dict[str, str]:
    """The tests are run by a ``make`` themselves, and one that is run by another says more."""
    told = ("MAKELEVEL", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "PLUGINS", "CONFIG")
    return {name: value for name, value in clean().items() if name not in told}


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_what_serves_has_no_tools(clone: Clone) -> None:
    said = clone.make("serve", "CONFIG=mine.toml").stdout
    assert said.endswith("served serve --config mine.toml\n")
    assert clone.installed() == [".", *(f"./plugins/{name}" for name in PLUGINS)]


def test_it_says_how_far_it_is(clone: Clone) -> None:
    said = clone.make("serve").stdout.splitlines()
    steps = [line for line in said if line.startswith("[")]
    assert steps[0] == f"[1/{len(PLUGINS) + 1}] jobrunner"
    assert steps[-1] == f"[{len(PLUGINS) + 1}/{len(PLUGINS) + 1}] plugin {PLUGINS[-1]}"
    assert said.count("  Downloading some.whl (9 MB)") == len(steps)
    assert len([line for line in said if line.endswith(" MB in .venv so far")]) == len(steps)
    assert not any("noise" in line for line in said)


def test_fewer_plugins_if_asked(clone: Clone) -> None:
    clone.make("serve", "PLUGINS=hello")
    assert clone.installed() == [".", "./plugins/hello"]
    clone.make("serve", "PLUGINS=hello ss")
    assert clone.installed() == ["./plugins/ss"]


def test_what_tests_adds_what_is_missing(clone: Clone) -> None:
    clone.make("serve", "PLUGINS=hello")
    clone.make("setup")
    others = [f"./plugins/{name}" for name in PLUGINS if name != "hello"]
    assert clone.installed() == [*others, ".[dev]"]
    for again in ("setup", "serve", "demo"):
        clone.make(again)
        assert clone.installed() == []


def test_what_changed_is_installed_again(clone: Clone) -> None:
    clone.make("setup")
    file = clone.folder / "plugins" / "ss" / "pyproject.toml"
    later = (clone.folder / ".venv" / "installed" / "tools").stat().st_mtime + 10
    os.utime(file, (later, later))
    clone.make("serve")
    assert clone.installed() == ["./plugins/ss"]


def test_a_step_that_fails_is_told_and_done_again(clone: Clone) -> None:
    failed = clone.make("serve", broken="./plugins/hello")
    assert failed.returncode != 0
    assert "no such wheel" in failed.stderr
    assert "served" not in failed.stdout
    assert clone.make("serve").stdout.endswith("served serve\n")
    assert clone.installed()[0] == "./plugins/hello"


@pytest.mark.parametrize("broken", ["nothing", "pytest", "mypy", "ruff"])
def test_a_fault_of_tests_or_of_types_is_one_of_the_whole(clone: Clone, broken: str) -> None:
    """They are asked beside each other."""
    clone.make("setup")
    for tool in ("ruff", "mypy"):
        path = clone.folder / ".venv" / "bin" / tool
        path.write_text(f'#!/bin/sh\necho "{tool}" >>"$ASKED"\n[ "$BROKEN" != {tool} ]\n')
        path.chmod(0o755)
    said = clone.make("test", broken=broken)
    assert (said.returncode == 0) is (broken == "nothing"), said.stderr
    assert "-m pytest --numprocesses=auto" in clone.asked.read_text()
    assert "-m tests.compiled\n" in clone.asked.read_text().partition("-m pytest")[0]
    assert "ruff" in clone.asked.read_text()
