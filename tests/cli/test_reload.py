"""The author's loop: a real service that starts anew when a plugin changes, and not when it is
broken."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.test_plugins import brought
from tests.served import PATIENCE_S, clean

POLL_S = 0.05


class Loop:
    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._said = folder / "stderr"

    def says(self, words: str, times: int = 1) -> str:
        """All that it said, as soon as these words are in it so often."""
        for _ in range(int(PATIENCE_S / POLL_S)):
            said = self._said.read_text()
            if said.count(words) >= times:
                return said
            assert self.process.poll() is None, said
            time.sleep(0.05)
        raise AssertionError(f"it never said {words!r} {times} times:\n{said}")


@contextmanager
def reloading(folder: Path) -> Iterator[Loop]:
    command = [sys.executable, "-m", "jobrunner", "serve", "--reload"]
    environ = clean() | {"JOBRUNNER_SERVER__PORT": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            command, cwd=folder, env=environ, stdout=subprocess.DEVNULL, stderr=stderr
        )
    try:
        yield Loop(folder, process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


def test_it_starts_anew_when_a_plugin_has_changed_and_loads(tmp_path: Path) -> None:
    plugins = tmp_path / "plugins.d"
    plugins.mkdir()
    brought(plugins, "tram")
    module = plugins / "odd_tram.py"
    whole = module.read_text()
    with reloading(tmp_path) as loop:
        loop.says("service.ready")
        module.write_text(whole + "\nNEW = 1\n")
        said = loop.says("service.ready", 2)
        assert f"changed: {os.path.join('plugins.d', 'odd_tram.py')}" in said
        assert "service.stopped" in said, "it was not drained"
        module.write_text(whole.replace("async def work", "asyn def work"))
        said = loop.says("goes on as it was")
        assert "odd-tram" in said
        assert "SyntaxError" in said
        assert said.count("service.stopped") == 1, "what works was stopped for what does not"
        module.write_text(whole)
        said = loop.says("service.ready", 3)
        loop.process.send_signal(signal.SIGTERM)
        assert loop.process.wait(PATIENCE_S) == 0
