"""A cluster on this machine, as processes, and a service with stages there."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from jobrunner.config.settings import ClusterSection, WorkflowSettings
from tests.http.serving import House, opened
from tests.work.living import PLUGIN, registry_of, until

WORKER_CONFIG = f'[plugins]\npath = "{PLUGIN}"\n[store]\nmin_free = 0\n'
ON_DASK = WorkflowSettings(stages={"*": "dask"})
QUICK = {
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
}


class DaskProcess:
    """The scheduler, or a worker with its nanny, as they are typed."""

    def __init__(
        self,
        folder: Path,
        words: list[str],
        config: str = WORKER_CONFIG,
        before: tuple[str, ...] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(config)
        environ = {key: text for key, text in os.environ.items() if "JOBRUNNER_" not in key}
        with (folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [*before, sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:]],
                cwd=folder,
                env={**environ, **QUICK},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def kill(self) -> None:
        """The whole of it: a nanny, and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class DaskCluster:
    """A scheduler on a fixed port, so that it can be started a second time."""

    def __init__(
        self, folder: Path, proofs: list[str] | None = None, host: str = "127.0.0.1"
    ) -> None:
        self.folder = folder
        self.host = host
        self._proofs = proofs or []
        self._scheduler: DaskProcess | None = None
        self._workers: list[DaskProcess] = []
        self.address = ""

    def start_scheduler(self) -> None:
        file = self.folder / "scheduler.json"
        file.unlink(missing_ok=True)
        port = self.address.rpartition(":")[2] or "0"
        words = ["scheduler", "--host", self.host, "--port", port, "--no-dashboard"]
        words += ["--no-show", "--scheduler-file", str(file), *self._proofs]
        self._scheduler = DaskProcess(self.folder / "scheduler", words)

    async def reached(self) -> str:
        """Its address, as soon as it says so itself, the second time too."""
        file, address = self.folder / "scheduler.json", ""
        while not address:
            with contextlib.suppress(OSError, ValueError):
                address = str(json.loads(file.read_text())["address"])
            await asyncio.sleep(0.02)
        self.address = address
        return address

    async def begin_anew(self, workers: int = 2) -> None:
        """Workers that come before their scheduler end, and nobody here starts them again."""
        self.start_scheduler()
        await self.reached()
        for _ in range(workers):
            self.start_worker()

    def start_worker(
        self,
        *words: str,
        config: str = WORKER_CONFIG,
        host: str = "",
        before: tuple[str, ...] = (),
    ) -> DaskProcess:
        number = len(self._workers)
        asked = ["worker", self.address, "--nthreads", "1", "--no-dashboard", *self._proofs]
        asked += ["--host", host or self.host, "--death-timeout", "600"]
        asked += ["--local-directory", str(self.folder / f"space-{number}"), *words]
        place = self.folder / f"worker-{number}"
        self._workers.append(DaskProcess(place, asked, config, before))
        return self._workers[-1]

    def kill_scheduler(self) -> None:
        if self._scheduler is not None:
            self._scheduler.kill()

    def close(self) -> None:
        for one in self._workers:
            one.kill()
        self.kill_scheduler()


@contextmanager
def dask_processes(
    folder: Path, proofs: list[str] | None = None, host: str = "127.0.0.1"
) -> Iterator[DaskCluster]:
    cluster = DaskCluster(folder, proofs, host)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield cluster
    finally:
        cluster.close()


@asynccontextmanager
async def dask_cluster(
    folder: Path, workers: int = 2, *words: str, **more: Any
) -> AsyncIterator[DaskCluster]:
    with dask_processes(folder) as cluster:
        cluster.start_scheduler()
        await cluster.reached()
        for _ in range(workers):
            cluster.start_worker(*words, **more)
        yield cluster


@asynccontextmanager
async def served_by(
    cluster: DaskCluster, folder: Path, settings: WorkflowSettings = ON_DASK, **more: Any
) -> AsyncIterator[House]:
    """A service whose stages run there, as soon as all workers have joined."""
    terms = {"silence": 4.0, "patience": 1.0} | more.pop("terms", {})
    section = ClusterSection(scheduler=cluster.address, **terms)
    async with opened(folder, registry=registry_of(settings), cluster=section, **more) as house:
        yield house


def seats_of(house: House) -> dict[str, int]:
    return house.service.facade.world.surroundings.elsewhere.seats()


async def joined(house: House, number: int) -> None:
    await until(lambda: seats_of(house).get("free") == number)
