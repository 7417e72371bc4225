"""The service in this process, on a port of its own, with clients of all roles; its log is a text
that is read back line by line."""

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import aiohttp
import anyio
from msgspec.structs import replace

from jobrunner import app
from jobrunner.config.settings import Config, LimitsSection, ServerSection, StoreSection
from jobrunner.core.declaration.workflow import Definition
from jobrunner.log import Log
from jobrunner.ports import system_ports
from jobrunner.stages import Registry
from tests.driving import outside, varied
from tests.http.serving import PLUGINS, Caller, Said, another

LAPSE_S = 0.05


class Living:
    """A running service, its clients, and the lines of its log."""

    def __init__(
        self, service: app.LiveService, admin: Caller, callers: dict[str, Caller], told: "Told"
    ) -> None:
        self.service = service
        self.admin = admin
        self.ada = callers["ada"]
        self.eve = callers["eve"]
        self.worker = callers["worker"]
        self._told = told

    def caller(self, token: str | None) -> Caller:
        return Caller(self.admin.session, self.admin.url, None, token)

    def lines(self, job_id: str = "", event: str = "") -> list[dict[str, Any]]:
        """What was logged so far, about one job or by one name."""
        about = [line for line in self._told.lines() if not job_id or line.get("job_id") == job_id]
        return [line for line in about if not event or line["event"] == event]

    async def heard(self, job_id: str, event: str) -> list[dict[str, Any]]:
        """The same, as soon as there is one: what a reader sees may be told a moment later."""
        with anyio.fail_after(120):
            while not (found := self.lines(job_id, event)):
                await anyio.sleep(0.01)
        return found

    async def moved(self, job_id: str, to: str, **report: Any) -> Said:
        return await self.admin.post(f"/jobs/{job_id}/transitions", {"to": to, **report})

    async def told(self, job_id: str, event_id: str, status: str, **report: Any) -> Said:
        """A status callback; every instant is the same one, which is no fault."""
        body = {"event_id": event_id, "status": status, "occurred_at": "2026-01-01T00:00:00Z"}
        return await self.worker.post(f"/internal/jobs/{job_id}/status", body | report)

    async def seen(self, job_id: str) -> tuple[Any, ...]:
        """Everything that can be read about a job."""
        paths = ("", "/history", "/attempts", "/assets")
        return tuple([(await self.admin.get(f"/jobs/{job_id}{path}")).json for path in paths])

    async def at(self, job_id: str, *statuses: str) -> Any:
        """The job as soon as it stands in one of these; the service does the waiting."""
        job: Any = None
        for _ in range(120):
            tag = "" if job is None else f'"{job["version"]}"'
            said = await self.admin.get(f"/jobs/{job_id}?wait=1", If_None_Match=tag)
            job = said.json if said.status == 200 else job
            if job is not None and job["status"] in statuses:
                return job
        raise AssertionError(f"not in {statuses}: {job}\n{self.lines(job_id)}")


class Told:
    """A log, and what it has written."""

    def __init__(self) -> None:
        self._text = io.StringIO()
        self.log = Log(self._text)

    def lines(self) -> list[dict[str, Any]]:
        self.log.flush()
        return [json.loads(line) for line in self._text.getvalue().splitlines()]


@asynccontextmanager
async def living(
    folder: Path,
    registry: Registry | None = None,
    limits: LimitsSection | None = None,
    **ports: Any,
) -> AsyncIterator[Living]:
    """The five lifecycles, driven from outside, unless ``registry`` says otherwise; ``ports`` in
    place of the system's."""
    told = Told()
    config = Config(
        server=ServerSection(port=0, drain_seconds=1),
        store=StoreSection(path=str(folder / "jobs.db"), assets=str(folder / "assets")),
        limits=limits or LimitsSection(lag=0),
    )
    bound = replace(system_ports(), **ports)
    async with (
        app.running(config, told.log, bound, registry or lifecycles()) as service,
        aiohttp.ClientSession() as session,
    ):
        admin = Caller(session, service.url, None, service.first_token)
        callers: dict[str, Caller] = {}
        for name, role in (("ada", "user"), ("eve", "user"), ("worker", "workflow")):
            made = await admin.post("/admin/tokens", {"name": name, "role": role})
            callers[name] = Caller(session, service.url, None, made.json["token"])
        await admin.post("/admin/credits/ada/grant", {"amount": 975, "reason": "tests"})
        yield Living(service, admin, callers, told)


def lifecycles() -> Registry:
    """The five, with every stage outside; a run that its orchestrator left lapses at once."""
    return another(_examined())


@cache
def _examined() -> Registry:
    registry = Registry()
    for name in PLUGINS:
        registry.add(_hasty(outside(import_module(f"jobrunner_{name}").definition)))
    assert not registry.refused["workflows"], registry.refused["workflows"]
    return registry


def _hasty(definition: Definition) -> Definition:
    locks = tuple(
        replace(lock, lapse_s=LAPSE_S) if lock.lapse_s else lock
        for lock in definition.workflow.locks
    )
    return varied(definition, locks=locks)
