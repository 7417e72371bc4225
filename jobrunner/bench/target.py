"""The service that ``overload`` measures, as a process: ``python -m jobrunner.bench.target``."""

import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from jobrunner import app
from jobrunner.config.reading import load
from jobrunner.config.settings import Config, WorkflowSettings
from jobrunner.log import Log
from jobrunner.ports import system_ports
from jobrunner.startup import settle

CREDITS = 1_000_000_000
WAY = ("UPLOADED", "AUDIO_EXTRACTING", "AUDIO_READY", "TRANSCRIBING")


class Address(Struct, frozen=True):
    """Read a server's first line."""

    url: str
    token: str
    pid: int = 0


@asynccontextmanager
async def server(kind: str) -> AsyncIterator[Address]:
    """A process of its own. Of a service that is ``shut`` all places are taken for good."""
    with tempfile.TemporaryDirectory(prefix="jobrunner-bench-") as folder:
        command = [sys.executable, "-m", "jobrunner.bench.target", kind, folder]
        with (Path(folder) / "log").open("wb") as log:
            async with await anyio.open_process(command, stderr=log) as process:
                assert process.stdout is not None
                line = await process.stdout.receive()
                try:
                    yield msgspec.json.decode(line, type=Address)
                finally:
                    process.terminate()


@asynccontextmanager
async def job_under_way(at: Address) -> AsyncIterator[tuple[Any, str]]:
    """A new job that was reported all the ``WAY``, and a client to ask more of it."""
    import aiohttp

    headers = {"Authorization": f"Bearer {at.token}"}
    async with aiohttp.ClientSession(at.url, headers=headers) as session:
        async with session.post("/jobs", json={"workflow": "howera"}) as made:
            job_id = str((await made.json())["id"])
        for status in WAY:
            event = event_of(f"way-{status}", status)
            async with session.post(f"/internal/jobs/{job_id}/status", json=event) as moved:
                assert moved.status == 204, await moved.text()
        yield session, job_id


def event_of(name: str, status: str) -> dict[str, str]:
    return {"event_id": name, "status": status, "occurred_at": "2026-01-01T00:00:00Z"}


async def serve(kind: str, folder: str) -> None:
    """Say where it listens, then serve until it is ended."""
    log = Log(sys.stderr)
    async with (
        app.running(_config(folder), log) as service,
        system_ports().signals.stops() as stops,
    ):
        assert service.first_token is not None
        settle()
        while kind == "shut" and service.limits.admission.enter():
            pass
        address = Address(service.url, service.first_token, os.getpid())
        print(msgspec.json.encode(address).decode(), flush=True)
        await anext(aiter(stops))
    log.close()


def _config(folder: str) -> Config:
    """Measure routes and store alone: every stage is an outside worker's."""
    settings = {
        "STORE__PATH": f"{folder}/jobrunner.db",
        "SERVER__PORT": "0",
        "LIMITS__QUEUED_JOBS": str(10**9),
        "CREDITS__INITIAL": str(CREDITS),
    }
    config = load(None, {f"JOBRUNNER_{key}": value for key, value in settings.items()})
    outside = WorkflowSettings(stages={"*": "external"})
    names = [entry.name for entry in entry_points(group="jobrunner.workflows")]
    return replace(config, workflows=dict.fromkeys(names, outside))


if __name__ == "__main__":
    anyio.run(serve, sys.argv[1], sys.argv[2])
