"""``db backup`` and ``db verify``: backups of everything, and whether they are whole."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.file import OPERATOR, file_or_none
from jobrunner.cli.frame.options import Asking, Listing, Shown
from jobrunner.cli.frame.service import service
from jobrunner.errors import Misconfigured, StorageError

if TYPE_CHECKING:
    from jobrunner.config.settings import Config
    from jobrunner.core.keeping.backups import Manifest
    from jobrunner.files.objects.bucket import ObjectStore
    from jobrunner.files.stored_backups import StoredBackups
    from jobrunner.store.store import Store

WAIT_S = 20


async def backup(folder: Path | None = None, /, *, listing: Listing = Listing()) -> int:
    """Make a backup of the database and of all files in FOLDER, or in that of [backup] path.

    Each stands there under the moment at which it began. Of files, those that no backup before it
    had are taken; the oldest beyond [backup] keep are removed.
    """
    place = os.path.abspath(folder) if folder else ""
    async with file_or_none(listing) as store:
        found = await (_asked(listing, place) if store is None else _made(listing, store, place))
    if found["state"] == "failed":
        raise StorageError(f"no backup was made: {found['detail']}")
    said = {name: value for name, value in found.items() if value != 0}
    printing.record(said, listing, key="name")
    return 1 if found["absent"] else 0


async def verify(
    folder: Path, /, *, at: str = "", contents: bool = False, shown: Shown = Shown()
) -> int:
    """Read a backup in FOLDER from end to end: digests, the database, and that nothing is missing.

    Files in a store of objects are looked for there, if [objects] names it.

    Parameters
    ----------
    at
        The name of the backup; else the newest.
    contents
        Also read the files in the store of objects, and compare them with their digests.
    """
    from jobrunner.actors.keeping.drills import faults_of
    from jobrunner.files.stored_backups import StoredBackups

    config = shown.load()
    archive = StoredBackups(str(folder))
    name = chosen(archive, at)
    faults = list(faults_of(archive, name))
    seen = "" if faults else await _far_seen(archive, name, config, contents, faults)
    if faults:
        print("\n".join(faults))
        return 1
    said = {"ok": name, **told(archive.manifest(name))} | ({"far_seen": seen} if seen else {})
    printing.record(said, shown, key="ok")
    return 0


async def _far_seen(
    archive: "StoredBackups", name: str, config: "Config", contents: bool, faults: list[str]
) -> str:
    """Add what is wrong with its files in the store; say whether they were looked at."""
    from jobrunner.actors.keeping.far_files import far_faults
    from jobrunner.files.stored_backups import DATABASE
    from jobrunner.ports import system_ports

    in_thread = system_ports().children.in_thread
    try:
        bucket = store_of(archive.manifest(name), config)
    except Misconfigured as error:
        if contents:
            raise
        return f"no: {error}"
    if bucket is None:
        return ""
    faults += await far_faults(str(archive.root / name / DATABASE), bucket, contents, in_thread)
    return "read" if contents else "listed"


def store_of(manifest: "Manifest", config: "Config") -> "ObjectStore | None":
    """Open the store that has files of this backup; None where it has none there.

    Raises: Misconfigured, where the settings name none, or another one"""
    from jobrunner.actors.keeping.far_files import elsewhere
    from jobrunner.equipping import bucket_of

    if not manifest.far_files:
        return None
    bucket = bucket_of(config, os.environ)
    if why := elsewhere(manifest, bucket):
        raise Misconfigured(why)
    return bucket


def chosen(archive: "StoredBackups", at: str) -> str:
    """The name of a whole backup.

    Raises: Misconfigured
    """
    names = archive.names()
    if at and at not in names:
        torn = at in archive.folders()
        why = "was cut off before it was whole" if torn else "is not there"
        raise Misconfigured(f"{at} {why}; whole backups in {archive.root}: {_listed(names)}")
    if not names:
        raise Misconfigured(f"{archive.root} holds no whole backup")
    return at or names[-1]


def told(made: "Manifest") -> dict[str, Any]:
    """Choose what a person wants to know of a backup."""
    from jobrunner.core.instants import text_of

    return {
        "as_of": text_of(made.as_of),
        "schema": made.schema,
        "jobs": made.jobs,
        "files": made.files,
        "bytes": made.database.size + made.bytes,
        "absent": made.absent_count or None,
        **_far(made),
    }


def _far(made: "Manifest") -> dict[str, Any]:
    """Say which files are not in it, where some are not."""
    if not made.far_files:
        return {}
    return {"far_files": made.far_files, "far_bytes": made.far_bytes, "far_place": made.far_place}


async def _made(asking: Asking, store: "Store", folder: str) -> dict[str, Any]:
    """Make a backup of the file itself, and note it there."""
    from jobrunner.actors.keeping.backups import back_up, backed_up, is_known
    from jobrunner.app import backup_source
    from jobrunner.core.units import AuditRecord, Note
    from jobrunner.ports import system_ports

    config = asking.load()
    folder = folder or config.backup.path
    if not folder:
        raise Misconfigured("name a folder, or set [backup] path")
    ports = system_ports()
    source = backup_source(config, store, ports)
    known = is_known(await store.reader.backups(), folder)
    made = await back_up(source, folder, config.backup.keep, lambda: True, known=known)
    unit = backed_up(folder, made.manifest)
    await store.commit(unit)
    fields = {"folder": unit.folder, "name": unit.name}
    await store.commit(Note(AuditRecord("db.backup", OPERATOR, fields), ports.clock.now()))
    if made.fault:
        raise StorageError(f"{unit.name} is whole, but older ones cannot be cleared: {made.fault}")
    found = {"folder": unit.folder, "name": unit.name, **told(made.manifest)}
    return {"state": "done", **found, "new_bytes": unit.new_bytes}


async def _asked(asking: Asking, folder: str) -> dict[str, Any]:
    async with service(asking) as running:
        found = await running.post("/admin/db/backup", {"folder": folder})
        while found["state"] == "running":
            found = await running.get("/admin/db/backup", {"wait": WAIT_S})
    return dict(found)


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"
