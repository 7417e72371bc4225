"""Starts a program, asks it to stop, and starts it again; or runs one for its answer."""

import subprocess
from collections.abc import Sequence

import anyio
from anyio.abc import Process


class RestartedProgram:
    """A program that has our terminal. Whoever stops it waits until it is gone."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: Process | None = None

    @property
    def code(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self._process.returncode if self._process is not None else 0

    async def start(self) -> None:
        self._process = await anyio.open_process(
            self._command, stdin=subprocess.DEVNULL, stdout=None, stderr=None
        )

    async def stop(self) -> int:
        """Ask it to stop, as an operator would; return its exit code."""
        if self._process is None:
            return 0
        if self._process.returncode is None:
            self._process.terminate()
        with anyio.CancelScope(shield=True):
            code = await self._process.wait()
        return code  # noqa: RET504 - by its type, a scope may swallow


async def output_of(command: Sequence[str]) -> bytes:
    """Run a program to its end; return everything that it printed, whatever its exit code."""
    done = await anyio.run_process(list(command), check=False, stderr=subprocess.DEVNULL)
    return done.stdout
