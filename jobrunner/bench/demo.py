"""Everything installed, shown once: ``python -m jobrunner.bench.demo``.

A plugin that wants to be shown has an entry point in the group ``jobrunner.demos``: an async
function that is given a ``Show`` and walks one job of its workflow to the end, as a client would,
over HTTP. The service is a process of its own on its defaults, with its data in the folder of the
results; what the jobs made lies there afterwards, a folder a workflow.
"""

import argparse
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from jobrunner.bench.show import SHOW_S, NotShown, Show

READY_S = 60.0
SERVE = "from jobrunner.cli import main; main()"


Shown = Callable[[Show], Awaitable[None]]


async def show(folder: Path, wanted: Iterable[str] = ()) -> dict[str, str]:
    """Show all demos, or these; by workflow, why one did not end well (empty: it did)."""
    found = sorted(entry_points(group="jobrunner.demos"), key=lambda entry: entry.name)
    chosen = [entry for entry in found if not wanted or entry.name in wanted]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    console = Console()
    columns = (TextColumn("{task.description:18}"), BarColumn(), TimeElapsedColumn(),
               TextColumn("{task.fields[told]}"))  # fmt: skip
    ends: dict[str, str] = {}
    async with _service(folder) as session:
        with Progress(*columns, console=console) as bars:
            for entry in chosen:
                one = Show(session, entry.name, folder / entry.name, bars)
                ends[entry.name] = await _shown(one, entry.load())
    return ends


async def _shown(one: Show, demo: Shown) -> str:
    one.scratch.mkdir(parents=True, exist_ok=True)
    try:
        await demo(one)
    except (NotShown, TimeoutError, OSError) as fault:
        one.fail(str(fault) or "it took too long")
        return str(fault) or "it took too long"
    finally:
        shutil.rmtree(one.scratch, ignore_errors=True)
    return ""


@asynccontextmanager
async def _service(folder: Path) -> AsyncIterator[Any]:
    """The service on its defaults, but for where its data lies and a port that is free."""
    import aiohttp

    data = folder.absolute() / ".data"
    settings = {"STORE__PATH": data / "jobrunner.db", "STORE__ASSETS": data / "assets",
                "SERVER__PORT": 0, "CREDITS__INITIAL": 1000}  # fmt: skip
    environment = {f"JOBRUNNER_{name}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-c", SERVE, "serve", "--config", "/dev/null"]
    with (folder / "service.log").open("wb") as log:
        async with await anyio.open_process(
            command, env={**os.environ, **environment}, stderr=log
        ) as process:
            try:
                url = await _greeting(process, folder / "service.log")
                token = (data / "admin.token").read_text(encoding="ascii").strip()
                headers = {"Authorization": f"Bearer {token}"}
                waits = aiohttp.ClientTimeout(total=SHOW_S)
                async with aiohttp.ClientSession(url, headers=headers, timeout=waits) as session:
                    yield session
            finally:
                process.terminate()


async def _greeting(process: Any, log: Path) -> str:
    told = ""
    with anyio.move_on_after(READY_S):
        async for part in process.stdout:
            told += part.decode()
            if url := re.search(r"answers on (\S+)\n", told):
                return url[1]
    raise NotShown(f"the service did not start: see {log}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo", description="Show what is installed.")
    parser.add_argument("--into", default="demo-out", help="the folder of the results")
    parser.add_argument("workflow", nargs="*", help="only these")
    given = parser.parse_args()
    try:
        ends = anyio.run(show, Path(given.into), given.workflow)
    except NotShown as fault:
        print(fault, file=sys.stderr)
        return 1
    for name, reason in ends.items():
        print(f"{name}: {reason or 'ended well'}")
    print(f"results in {given.into}/, the service's log in {given.into}/service.log")
    return 1 if not ends or any(ends.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
