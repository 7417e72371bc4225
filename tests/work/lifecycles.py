"""The lifecycles of this tree, shown as ``make demo`` does, in the service or elsewhere: what comes
of them, and whether it is the same."""

import re
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import msgspec
import pytest
from jobrunner_howera.clip import make
from rich.console import Console
from rich.progress import Progress

from jobrunner.bench.show import Show
from tests.cluster.hosts import HERE
from tests.whole.process import Place, place
from tests.work.living import PLUGIN, WorkProcess, work_process

LIFECYCLES = ("image-generation", "ss", "howera")
# Each job has its own: ids, a digest over one (in a report cut short), a time that was measured.
OWN = re.compile(
    rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    rb'|(?<="plan_id":")[0-9a-f]{64}|(?<=Plan:\*\* `)[0-9a-f]{16}|(?<="transcribe_seconds":)[0-9.]+'
)
PATIENCE_S = 1800.0  # each worker that is killed is waited for as long as its lease lasts
SAME = ("status", "progress", "retry_count", "failure_code", "ended_as")


@dataclass
class Made:
    """What came of a job: itself, its files by their names, its way, its attempts and its money."""

    job: Any
    files: dict[str, bytes]
    history: list[Any]
    attempts: list[Any]
    money: list[Any]


@dataclass
class Elsewhere:
    """Who runs the stages: so many processes, each on a host of its own where hosts are named, and
    whatever befalls them meanwhile."""

    processes: int = 0
    hosts: tuple[tuple[str, str, str], ...] = ()
    at_work: list[WorkProcess] = field(default_factory=list)

    async def befallen(self, home: Place) -> None:
        """Nothing does."""

    def before(self, number: int) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.hosts[number][0]) if self.hosts else ()


async def shown(
    folder: Path, workflow: str, where: Elsewhere | None = None, more: str = ""
) -> Made:
    """The job as it ended."""
    where = where or Elsewhere()
    more += f'[workflows.{workflow}.stages]\n"*" = "remote"\n' if where.processes else ""
    async with place(folder / "home", plugins=PLUGIN, more=more) as home:
        if where.hosts:
            home.configure(home.config.replace("port = 0", f'port = 0\nhost = "{HERE}"'))
        await home.start()
        await home.user("worker", "workflow")
        with ExitStack() as stack:
            for number in range(where.processes):
                work, token = folder / f"work-{number}", home.tokens["worker"]
                process = work_process(work, home.url, token, workflow, where.before(number))
                where.at_work.append(stack.enter_context(process))
            async with anyio.create_task_group() as group:
                group.start_soon(where.befallen, home)
                job = await _job_shown(home, workflow, folder / "kept")
                group.cancel_scope.cancel()
            made = await _made(home, job, folder / "kept")
        await home.stop()
        assert home.faults() == ()
    return made


async def _job_shown(home: Place, workflow: str, kept: Path) -> Any:
    headers = {"Authorization": f"Bearer {home.tokens['admin']}"}
    waits = aiohttp.ClientTimeout(total=PATIENCE_S)
    (demo,) = entry_points(group="jobrunner.demos", name=workflow)
    async with aiohttp.ClientSession(home.url, headers=headers, timeout=waits) as session:
        with Progress(console=Console(quiet=True)) as bars, pytest.MonkeyPatch.context() as patch:
            patch.setattr("jobrunner_howera.demo.make", copied)
            patch.setattr("jobrunner.bench.show.SHOW_S", PATIENCE_S)
            show = Show(session, workflow, kept, bars)
            show.scratch.mkdir(parents=True)
            await demo.load()(show)
    return msgspec.json.decode((kept / "job.json").read_bytes())


@cache
def film() -> bytes:
    """The same one each time: no two that are made are alike to the byte."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "film.mp4"
        make(str(place))
        return place.read_bytes()


def copied(place: str) -> None:
    Path(place).write_bytes(film())


async def _made(home: Place, job: Any, kept: Path) -> Made:
    path = f"/jobs/{job['id']}"
    history = (await home.get(f"{path}/history"))["history"]
    attempts = (await home.get(f"{path}/attempts"))["attempts"]
    money = (await home.get("/credits/history"))["history"]
    files = {one.name: one.read_bytes() for one in kept.iterdir() if one.is_file()}
    del files["job.json"]
    await _no_file_twice(home, path)
    return Made(
        job,
        files,
        [(one["from_status"], one["to_status"], one["trigger"]) for one in history],
        [attempt_of(one) for one in attempts],
        [(one["kind"], one["amount"]) for one in money],
    )


def attempt_of(told: Any) -> tuple[str, str, str, str]:
    """Its stage by the name that is declared: where it ran stands behind that."""
    stage = told["stage"].removesuffix("@dask")
    return told["state"], stage, told["outcome"], told["failure_code"]


async def _no_file_twice(home: Place, path: str) -> None:
    """Each row has its file, and each file its row."""
    rows = (await home.get(f"{path}/assets"))["assets"]
    named = [row["storage_path"] for row in rows if row["storage_path"]]
    assets = home.folder / "data" / "assets"
    there = {
        str(one.relative_to(assets))
        for one in assets.rglob("*")
        if one.is_file() and not any(part.startswith(".") for part in one.relative_to(assets).parts)
    }
    assert sorted(named) == sorted(there), (named, there)


def are_alike(here: Made, there: Made) -> None:
    for name in SAME:
        assert there.job[name] == here.job[name], name
    for name in ("result", "artifacts"):
        assert without_ids(there.job[name]) == without_ids(here.job[name]), name
    assert sorted(there.files) == sorted(here.files)
    differ = [name for name, data in here.files.items() if bare(there.files[name]) != bare(data)]
    assert differ == []
    assert there.history == here.history
    assert there.money == here.money
    assert [one for one in there.attempts if one[2] != "interrupted"] == here.attempts


def without_ids(value: Any) -> bytes:
    return bare(msgspec.json.encode(value, order="sorted"))


def bare(data: bytes) -> bytes:
    """Without what is the job's own."""
    return OWN.sub(b"own", data)
