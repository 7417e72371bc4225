"""What README tells a newcomer to type is typed, by a newcomer's shell, against a real service."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.served import PATIENCE_S, serving

ROOT = Path(__file__).resolve().parents[2]
MINUTE = "\n## Running in a minute\n"
SETUP = """
set -eu -o pipefail
curl() { command curl --fail-with-body "$@"; echo; }
"""
AFTER = 'jobrunner job show "$JOB" -o json > job.json; jobrunner db check\n'


def blocks() -> list[str]:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition(MINUTE)[2].partition("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def test_the_minute_ends_with_a_completed_job(tmp_path: Path) -> None:
    serve, *rest = blocks()
    assert serve == "make serve\n"
    with serving(tmp_path) as served:
        script = SETUP + "\n".join(rest).replace("http://127.0.0.1:8080", served.url) + AFTER
        path = f"{_commands(tmp_path)}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=served.environ | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert served.stop() == 0
    job = json.loads((tmp_path / "job.json").read_text())
    assert job["status"] == "completed"
    assert job["credits"] == {"cost": 1, "state": "captured"}
    assert '"replayed":false' in done.stdout.replace(" ", "")
    for word in ("queued", "running", "completed", "hold", "capture"):
        assert word in done.stdout


def _commands(folder: Path) -> Path:
    """A folder with the ``jobrunner`` command as this python has it."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    script = bin_folder / "jobrunner"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m jobrunner "$@"\n')
    script.chmod(0o755)
    return bin_folder


def test_the_serve_target_is_what_the_tests_serve() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^serve:.*\n\t@exec \$\(VENV\)/bin/jobrunner serve", makefile, re.MULTILINE)
