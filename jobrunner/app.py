"""The only place that knows everybody: it binds the ports, opens the rooms in order, and closes
them in the reverse order.

Store, definitions, actors, door. On the way up each may refuse to start; on the way down the door
closes last to new work, running stages get their time, and the writer closes last of all.
"""

import importlib.metadata
import os
import site
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from msgspec import Struct

from jobrunner import overrides
from jobrunner.actors import Limits, Supervisor
from jobrunner.config import Config
from jobrunner.core.decision import Grant, NewToken, Remember
from jobrunner.core.queries import Token
from jobrunner.core.workflow import Definition, Workflow
from jobrunner.errors import JobrunnerError, OutcomeUnknown, StorageError
from jobrunner.ports import (
    Clock,
    Ids,
    SystemChildren,
    SystemClock,
    SystemFiles,
    SystemIds,
    SystemSignals,
    digest,
    end_process,
)
from jobrunner.stages import Registry
from jobrunner.store import Store, open_store

Log = Callable[..., None]
TICK_S = 1.0
SEEN_EVERY_S = 30.0
SILENCE_S = 10.0
LAG_MAX_S = 2.0
LATE_S = 20.0
STRAYS_MAX = 4
LOCAL = "local"


class Ports(Struct, frozen=True):
    """What the world is made of; the simulated form has the same fields."""

    clock: Clock
    ids: Ids
    files: Any
    children: Any
    signals: Any
    writer_hop: Any = None
    reader_hop: Any = None


class Service(Struct, frozen=True):
    """A service that answers: where, and through which rooms."""

    url: str
    supervisor: Supervisor
    store: Store
    registry: Registry
    first_token: str | None = None


def system_ports() -> Ports:
    clock = SystemClock()
    return Ports(clock, SystemIds(clock), SystemFiles(), SystemChildren(), SystemSignals())


async def serve(config: Config, log: Log) -> None:
    """Run until a signal says stop, then drain. Raises what made it impossible to start, or
    OutcomeUnknown when only a new start can tell what is on disk."""
    ports = system_ports()
    async with ports.signals.stops() as stops, running(config, log, ports) as service:
        _greet(service)
        async with anyio.create_task_group() as group:

            async def until_failed() -> None:
                await service.supervisor.failed.wait()
                ports.children.watchdog(LATE_S, _give_up_waiting)
                group.cancel_scope.cancel()

            group.start_soon(until_failed)
            await anext(aiter(stops))
            log("service.stopping")
            ports.children.watchdog(config.server.drain_seconds + LATE_S, _give_up_waiting)
            group.cancel_scope.cancel()
    if service.supervisor.unknown is not None:
        raise service.supervisor.unknown


@asynccontextmanager
async def running(
    config: Config, log: Log, ports: Ports | None = None, registry: Registry | None = None
) -> AsyncIterator[Service]:
    """The whole service, answering on its address; leaving drains it."""
    from jobrunner.http.server import make_app, open_site

    ports = ports or system_ports()
    definitions = registry or load_definitions(config)
    async with (
        _ungrouped(),
        _opened(config, ports) as store,
        working(config, store, definitions, ports, log) as (supervisor, first),
    ):
        health = Health(store, supervisor, ports)
        door = _door(config, store, supervisor, ports, log, health)
        place = config.server.host, config.server.port
        async with open_site(make_app(door), door, *place) as (host, port):
            url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            async with anyio.create_task_group() as group:
                group.start_soon(health.watch, log)
                log("service.ready", url=url, epoch=store.epoch)
                try:
                    yield Service(url, supervisor, store, definitions, first)
                finally:
                    with anyio.CancelScope(shield=True):
                        await supervisor.drain()
                    group.cancel_scope.cancel()
    log("service.stopped")


@asynccontextmanager
async def working(
    config: Config, store: Store, definitions: Registry, ports: Ports, log: Log
) -> AsyncIterator[tuple[Supervisor, str | None]]:
    """The rooms behind the door: jobs move, and nobody listens yet. With the first token, if it
    was made just now."""
    _introduce(config, store, definitions, log)
    await _remember(store, definitions, ports.clock, log)
    first = await _first_token(config, store, ports)
    supervisor = _supervisor(config, store, definitions, ports, log)
    async with supervisor.running():
        yield supervisor, first


@asynccontextmanager
async def _ungrouped() -> AsyncIterator[None]:
    """One error of ours, however many task groups it has passed through, stays what it was."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, JobrunnerError):
            raise error from group
        raise


@asynccontextmanager
async def open_offline(config: Config) -> AsyncIterator[Store]:
    """The store alone, for commands while the service is down."""
    async with _opened(config, system_ports()) as store:
        yield store


def load_definitions(config: Config) -> Registry:
    """Everything installed, as it would run under this config."""
    from jobrunner.http.routes import TAKEN

    if os.path.isdir(config.plugins.path):
        site.addsitedir(os.path.abspath(config.plugins.path))

    def overlay(workflow: Workflow) -> tuple[Workflow, tuple[str, ...]]:
        fitted = overrides.apply(workflow, config.workflow(workflow.name))
        return (workflow, fitted) if isinstance(fitted, tuple) else (fitted, ())

    registry = Registry(overlay, TAKEN, config.resources)
    registry.load(config.plugins.enabled)
    return registry


@asynccontextmanager
async def _opened(config: Config, ports: Ports) -> AsyncIterator[Store]:
    store = await open_store(
        config.store.path,
        clock=ports.clock,
        initial_credits=config.credits.initial,
        writer_hop=ports.writer_hop,
        reader_hop=ports.reader_hop,
    )
    try:
        yield store
    finally:
        with anyio.CancelScope(shield=True):
            await store.close()


def _introduce(config: Config, store: Store, registry: Registry, log: Log) -> None:
    log(
        "service.starting",
        version=version(),
        sqlite=store.sqlite_version,
        path=config.store.path,
        workflows=registry.names(),
    )
    for name, reason in registry.unfit.items():
        log("stage.refused", level="error", stage=name, reason=reason)
    for name, reasons in registry.refused.items():
        log("workflow.refused", level="error", workflow=name, reasons=list(reasons))
    for fault in overrides.unknown_workflows(config, [*registry.names(), *registry.refused]):
        log("config.ignored", level="warning", detail=fault)


async def _remember(store: Store, registry: Registry, clock: Clock, log: Log) -> None:
    """Every declaration that a job may be born under is kept by its digest."""
    for name in registry.names():
        definition = registry.current(name)
        assert definition is not None
        await store.commit(_remembered(definition, clock.now()))
    registry.remember(await store.reader.declarations())
    for which, reasons in registry.outdated.items():
        log("declaration.outdated", level="error", declaration=which, reasons=list(reasons))


def _remembered(definition: Definition, now: int) -> Remember:
    workflow = definition.workflow
    states = tuple((state.name, state.kind) for state in workflow.states)
    return Remember(
        definition.digest, workflow.name, workflow.version, definition.encoded, states, now
    )


async def _first_token(config: Config, store: Store, ports: Ports) -> str | None:
    """The first admin, on the first start; without tokens, the account of the local user."""
    now = ports.clock.now()
    if config.auth.mode == "none":
        initial = config.credits.initial
        await store.commit(Grant(LOCAL, initial, "initial", "service", now, once=True))
        return None
    if any(_is_live_admin(token, now) for token in await store.reader.tokens()):
        return None
    token = ports.ids.secret()
    data = token.encode()
    path = os.path.join(os.path.dirname(os.path.abspath(config.store.path)), "admin.token")
    ports.files.write_private(path, data + b"\n")
    unit = NewToken(ports.ids.fresh(), "admin", "admin", digest(data), now, "service")
    await store.commit(unit)
    return token


def _is_live_admin(token: Token, now: int) -> bool:
    expired = token.expires_at is not None and token.expires_at <= now
    return token.role == "admin" and token.revoked_at is None and not expired


def _supervisor(
    config: Config, store: Store, registry: Registry, ports: Ports, log: Log
) -> Supervisor:
    limits = Limits(
        config.limits.active_jobs, config.limits.per_user_active, config.limits.queued_jobs
    )
    return Supervisor(
        store,
        registry,
        ports.clock,
        ports.ids,
        log,
        ports.children,
        limits,
        config.server.drain_seconds,
        config.store.assets,
        config.resources,
    )


class Health:
    """What ``/readyz`` tells, and the tick that says this process lives.

    The loop's lag is measured by how late a nap ends; the writer answers a no-op now and then. A
    thread outside the loop ends the process when the loop does not tick at all."""

    def __init__(self, store: Store, supervisor: Supervisor, ports: Ports) -> None:
        self._store = store
        self._supervisor = supervisor
        self._ports = ports
        self._lag_s = 0.0
        self._store_fault = ""

    async def __call__(self) -> Mapping[str, str]:
        faults = {}
        if self._supervisor.draining:
            faults["drain"] = "the service is stopping"
        if self._lag_s > LAG_MAX_S:
            faults["loop"] = f"the event loop lags {self._lag_s:.1f} s behind"
        if self._store_fault:
            faults["store"] = self._store_fault
        if self._ports.children.strays >= STRAYS_MAX:
            faults["threads"] = "stages in threads go on though their time is over; restart"
        return faults

    async def watch(self, log: Log) -> None:
        clock = self._ports.clock
        dog = self._ports.children.watchdog(SILENCE_S, _bark)
        try:
            seen_at = clock.monotonic()
            while True:
                before = clock.monotonic()
                await clock.sleep(TICK_S)
                self._lag_s = max(clock.monotonic() - before - TICK_S, 0)
                dog.tick()
                if clock.monotonic() - seen_at >= SEEN_EVERY_S:
                    seen_at = clock.monotonic()
                    await self._touch(log)
        finally:
            dog.close()

    async def _touch(self, log: Log) -> None:
        try:
            await self._store.touch()
            self._store_fault = ""
        except StorageError as error:
            self._store_fault = str(error)
            if isinstance(error, OutcomeUnknown):
                self._supervisor.give_up(error)
            log("storage.fault", level="error", detail=str(error))


def _door(
    config: Config,
    store: Store,
    supervisor: Supervisor,
    ports: Ports,
    log: Log,
    health: Callable[[], Awaitable[Mapping[str, str]]],
) -> Any:
    from jobrunner.http.auth import Keyring
    from jobrunner.http.door import Door, Settings

    async def faults() -> list[str]:
        return list(await store.check())

    settings = Settings(
        auth=config.auth.mode,
        max_body=config.server.max_body,
        initial_credits=config.credits.initial,
    )
    return Door(
        supervisor=supervisor,
        reader=store.reader,
        clock=ports.clock,
        ids=ports.ids,
        keyring=Keyring(store.reader, ports.clock, config.auth.mode),
        settings=settings,
        log=log,
        health=health,
        check_db=faults,
        version=version(),
    )


def version() -> str:
    try:
        return importlib.metadata.version("jobrunner")
    except importlib.metadata.PackageNotFoundError:
        return "0"


def _greet(service: Service) -> None:
    print(f"jobrunner answers on {service.url}", flush=True)
    if service.first_token is not None:
        print(f"admin token, shown this once: {service.first_token}")
        print("(kept in admin.token beside the database)", flush=True)


def _give_up_waiting() -> None:
    """What was acknowledged is on disk, and what was interrupted goes on at the next start."""
    print("a stage would not stop; ending the process without it", file=sys.stderr)
    end_process(1)


def _bark() -> None:
    """The loop hangs: say where, and start again from disk."""
    import faulthandler

    print("the event loop did not tick for 10 s; ending the process", file=sys.stderr)
    faulthandler.dump_traceback(all_threads=True)
    end_process(70)


__all__ = [
    "Health",
    "JobrunnerError",
    "OutcomeUnknown",
    "Ports",
    "Service",
    "load_definitions",
    "open_offline",
    "running",
    "serve",
    "system_ports",
    "version",
    "working",
]
