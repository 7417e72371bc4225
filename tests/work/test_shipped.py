"""The lifecycles of this tree, shown as ``make demo`` does: in the service, and on two processes of
``jobrunner work``. They come to the same end, with the same files."""

from contextlib import ExitStack
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from rich.console import Console
from rich.progress import Progress

from jobrunner.bench.show import SHOW_S, Show
from tests.cluster.hosts import HERE
from tests.whole.process import place
from tests.work.living import PLUGIN, work_process

pytestmark = [pytest.mark.anyio, pytest.mark.long]
SAME = ("status", "progress", "artifacts", "retry_count", "failure_code", "ended_as")


async def shown(
    folder: Path, workflow: str, processes: int, more: str = "", others: tuple[str, ...] = ()
) -> tuple[Any, dict[str, bytes]]:
    """The job as it ended, and its files by their names. ``others`` are hosts for the processes."""
    more += f'[workflows.{workflow}.stages]\n"*" = "remote"\n' if processes else ""
    kept = folder / "kept"
    async with place(folder / "home", plugins=PLUGIN, more=more) as home:
        if others:
            home.configure(home.config.replace("port = 0", f'port = 0\nhost = "{HERE}"'))
        await home.start()
        await home.user("worker", "workflow")
        headers = {"Authorization": f"Bearer {home.tokens['admin']}"}
        waits = aiohttp.ClientTimeout(total=SHOW_S)
        with ExitStack() as stack:
            for number in range(processes):
                work, token = folder / f"work-{number}", home.tokens["worker"]
                before = ("ip", "netns", "exec", others[number]) if others else ()
                process = work_process(work, home.url, token, workflow, before)
                stack.enter_context(process)
            (demo,) = entry_points(group="jobrunner.demos", name=workflow)
            async with aiohttp.ClientSession(home.url, headers=headers, timeout=waits) as session:
                with Progress(console=Console(quiet=True)) as bars:
                    show = Show(session, workflow, kept, bars)
                    show.scratch.mkdir(parents=True)
                    await demo.load()(show)
    job = msgspec.json.decode((kept / "job.json").read_bytes())
    files = {one.name: one.read_bytes() for one in kept.iterdir() if one.is_file()}
    del files["job.json"]
    return job, files


@pytest.mark.parametrize("workflow", ["image-generation", "ss", "howera"])
async def test_it_is_made_elsewhere_as_it_is_made_here(tmp_path: Path, workflow: str) -> None:
    here, made_here = await shown(tmp_path / "here", workflow, 0)
    there, made_there = await shown(tmp_path / "there", workflow, 2)
    are_alike(here, made_here, there, made_there)


def are_alike(
    here: Any, made_here: dict[str, bytes], there: Any, made_there: dict[str, bytes]
) -> None:
    assert sorted(made_there) == sorted(made_here)
    for name in SAME:
        if name != "artifacts":
            assert there[name] == here[name], name
    assert sorted(there["artifacts"]) == sorted(here["artifacts"])
    sizes = {name: len(data) for name, data in made_here.items()}
    differ = [name for name, data in made_there.items() if len(data) != sizes[name]]
    assert differ == [], "files of the same name are of the same size"
