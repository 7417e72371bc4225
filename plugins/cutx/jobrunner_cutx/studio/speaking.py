"""Speech, by a voice that this machine has: flite, else espeak-ng. There is none in this package:
voices are large, and whoever wants one has it in a minute."""

import shutil
import subprocess
import wave
from typing import Any

from jobrunner import lent_environment

TEXT_MAX = 5_000
FOLDERS = ("HOME", "TMPDIR")
SPEAK_S = 90.0


class NoVoice(Exception):
    """Nothing here can speak."""


def speech(given: dict[str, Any], path: str) -> None:
    """Raises: NoVoice."""
    text = " ".join(str(given.get("text") or "").split())[:TEXT_MAX]
    voice = str(given.get("voice") or "")
    command, said = _command(text, voice, path), text.encode()
    subprocess.run(command, check=True, timeout=SPEAK_S, input=said, env=lent_environment(*FOLDERS))


def length_s(path: str) -> float:
    with wave.open(path) as file:
        return float(file.getnframes() / file.getframerate())


def _command(text: str, voice: str, path: str) -> list[str]:
    """The text goes in by stdin: no program takes it for an option."""
    if flite := shutil.which("flite"):
        known = voice if voice in ("awb", "kal16", "rms", "slt") else "slt"
        return [flite, "-voice", known, "-f", "/dev/stdin", "-o", path]
    if espeak := shutil.which("espeak-ng"):
        return [espeak, "--stdin", "-w", path]
    raise NoVoice("there is no voice on this machine: install flite (apt install flite)")
