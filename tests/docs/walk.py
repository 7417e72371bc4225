"""The walk at the beginning of PLUGINS.md, as it is typed there, by a newcomer's shell: a plugin is
written, changed, tested, installed, served, and does a job. ``python -m tests.docs.walk`` measures.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.served import PATIENCE_S, Served, clean, serving

ROOT = Path(__file__).resolve().parents[2]
HEADING = "\n## From nothing to a running job\n"
SERVE = "jobrunner serve\n"
SETUP = """
set -eu -o pipefail
curl() { command curl --fail-with-body "$@"; echo; }
"""
WRAPPED = {
    "python": 'exec {python} "$@"',
    "jobrunner": 'exec {python} -m jobrunner "$@"',
    "pip": 'exec {python} -m pip --disable-pip-version-check "$@" --no-build-isolation --no-deps',
}


def blocks() -> list[str]:
    """What is typed, in order."""
    text = (ROOT / "PLUGINS.md").read_text(encoding="utf-8")
    section = text.partition(HEADING)[2].partition("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


class Walk:
    """``said`` is what each block printed, ``took_s`` how long it took."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.took_s: list[tuple[str, float]] = []

    @contextmanager
    def walked(self) -> Iterator[Served]:
        """All of it; the service still runs."""
        before, after = _around_serve(blocks())
        for block in before:
            self._type(block, {})
        started = time.monotonic()
        with serving(self.folder) as served:
            self.took_s.append((SERVE, time.monotonic() - started))
            for block in after:
                self._type(block.replace("http://127.0.0.1:8080", served.url), served.environ)
            yield served

    def _type(self, block: str, environ: dict[str, str]) -> None:
        started = time.monotonic()
        path = f"{self._commands()}{os.pathsep}{os.environ['PATH']}"
        plugins = {"PYTEST_ADDOPTS": "-p jobrunner.testing.kit.fixture"}
        done = subprocess.run(
            ["bash", "-c", SETUP + block],
            cwd=self.folder,
            env=clean() | environ | plugins | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, block + done.stdout + done.stderr
        self.said.append(done.stdout)
        self.took_s.append((block, time.monotonic() - started))

    def _commands(self) -> Path:
        """A folder with the commands as this python has them. The plugin is built with what is
        here, so that no network is asked for anything."""
        place = self.folder / "bin"
        place.mkdir(exist_ok=True)
        for name, text in WRAPPED.items():
            script = place / name
            script.write_text(f"#!/bin/sh\n{text.format(python=sys.executable)}\n")
            script.chmod(0o755)
        return place


def _around_serve(typed: list[str]) -> tuple[list[str], list[str]]:
    where = typed.index(SERVE)
    return typed[:where], typed[where + 1 :]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        walk = Walk(Path(folder))
        with walk.walked() as served:
            pass
        assert served.process.returncode == 0
    for block, seconds in walk.took_s:
        print(f"{seconds:7.2f} s  {block.splitlines()[0]}")
    print(f"{sum(seconds for _, seconds in walk.took_s):7.2f} s  together")


if __name__ == "__main__":
    main()
