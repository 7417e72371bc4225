"""The recipe for a container, as far as it goes without an engine: it says what it must, and its
steps, done in a plain folder, make a service that writes nowhere but into its own place."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.served import clean, serving

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "deploy" / "Containerfile"
WORDS = {
    *("ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "VOLUME", "USER", "EXPOSE", "STOPSIGNAL"),
    *("HEALTHCHECK", "ENTRYPOINT", "CMD"),
}
HOME = "/var/lib/jobrunner"


def steps() -> list[tuple[str, str]]:
    text = RECIPE.read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in pairs]


def of(word: str) -> list[str]:
    return [rest for said, rest in steps() if said == word]


def last_stage() -> list[tuple[str, str]]:
    start = max(number for number, (word, _) in enumerate(steps()) if word == "FROM")
    return steps()[start:]


def environ() -> dict[str, str]:
    return dict(rest.split("=", 1) for rest in of("ENV"))


def test_every_word_is_one() -> None:
    assert {word for word, _ in steps()} == WORDS


def test_nobody_is_root_and_nothing_is_left_open() -> None:
    users = [rest for word, rest in last_stage() if word == "USER"]
    assert users == ["10001:10001"]
    after = last_stage()[[word for word, _ in last_stage()].index("USER") :]
    assert "RUN" not in {word for word, _ in after}, "what is installed is root's"
    assert of("STOPSIGNAL") == ["SIGTERM"]
    assert of("ENTRYPOINT") == ['["jobrunner"]'], "a shell in between would keep the signal"


def test_what_it_is_made_from_does_not_move() -> None:
    """One Python, named once; no other source than the project and an index of wheels."""
    images = [rest.split()[0] for rest in of("FROM")]
    assert set(images) == {"python:${PYTHON}-slim"}
    assert re.fullmatch(r"PYTHON=3\.\d+", of("ARG")[0])
    assert "ADD" not in {word for word, _ in steps()}
    install = next(run for run in of("RUN") if "pip install" in run)
    assert "--no-index" in install


def test_what_it_keeps_is_in_one_place() -> None:
    assert of("VOLUME") == [HOME]
    kept = {name: value for name, value in environ().items() if "STORE" in name}
    assert set(kept) == {"JOBRUNNER_STORE__PATH", "JOBRUNNER_STORE__ASSETS"}
    assert all(value.startswith(f"{HOME}/") for value in kept.values())
    assert of("WORKDIR")[-1] == HOME


def sources() -> list[str]:
    return [name for rest in of("COPY") for name in shlex.split(rest)[:-1]]


def test_what_it_copies_is_there_and_is_let_through() -> None:
    allowed = (ROOT / ".containerignore").read_text().split()
    for name in sources():
        assert (ROOT / name).exists(), name
        assert f"!{name}" in allowed


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The steps that make wheels and install them, with what is installed here in the place of
    what an index would bring."""
    folder = tmp_path_factory.mktemp("container")
    source, wheels, target = (folder / name for name in ("source", "wheels", "target"))
    source.mkdir()
    for name in sources():
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    alone = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels)]
    for place in (".", "./plugins/hello"):
        done([*pip, "wheel", "--no-cache-dir", *alone, place], source)
    wheel_files = [str(path) for path in sorted(wheels.glob("*.whl"))]
    assert len(wheel_files) == 2
    flags = ["--no-deps", "--no-index", "--no-compile", "--target", str(target)]
    done([*pip, "install", "--no-cache-dir", *flags, *wheel_files], folder)
    return target


def done(command: list[str], folder: Path) -> None:
    said = subprocess.run(
        command, cwd=folder, env=clean(), capture_output=True, text=True, timeout=300, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr


def test_it_runs_and_writes_nowhere_else(installed: Path, tmp_path: Path) -> None:
    """As with a root that cannot be written; and it is what was installed, not this tree."""
    data = tmp_path / "data"
    before = listed(installed)
    settings = {
        name: value.replace(HOME, str(data)).replace("jobrunner.db", "jobs.db")
        for name, value in environ().items()
    }
    settings |= {"PYTHONPATH": str(installed), "JOBRUNNER_SERVER__HOST": "127.0.0.1"}
    with serving(tmp_path, **settings) as service:
        heard = [line for line in service.log() if line["event"] == "service.starting"]
        assert "hello" in heard[0]["workflows"]
        check = "import jobrunner; print(jobrunner.__file__)"
        found = subprocess.run(
            [sys.executable, "-c", check],
            cwd=tmp_path, env=clean() | settings, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert found.stdout.startswith(str(installed))
        assert service.stop() == 0
    assert listed(installed) == before
    assert sorted(os.listdir(tmp_path)) == ["data", "stderr", "stdout"]


def listed(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*"))
