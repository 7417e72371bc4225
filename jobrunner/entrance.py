"""Fits the door of the service (``http``) with its settings: who may come in, how many, how large,
and which rooms answer.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_network
from typing import Any

import msgspec

from jobrunner import preflight
from jobrunner.actors import Facade
from jobrunner.actors.features.plugins import PluginTroubles
from jobrunner.actors.keeping.backups import Backups
from jobrunner.config.settings import SOCKET, Config
from jobrunner.errors import Misconfigured
from jobrunner.files.incoming import Arrivals
from jobrunner.ports import Clock, Ports
from jobrunner.standing_by import Standby
from jobrunner.store.store import Store

Log = Callable[..., None]
SOCKET_MODES = {"owner": 0o600, "group": 0o660, "everybody": 0o666}


def places(config: Config) -> Any:
    """Read from the settings where the service listens, and for whom its socket is."""
    from jobrunner.http.frame.server import Places

    at = config.server
    mode = SOCKET_MODES[at.socket_for]
    return Places(at.host, at.port, at.admin_host, at.admin_port, at.socket, mode)


def fitted_door(
    config: Config,
    store: Store,
    facade: Facade,
    ports: Ports,
    log: PluginTroubles,
    health: Callable[[], Awaitable[Mapping[str, str]]],
    backups: Backups,
    meter: Any,
    environ: Mapping[str, str],
    version: str,
    standby: Standby,
) -> Any:
    """Put together everything that a request may meet."""
    from jobrunner.http.frame.endpoint import HttpDoor

    async def faults() -> list[str]:
        return list(await store.check())

    root = os.path.abspath(config.store.assets)
    limits = _limits(config, store, facade, ports)
    limits.on_lag = meter.lagged
    return HttpDoor(
        arrivals=Arrivals(root, ports.children, ports.files, ports.clock, config.store.min_free),
        assets=root,
        facade=facade,
        reader=store.reader,
        clock=ports.clock,
        ids=ports.ids,
        keyring=_keyring(config, store, facade, ports, log),
        settings=_settings(config),
        limits=limits,
        meter=meter,
        exposition=meter.exposition,
        webhooks=_sources(config, facade, ports.clock, log, environ),
        log=log,
        troubles=log,
        health=health,
        check_db=faults,
        backups=backups,
        version=version,
        refusal=standby.refusal,
        standby=standby.state,
    )


def _settings(config: Config) -> Any:
    from jobrunner.http.frame.endpoint import Settings

    proxies = config.server.trusted_proxies
    return Settings(
        auth=config.auth.mode,
        max_body=config.server.max_body,
        max_upload=config.server.max_upload,
        upload_expires_s=config.server.upload_expires,
        initial_credits=config.credits.initial,
        session_s=config.auth.session,
        public_url=config.server.public_url,
        cors=config.server.cors,
        gzip=config.server.gzip,
        trusted_proxies=tuple(ip_network(text, strict=False) for text in proxies if text != SOCKET),
        trusts_socket=SOCKET in proxies,
        told=_told(config),
    )


def _told(config: Config) -> dict[str, float]:
    """The settings that figures are compared with by whoever watches."""
    return {
        "limits.active_jobs": config.limits.active_jobs,
        "limits.queued_jobs": config.limits.queued_jobs,
        "limits.free_disk": config.limits.free_disk,
        "limits.lag": config.limits.lag,
        "store.wal_max": config.store.wal_max,
        "standby.lease": config.standby.lease if config.standby.path else 0,
        "backup.every": config.backup.every if config.backup.path else 0,
    }


def _keyring(config: Config, store: Store, facade: Facade, ports: Ports, log: Log) -> Any:
    """Raises: Misconfigured, without the library that reads the tokens of others."""
    from jobrunner.http.frame.auth import Keyring

    oidc = config.auth.oidc
    keyring = Keyring(store.reader, ports.clock, config.auth.mode)
    if not oidc.issuer:
        return keyring
    if fault := preflight.oidc_fault(config):
        raise Misconfigured(fault)
    from jobrunner.oidc.trusting import fetching, trusting

    fetch = fetching(oidc, facade.world.surroundings.outlets, ports.files, ports.children)
    keyring.believe(trusting(oidc, fetch, ports.clock, log, keyring.forget))
    return keyring


def _limits(config: Config, store: Store, facade: Facade, ports: Ports) -> Any:
    from jobrunner.http.frame.limits import Bounds, HttpLimits

    bounds = msgspec.convert(config.limits, Bounds, from_attributes=True)

    def free() -> int:
        found: int = ports.files.free(config.store.path)
        return found

    def waiting() -> int:
        return max(store.waiting(), facade.submissions.under_way)

    return HttpLimits(ports.clock, ports.ids, bounds, free, waiting)


def _sources(
    config: Config, facade: Facade, clock: Clock, log: Log, environ: Mapping[str, str]
) -> Any:
    """Open the sources of webhooks with the secrets of the environment. One that lacks its own
    refuses its webhooks, and the log says so."""
    from jobrunner.http.frame.sources import Sources, keys_of

    known, keys = facade.definitions.sources, {}
    for name in known:
        keys[name], faults = keys_of(config.webhook(name).secrets_env, environ)
        if faults:
            log("webhooks.fault", level="error", source=name, reasons=list(faults))
    for name in config.unheard(known):
        reason = f"webhooks.{name}: no plugin brings a source of this name"
        log("webhooks.fault", level="error", source=name, reasons=[reason])
    return Sources(known, keys, facade.secrets_of, clock, log)
