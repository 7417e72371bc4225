"""A recording of ``job watch`` for README. ``python -m tests.docs.recording`` makes one."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path

from tests.served import PATIENCE_S, Served, serving

WORKFLOW = "image-generation"
PARAMS = ("--param", "prompt=a lighthouse at dusk")
ROWS, COLUMNS = 40, 100
WHOLE = b"%\x1b[0m"  # a bar ends with its percentage
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Recording:
    """``frames`` are the lines that were drawn over each other, each once; ``history`` is what
    ``job history`` printed. The job is held back until ``watch`` has drawn it."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._do("workflow", "pause", WORKFLOW)
        self._job = self._do("job", "submit", WORKFLOW, *PARAMS, "-o", "ids").strip()
        self.frames = list(self._watched())
        self.history = self._do("job", "history", self._job).splitlines()

    def _do(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "jobrunner", *words],
            cwd=self._served.folder,
            env=self._served.environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        return done.stdout

    def _watched(self) -> Iterator[str]:
        seen: set[str] = set()
        for drawn in self._drawn():
            frame = STYLE.sub("", drawn).strip()
            if frame and frame not in seen:
                seen.add(frame)
                yield frame
                if len(seen) == 1:
                    self._do("workflow", "resume", WORKFLOW)

    def _drawn(self) -> Iterator[str]:
        """What a terminal is told, piece by piece, until the bar is gone."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environ = self._served.environ | {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
        command = [sys.executable, "-m", "jobrunner", "job", "watch", self._job]
        watch = subprocess.Popen(
            command, cwd=self._served.folder, env=environ, stdout=subprocess.DEVNULL, stderr=theirs
        )
        os.close(theirs)
        held = b""
        while told := _told(ours):
            *whole, held = re.split(rb"[\r\n]+", held + told)
            yield from (piece.decode() for piece in whole)
            if held.endswith(WHOLE):
                yield held.decode()
        os.close(ours)
        assert watch.wait(PATIENCE_S) == 0


def _told(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side was closed
        return b""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as served:
        recording = Recording(served)
    print(*recording.frames, "", *recording.history, sep="\n")


if __name__ == "__main__":
    main()
