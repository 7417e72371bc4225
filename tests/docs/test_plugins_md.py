"""PLUGINS.md is true: what it shows runs, what it names is there, and what is there is named."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
from msgspec.structs import fields, replace

import jobrunner
import jobrunner.testing
from jobrunner import Context, Definition, PlainContext, Stage
from jobrunner.check.checking import check
from jobrunner.config import overrides
from jobrunner.config.reading import load
from jobrunner.config.settings import Config
from jobrunner.core.declaration.workflow import Workflow
from jobrunner.stages.distributions import KINDS, PREFIX
from jobrunner.testing import providers
from tests.docs.walk import HEADING, Walk

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "PLUGINS.md").read_text(encoding="utf-8")
WORDS = set(re.findall(r"\w+", TEXT))
STAGE_LINES = 15
PROJECT = "[project]"
LISTED = ["jobrunner-tram", "0.1.0", "1", "plugins.d"]


def shown(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def written(folder: Path) -> Path:
    """All of its python, one after the other: what a reader has in the end."""
    file = folder / "test_lesson.py"
    file.write_text("\n\n".join(shown("python")))
    return file


@pytest.fixture(scope="module")
def lesson(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    folder = tmp_path_factory.mktemp("lesson")
    written(folder)
    sys.path.insert(0, str(folder))
    try:
        return import_module("test_lesson")
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("test_lesson", None)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )


# ---------------------------------------------------------------- what it shows


def test_its_python_runs_and_its_tests_pass(tmp_path: Path) -> None:
    written(tmp_path)
    fixtures = (
        "-p",
        "jobrunner.testing.kit.fixture",
        "-p",
        "jobrunner.testing.kit.provider_fixtures",
    )
    done = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", *fixtures, ".")
    assert done.returncode == 0, done.stdout + done.stderr
    tests = re.findall(r"^(?:async )?def test_", "\n".join(shown("python")), re.MULTILINE)
    assert f"{len(tests)} passed" in done.stdout


def test_its_python_is_tidy(tmp_path: Path) -> None:
    """That it is typed is asked beside a new plugin, in tests/cli."""
    for number, block in enumerate(shown("python")):
        (tmp_path / f"block_{number}.py").write_text(block)
    line = ("--isolated", "--no-cache", "--line-length", "100")
    done = run(tmp_path, "-m", "ruff", "format", "--diff", *line, *_blocks(tmp_path))
    assert done.returncode == 0, done.stdout


def _blocks(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("block_*.py"))


def test_fifteen_lines_are_fifteen_lines() -> None:
    block = shown("python")[0]
    assert "in fifteen lines" in TEXT
    assert len([line for line in block.splitlines() if line.strip()]) <= STAGE_LINES


def test_the_walk(tmp_path: Path) -> None:
    """The commands of the first section, typed as they stand there."""
    walk = Walk(tmp_path)
    with walk.walked() as served:
        pass
    assert served.process.returncode == 0
    made, changed, checked, installed, done = walk.said
    assert "4 passed" in made
    assert "4 passed" in changed
    assert "loads; 1 workflows, 1 stages" in checked
    assert any(line.split()[:4] == LISTED for line in installed.splitlines())
    assert '"status":"queued"' in done.replace(" ", "")
    assert "Mind the gap, Ada!" in done
    assert "greeted" in done


def test_the_walk_is_all_of_its_section() -> None:
    assert HEADING in TEXT
    assert TEXT.index("```sh") > TEXT.index(HEADING)


def test_its_upload_fits_its_workflow(lesson: ModuleType) -> None:
    workflow = replace(lesson.poster.workflow, uploads=(lesson.sketch,))
    assert check(Definition(workflow, lesson.poster.functions, lesson.poster.structs)) == ()
    lost = replace(lesson.sketch, walks={"attic": ()})
    workflow = replace(workflow, uploads=(lost,))
    assert check(Definition(workflow, lesson.poster.functions, lesson.poster.structs))


# ---------------------------------------------------------------- settings and packaging


def settings() -> list[str]:
    return [block for block in shown("toml") if PROJECT not in block]


@pytest.mark.parametrize("block", settings())
def test_its_settings_are_settings(block: str, tmp_path: Path, lesson: ModuleType) -> None:
    file = tmp_path / "config.toml"
    file.write_text(block)
    config = load(file, {})
    declared: Workflow = lesson.poster.workflow
    fitted, faults = overrides.laid_over(declared, config.workflow("poster"))
    assert not faults
    if config != Config() and "poster" in config.workflows:
        assert fitted != declared


def test_its_project_leads_to_what_it_shows(lesson: ModuleType) -> None:
    (block,) = (block for block in shown("toml") if PROJECT in block)
    project = tomllib.loads(block)["project"]
    groups = project["entry-points"]
    assert set(groups) == {PREFIX + kind for kind in KINDS}
    for group, entries in groups.items():
        for name, where in entries.items():
            found = getattr(lesson, where.partition(":")[2])
            told = getattr(found, "workflow", found)
            assert name == (told if isinstance(told, str) else told.name), group
    assert not {"jobrunner", "msgspec"} & {re.split(r"\W", d)[0] for d in project["dependencies"]}


# ---------------------------------------------------------------- what it names


def test_every_verb_of_the_context_is_taught() -> None:
    table = TEXT.partition("### What it is given")[2].partition("### How it may end")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert {name for row in rows for name in _named(row)} == set(fields_of_context())


def fields_of_context() -> list[str]:
    """What is public on it, with what is only there once it is made."""
    tried: dict[str, Any] = {}

    async def look(ctx: Context[Any]) -> Any:
        tried["names"] = [name for name in dir(ctx) if not name.startswith("_")]
        return jobrunner.Done()

    jobrunner.testing.run_stage(Stage("look", look))
    return list(tried["names"])


def _named(cell: str) -> list[str]:
    return [re.split(r"\W", name)[0] for name in re.findall(r"`([^`]+)`", cell)]


def test_both_contexts_have_the_same_verbs() -> None:
    verbs = [
        {name for name in vars(kind) if not name.startswith("_")}
        for kind in (Context, PlainContext)
    ]
    assert verbs[0] == verbs[1]


@pytest.mark.parametrize("module", [jobrunner, jobrunner.testing], ids=lambda one: one.__name__)
def test_every_name_of_the_door_is_taught(module: ModuleType) -> None:
    assert set(module.__all__) - WORDS - {"Attempt", "Broken", "Proof", "Trace"} == set()


def test_every_fault_of_the_providers_is_taught() -> None:
    assert {kind.__name__ for kind in get_args(providers.Fault)} - WORDS == set()
    assert {field.name for field in fields(Stage)} - {"run", "how", "name"} - WORDS == set()


@pytest.mark.parametrize("provider", [providers.OpenAILike, providers.ReplicateLike])
def test_every_route_of_the_providers_is_taught(provider: type[providers.Provider]) -> None:
    said = TEXT.partition(f"`{provider.__name__}` has")[2][:200]
    assert said
    missing = [route for route in provider().routes() if f"`{route}`" not in said]
    assert not missing


def test_the_settings_that_it_speaks_of_are_there() -> None:
    tree = json.loads(json.dumps(_tree(Config())))
    for section in re.findall(r"`\[(\w+)\]`", TEXT):
        assert section in tree, section


def _tree(config: Config) -> dict[str, Any]:
    return dict.fromkeys(config.__struct_fields__, 0)
