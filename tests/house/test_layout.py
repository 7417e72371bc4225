"""The house as a whole keeps its rules, but for the offences that stood when they came."""

from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from tests.house import layout
from tests.house.layout import RULES, Tree

ROOT = Path(__file__).resolve().parents[2]
KNOWN = Path(__file__).parent / "offenders.txt"
TREE = layout.read(ROOT)


def known() -> dict[str, set[str]]:
    """The offences that are listed, by rule."""
    found: dict[str, set[str]] = {}
    for line in KNOWN.read_text(encoding="utf-8").splitlines():
        rule, _, offence = line.partition(": ")
        found.setdefault(rule, set()).add(offence)
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_offends_no_more_than_it_did(rule: Callable[[Tree], list[str]]) -> None:
    found, listed = set(rule(TREE)), known().get(rule.__name__, set())
    assert found - listed == set(), "new offences; mend them"
    assert listed - found == set(), "these are mended; take them off offenders.txt"


def test_every_listed_offence_is_of_a_rule() -> None:
    assert known().keys() <= {rule.__name__ for rule in RULES}


LONG = "def f():\n" + "    x = 1\n" * 60
PLANTED: list[tuple[str, dict[str, str]]] = [
    ("strays", {"core/x": ""}),
    ("strays", {"core/steps.py.orig": ""}),
    ("strays", {"core/notes.txt": ""}),
    ("unasked", {"core/forgotten.py": ""}),
    ("unasked", {"cli/forgotten.py": "", "cli/__init__.py": 'app("jobrunner.cli.serve:serve")'}),
    ("opened", {"core/a.py": "open(1)"}),
    ("opened", {"http/a.py": "path.read_text()"}),
    ("opened", {"http/a.py": "Path('a').exists()"}),
    ("opened", {"http/a.py": "from os import remove as gone\ngone('a')"}),
    ("opened", {"actors/a.py": "import shutil as s\nf(s.copytree)"}),
    ("environment", {"actors/a.py": "import os\nx = os.environ['A']"}),
    ("environment", {"actors/a.py": "from os import environ as e\nx = e['A']"}),
    ("environment", {"http/a.py": "import os as o\nx = o.path.expandvars('$A')"}),
    ("environment", {"http/a.py": "from os import getenv\nx = getenv('A')"}),
    ("told_time", {"core/a.py": "import datetime\nx = datetime.datetime.now()"}),
    ("told_time", {"core/a.py": "import datetime as dt\nx = dt.date.today()"}),
    ("told_time", {"core/a.py": "from datetime import datetime as d\nx = d.now(UTC)"}),
    ("told_time", {"core/a.py": "from datetime import datetime\nclock = datetime.utcnow"}),
    ("told_time", {"core/a.py": "from os import urandom\nx = urandom(8)"}),
    (
        "cycles",
        {
            "core/a.py": "from jobrunner.core.b import x",
            "core/b.py": "def f():\n    import jobrunner.core.a",
        },
    ),
    ("classes", {"core/a.py": "class Call: ...", "http/b.py": "class Call: ..."}),
    ("namesakes", {"core/door.py": "", "http/door.py": ""}),
    ("for_tests_only", {"core/a.py": "def nobody_needs_this(): ..."}),
    ("for_tests_only", {"core/a.py": "def pytest_addoption(): ..."}),
    ("for_tests_only", {"core/a.py": "class A:\n    def nobody_needs_this(self): ..."}),
    ("for_tests_only", {"core/a.py": "NOBODY_NEEDS_THIS = 1"}),
    ("for_tests_only", {"testing/kit/fixture.py": "def nobody_needs_this(): ..."}),
    ("private", {"core/a.py": "from jobrunner.core.b import _x"}),
    ("private", {"core/a.py": "other._secret()"}),
    ("sizes", {"core/a.py": LONG}),
    ("voice", {"core/a.py": '"""What the core knows."""'}),
    ("voice", {"core/a.py": 'class A:\n    def f(self):\n        """Who asked first."""'}),
    ("voice", {"core/a.py": 'x = "the job is put aside"'}),
    ("voice", {"core/a.py": "x = 1  # a stage in the house"}),
    ("sizes", {"core/a.py": "x = 1\n" * 401}),
    ("sizes", {f"core/a{number}.py": "" for number in range(25)}),
]


@pytest.mark.parametrize(("rule", "files"), PLANTED)
def test_every_rule_bites(rule: str, files: dict[str, str]) -> None:
    planted = {PurePosixPath("jobrunner", name): text for name, text in files.items()}
    assert getattr(layout, rule)(planted)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tests/test_a.py", "x = 1\n" * 601),
        ("tests/test_a.py", LONG.replace("def", "async def")),
        ("plugins/a/jobrunner_a/b.py", "x = 1\n" * 401),
    ],
)
def test_sizes_hold_for_tests_and_plugins_too(path: str, text: str) -> None:
    assert layout.sizes({PurePosixPath(path): text})


def test_a_module_that_only_tests_import_is_one_that_nobody_asks_for() -> None:
    asking = {PurePosixPath("tests/core/test_a.py"): "from jobrunner.core import a"}
    assert layout.unasked({PurePosixPath("jobrunner/core/a.py"): "", **asking})


def test_plugins_are_told_the_time_too() -> None:
    asking = "from datetime import date\nx = date.today()"
    assert layout.told_time({PurePosixPath("plugins/a/jobrunner_a/b.py"): asking})


def test_a_module_of_tests_may_be_longer_than_one_of_the_product() -> None:
    assert not layout.sizes({PurePosixPath("tests/test_a.py"): "x = 1\n" * 600})


def test_every_rule_has_a_planted_offence() -> None:
    assert {rule.__name__ for rule in RULES} == {rule for rule, _ in PLANTED}


FINE: list[tuple[str, dict[str, str]]] = [
    ("unasked", {"core/a.py": "", "core/b.py": "from jobrunner.core import a"}),
    ("namesakes", {"core/webhooks.py": "", "http/routes/workers/webhooks.py": ""}),
    ("classes", {"core/a.py": "class Call: ...\nclass _Own: ...", "core/b.py": "class _Own: ..."}),
    ("opened", {"store/a.py": "open(1)"}),
    ("opened", {"core/a.py": "class A:\n    open: bool\n    exists = 1"}),
    ("told_time", {"core/a.py": "def f(now):\n    return now()"}),
    ("environment", {"core/a.py": "def f(environ):\n    return environ['A']"}),
    ("strays", {"store/schema/0004.sql": "", "py.typed": ""}),
    ("private", {"core/a.py": "class A:\n    def f(self, other):\n        self._x = other._x"}),
    ("for_tests_only", {"core/a.py": "def f(): ...", "core/b.py": "f()"}),
    ("for_tests_only", {"testing/kit/fixture.py": "def pytest_addoption(): ..."}),
    ("for_tests_only", {"core/a.py": "class A(B):\n    def emit(self): ..."}),
    ("for_tests_only", {"core/a.py": "MOST = 1\nprint(MOST)"}),
    ("voice", {"core/a.py": 'def f():\n    """Say what was asked, and who asked."""'}),
]


@pytest.mark.parametrize(("rule", "files"), FINE)
def test_no_rule_bites_the_innocent(rule: str, files: dict[str, str]) -> None:
    named = {PurePosixPath("jobrunner", name): text for name, text in files.items()}
    found = getattr(layout, rule)(named)
    assert not [one for one in found if "core.b" not in one]
