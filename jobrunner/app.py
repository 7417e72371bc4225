"""The only module that knows every room: it binds the ports, opens the rooms in order, and closes
them in the reverse order.

``running`` is the whole service, from top to bottom in the order of its start: definitions, store,
actors, door. Each may refuse to start. On the way down running stages get their time first, then
the door closes, and the writer closes last of all.
"""

import importlib.metadata
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from functools import partial
from typing import Any

import anyio
from msgspec import Struct

from jobrunner import preflight
from jobrunner.actors import Facade, WorkLimits
from jobrunner.actors.assembly import Terms
from jobrunner.actors.assembly import working as at_work
from jobrunner.actors.features.answers import keys_beside
from jobrunner.actors.features.families.bearing import FamilyLimits
from jobrunner.actors.features.notifications.secrets import key_file_beside, seals
from jobrunner.actors.features.notifications.signing import Seals
from jobrunner.actors.features.plugins import PluginTroubles
from jobrunner.actors.features.upgrades.replays import Recorder
from jobrunner.actors.keeping.backups import Backups, BackupSource, BackupTerms
from jobrunner.actors.keeping.file_moves import MoveTerms
from jobrunner.actors.keeping.health import Health
from jobrunner.actors.shared import World
from jobrunner.actors.tasks import Crew
from jobrunner.config.changeable import origins
from jobrunner.config.retention import retention_terms
from jobrunner.config.schedules import schedules_of
from jobrunner.config.settings import Config
from jobrunner.core.features.meter import SILENT, Meter
from jobrunner.core.features.turns.rates import RateLimit
from jobrunner.ending import LATE_S, Ending, ungrouped
from jobrunner.entrance import fitted_door, places
from jobrunner.equipping import accompanied, bucket_of, reached_at, surroundings, url_of
from jobrunner.errors import JobrunnerError, OutcomeUnknown
from jobrunner.greeting import WELCOME_S, greet, may_sign_in
from jobrunner.loading import load_definitions
from jobrunner.log import Log as Subscriber
from jobrunner.minding import keep_telling, stopping
from jobrunner.ports import Minder, Ports, system_ports
from jobrunner.stages import Registry
from jobrunner.stages.away import LACK, is_away
from jobrunner.stages.equipment import Surroundings
from jobrunner.standing_by import standing_by
from jobrunner.startup import (
    admin_token_path,
    first_token,
    introduce,
    keep_secrets,
    remember,
    settle,
    tell_of_restoration,
)
from jobrunner.store.keeping.standby.writing import NO_STANDBY, StandbyWriting
from jobrunner.store.store import Store, open_store

Log = Callable[..., None]
LAST_TRACES_S = 5.0


class LiveService(Struct, frozen=True):
    """A service that answers: where, and through which rooms."""

    url: str
    facade: Facade
    store: Store
    registry: Registry
    first_token: str | None = None
    admin_url: str = ""
    door: Any = None

    @property
    def limits(self) -> Any:
        return self.door.limits

    @property
    def keyring(self) -> Any:
        return self.door.keyring


async def serve(config: Config, log: Subscriber) -> None:
    """Run until a signal says stop, then drain.

    Raises: whatever made it impossible to start; OutcomeUnknown when only a new start can tell what
    is on disk.
    """
    ports = system_ports()
    ending = Ending(log, ports.children, ports.clock, heard=partial(stopping, ports.minder))
    within_s = config.server.drain_seconds + LATE_S
    with ending.told():
        async with ungrouped(), ports.signals.stops() as stops, anyio.create_task_group() as group:
            group.start_soon(ending.watch)
            group.start_soon(ending.listen, stops, within_s)
            async with running(config, log, ports) as service:
                try:
                    _greet(service, config, ports)
                    settle()
                    _say_ready(ports.minder, service, log)
                    await ending.over(service.facade.loss)
                    await service.store.farewell()
                finally:
                    ending.begin("a part of the service failed", within_s)
            group.cancel_scope.cancel()
        if (lost := service.facade.loss.unknown) is not None:
            raise lost


@asynccontextmanager
async def running(
    config: Config, log: Log, ports: Ports | None = None, registry: Registry | None = None
) -> AsyncIterator[LiveService]:
    """Run the whole service, answering on its address; drain it on the way out."""
    from jobrunner.http.frame.server import open_sites
    from jobrunner.http.routes.table import table_of

    ports = ports or system_ports()
    preflight.demand_folders(config)
    definitions = registry or load_definitions(config)
    around = _surroundings(config, ports)
    keep_secrets(config, definitions, around.redaction, log)
    log = troubles = PluginTroubles(log, ports.clock, around.redaction)
    around.hold(definitions.names())
    cluster = _cluster(config, definitions, ports, around, log)
    async with (
        ungrouped(),
        _observed(config, ports) as meter,
        standing_by(config, ports, log, os.environ) as standby,
        _opened(config, ports, meter, partial(_waits, log), standby.copying) as store,
        standby.following(store),
        aclosing(around.outlets),
        working(config, store, definitions, ports, log, around, meter) as (facade, first),
    ):
        health = Health(store, facade.world, standby.refusal)
        await standby.is_whole(facade.loss.give_up)
        backups = _backups(config, store, facade.world, ports)
        rooms = config, store, facade, ports, troubles, health, backups, meter
        door = fitted_door(*rooms, os.environ, version(), standby)
        await door.arrivals.open()
        async with open_sites(door, table_of(door), places(config)) as ((host, port), apart):
            url, admin_url = url_of(host, port), url_of(*apart) if apart else ""
            _address(around, config, url_of(reached_at(host), port))
            async with cluster, accompanied(config, definitions, around, ports.clock, log):
                crew = Crew(ports.clock, log, facade.loss.give_up)
                for watch in (health.watch, health.look, door.arrivals.watch):
                    crew.keep(partial(watch, log))
                for task in (door.keyring.watch, facade.upkeep.run, backups.run):
                    crew.keep(task)
                crew.start_soon(keep_telling, ports.minder, ports.clock, store)
                log("service.ready", url=url, epoch=store.epoch)
                try:
                    yield LiveService(url, facade, store, definitions, first, admin_url, door)
                finally:
                    with anyio.CancelScope(shield=True):
                        await facade.drain()
                        await crew.close()
    log("service.stopped")


@asynccontextmanager
async def working(
    config: Config,
    store: Store,
    definitions: Registry,
    ports: Ports,
    log: Log,
    around: Surroundings | None = None,
    meter: Meter = SILENT,
) -> AsyncIterator[tuple[Facade, str | None]]:
    """Open the rooms behind the door: jobs move, and nobody listens yet. Yield also the first
    token, if it was made just now."""
    introduce(config, store, definitions, ports.files, log, version())
    await tell_of_restoration(store, ports.clock, log)
    await remember(store, definitions, ports.clock, log)
    first = await first_token(config, store, ports.clock, ports.ids, ports.files)
    around = around or _surroundings(config, ports)
    around.answer_keys = keys_beside(config.store.path, ports.files, ports.ids)
    world = World(
        store,
        definitions,
        ports.clock,
        ports.ids,
        log,
        ports.children,
        config.store.assets,
        around,
        meter,
    )
    world.recorder = _recorder(config, definitions, around)
    async with at_work(world, _terms(config, definitions, ports)) as facade:
        yield facade, first


def _surroundings(config: Config, ports: Ports) -> Surroundings:
    """Make what all stages share, with the store of objects, which only a service reaches.

    Raises: Misconfigured, where that store cannot be spoken to.
    """
    around = surroundings(config, ports)
    around.bucket = bucket_of(config, os.environ)
    if around.bucket is not None:
        around.redaction.learn([around.bucket.keys.secret, around.bucket.keys.token])
    return around


def backup_source(config: Config, store: Store, ports: Ports) -> BackupSource:
    """Name everything that a backup is made of, and the means to make it."""
    at = config.objects
    return BackupSource(
        store=store,
        assets=os.path.abspath(config.store.assets),
        version=version(),
        floor=config.store.min_free,
        clock=ports.clock,
        children=ports.children,
        files=ports.files,
        far_place=f"s3://{at.bucket}/{at.prefix}" if at.bucket else "",
    )


def _backups(config: Config, store: Store, world: World, ports: Ports) -> Backups:
    path = os.path.abspath(config.backup.path) if config.backup.path else ""
    terms = BackupTerms(path, config.backup.every, config.backup.keep)
    return Backups(world, backup_source(config, store, ports), terms)


@asynccontextmanager
async def open_offline(config: Config) -> AsyncIterator[Store]:
    """Open the store alone, for commands while the service is down."""
    waits = partial(print, file=sys.stderr)
    async with _opened(config, system_ports(), command="a command", on_wait=waits) as store:
        yield store


def _cluster(
    config: Config, definitions: Registry, ports: Ports, around: Surroundings, log: Log
) -> AbstractAsyncContextManager[None]:
    """Open the cluster on which stages run, if one is set. What it needs is loaded then, and not
    before."""
    if not config.cluster.scheduler:
        if waiting := sorted(name for name, one in definitions.stages.items() if is_away(one)):
            log("cluster.unset", level="warning", stages=waiting, detail=f"they wait for {LACK}")
        return nullcontext()
    from jobrunner.cluster.engine import Cluster
    from jobrunner.cluster.performing import versions

    cluster = Cluster(config.cluster, versions(definitions), ports, config.store.min_free, log)
    cluster.on_change = around.release
    around.elsewhere = cluster
    return cluster.opened()


@asynccontextmanager
async def _observed(config: Config, ports: Ports) -> AsyncIterator[Any]:
    """Collect figures and traces. The last traces leave when all else is closed, and nobody waits
    long for their receiver."""
    from jobrunner.telemetry import open_telemetry

    telemetry = open_telemetry(version(), config.telemetry.otlp_endpoint, os.environ)
    try:
        yield telemetry
    finally:
        with anyio.move_on_after(LAST_TRACES_S, shield=True):
            await ports.children.thread(telemetry.close, "telemetry")


@asynccontextmanager
async def _opened(
    config: Config,
    ports: Ports,
    meter: Meter = SILENT,
    on_wait: Callable[[str], None] = lambda text: None,
    copying: StandbyWriting = NO_STANDBY,
    *,
    command: str = "",
) -> AsyncIterator[Store]:
    store = await open_store(
        config.store.path,
        clock=ports.clock,
        initial_credits=config.credits.initial,
        writer_hop=ports.writer_hop,
        reader_hop=ports.reader_hop,
        meter=meter,
        wal_max=config.store.wal_max,
        command=command,
        on_wait=on_wait,
        copying=copying,
    )
    try:
        yield store
    finally:
        with anyio.CancelScope(shield=True):
            await store.close()


def _terms(config: Config, registry: Registry, ports: Ports) -> Terms:
    limits = WorkLimits(
        config.limits.active_jobs,
        config.limits.per_user_active,
        config.limits.queued_jobs,
        config.limits.bulk_per_second,
    )
    return Terms(
        limits=limits,
        resources={**registry.supplied, **config.resources},
        rates=_rates(config, registry),
        rate_hold_s=config.limits.rate_hold,
        rate_holds=config.limits.rate_holds,
        origins=origins(config, os.environ),
        drain_s=config.server.drain_seconds,
        retention=retention_terms(config, registry.loaded(), registry.refused["workflows"]),
        kept_bytes=config.limits.kept_jobs,
        families=FamilyLimits(config.limits.children_per_job, config.limits.child_generations),
        seals=_seals(config, registry, ports),
        schedules=schedules_of(config),
        moves=MoveTerms(
            place=config.objects.place,
            at_once=config.objects.at_once,
            keep_local_s=config.objects.keep_local,
            keep_deleted_s=config.objects.keep_deleted,
            presign_s=config.objects.presign,
        ),
    )


def _rates(config: Config, registry: Registry) -> dict[str, RateLimit]:
    """Take the rates that the operator sets, else those of the stages' authors."""
    said = {name: settings.rate for name, settings in config.rates.items()}
    return registry.paced | {name: limit for name, limit in said.items() if limit}


def _recorder(config: Config, registry: Registry, around: Surroundings) -> Recorder:
    asked = {name for name in registry.names() if config.workflow(name).record == "decisions"}
    return Recorder(around.redaction, frozenset(asked))


def _seals(config: Config, registry: Registry, ports: Ports) -> Seals:
    file = key_file_beside(config.store.path, ports.files)
    if not config.notify.secrets_env:
        file.make(ports.ids.secret())
    named = {name: config.workflow(name).notify.secret_env for name in registry.names()}
    own = {f"workflow:{name}": variable for name, variable in named.items() if variable}
    return seals(file, config.notify.secrets_env, own, os.environ)


def version() -> str:
    try:
        return importlib.metadata.version("jobrunner")
    except importlib.metadata.PackageNotFoundError:
        return "0"


def _waits(log: Log, text: str) -> None:
    log("store.waits", level="warning", detail=text)


def _address(around: Surroundings, config: Config, local_url: str) -> None:
    """Tell stages where this service is reached, now that its port is known."""
    around.local_url = local_url
    around.base_url = config.server.public_url or local_url


def _say_ready(minder: Minder, service: LiveService, log: Log) -> None:
    if not minder.say(READY="1", STATUS=f"answers on {service.url}"):
        log("minder.deaf", level="warning", detail="NOTIFY_SOCKET takes no words; is it systemd's?")


def _greet(service: LiveService, config: Config, ports: Ports) -> None:
    token, local_url = service.first_token, service.facade.world.surroundings.local_url

    def linked() -> str:
        key = ports.ids.secret()
        service.keyring.welcome(key, token or "", WELCOME_S)
        return f"{local_url}/#/welcome?key={key}"

    may = token is not None and may_sign_in(config, local_url)
    greet(service.url, token, admin_token_path(config), linked if may else None)


__all__ = [
    "JobrunnerError",
    "LiveService",
    "OutcomeUnknown",
    "backup_source",
    "load_definitions",
    "open_offline",
    "running",
    "serve",
    "version",
    "working",
]
