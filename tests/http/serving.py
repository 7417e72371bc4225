"""The real service on a free port of loopback, with a database of its own, and clients of every
role. Whatever is answered in these tests is compared with the service's own OpenAPI document."""

import re
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema_rs
import msgspec

from jobrunner import app
from jobrunner.config.overrides import laid_over
from jobrunner.config.settings import (
    AuthSection,
    Config,
    LimitsSection,
    OidcSection,
    ServerSection,
    StoreSection,
    WorkflowSettings,
)
from jobrunner.core.declaration.workflow import Workflow
from jobrunner.ports import Ports
from jobrunner.stages import Registry

PLUGINS = ("asset_pattern", "cutx", "howera", "image_generation", "ss")
OUTSIDE = WorkflowSettings(stages={"*": "external"})
JSON = "application/json"
PROBLEM = "application/problem+json"


@dataclass
class Said:
    """One answer, whole."""

    status: int
    headers: Any
    raw: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.raw)

    @property
    def code(self) -> str:
        return str(self.json["error_code"])


class Contract:
    """The service's own document, as a judge of what it answers."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._paths = sorted(document["paths"], key=lambda path: (path.count("{"), path))
        self._validators: dict[str, jsonschema_rs.Draft202012Validator] = {}

    def judge(self, method: str, path: str, said: Said) -> None:
        """Every answer is documented: its route, its status, its code, its shape."""
        path = path.rstrip("/") if path == "/jobs/" else path  # served twice, listed once
        fitting = [one for one in self._paths if _fits(one, path)]
        verb = "get" if method == "HEAD" else method.lower()
        template = next((one for one in fitting if verb in self.document["paths"][one]), None)
        if template is None:
            wanted = 405 if fitting else 404
            assert said.status == wanted, f"{method} {path}: {said.status} is not documented"
            return
        operation = self.document["paths"][template][verb]
        assert said.status != 500, f"{method} {path}: {said.raw[:300]!r}"
        answers = operation["responses"]
        assert str(said.status) in answers, f"{method} {template}: {said.status} {said.raw[:300]!r}"
        answer = self._found(answers[str(said.status)])
        for name, about in answer["headers"].items():
            told = name in said.headers or not about["required"]
            assert told, f"{method} {template}: {said.status} without {name}"
        if said.raw and method != "HEAD":
            content = answer["content"]
            media = said.headers["Content-Type"].partition(";")[0]
            assert media in content, f"{method} {template}: {media}"
            if "json" in media:
                self._check(content[media]["schema"], said, f"{method} {template} {said.status}")
            if media == PROBLEM:
                codes = operation["x-error-codes"][str(said.status)]
                assert said.code in codes, f"{method} {template}: {said.status} {said.code}"

    def _found(self, answer: dict[str, Any]) -> dict[str, Any]:
        """The answer itself, or the shared one that it refers to."""
        shared = answer.get("$ref", "").removeprefix("#/components/responses/")
        found: dict[str, Any] = (
            self.document["components"]["responses"][shared] if shared else answer
        )
        return found

    def _check(self, schema: dict[str, Any], said: Said, where: str) -> None:
        key = msgspec.json.encode(schema).decode()
        if key not in self._validators:
            whole = {**schema, "components": self.document["components"]}
            self._validators[key] = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
        faults = [str(error) for error in self._validators[key].iter_errors(said.json)]
        assert not faults, f"{where}: {faults} in {said.raw[:600]!r}"


CONTRACTS: dict[Hashable, Contract] = {}
KEPT = 4


async def _contract(nobody: "Caller", registry: Registry, public_url: str) -> Contract:
    """It is made of the declarations, and a service with the same ones has the same: to write it
    takes as long as all else that a service does before it answers."""
    loaded = [registry.current(name) for name in registry.names()]
    made_of = (
        public_url,
        *((msgspec.json.encode(one.workflow), *one.structs.items()) for one in loaded if one),
    )
    if made_of not in CONTRACTS:
        CONTRACTS[made_of] = Contract((await nobody.get("/openapi.json")).json)
        for oldest in list(CONTRACTS)[:-KEPT]:
            del CONTRACTS[oldest]
    return CONTRACTS[made_of]


def _fits(template: str, path: str) -> bool:
    pattern = re.sub(r"\\\{[a-z]+\\\}", "[^/]+", re.escape(template))
    return re.fullmatch(pattern, path) is not None


@dataclass
class Caller:
    """A client with one token."""

    session: aiohttp.ClientSession
    url: str
    contract: Contract | None
    token: str | None = None
    seen: list[tuple[str, str, int]] = field(default_factory=list)

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        data: Any = None,
    ) -> Said:
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if body is not None:
            data = msgspec.json.encode(body)
        if data is not None:
            sent["Content-Type"] = JSON
        sent |= headers or {}
        async with self.session.request(
            method, self.url + path, data=data, headers=sent, allow_redirects=False
        ) as response:
            said = Said(response.status, response.headers, await response.read())
        if self.contract is not None:
            self.contract.judge(method, path.partition("?")[0], said)
        return said

    async def get(self, path: str, **headers: str) -> Said:
        return await self.ask("GET", path, headers=_dashed(headers))

    async def post(self, path: str, body: Any = None, **headers: str) -> Said:
        return await self.ask("POST", path, body, headers=_dashed(headers))

    async def put(self, path: str, body: Any = None, **headers: str) -> Said:
        return await self.ask("PUT", path, body, headers=_dashed(headers))

    async def delete(self, path: str) -> Said:
        return await self.ask("DELETE", path)

    async def submit(self, workflow: str, **more: Any) -> Any:
        """A job, made."""
        said = await self.post("/jobs", {"workflow": workflow, **more})
        assert said.status in (200, 201), said.raw
        return said.json


def _dashed(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@dataclass
class House:
    """A running service, its clients, and everything it logged."""

    service: app.LiveService
    session: aiohttp.ClientSession
    contract: Contract
    logged: list[dict[str, Any]]
    admin: Caller
    nobody: Caller
    callers: dict[str, Caller]

    @property
    def ada(self) -> Caller:
        return self.callers["ada"]

    @property
    def eve(self) -> Caller:
        return self.callers["eve"]

    @property
    def worker(self) -> Caller:
        return self.callers["worker"]

    def caller(self, token: str | None) -> Caller:
        return Caller(self.session, self.service.url, self.contract, token)


def definitions(
    settings: WorkflowSettings | None = None, names: tuple[str, ...] = PLUGINS
) -> Registry:
    """The lifecycles of this tree, driven from outside."""
    return another(_driven(names)) if settings is None else _registry(settings, names)


@cache
def _driven(names: tuple[str, ...]) -> Registry:
    return _registry(OUTSIDE, names)


def another(registry: Registry) -> Registry:
    """The same to begin with, examined once; what a service changes in it, no other one sees."""
    found = copy(registry)
    for name, held in vars(registry).items():
        if isinstance(held, dict):
            inner = {key: dict(one) if isinstance(one, dict) else one for key, one in held.items()}
            setattr(found, name, inner)
        elif isinstance(held, set):
            setattr(found, name, set(held))
    return found


def _registry(settings: WorkflowSettings, names: tuple[str, ...]) -> Registry:
    def overlay(workflow: Workflow) -> tuple[Workflow, tuple[str, ...]]:
        return laid_over(workflow, settings)

    registry = Registry(overlay)
    for name in names:
        registry.add(import_module(f"jobrunner_{name}").definition)
    assert not registry.refused["workflows"], registry.refused["workflows"]
    return registry


@asynccontextmanager
async def opened(
    folder: Path,
    *,
    mode: Any = "tokens",
    server: ServerSection | None = None,
    limits: LimitsSection | None = None,
    registry: Registry | None = None,
    faults: int = 0,
    fresh: bool = False,
    ports: Ports | None = None,
    oidc: OidcSection | None = None,
    session_s: float = 12 * 3600,
    **sections: Any,
) -> AsyncIterator[House]:
    """``ports`` stand in the place of the system's, ``sections`` are more of the settings.
    ``fresh``: each request has a connection of its own, for a service that hangs up on one that
    rests for a moment."""
    config = Config(
        server=server or ServerSection(port=0, drain_seconds=1),
        store=StoreSection(path=str(folder / "jobs.db"), assets=str(folder / "assets")),
        auth=AuthSection(mode=mode, session=session_s, oidc=oidc or OidcSection()),
        limits=limits
        or LimitsSection(lag=0),  # a machine that is busy elsewhere turns no test away
        **sections,
    )
    registry = registry or definitions()
    logged: list[dict[str, Any]] = []

    def log(event: str, level: str = "info", **fields: Any) -> None:
        logged.append({"event": event, "level": level, **fields})

    async with (
        app.running(config, log, ports, registry) as service,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=fresh)) as session,
    ):
        nobody = Caller(session, service.url, None)
        contract = await _contract(nobody, registry, config.server.public_url)
        nobody.contract = contract
        inside = service.admin_url or service.url
        admin = Caller(session, inside, contract, service.first_token or _kept(folder))
        house = House(service, session, contract, logged, admin, nobody, {})
        if mode == "tokens":
            await _settle(house)
        yield house
    bugs = [line for line in logged if line["event"] == "http.fault"]
    assert len(bugs) == faults, bugs


def _kept(folder: Path) -> str | None:
    """The first admin's token, from an earlier start in this folder."""
    kept = folder / "admin.token"
    return kept.read_text().strip() if kept.exists() else None


async def _settle(house: House) -> None:
    for name, role in (("ada", "user"), ("eve", "user"), ("worker", "workflow")):
        made = await house.admin.post("/admin/tokens", {"name": name, "role": role})
        assert made.status == 201, made.raw
        house.callers[name] = house.caller(made.json["token"])
