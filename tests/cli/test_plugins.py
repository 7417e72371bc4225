"""``plugin``: a new one works at once; a list tells what each one brings, or why it does not."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.docs.test_plugins_md import shown
from tests.served import clean, serving

ROOT = Path(__file__).resolve().parents[2]
STAGE_LINES_MAX = 15
MODULE = """
from jobrunner import stage, Done
from jobrunner_hello import definition as known
from msgspec.structs import replace
from jobrunner import Definition
replaced = Definition(replace(known.workflow, version="2"), structs=known.structs)
{extra}
@stage("{name}.stage")
async def work(ctx):
    return Done()

definition = Definition(replace(known.workflow, name="{name}"), structs=known.structs)
"""
ENTRIES = """[jobrunner.workflows]
{name} = {module}:definition
[jobrunner.stages]
{name}.stage = {module}:work
"""


def brought(folder: Path, name: str, extra: str = "", entries: str = ENTRIES, **how: str) -> None:
    """A distribution, as an installer leaves it."""
    module, version = how.get("module", f"odd_{name}"), how.get("version", "1.0")
    (folder / f"{module}.py").write_text(MODULE.format(name=name, extra=extra))
    info = folder / f"odd_{how.get('called', name)}-{version}.dist-info"
    info.mkdir(parents=True)
    called = how.get("called", name)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: odd-{called}\nVersion: {version}\n"
    )
    (info / "entry_points.txt").write_text(entries.format(name=name, module=module))


def run(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=clean() | environ,
        capture_output=True,
        text=True,
        check=False,
    )


# ---------------------------------------------------------------- plugin new


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    done = run(folder, "-m", "jobrunner", "plugin", "new", "night-train")
    assert (done.returncode, done.stdout) == (0, "night-train\n"), done.stderr
    return folder / "night-train"


def test_a_new_plugins_tests_pass_at_once(made: Path) -> None:
    plugins = ("-p", "jobrunner.testing.kit.fixture")
    done = run(made, "-m", "pytest", "-q", *plugins)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_a_new_plugin_is_typed_and_tidy(made: Path, tmp_path: Path) -> None:
    """The python of the guide is typed beside it: most of the time goes into the types of ours."""
    (lesson := tmp_path / "lesson.py").write_text("\n\n".join(shown("python")))
    types = ("mypy", "--strict", "--cache-dir", str(tmp_path / "cache"))
    for words in (
        ("ruff", "check", "--no-cache", "."),
        ("ruff", "format", "--no-cache", "--check", "."),
        (*types, "jobrunner_night_train", "tests", str(lesson)),
    ):
        done = run(made, "-m", *words, PYTHONPATH=str(ROOT))
        assert done.returncode == 0, (words, done.stdout + done.stderr)


def test_a_new_plugin_is_shaped_like_the_smallest_one(made: Path) -> None:
    files = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    files = {path for path in files if "cache" not in path}
    package = "jobrunner_night_train"
    assert files == {
        "README.md",
        "pyproject.toml",
        f"{package}/__init__.py",
        f"{package}/py.typed",
        "tests/test_night_train.py",
    }
    assert not [path for path in files if "$" in (made / path).read_text()]
    assert "\ndependencies = []" in (made / "pyproject.toml").read_text()


def test_one_with_a_panel_is_tidy_loads_and_is_what_the_guide_shows(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "jobrunner", "plugin", "new", "tram", "--panel")
    assert done.returncode == 0, done.stderr
    made = tmp_path / "tram"
    for words in (
        ("ruff", "check", "--no-cache", "."),
        ("ruff", "format", "--no-cache", "--check", "."),
        ("jobrunner", "plugin", "check", "."),
    ):
        done = run(made, "-m", *words, PYTHONPATH=str(ROOT))
        assert done.returncode == 0, (words, done.stdout + done.stderr)
    assert "1 panels" in done.stdout
    script = (made / "jobrunner_tram" / "panel" / "panel.js").read_text()
    assert f"```js\n{script}```" in (ROOT / "PLUGINS.md").read_text()
    page = made / "jobrunner_tram" / "panel" / "index.html"
    page.write_text("<iframe SrcDoc='<script src=panel.js></script>'></iframe>")
    assert "has a srcdoc" in run(made, "-m", "jobrunner", "plugin", "check", ".").stdout
    page.unlink()
    done = run(made, "-m", "jobrunner", "plugin", "check", ".")
    assert done.returncode == 1
    assert "has no index.html in jobrunner_tram/panel" in done.stdout


def test_its_stage_has_fifteen_lines(made: Path) -> None:
    tree = ast.parse((made / "jobrunner_night_train" / "__init__.py").read_text())
    (stage,) = (node for node in tree.body if isinstance(node, ast.AsyncFunctionDef))
    first = stage.decorator_list[0].lineno
    assert (stage.end_lineno or 0) - first + 1 <= STAGE_LINES_MAX


@pytest.mark.parametrize(
    "name", ["", "Night", "night_train", "9lives", "a--b", "-a", "a-", "ü", "a/b", "..", "a" * 41]
)
def test_a_name_that_does_not_fit(command: Command, name: str) -> None:
    code, out, err = command("plugin", "new", "--", name)
    assert (code, out) == (2, "")
    assert "is no name for a plugin" in err
    assert len(err.splitlines()) == 1
    assert not list(Path().iterdir())


@pytest.mark.parametrize(("name", "who"), [("hello", "jobrunner-hello"), ("ss", "jobrunner-ss")])
def test_a_name_that_is_taken(command: Command, name: str, who: str) -> None:
    code, out, err = command("plugin", "new", name)
    assert (code, out) == (1, "")
    assert err.startswith(f"ALREADY_EXISTS: {name}: {who} 1.0.0 is installed from ")
    assert err.endswith("choose another name\n")
    assert not list(Path().iterdir())


def test_a_name_whose_package_is_there(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("jobrunner_tram").mkdir()
    monkeypatch.syspath_prepend(str(Path.cwd()))
    code, _, err = command("plugin", "new", "tram")
    assert code == 1
    assert "package jobrunner_tram on python's path" in err


@pytest.mark.parametrize(
    ("name", "who"),
    [
        *((name, "is a word or a module of python's own") for name in ("os", "class", "match")),
        ("json", "is a word or a module of python's own"),
        *((name, f"there is a package {name} on python's path") for name in ("msgspec", "aiohttp")),
    ],
)
def test_a_name_that_python_has_already(command: Command, name: str, who: str) -> None:
    code, out, err = command("plugin", "new", name)
    assert (code, out) == (1, "")
    assert f"ALREADY_EXISTS: {name}: " in err
    assert who in err
    assert err.endswith("choose another name\n")
    assert not list(Path().iterdir())


def test_what_is_there_is_left_alone(command: Command) -> None:
    assert command("plugin", "new", "tram") == (0, "tram\n", "")
    file = Path("tram/README.md")
    file.write_text("mine")
    code, _, err = command("plugin", "new", "tram")
    assert (code, file.read_text()) == (1, "mine")
    assert "tram is there already; it is left alone" in err
    Path("bus").write_text("a file")
    assert command("plugin", "new", "bus")[0] == 1
    assert Path("bus").read_text() == "a file"


def test_a_folder_that_takes_nothing(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full in the middle of it: nothing is left."""
    write = Path.write_text

    def full(path: Path, text: str, **how: Any) -> int:
        if path.name == "__init__.py":
            raise OSError(28, "No space left on device")
        return write(path, text, **how)

    monkeypatch.setattr(Path, "write_text", full)
    code, _, err = command("plugin", "new", "tram")
    assert (code, err) == (1, "tram: cannot be written: No space left on device\n")
    assert not list(Path().iterdir())


def test_into_another_folder(command: Command) -> None:
    code, _, err = command("plugin", "new", "tram", "--into", "depot")
    assert code == 4
    assert "depot: there is no such folder" in err
    Path("depot").mkdir()
    assert command("plugin", "new", "tram", "--into", "depot") == (0, "depot/tram\n", "")
    assert Path("depot/tram/pyproject.toml").exists()


# ---------------------------------------------------------------- plugin list


def listed(folder: Path, *words: str, **environ: str) -> dict[str, dict[str, Any]]:
    """By name and place: a name may be there twice."""
    done = run(folder, "-m", "jobrunner", "plugin", "list", "-o", "json", *words, **environ)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return {f"{one['name']} {one['version']}": one for one in told}


def test_the_plugins_of_this_tree(tmp_path: Path) -> None:
    told = listed(tmp_path)
    lost = [fault for one in told.values() for fault in one["faults"] if "no group" in fault]
    assert not lost
    hello = told["jobrunner-hello 1.0.0"]
    assert hello["api"] == 1
    assert [one["name"] for one in hello["workflows"]] == ["hello"]
    assert [(one["name"], one["state"]) for one in hello["stages"]] == [("hello.greet", "loaded")]
    assert hello["faults"] == []
    ids = run(tmp_path, "-m", "jobrunner", "plugin", "list", "-o", "ids").stdout.split()
    assert {"jobrunner-hello", "jobrunner-ss"} <= set(ids)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every kind of plugin that is no use, and one that is."""
    place = tmp_path_factory.mktemp("odd")
    (folder := place / "plugins.d").mkdir()
    brought(folder, "good")
    brought(folder, "newer", "JOBRUNNER_API = 2")
    brought(folder, "broken", "raise RuntimeError('no')")
    brought(folder, "needy", "import nowhere_at_all")
    brought(folder, "garbled", entries="[jobrunner.workflows]\nthis is no entry point\n")
    brought(folder, "twin", module="odd_one", called="one")
    brought(folder, "twin", module="odd_two", called="two")
    brought(folder, "wrong", entries="[jobrunner.workflows]\nwrong = {module}:work\n")
    brought(folder, "lost", entries="[jobrunner.stage]\nlost = {module}:work\n")
    brought(folder, "loud", "print('a word')\nraise RuntimeError('\\x1b[2Jtwo\\nlines')")
    for name, change in MISTYPED.items():
        spoiled = f"Definition(replace(known.workflow, {change}), structs=known.structs)"
        brought(folder, name, f"from jobrunner import *\nknown = {spoiled}")
    pair = "[jobrunner.workflows]\npair = {module}:definition\n"
    brought(folder, "pair", entries=pair, called="first", module="odd_first")
    brought(folder, "pair", "known = replaced", pair, called="second", module="odd_second")
    brought(folder, "lean", "raise RuntimeError('never imported')", "[console_scripts]\na = b:c\n")
    return place


MISTYPED = {
    "seconds": "states=(State('a', 'active', limit_s='60s'),)",
    "kinds": "states=(State('a', 'wating'),)",
    "bound": "states=(State('a', 'active', stage='x.y'),)",
    "money": "birth=Birth(money='holds')",
    "letters": "edges=(Edge('queued', 'greeting', 'user'),)",
    "lists": "states=7",
    "forgotten": "states=tuple(replace(s, stage={}) for s in known.workflow.states)",
}


@pytest.fixture(scope="module")
def told(odd: Path) -> dict[str, dict[str, Any]]:
    return listed(odd)


CURES = {
    "newer": "upgrade jobrunner",
    "broken": ": raise RuntimeError('no')); ask its author to mend it, or remove the plugin",
    "needy": "install what it needs (nowhere_at_all)",
    "garbled": "install it again",
    "one": "remove one of the plugins",
    "lost": "there is no group jobrunner.stage; did you mean 'jobrunner.stages'?",
    "loud": "does not load: RuntimeError",
    "second": "pair is brought twice, by odd-first and by odd-second; remove one of the plugins",
    "wrong": "leads to a Stage, not to a Definition",
    "seconds": "state a: limit_s is '60s', and must be a number of seconds",
    "kinds": "state a: kind is 'wating', and must be 'waiting' or",
    "bound": "state a: stage is 'x.y', and must be a dict; write {\"*\": 'x.y'}",
    "money": "money is 'holds', and must be 'hold' or",
    "letters": "by is 'user', and must be a tuple; write ('user',)",
    "lists": "states is 7, and must be a tuple",
    "forgotten": "state greeting binds no stage for the job type 'greeting'",
}


@pytest.mark.parametrize("name", CURES)
def test_what_is_refused_says_why_and_what_to_do(told: dict[str, Any], name: str) -> None:
    one = told[f"odd-{name} 1.0"]
    assert any(CURES[name] in fault for fault in one["faults"]), one
    assert one["from"] == "plugins.d"
    if name not in ("garbled", "lost"):
        states = {entry["state"] for kind in ("workflows", "stages") for entry in one[kind]}
        assert "refused" in states


@pytest.mark.parametrize("name", MISTYPED)
def test_the_check_of_workflows_says_the_same(odd: Path, name: str) -> None:
    done = run(odd, "-m", "jobrunner", "workflow", "check", name)
    assert done.returncode == 1
    assert CURES[name] in done.stdout
    assert "Traceback" not in done.stderr


def test_all_workflows_are_checked_beside_them(odd: Path) -> None:
    done = run(odd, "-m", "jobrunner", "workflow", "check")
    assert done.returncode == 1
    assert {"hello: ok", "good: ok"} <= set(done.stdout.splitlines())
    assert "a word" not in done.stdout
    assert all(f"{name}: refused" in done.stdout for name in MISTYPED)


def test_what_is_good_beside_them_is_loaded(told: dict[str, Any]) -> None:
    good = told["odd-good 1.0"]
    assert {one["state"] for one in (*good["workflows"], *good["stages"])} == {"loaded"}
    assert told["odd-newer 1.0"]["api"] == 2
    assert told["odd-first 1.0"]["faults"] == []
    assert "odd-lean 1.0" not in told


def test_the_table_ends_with_the_reasons(odd: Path) -> None:
    done = run(odd, "-m", "jobrunner", "plugin", "list")
    head, *lines = done.stdout.splitlines()
    assert head.split()[:4] == ["NAME", "VERSION", "API", "FROM"]
    assert any("newer (refused)" in line for line in lines)
    assert any(line.startswith("odd-needy 1.0: needy: ") for line in lines)
    assert "two lines" in done.stdout
    assert "a word" not in done.stdout
    assert "a word" in done.stderr
    assert "\x1b" not in done.stdout


def test_what_is_off_is_told_as_off(odd: Path) -> None:
    told = listed(odd, JOBRUNNER_PLUGINS__ENABLED="good,good.stage,hello.greet")
    assert {one["state"] for one in told["odd-newer 1.0"]["workflows"]} == {"off"}
    assert told["odd-newer 1.0"]["faults"] == []
    assert {one["state"] for one in told["odd-good 1.0"]["workflows"]} == {"loaded"}


def test_a_workflow_that_is_enabled_brings_its_stages(tmp_path: Path) -> None:
    (folder := tmp_path / "plugins.d").mkdir()
    brought(folder, "alone")
    told = listed(tmp_path, JOBRUNNER_PLUGINS__ENABLED="hello,alone")
    for name in ("odd-alone 1.0", "jobrunner-hello 1.0.0"):
        one = next(told[known] for known in told if known.startswith(name.split()[0]))
        states = {entry["state"] for kind in ("workflows", "stages") for entry in one[kind]}
        assert (states, one["faults"]) == ({"loaded"}, [])
    assert {entry["state"] for entry in told["jobrunner-howera 1.0.0"]["stages"]} == {"off"}


def test_what_is_enabled_and_not_there_is_told(tmp_path: Path) -> None:
    environ = {"JOBRUNNER_PLUGINS__ENABLED": "helo,hello.greet"}
    done = run(tmp_path, "-m", "jobrunner", "plugin", "list", **environ)
    assert "plugins.enabled = 'helo': nothing brings it; did you mean 'hello'?" in done.stdout
    assert "'hello.greet'" not in done.stdout


def test_of_two_with_one_name_the_second_is_hidden(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    for folder, version in ((elsewhere, "1.0"), (tmp_path / "plugins.d", "2.0")):
        folder.mkdir()
        brought(folder, "same", version=version)
    path = os.pathsep.join([str(elsewhere), os.environ.get("PYTHONPATH", "")])
    told = listed(tmp_path, PYTHONPATH=path)
    assert told["odd-same 1.0"]["faults"] == []
    (fault,) = told["odd-same 2.0"]["faults"]
    assert fault == f"is hidden by odd-same 1.0 in {elsewhere}; remove one of them"


def test_the_service_starts_beside_all_of_them(odd: Path) -> None:
    """The refused are named in the log, the rest is served."""
    with serving(odd) as served:
        (start,) = (line for line in served.log() if line["event"] == "service.starting")
        assert {"good", "hello"} <= set(start["workflows"])
        refused = {
            line["workflow"]: line["reasons"]
            for line in served.log()
            if line["event"] == "workflow.refused"
        }
        assert {"newer", "broken", "needy", "wrong", *MISTYPED} <= set(refused)
        assert served.stop() == 0


# ---------------------------------------------------------------- plugin check


def checked(folder: Path) -> subprocess.CompletedProcess[str]:
    return run(folder.parent, "-m", "jobrunner", "plugin", "check", folder.name)


def test_a_folder_is_checked_as_the_service_would_load_it(tmp_path: Path) -> None:
    """Not installed; and whatever is wrong with it is told, with an exit code of 1."""
    assert run(tmp_path, "-m", "jobrunner", "plugin", "new", "tram").returncode == 0
    sound = checked(tmp_path / "tram")
    assert (sound.returncode, sound.stderr) == (0, "")
    assert "jobrunner-tram 0.1.0: loads; 1 workflows, 1 stages" in sound.stdout
    module, project = (tmp_path / "tram" / name for name in ("jobrunner_tram/__init__.py",
                                                             "pyproject.toml"))  # fmt: skip
    whole, told = module.read_text(), project.read_text()
    unbound = whole.replace('stage={"*": "tram.greet"}', 'stage={"*": "tram.meet"}')
    twice = told.replace("dependencies = []", 'dependencies = ["jobrunner>=1"]')
    for path, text, words in (
        (module, unbound, "tram.meet"),
        (module, whole.replace('done="greeted"', 'done="done"'), "done"),
        (module, whole + "\nimport no_such_module\n", "no_such_module"),
        (module, whole.replace("async def greet", "asyn def greet"), "SyntaxError"),
        (project, told.replace("jobrunner.stages", "jobrunner.stage"), "there is no group"),
        (project, twice, "leave it out"),
        (project, told.replace(":greet", ":great"), "great"),
        (project, "[project", "cannot be read"),
    ):  # fmt: skip
        before = path.read_text()
        path.write_text(text)
        found = checked(tmp_path / "tram")
        assert found.returncode == 1, (words, found)
        assert words in found.stdout + found.stderr, (words, found)
        path.write_text(before)
    nothing = checked(tmp_path)
    assert nothing.returncode == 1
    assert "there is no pyproject.toml" in nothing.stderr
