"""Equips the stages by the settings: their way out, room on the disk, companions beside them."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from jobrunner.config.settings import Config, ObjectsSection
from jobrunner.files.objects.bucket import ObjectStore, ObjectTerms
from jobrunner.files.space import Room
from jobrunner.outgoing.gate import Outlets
from jobrunner.ports import Clock, Ports
from jobrunner.stages import Registry
from jobrunner.stages.companions import Companions
from jobrunner.stages.equipment import Surroundings

Log = Callable[..., None]


def surroundings(config: Config, ports: Ports) -> Surroundings:
    """Make what all stages share."""
    downloads = config.downloads
    room = Room(ports.files, os.path.abspath(config.store.assets), config.store.min_free)
    outlets = Outlets(
        ports.connector,
        ports.children,
        downloads.allow_hosts,
        downloads.allow_private,
        downloads.max_size,
        room,
    )
    around = Surroundings(outlets, room)
    around.base_url = config.server.public_url or url_of(config.server.host, config.server.port)
    return around


def bucket_of(config: Config, environ: Mapping[str, str]) -> ObjectStore | None:
    """Open the store of objects, where the settings name one. Nobody is asked anything yet.

    Raises: Misconfigured, without the library or the keys for it."""
    return ObjectStore(object_terms(config.objects), environ) if config.objects.bucket else None


def object_terms(at: ObjectsSection) -> ObjectTerms:
    return ObjectTerms(
        bucket=at.bucket,
        endpoint=at.endpoint.rstrip("/"),
        region=at.region,
        prefix=at.prefix,
        credentials=at.credentials,
        style=at.style,
        checksum=at.checksum,
        part=at.part,
        timeout_s=at.timeout,
    )


@asynccontextmanager
async def accompanied(
    config: Config, definitions: Registry, around: Surroundings, clock: Clock, log: Log
) -> AsyncIterator[None]:
    """Open the companions of workflows. Until one is open the jobs of its workflow wait; all others
    go on."""

    def settings_of(name: str) -> Mapping[str, Any]:
        definition = definitions.current(name)
        return definition.workflow.settings if definition is not None else {}

    folder = os.path.join(os.path.dirname(os.path.abspath(config.store.path)), "companions")
    known = definitions.names()
    brought = {name: one for name, one in definitions.companions.items() if name in known}
    for name in sorted(definitions.companions.keys() - brought.keys()):
        log("companion.ignored", level="warning", workflow=name)
    companions = Companions(brought, settings_of, folder, around, clock, log)
    async with companions.running():
        around.release(*(name for name in known if name not in brought))
        yield


def url_of(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def reached_at(host: str) -> str:
    """The address by which this machine reaches itself there."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
