"""What texts tell a newcomer to type is typed, by a shell of their own, against a real service."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.docs.pages import ROOT, label, read, section, snippets
from tests.served import PATIENCE_S, Served, serving

SETUP = """
set -eu -o pipefail
curl() { command curl --fail-with-body "$@"; echo; }
"""
IN_ORDER = ("docs/http.md", "docs/cli.md", "docs/operations.md", "docs/schedules.md")
MEASURES = ("docs/performance.md",)  # for a minute, and for an hour
AFTER = """
unset JOBRUNNER_TOKEN
jobrunner job show "$JOB" -o json > job.json
jobrunner db check
"""


def minute() -> list[str]:
    """What a newcomer types first."""
    return snippets(section("README.md", "## The first minute"), "sh")


def shell(page: str) -> list[str]:
    return snippets(read(page), "sh")


def typed(folder: Path, served: Served, script: str) -> str:
    """What the shell of a newcomer says to it."""
    path = f"{_commands(folder)}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", SETUP + script.replace("http://127.0.0.1:8080", served.url)],
        cwd=folder,
        env=served.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_minute_ends_with_a_picture(tmp_path: Path) -> None:
    serve, *rest = minute()
    assert serve == "make serve\n"
    with serving(tmp_path) as served:
        said = typed(tmp_path, served, "\n".join(rest) + AFTER)
        assert served.stop() == 0
    job = json.loads((tmp_path / "job.json").read_text())
    assert job["status"] == "completed"
    assert job["credits"] == {"cost": 1, "state": "captured"}
    assert (tmp_path / "lighthouse.png").read_bytes().startswith(b"\x89PNG")
    assert '"replayed":false' in said.replace(" ", "")
    for word in ("queued", "running", "completed", "hold", "capture"):
        assert word in said


def test_a_worker_elsewhere_delivers(tmp_path: Path) -> None:
    (settings,) = snippets(section("docs/workers.md", "## Bind a state"), "toml")
    (tmp_path / "config.toml").write_text(settings)
    with serving(tmp_path) as served:
        typed(tmp_path, served, "\n".join(shell("docs/workers.md")) + AFTER)
        assert served.stop() == 0
    job = json.loads((tmp_path / "job.json").read_text())
    assert (job["status"], job["progress_message"]) == ("completed", "painting the sea")
    assert job["result_url"] == job["artifacts"]["original"]


@pytest.mark.parametrize("page", IN_ORDER)
def test_what_a_page_shows_is_typed_in_its_order(page: str, tmp_path: Path) -> None:
    with serving(tmp_path, JOBRUNNER_WORKFLOWS__HELLO__RECORD="decisions") as served:
        typed(tmp_path, served, "\n".join(shell(page)))
        assert served.stop() == 0


PLUGINS = sorted(path.parent.name for path in ROOT.glob("plugins/*/README.md"))
LISTENS = pytest.param("howera", marks=pytest.mark.long)  # to a film, from its beginning to its end


@pytest.mark.parametrize("plugin", [LISTENS if name == "howera" else name for name in PLUGINS])
def test_what_a_plugin_shows_is_typed(plugin: str, tmp_path: Path) -> None:
    Image.new("RGB", (64, 48)).save(tmp_path / "lighthouse.png")
    assert shell(f"plugins/{plugin}/README.md")
    with serving(tmp_path) as served:
        served.environ["JOBRUNNER_TOKEN"] = served.token
        typed(tmp_path, served, "\n".join(shell(f"plugins/{plugin}/README.md")))
        assert served.stop() == 0


def test_an_error_is_as_it_is_shown(tmp_path: Path) -> None:
    (asked,), (shown,) = shell("docs/errors.md"), snippets(read("docs/errors.md"), "json")
    with serving(tmp_path) as served:
        told = json.loads(typed(tmp_path, served, f'curl() {{ command curl "$@"; }}\n{asked}'))
    changes = {"correlation_id": json.loads(shown)["correlation_id"]}
    assert told | changes == json.loads(shown)


def test_every_page_with_commands_is_typed() -> None:
    with_commands = {label(page) for page in ROOT.glob("docs/*.md") if shell(label(page))}
    assert with_commands == {*IN_ORDER, "docs/workers.md", "docs/errors.md", *MEASURES}


def _commands(folder: Path) -> Path:
    """A folder with ``jobrunner`` and ``python`` as they run here."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name, words in (("jobrunner", "-m jobrunner"), ("python", "")):
        script = bin_folder / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        script.chmod(0o755)
    return bin_folder


def test_the_serve_target_is_what_the_tests_serve() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^serve:.*\n\t@exec \$\(VENV\)/bin/jobrunner serve", makefile, re.MULTILINE)
