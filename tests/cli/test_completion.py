"""The scripts for shells, in the shells that are there."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Command

ASKED = """
set -u
source {script}
complete -p jobrunner
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_jobrunner
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def offered(script: Path, *words: str) -> set[str]:
    """What bash offers after these words, the last of which is only begun."""
    typed = " ".join(f"'{word}'" for word in ("jobrunner", *words))
    program = ASKED.format(script=script, words=typed)
    done = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    bound, *found = done.stdout.splitlines()
    assert bound.split()[-3:] == ["-F", "_jobrunner", "jobrunner"]
    return set(found)


@pytest.fixture
def script(command: Command, tmp_path: Path) -> Path:
    code, out, err = command("completion", "bash")
    assert code == 0, err
    file = tmp_path / "jobrunner.bash"
    file.write_text(out)
    return file


def test_bash_offers_nouns_verbs_options_and_choices(script: Path) -> None:
    assert {"job", "completion", "stage"} <= offered(script, "")
    assert offered(script, "de") == {"dead-letter", "delivery"}
    assert {"tell", "watch", "list"} <= offered(script, "job", "")
    assert offered(script, "job", "wa") == {"watch"}
    assert "--since" in offered(script, "job", "list", "--")
    assert offered(script, "job", "list", "-o", "") == {"table", "json", "ids"}
    assert offered(script, "delivery", "list", "--status", "d") == {"due", "delivered", "disabled"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_scripts_that_they_can_read(command: Command, shell: str) -> None:
    code, out, err = command("completion", shell)
    assert code == 0, err
    assert "jobrunner" in out
    assert "dead-letter" in out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=out, text=True, check=True, timeout=120)


def test_a_shell_that_nobody_knows(command: Command) -> None:
    code, _, err = command("completion", "csh")
    assert (code, "bash" in err) == (2, True)
