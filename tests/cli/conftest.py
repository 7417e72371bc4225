"""A service for the tests of the command line, and the command line itself."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobrunner.cli import run
from tests.served import Served, serving

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs one command in an empty folder, without settings: its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    for name in ("JOBRUNNER_URL", "JOBRUNNER_TOKEN", "COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def typed(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return typed


@pytest.fixture
def online(command: Command, served: Served, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The same, in the folder of a running service, as its admin."""
    monkeypatch.chdir(served.folder)
    monkeypatch.setenv("JOBRUNNER_URL", served.url)
    return command
