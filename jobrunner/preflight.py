"""Finds what the settings name and this machine lacks: secrets that no variable holds, sources that
no plugin brings, folders that cannot be written. A start would find each at its own time; this
reports all of it at once, before a start."""

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from jobrunner.actors.features.notifications.secrets import key_file_beside, seals
from jobrunner.config.settings import Config, nearest
from jobrunner.equipping import bucket_of
from jobrunner.errors import Misconfigured
from jobrunner.http.frame.sources import keys_of
from jobrunner.ports import SystemFiles
from jobrunner.stages import Registry


def lacking(config: Config, registry: Registry, environ: Mapping[str, str]) -> list[str]:
    """Say everything that would keep a service from doing what these settings ask of it."""
    return [
        *folders(config),
        *_backups(config),
        *_notifications(config, registry, environ),
        *_webhooks(config, registry, environ),
        *filter(None, [oidc_fault(config)]),
        *_objects(config, environ),
    ]


def demand_folders(config: Config) -> None:
    """Raises: Misconfigured, when a folder that is named cannot be had."""
    if faults := tuple(folders(config)):
        raise Misconfigured(*faults)


def folders(config: Config) -> Iterator[str]:
    """Say which of the folders that are named cannot be had."""
    path, assets = config.store.path, config.store.assets
    named = {
        "store.path": (path, os.path.dirname(os.path.abspath(path))),
        "store.assets": (assets, os.path.abspath(assets)),
    }
    for key, (given, folder) in named.items():
        if reason := _unwritable(folder):
            yield f"{key}: {folder} cannot be written: {reason} (it says {given!r})"
    log_folder = os.path.dirname(os.path.abspath(config.log.file))
    if config.log.file and (reason := _unwritable(log_folder)):
        yield f"log.file: {config.log.file} cannot be written: {reason}"
    if os.path.isdir(config.store.path):
        yield f"store.path = {config.store.path!r}: is a folder; name the file of the database"


def _backups(config: Config) -> Iterator[str]:
    """A start does not ask for it: its disk may come later, and a warning tells."""
    path = config.backup.path
    if path and (reason := _unwritable(os.path.abspath(path))):
        yield f"backup.path: {path} cannot be written: {reason}"


def _unwritable(folder: str) -> str:
    """Say why nothing can be written in a folder, or where it is to be made; empty if something
    can."""
    place = folder
    while not os.path.lexists(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        return f"{place} is no folder"
    allowed = os.access(place, os.W_OK | os.X_OK)
    return "" if allowed else f"this user has no right to write in {place}"


def oidc_fault(config: Config) -> str:
    """Say what tokens of an issuer lack here; empty, if nothing or there are none."""
    if not config.auth.oidc.issuer or importlib.util.find_spec("joserfc") is not None:
        return ""
    return "auth.oidc.issuer: needs joserfc to read its tokens: pip install 'jobrunner[oidc]'"


def _objects(config: Config, environ: Mapping[str, str]) -> Iterator[str]:
    if config.objects.bucket:
        yield from _faults_of(partial(bucket_of, config, environ))


def _notifications(config: Config, registry: Registry, environ: Mapping[str, str]) -> Iterator[str]:
    """Look for each variable alone, so that every fault is told and not only the first."""
    file = key_file_beside(config.store.path, SystemFiles())
    for variable in config.notify.secrets_env:
        yield from _faults_of(partial(seals, file, (variable,), {}, environ))
    for name in registry.names():
        if named := config.workflow(name).notify.secret_env:
            own = {f"workflow:{name}": named}
            yield from _faults_of(partial(seals, file, (), own, environ))
    if not config.notify.secrets_env and os.path.exists(file.path):
        yield from _faults_of(file)


def _faults_of(read: Callable[[], object]) -> Iterator[str]:
    try:
        read()
    except Misconfigured as error:
        yield str(error)


def _webhooks(config: Config, registry: Registry, environ: Mapping[str, str]) -> Iterator[str]:
    for source in sorted(registry.sources):
        _, faults = keys_of(config.webhook(source).secrets_env, environ)
        yield from (f"webhooks.{source}.secrets_env: {fault}" for fault in faults)
    for name in config.unheard(registry.sources):
        hint = nearest(name, sorted(registry.sources))
        yield f"webhooks.{name}: no plugin brings a source of this name; {hint}"
