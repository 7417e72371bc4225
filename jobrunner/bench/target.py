"""The servers that ``bench`` compares, each a process: ``python -m jobrunner.bench.target``."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from typing import Any

import anyio
import msgspec
from msgspec.structs import replace

from jobrunner import app
from jobrunner.actors import Answer
from jobrunner.bench.compare import CREDITS, Address
from jobrunner.config.reading import load
from jobrunner.config.settings import Config, WorkflowSettings
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import Submit
from jobrunner.core.questions import Token
from jobrunner.files.incoming import Arrivals
from jobrunner.http.frame.auth import Keyring
from jobrunner.http.frame.endpoint import HttpDoor, Settings
from jobrunner.http.frame.limits import HttpLimits
from jobrunner.http.frame.server import make_app, open_site
from jobrunner.http.frame.sources import Sources
from jobrunner.http.routes.table import table_of
from jobrunner.log import Log
from jobrunner.ports import system_ports
from jobrunner.stages import Registry
from jobrunner.startup import settle
from jobrunner.store.hop import Handle, open_handle
from jobrunner.store.rounds import Rounds

ANY_TOKEN = "bench"


class NoStore:
    """Answers a submission with a job that nobody keeps, or of which one row is kept."""

    draining = False

    def __init__(self, definitions: Registry, handle: Handle | None, clock: Any) -> None:
        self.definitions = definitions
        self._clock = clock
        self._handle = handle
        self._rounds: Rounds[tuple[str, bytes], None] = Rounds(self._commit, 512)

    async def submit(self, submission: Submit) -> Answer:
        definition = self.definitions.current(submission.workflow)
        assert definition is not None
        now = self._clock.now()
        job = Snapshot(
            id=submission.job_id,
            workflow=submission.workflow,
            digest=definition.digest,
            job_type=submission.job_type,
            user_id=submission.actor.name,
            status="queued",
            kind="queued",
            created_at=now,
            updated_at=now,
            params=submission.params,
        )
        if self._handle is not None:
            await self._rounds.ask((job.id, msgspec.json.encode(job)))
        return Answer(job, {"replayed": False}, 201)

    async def _commit(self, rows: list[tuple[str, bytes]]) -> list[None]:
        assert self._handle is not None
        await self._handle(_insert, rows)
        return [None] * len(rows)


class NoReader:
    """Knows one token: any."""

    async def token(self, digest: bytes) -> Token:
        return Token("bench", "bench", "admin", 0)


def _insert(connection: Any, rows: list[tuple[str, bytes]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO jobs (uid, job) VALUES (?, ?)", rows)
    connection.execute("COMMIT")


def _prepare(connection: Any) -> None:
    for statement in (
        "PRAGMA journal_mode = wal",
        "PRAGMA synchronous = FULL",
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, uid TEXT NOT NULL UNIQUE, job BLOB) STRICT",
    ):
        connection.execute(statement)


async def serve(kind: str, folder: str) -> None:
    """Say where it listens, then serve until it is ended."""
    of_ours = kind in ("service", "shut")
    opened = _service(folder, kind) if of_ours else _comparison(kind, folder)
    async with opened as address, system_ports().signals.stops() as stops:
        sys.stdout.write(msgspec.json.encode(address).decode() + "\n")
        sys.stdout.flush()
        await anext(aiter(stops))


@asynccontextmanager
async def _service(folder: str, kind: str) -> AsyncIterator[Address]:
    """All of it; of one that is ``shut`` all places are taken for good."""
    log = Log(sys.stderr)
    async with app.running(_config(folder), log) as service:
        assert service.first_token is not None
        settle()
        while kind == "shut" and service.limits.admission.enter():
            pass
        yield Address(service.url, service.first_token, os.getpid())
    log.close()


@asynccontextmanager
async def _comparison(kind: str, folder: str) -> AsyncIterator[Address]:
    ports, registry = system_ports(), app.load_definitions(_config(folder))
    handle = None
    if kind == "R":
        handle = await open_handle(f"{folder}/one-row.db", make=True)
        await handle(_prepare)
    facade: Any = NoStore(registry, handle, ports.clock)
    reader: Any = NoReader()
    door = HttpDoor(
        facade=facade,
        reader=reader,
        clock=ports.clock,
        ids=ports.ids,
        keyring=Keyring(reader, ports.clock, "tokens"),
        settings=Settings(),
        webhooks=Sources({}, {}, lambda source: (), ports.clock, Log(sys.stderr)),
        log=Log(sys.stderr),
        health=_healthy,
        check_db=_unchecked,
        arrivals=Arrivals(folder, ports.children, ports.files, ports.clock),
        assets=folder,
        limits=HttpLimits(ports.clock, ports.ids),
    )
    async with open_site(make_app(door, table_of(door)), door, "127.0.0.1", 0) as (host, port):
        yield Address(f"http://{host}:{port}", ANY_TOKEN)
    if handle is not None:
        await handle.close()


async def _healthy() -> dict[str, str]:
    return {}


async def _unchecked() -> list[str]:
    return []


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
