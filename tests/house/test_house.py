"""The rules of this house, kept: every file is read, and every rule is shown to bite."""

import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

from tests.house import rules

ROOT = Path(__file__).resolve().parents[2]
Rule = Callable[[PurePosixPath, str], list[str]]

CODE = ("jobrunner/**/*.py", "plugins/**/*.py")
TESTS = ("tests/**/*.py", "plugins/*/tests/**/*.py")
PROSE = (
    "*.md",
    "*.toml",
    "Makefile",
    ".ci/*",
    "deploy/*",
    "docs/*.md",
    "plugins/**/*.md",
    "plugins/**/*.toml",
)
FRONT = ("jobrunner/**/*.sql", "jobrunner/**/*.html", "jobrunner/**/*.js", "jobrunner/**/*.css")

PURE_ROOMS = ("core", "check", "drawing", "providers")
VENDORED = "vendor"

WHERE: list[tuple[Rule, tuple[str, ...]]] = [
    (rules.parses, (*CODE, *TESTS)),
    (rules.downward, ("jobrunner/**/*.py",)),
    (rules.reserved_modules, ("jobrunner/**/*.py",)),
    (rules.stacked, (*CODE, *TESTS)),
    (rules.pure, tuple(f"jobrunner/{room}/**/*.py" for room in PURE_ROOMS)),
    (rules.empty_names, (*CODE, *TESTS)),
    (rules.reminders, (*CODE, *TESTS, *PROSE, *FRONT)),
    (rules.places, (*CODE, *TESTS, *PROSE, *FRONT)),
    (rules.workflow_names, ("jobrunner/**/*.py", *FRONT)),
    (rules.guests, ("plugins/**/*.py",)),
    (rules.scrubbed, ("jobrunner/**/*.py", "plugins/*/jobrunner_*/**/*.py")),
    (rules.undocumented, (*CODE, *TESTS)),
    (rules.exports, CODE),
    (rules.patience, TESTS),
]


@pytest.mark.parametrize(("rule", "patterns"), WHERE, ids=[rule.__name__ for rule, _ in WHERE])
def test_the_house_keeps_its_rules(rule: Rule, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        assert next(rules.texts(ROOT, pattern), None), f"no file matches {pattern}"
    found = offences()[rule.__name__]
    assert not found, "\n" + "\n".join(found)


@cache
def offences() -> dict[str, list[str]]:
    """By rule, of all files: each is read once."""
    wanted: dict[PurePosixPath, tuple[str, dict[str, Rule]]] = {}
    for rule, patterns in WHERE:
        for pattern in patterns:
            for path, text in rules.texts(ROOT, pattern):
                if VENDORED not in path.parts:
                    wanted.setdefault(path, (text, {}))[1][rule.__name__] = rule
    found: dict[str, list[str]] = {rule.__name__: [] for rule, _ in WHERE}
    for path, (text, by_name) in wanted.items():
        for name, rule in by_name.items():
            found[name] += rule(path, text)
    return found


def test_every_room_opens_with_a_first_file() -> None:
    missing = [
        room for room in rules.ROOMS if not (ROOT / "jobrunner" / room / "__init__.py").exists()
    ]
    assert not missing, f"rooms without a first file: {missing}"


def test_types_are_checked_in_every_plugin() -> None:
    """mypy finds a plugin's package only where it is told to look."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["mypy_path"]
    folders = {file.parent.name for file in ROOT.glob("plugins/*/pyproject.toml")}
    assert folders == {PurePosixPath(path).name for path in told if "/plugins/" in path}


PLANTED: list[tuple[Rule, str, str]] = [
    (rules.parses, "jobrunner/a.py", "def f(:\n"),
    (rules.downward, "jobrunner/core/a.py", "from jobrunner.ports import Clock\n"),
    (rules.downward, "jobrunner/core/a.py", "from jobrunner import store\n"),
    (rules.downward, "jobrunner/http/a.py", "def f():\n    from jobrunner.store import x\n"),
    (rules.downward, "jobrunner/stages/a.py", "import jobrunner.store\n"),
    (rules.downward, "jobrunner/store/a.py", "import jobrunner.stages.api\n"),
    (rules.downward, "jobrunner/actors/a.py", "from jobrunner.http import door\n"),
    (rules.downward, "jobrunner/app.py", "from jobrunner.cli import main\n"),
    (rules.downward, "jobrunner/cellar/a.py", "x = 1\n"),
    (rules.reserved_modules, "jobrunner/log.py", "import time\n"),
    (rules.reserved_modules, "jobrunner/store/a.py", "from threading import Lock\n"),
    (rules.reserved_modules, "jobrunner/app.py", "import sqlite3\n"),
    (rules.reserved_modules, "jobrunner/ports/clock.py", "from aiosqlite import core\n"),
    (rules.reserved_modules, "jobrunner/cli/a.py", "from aiohttp import web\n"),
    (rules.reserved_modules, "jobrunner/app.py", "import aiohttp.web\n"),
    (rules.stacked, "jobrunner/a.py", "await s.enter_async_context(anyio.create_task_group())\n"),
    (rules.pure, "jobrunner/core/a.py", "async def f() -> None:\n    return None\n"),
    (rules.pure, "jobrunner/core/a.py", "import os\n"),
    (rules.pure, "jobrunner/core/a.py", "from logging import getLogger\n"),
    (rules.pure, "jobrunner/core/a.py", "print(1)\n"),
    (rules.empty_names, "jobrunner/store/utils.py", ""),
    (rules.empty_names, "jobrunner/a.py", "class LockManager: ...\n"),
    (rules.empty_names, "jobrunner/a.py", "class FSM: ...\n"),
    (rules.reminders, "README.md", "TOD" + "O: write this\n"),
    (rules.places, "README.md", "cd /hom" + "e/ann/jobrunner\n"),
    (rules.workflow_names, "jobrunner/core/a.py", 'if name == "cut' + 'x":\n'),
    (rules.workflow_names, "jobrunner/core/a.py", 'if name == "s' + 's":\n'),
    (rules.workflow_names, "jobrunner/store/schema.sql", "-- how" + "era has 15 states\n"),
    (rules.guests, "plugins/a/a/b.py", "from jobrunner.core.job import Snapshot\n"),
    (rules.guests, "plugins/a/a/b.py", "import jobrunner.store\n"),
    (rules.scrubbed, "plugins/a/a/b.py", 'subprocess.run(("ls",), check=True)\n'),
    (rules.scrubbed, "jobrunner/a.py", 'asyncio.create_subprocess_exec("ls")\n'),
    (rules.undocumented, "jobrunner/a.py", "x = 1\n"),
    (rules.undocumented, "jobrunner/core/__init__.py", '"""Short."""\n'),
    (rules.exports, "jobrunner/a.py", '__all__ = ["gone"]\n'),
    (rules.exports, "jobrunner/a.py", "__all__ = []\ndef f(): ...\n"),
    (rules.exports, "jobrunner/__init__.py", "from jobrunner.core.job import A\n__all__ = []\n"),
    (rules.patience, "tests/a.py", "time.sleep(1)\n"),
    (rules.patience, "tests/a.py", "from unittest.mock import Mock\n"),
]


@pytest.mark.parametrize(("rule", "path", "text"), PLANTED)
def test_every_rule_bites(rule: Rule, path: str, text: str) -> None:
    assert rule(PurePosixPath(path), text)


FINE: list[tuple[Rule, str, str]] = [
    (rules.downward, "jobrunner/core/a.py", "from jobrunner.core.job import Snapshot\n"),
    (rules.downward, "jobrunner/__init__.py", "from jobrunner.core.job import Snapshot\n"),
    (rules.reserved_modules, "jobrunner/ports/clock.py", "import time\n"),
    (rules.reserved_modules, "jobrunner/cli/a.py", "import aiohttp\n"),
    (rules.pure, "jobrunner/core/a.py", "class R(Protocol):\n    async def f(self) -> int: ...\n"),
    (rules.pure, "jobrunner/core/a.py", "from collections.abc import Callable\n"),
    (rules.empty_names, "jobrunner/a.py", "class Baseline: ...\nbase_s = 1\n"),
    (rules.places, "README.md", "http://127.0.0.1:8080/hom" + "e/x and src/wor" + "k/x\n"),
    (
        rules.guests,
        "plugins/a/a/b.py",
        "from jobrunner import Workflow\nimport jobrunner.testing\n",
    ),
    (rules.scrubbed, "plugins/a/a/b.py", 'subprocess.run(("ls",), env={})\n'),
    (rules.exports, "jobrunner/a.py", '__all__ = ["f"]\ndef f(): ...\ndef _g(): ...\n'),
    (rules.patience, "tests/a.py", "anyio.sleep(0.01)\n"),
]


@pytest.mark.parametrize(("rule", "path", "text"), FINE)
def test_no_rule_bites_the_innocent(rule: Rule, path: str, text: str) -> None:
    assert rule(PurePosixPath(path), text) == []


def test_every_rule_has_a_planted_defect() -> None:
    assert {rule for rule, _ in WHERE} == {rule for rule, _, _ in PLANTED}
