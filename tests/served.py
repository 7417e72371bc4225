"""The service as its users have it: a process of its own, on a port of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE_S = 120
PROGRAM = (sys.executable, "-m", "jobrunner")
POLLS_A_SECOND = 50


class Served:
    """``folder`` is its working folder; ``environ`` what its clients need to find it."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.process = process
        self.url = self._ready()["url"]
        self.token = (folder / "data" / "admin.token").read_text().strip()
        self.environ = clean() | {"JOBRUNNER_URL": self.url}

    def log(self) -> list[dict[str, Any]]:
        lines = (self.folder / "stderr").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def _ready(self) -> dict[str, Any]:
        for _ in range(PATIENCE_S * POLLS_A_SECOND):
            for line in self.log():
                if line["event"] == "service.ready":
                    return line
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        said = (self.folder / "stderr").read_text()
        raise AssertionError(f"the service did not start:\n{said}")


@contextmanager
def serving(folder: Path, **environ: str) -> Iterator[Served]:
    """Settings by ``environ``, else the defaults; whatever happens, the process ends."""
    with serving_by(folder, PROGRAM, clean() | environ) as served:
        yield served


@contextmanager
def serving_by(
    folder: Path,
    program: tuple[str, ...],
    surroundings: dict[str, str],
    terminal: int | None = None,
) -> Iterator[Served]:
    """The same by another program, which sees nothing but these surroundings, a free port, and
    nobody to be turned away because the machine is busy elsewhere. ``terminal`` is where it greets,
    else a file."""
    environ = {"JOBRUNNER_SERVER__PORT": "0", "JOBRUNNER_LIMITS__LAG": "0", **surroundings}
    command = [*program, "serve"]
    with (folder / "stderr").open("ab") as stderr, (folder / "stdout").open("ab") as file:
        stdout = file.fileno() if terminal is None else terminal
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=stdout, stderr=stderr)
    try:
        yield Served(folder, process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def clean() -> dict[str, str]:
    """The environment without settings and terminal of whoever runs the tests."""
    theirs = ("JOBRUNNER_", "COLUMNS", "NO_COLOR")
    return {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
