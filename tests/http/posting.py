"""A provider that posts webhooks, honest ones and others, and a service that listens to it."""

import base64
import hashlib
import hmac
import json
import sqlite3
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from jobrunner import app
from jobrunner.config.settings import (
    Config,
    LimitsSection,
    RetentionSection,
    ServerSection,
    StoreSection,
    WebhookSettings,
)
from jobrunner.stages import Registry
from tests.http.listener import jobrunner_listener as listener
from tests.http.serving import Caller, Contract, Said

PATH = "/webhooks/postman"
VARIABLE, OLD_VARIABLE = "LISTENER_SECRET", "LISTENER_SECRET_BEFORE"
Headers = list[tuple[str, str]]


def secret(key: bytes) -> str:
    return "whsec_" + base64.b64encode(key).decode()


KEY, OLD_KEY, STRANGER = b"k" * 32, b"o" * 32, b"s" * 32


def signed(
    webhook_id: str, body: bytes, *, key: bytes = KEY, at: str | float | None = None
) -> Headers:
    """The three headers, made independently of the code under test."""
    timestamp = at if isinstance(at, str) else str(int(time.time() if at is None else at))
    return [
        ("webhook-id", webhook_id),
        ("webhook-timestamp", timestamp),
        ("webhook-signature", f"v1,{mac(webhook_id, timestamp, body, key)}"),
    ]


def mac(webhook_id: str, timestamp: str, body: bytes, key: bytes = KEY) -> str:
    said = webhook_id.encode("utf-8", "replace") + b"." + timestamp.encode() + b"." + body
    return base64.b64encode(hmac.new(key, said, hashlib.sha256).digest()).decode()


def saying(key: str, output: Any = None, status: str = "done") -> bytes:
    return json.dumps({"id": key, "status": status, "output": output}).encode()


class Provider:
    """Posts to a running service, and looks at what became of it."""

    def __init__(
        self,
        service: app.LiveService,
        session: aiohttp.ClientSession,
        folder: Path,
        log: list[Any],
    ) -> None:
        self.service = service
        self.session = session
        self.database = folder / "jobs.db"
        self.logged: list[dict[str, Any]] = log
        self.admin = Caller(session, service.url, None, service.first_token)

    async def post(self, headers: Headers, body: bytes, path: str = PATH) -> Said:
        async with self.session.post(
            self.service.url + path, headers=headers, data=body, allow_redirects=False
        ) as answer:
            return Said(answer.status, answer.headers, await answer.read())

    async def say(self, webhook_id: str, about: str, output: Any = None, **how: Any) -> Any:
        """An honest webhook; what it was answered."""
        body = saying(about, output)
        said = await self.post([*signed(webhook_id, body, **how), *TYPE], body)
        assert said.status == 200, said.raw
        return said.json

    async def listens(self, *keys: str, **params: Any) -> str:
        """A job that awaits these, parked."""
        job_id = await self.submitted(*keys, **params)
        await self.attempt(job_id, "parked")
        return job_id

    async def submitted(self, *keys: str, **params: Any) -> str:
        job = await self.admin.submit("listener", params={"keys": list(keys), **params})
        return str(job["id"])

    async def attempt(self, job_id: str, *statuses: str, number: int = 1) -> dict[str, Any]:
        """That attempt, as soon as it stands like this."""
        with anyio.fail_after(120):
            while True:
                said = await self.admin.get(f"/jobs/{job_id}/attempts")
                for one in said.json["attempts"][number - 1 : number]:
                    if one["status"] in statuses:
                        return dict(one)
                await anyio.sleep(0.01)

    async def at(self, job_id: str, *statuses: str) -> Any:
        with anyio.fail_after(120):
            while True:
                job = (await self.admin.get(f"/jobs/{job_id}")).json
                if job["status"] in statuses:
                    return job
                await anyio.sleep(0.01)

    def written(self) -> tuple[Any, ...]:
        """Everything that a webhook may change."""
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as db:
            return tuple(
                tuple(db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall())
                for table in ("webhooks", "awaits", "history", "attempts", "events", "audit")
            )

    def lines(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.logged if line["event"] == event]

    async def contract(self) -> Contract:
        return Contract((await self.admin.get("/openapi.json")).json)


TYPE: Headers = [("Content-Type", "application/json")]


def registry() -> Registry:
    made = Registry()
    made.add(listener.listen)
    made.add(listener.postman)
    made.add(listener.definition)
    assert not made.refused["workflows"], made.refused["workflows"]
    return made


@asynccontextmanager
async def listening(
    folder: Path,
    variables: Iterable[str] = (VARIABLE,),
    known: Registry | None = None,
    keys_s: float = 86_400,
    limits: LimitsSection | None = None,
) -> AsyncIterator[Provider]:
    """A service that listens; its secrets are where the environment has them now."""
    config = Config(
        server=ServerSection(port=0, drain_seconds=1),
        store=StoreSection(path=str(folder / "jobs.db"), assets=str(folder / "assets")),
        webhooks={"postman": WebhookSettings(tuple(variables))},
        retention=RetentionSection(keys=keys_s),
        limits=limits or LimitsSection(lag=0),  # a busy machine turns no test away
    )
    logged: list[dict[str, Any]] = []

    def log(event: str, level: str = "info", **fields: Any) -> None:
        logged.append({"event": event, "level": level, **fields})

    connector = aiohttp.TCPConnector(limit=100)
    async with (
        app.running(config, log, registry=known or registry()) as service,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        yield Provider(service, session, folder, logged)
    bugs = [line for line in logged if line["event"] in ("http.fault", "actor.crashed")]
    assert not bugs, bugs
