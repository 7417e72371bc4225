"""The service as one file: it runs in a folder that has nothing else, asks no index, and is the
same again when it is built again."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.served import PATIENCE_S, serving_by

ROOT = Path(__file__).resolve().parents[2]
SUM = """\
import os

import jobrunner
from jobrunner import Done, PlainContext, one_stage, stage
from msgspec import Struct


class Nothing(Struct, frozen=True):
    pass


@stage("sums.add")
def add(ctx: PlainContext) -> Done:
    return Done(result={"pid": os.getpid(), "code": jobrunner.__file__, "sum": 3})


definition = one_stage(add, Nothing)
"""
METADATA = "Metadata-Version: 2.1\nName: jobrunner-sums\nVersion: 7.0\n"
ENTRIES = (
    "[jobrunner.workflows]\nsums = sums:definition\n\n[jobrunner.stages]\nsums.add = sums:add\n"
)


def built(into: Path, *options: str) -> Path:
    command = (sys.executable, str(ROOT / "deploy/one_file.py"), "--into", str(into), *options)
    told = _ran(command, ROOT, dict(os.environ))
    assert told.returncode == 0, told.stderr
    return into / "jobrunner.pyz"


def _ran(
    command: tuple[str, ...], folder: Path, surroundings: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=surroundings,
        capture_output=True,
        text=True,
        timeout=6 * PATIENCE_S,
        check=False,
    )


class Place:
    """A folder with the file in it and nothing else, and a python that knows no other packages."""

    def __init__(self, folder: Path, file: Path) -> None:
        self.folder = folder
        (folder / "jobrunner.pyz").write_bytes(file.read_bytes())
        self.surroundings = {"PATH": "/usr/bin:/bin", "SHIV_ROOT": str(folder / "unpacked")}
        self.program = (os.path.realpath(sys.executable), "-S", "jobrunner.pyz")

    def tell(self, *words: str) -> Any:
        said = _ran((*self.program, *words, "-o", "json"), self.folder, self.surroundings)
        assert said.returncode == 0, said.stderr
        return json.loads(said.stdout)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("built"), "--plugins", "hello")


@pytest.fixture
def place(tmp_path: Path, file: Path) -> Place:
    return Place(tmp_path, file)


def test_it_says_all_that_is_inside(place: Place) -> None:
    told = {one["name"]: one for one in place.tell("version")}
    kinds = {name: told[name]["what"] for name in ("jobrunner", "jobrunner-hello", "aiohttp")}
    assert kinds == {"jobrunner": "program", "jobrunner-hello": "plugin", "aiohttp": "dependency"}
    inside = str(place.folder / "unpacked")
    assert all(one["folder"].startswith(inside) for one in told.values() if one["what"] != "python")
    assert {"shiv", "pytest", "jobrunner-howera"}.isdisjoint(told)


def test_nothing_in_it_speaks_of_where_it_was_made(file: Path) -> None:
    with zipfile.ZipFile(file) as held:
        names = held.namelist()
        told = [one for one in names if one.endswith((".json", "RECORD", "METADATA", "INSTALLER"))]
        assert not any(str(ROOT).encode() in held.read(one) for one in told)
    assert not any("__pycache__" in one or one.endswith("direct_url.json") for one in names)


def test_another_python_is_told_which_one_it_wants(place: Place) -> None:
    """As the file itself says it, before anything of it is imported."""
    with zipfile.ZipFile(place.folder / "jobrunner.pyz") as held:
        (preamble,) = (one for one in held.namelist() if one.endswith("preamble.py"))
        text = held.read(preamble).decode()
    version = ".".join(map(str, sys.version_info[:2]))
    elsewhere = text.replace("import sys\n", "import sys; sys.version_info = (3, 99, 0)\n")
    said = _ran((sys.executable, "-c", elsewhere), place.folder, place.surroundings)
    assert said.returncode == 1
    assert f"made for python {version}, and this is python 3.99" in said.stderr
    assert _ran((sys.executable, "-c", text), place.folder, place.surroundings).returncode == 0


@pytest.mark.long
def test_it_is_the_same_when_it_is_built_again(tmp_path: Path, file: Path) -> None:
    again = built(tmp_path / "again", "--plugins", "hello")
    assert again.read_bytes() == file.read_bytes()


@pytest.mark.long
def test_it_serves_with_a_plugin_beside_it(place: Place) -> None:
    """The stage runs in a process of its own, whose code is all from the file and the folder."""
    beside = place.folder / "plugins.d"
    (beside / "jobrunner_sums-7.0.dist-info").mkdir(parents=True)
    (beside / "sums.py").write_text(SUM)
    (beside / "jobrunner_sums-7.0.dist-info" / "METADATA").write_text(METADATA)
    (beside / "jobrunner_sums-7.0.dist-info" / "entry_points.txt").write_text(ENTRIES)
    told = {one["name"]: one["version"] for one in place.tell("version")}
    assert told["jobrunner-sums"] == "7.0"
    with serving_by(place.folder, place.program, place.surroundings) as here:
        asked = {"JOBRUNNER_URL": here.url, "JOBRUNNER_TOKEN": here.token}
        place.surroundings |= asked
        job = place.tell("job", "submit", "sums")
        _ran((*place.program, "job", "watch", job["id"]), place.folder, place.surroundings)
        done = place.tell("job", "show", job["id"])
    assert done["result"]["sum"] == 3
    assert done["result"]["pid"] != here.process.pid
    assert done["result"]["code"].startswith(str(place.folder / "unpacked"))
