"""Mistakes of authors, told so that each can be mended without reading our source: the thing, the
value, the likely cure, and where there is source its line."""

import importlib
import sys
from pathlib import Path

import pytest

from jobrunner.stages import Registry
from jobrunner.stages.distributions import brought
from tests.stages.mistaken import GOOD, MISTAKES

HEAD = "from msgspec import Struct\nfrom jobrunner import *\n"
LINE = HEAD.count("\n") + 1
STAGE = "async def work(ctx):\n    return Done()\n"
SAME = """class P(Struct):
    a: str = ""
work = Definition(Workflow(name="same", version="1", initial="q", states=(
    State("q", "waiting"), State("e", "final", ends="completed")),
    edges=(Edge("q", "e", by=("user",)),), job_types=(JobType("any", params="p"),)),
    structs={"p": P})
"""
LONG = """work = Workflow(
    name="x",
    states=(
        State("a", "queued"),
        State("b", "active", limit=5),
    ),
)
"""
Told = tuple[str, ...]
# The module of a plugin, and the words of its refusal. ``FILE`` is its path.
BROKEN: dict[str, tuple[str, Told]] = {
    "syntax": ("def work(:\n    pass\n", ("SyntaxError", f"FILE, line {LINE}: def work(:")),
    "tabs": ("def f():\n        x = 1\n\ty = 2\n", ("TabError", f"FILE, line {LINE + 2}")),
    "absent": (
        "import pilow_nothere\n",
        ("ModuleNotFoundError", f"FILE, line {LINE}", "install pilow_nothere", "dependencies"),
    ),
    "misnamed": ("wrok = stage('m')(work := None)\n", ("FILE",)),
    "zero": ("LIMIT = 1 / 0\n", ("ZeroDivisionError", f"FILE, line {LINE}: LIMIT = 1 / 0")),
    "exits": ("import sys\nsys.exit(3)\n", ("SystemExit: 3", f"line {LINE + 1}", "may end the")),
    "word": (
        f'@stage("w", memry=5)\n{STAGE}',
        (f"FILE, line {LINE}", "stage takes no 'memry'", "did you mean 'memory'?"),
    ),
    "field": (
        'work = State("a", "queued", onwards={"*": "b"})\n',
        (f"FILE, line {LINE}", "State takes no 'onwards'", "did you mean 'onward'?"),
    ),
    "inner": (
        LONG,
        (f"FILE, line {LINE + 4}", "State takes no 'limit'", "did you mean 'limit_s'?"),
    ),
    "edge": (
        'work = Edge("a", "b", money_="hold")\n',
        (f"FILE, line {LINE}", "Edge takes no 'money_'", "did you mean 'money'?"),
    ),
    "stranger": (
        "work = JobType('a', colour='red')\n",
        ("JobType takes no 'colour'", "it takes name, params, price"),
    ),
    "missing": (
        'work = State("a")\n',
        (f"FILE, line {LINE}", "State needs 'kind'", "write kind="),
    ),
    "many": (
        'work = JobType("a", "b", 3, True, 5, 6)\n',
        (f"FILE, line {LINE}", "JobType takes at most", "write their names: name, params"),
    ),
    "annotation": (
        "class P(Struct):\n    a: Nothing\n",
        ("NameError", "'Nothing'", f"FILE, line {LINE + 1}: a: Nothing"),
    ),
    "nothing": ("", ("of odd-nothing", "no attribute 'work'", "nothing = odd_nothing:work")),
    "function": (STAGE, ("leads to a function, not to a Stage", 'write @stage("NAME")')),
    "api": (f'JOBRUNNER_API = 2\n@stage("api")\n{STAGE}', ("is for API 2", "upgrade jobrunner")),
    "bare": (f"@stage\n{STAGE}", ("leads to a function, not to a Stage", 'write @stage("NAME")')),
    "double": (
        f'@stage("double")\n@stage("inner")\n{STAGE}',
        ("run is Stage(name='inner'", "decorated twice"),
    ),
    "elsewhere": (
        'work = Source("studio", print)\n',
        ("leads to a Source, not to a Stage", "into the group jobrunner.sources"),
    ),
    "hurried": (
        'work = stage("hurried")(lambda ctx: 1)\n',
        ("a function that stands in a module",),
    ),
    "looped": (
        '@stage("looped", how="loop")\ndef work(ctx):\n    return Done()\n',
        ('"loop" is for async def, "thread" for plain functions',),
    ),
    "how": (f'@stage("how", how="processes")\n{STAGE}', ("how is 'processes'", "'process'?")),
    "below": (f'@stage("below", concurrency=-1)\n{STAGE}', ("concurrency=-1", "0 is no limit")),
    "greedy": (
        f'@stage("greedy", resources={{"gpu": 2}})\n{STAGE}',
        ("more gpu", "(2, and there is 0)", "raise [resources] gpu"),
    ),
}
BROKEN["misnamed"] = (
    f'@stage("misnamed")\n{STAGE.replace("work", "wrok")}',
    ("no attribute 'work'", "misnamed = odd_misnamed:work", "did you mean 'wrok'?"),
)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def installed(site: Path, name: str, text: str | None, entries: str) -> Path:
    info = site / f"odd_{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: odd-{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)
    module = site / f"odd_{name}.py"
    if text is not None:
        module.write_text(HEAD + text)
    importlib.invalidate_caches()
    sys.modules.pop(f"odd_{name}", None)
    return module


def refusals(kind: str, name: str) -> str:
    registry = Registry(resources={})
    registry.load([name])
    found = registry.refused[kind]  # type: ignore[index]
    assert name in found, f"nothing was refused: {registry.refused}"
    return "; ".join(found[name])


def told(text: str, words: Told) -> None:
    missing = [word for word in words if word not in text]
    assert not missing, f"{missing} are not in: {text}"


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_declaration_is_told_with_its_place_and_cure(name: str) -> None:
    made, words = MISTAKES[name]
    registry = Registry(resources={})
    definition = made()
    registry.add(definition, "mistaken", "odd-mistaken")
    (texts,) = registry.refused["workflows"].values()
    told("; ".join(texts), words)


def test_what_is_right_is_not_refused() -> None:
    from tests.stages.mistaken import declared

    registry = Registry(resources={})
    registry.add(declared())
    assert registry.names() == [GOOD.name]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_told_with_its_line_and_cure(site: Path, name: str) -> None:
    text, words = BROKEN[name]
    file = installed(site, name, text, f"[jobrunner.stages]\n{name} = odd_{name}:work\n")
    told(refusals("stages", name), tuple(word.replace("FILE", str(file)) for word in words))


def test_a_module_that_was_not_installed(site: Path) -> None:
    installed(site, "lost", None, "[jobrunner.stages]\nlost = odd_lost:work\n")
    told(refusals("stages", "lost"), ("odd_lost:work", "is it in what was installed?"))


def test_an_entry_point_without_its_object(site: Path) -> None:
    entry = "[jobrunner.stages]\nshort = odd_short\n"
    installed(site, "short", f'@stage("short")\n{STAGE}', entry)
    told(refusals("stages", "short"), ("leads to a module", "write short = odd_short:work"))


def test_a_workflow_where_a_definition_belongs(site: Path) -> None:
    entry = "[jobrunner.workflows]\nnaked = odd_naked:naked\n"
    installed(site, "naked", f"{SAME}naked = work.workflow\n", entry)
    told(refusals("workflows", "naked"), ("leads to a Workflow", "write Definition(Workflow("))


def test_both_plugins_that_declare_one_workflow_are_named(site: Path) -> None:
    for name in ("left", "right"):
        installed(site, name, SAME, f"[jobrunner.workflows]\nsame = odd_{name}:work\n")
    told(refusals("workflows", "same"), ("brought twice", "odd-left", "odd-right", "remove one"))


def test_both_plugins_that_bring_one_stage_are_named(site: Path) -> None:
    for name in ("left", "right"):
        entry = f"[jobrunner.stages]\nsame = odd_{name}:work\n"
        installed(site, name, f'@stage("same")\n{STAGE}', entry)
    told(refusals("stages", "same"), ("brought twice", "odd-left", "odd-right", "remove one"))


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ("[jobrunner.stages]\nthis is not ok\n", ("line 2, 'this is not ok'", "NAME = MODULE:")),
        ("[jobrunner.workflow]\na = b:c\n", ("jobrunner.workflow", "did you mean 'workflows'?")),
    ],
)
def test_entry_points_that_are_garbled(site: Path, entries: str, words: Told) -> None:
    installed(site, "garbled", "", entries)
    (fault,) = (one.fault for one in brought() if one.name == "odd-garbled")
    told(fault, words)
