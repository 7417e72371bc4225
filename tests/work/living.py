"""A service whose stages run elsewhere, and whoever runs them, in one loop or as processes."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from jobrunner.client import AsyncClient
from jobrunner.config.overrides import laid_over
from jobrunner.config.settings import Config, StoreSection, WorkflowSettings
from jobrunner.equipping import surroundings
from jobrunner.ports import Ports, SystemClock, system_ports
from jobrunner.stages import Registry
from jobrunner.work import Abilities, Taking, WorkTerms
from jobrunner.work.one_claim import Equipment
from tests.http.serving import House, opened
from tests.work.plugin import jobrunner_far

PLUGIN = Path(__file__).parent / "plugin"
REMOTE = WorkflowSettings(stages={"*": "remote"})
AT_HOME = WorkflowSettings()
STAGES = (jobrunner_far.sing, jobrunner_far.count, jobrunner_far.show)


def registry_of(settings: WorkflowSettings) -> Registry:
    registry = Registry(lambda workflow: laid_over(workflow, settings))
    for stage in STAGES:
        registry.add(stage)
    registry.add(jobrunner_far.definition)
    assert not registry.refused["workflows"], registry.refused["workflows"]
    return registry


@asynccontextmanager
async def serving(
    folder: Path, settings: WorkflowSettings = REMOTE, ports: Ports | None = None, **more: Any
) -> AsyncIterator[House]:
    async with opened(folder, registry=registry_of(settings), ports=ports, **more) as house:
        yield house


class AheadClock(SystemClock):
    """Goes as fast as any, and stands as far ahead as a test says."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now(self) -> int:
        return super().now() + self.ahead_ms


class WorkProcess:
    """``jobrunner work`` as it is typed, in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        url: str,
        token: str,
        workflow: str = "far",
        before: tuple[str, ...] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config = f'[plugins]\npath = "{PLUGIN}"\n[store]\nmin_free = 0\n[log]\nformat = "json"\n'
        (folder / "config.toml").write_text(config)
        command = [*before, sys.executable, "-m", "jobrunner", "work"]
        command += ["--workflow", workflow, "--url", url]
        self._command = [*command, "--slots", "8", "--drain", "1s"]
        environ = {key: text for key, text in os.environ.items() if "JOBRUNNER_" not in key}
        self._environ = {**environ, "JOBRUNNER_TOKEN": token}
        self.output = folder / "output"
        self.folder = folder
        self.begin()

    def begin(self) -> None:
        """Also once more, after a death."""
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, cwd=self.folder, env=self._environ, stdout=output, stderr=output
            )

    def holds(self, job_id: str) -> bool:
        """Whether files of this job's attempt lie here."""
        return any((self.folder / "work.d").glob(f"*/{job_id}-*"))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def terminate(self) -> None:
        self._process.terminate()

    def dead(self) -> bool:
        return self._process.poll() is not None


@contextmanager
def work_process(
    folder: Path, url: str, token: str, workflow: str = "far", before: tuple[str, ...] = ()
) -> Iterator[WorkProcess]:
    """``before`` is a command that becomes the worker, on another host say."""
    process = WorkProcess(folder, url, token, workflow, before)
    try:
        yield process
    finally:
        process.kill()


@dataclass
class AtWork:
    """Whoever runs stages, in this loop."""

    taking: Taking
    task: asyncio.Task[None]
    logged: list[dict[str, Any]]
    folder: Path

    async def stopped(self) -> None:
        self.taking.drain()
        await self.task

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.logged if line["event"] == event]


@asynccontextmanager
async def working(
    house: House,
    folder: Path,
    *,
    registry: Registry | None = None,
    slots: int = 4,
    drain_s: float = 10,
    only: tuple[str, ...] = (),
    own_settings: dict[str, Any] | None = None,
    url: str = "",
    workflow: str = "far",
) -> AsyncIterator[AtWork]:
    """With the token of the role ``workflow``; gone when the block is left."""
    folder.mkdir(parents=True, exist_ok=True)
    config = Config(store=StoreSection(assets=str(folder), min_free=0))
    ports = system_ports()
    around = surroundings(config, ports)
    logged: list[dict[str, Any]] = []

    def log(event: str, level: str = "info", **fields: Any) -> None:
        logged.append({"event": event, "level": level, **fields})

    async with (
        aclosing(around.outlets),
        AsyncClient(url or house.service.url, house.worker.token) as client,
    ):
        equipment = Equipment(
            client=client,
            ports=ports,
            around=around,
            abilities=Abilities(registry or registry_of(AT_HOME), workflow, only),
            folder=str(folder),
            floor=0,
            own_settings=own_settings or {},
            log=log,
        )
        taking = Taking(equipment, WorkTerms(slots, drain_s))
        worker = AtWork(taking, asyncio.ensure_future(taking.run()), logged, folder)
        try:
            yield worker
        finally:
            worker.task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({worker.task})


async def until(there: Callable[[], Any], within_s: float = 120) -> Any:
    """What is asked for, as soon as it is there."""
    with anyio.fail_after(within_s):
        while not (found := there()):
            await anyio.sleep(0.01)
    return found


async def ended(house: House, job_id: str) -> Any:
    for _ in range(4):
        said = await house.admin.get(f"/jobs/{job_id}?wait=30&until=ended")
        if said.json["ended_as"]:
            break
    assert said.json["ended_as"], said.json
    return said.json
