"""Drills: reads a backup from end to end to find out whether it could be restored. One at a time,
beside the work and in a thread of its own; nothing is written."""

from collections.abc import Iterator
from functools import partial

import msgspec
from msgspec import Struct

from jobrunner.actors.keeping.far_files import elsewhere, far_faults
from jobrunner.actors.shared import World
from jobrunner.core.keeping.backups import Manifest
from jobrunner.errors import Refused, StorageError
from jobrunner.files.stored_backups import DATABASE, StoredBackups
from jobrunner.store.fsck import check_copy
from jobrunner.store.keeping.backups import files_of


class Drill(Struct, frozen=True):
    """A backup that was read. Without ``faults`` it can be put back. ``far_seen`` says whether its
    files in a store of objects were looked for there: ``listed``, or why not; empty where it has
    none."""

    began_at: int
    ended_at: int
    faults: tuple[str, ...]
    far_seen: str = ""


class StoredBackup(Struct, frozen=True):
    """A backup in the folder; ``fault`` says why its manifest cannot be read. ``drill`` is the last
    one of this life of the service."""

    name: str
    manifest: Manifest | None
    fault: str
    drill: Drill | None


class Drills:
    """``folder`` is that of the settings; empty: there is none."""

    def __init__(self, world: World, folder: str) -> None:
        self._world = world
        self._archive = StoredBackups(folder) if folder else None
        self._done: dict[str, Drill] = {}
        self._under_way = ""

    async def listed(self) -> tuple[StoredBackup, ...]:
        """List the whole backups, newest first."""
        archive = self._archive
        if archive is None:
            return ()
        found: list[tuple[str, Manifest | None, str]] = await self._world.children.in_thread(
            lambda: [_told(archive, name) for name in reversed(archive.names())]
        )
        return tuple(StoredBackup(*one, self._done.get(one[0])) for one in found)

    async def drill(self, name: str) -> Drill:
        """Read this backup.

        Raises: Refused NOT_FOUND, BACKUP_UNDER_WAY.
        """
        archive, children, clock = self._archive, self._world.children, self._world.clock
        if archive is None or name not in await children.in_thread(archive.names):
            raise Refused("NOT_FOUND", f"there is no whole backup {name} in the folder of [backup]")
        if self._under_way:
            raise Refused("BACKUP_UNDER_WAY", f"{self._under_way} is being read")
        self._under_way, began_at = name, clock.now()
        try:
            faults, seen = await children.in_thread(partial(_all, archive, name)), ""
            if not faults:
                faults, seen = await self._far_seen(archive, name)
        finally:
            self._under_way = ""
        found = self._done[name] = Drill(began_at, clock.now(), faults, seen)
        self._world.say("backup.read", name=name, faults=len(faults))
        return found

    async def _far_seen(self, archive: StoredBackups, name: str) -> tuple[tuple[str, ...], str]:
        """Look for its files in the store of objects: that they are there, and how large."""
        bucket, in_thread = self._world.surroundings.bucket, self._world.children.in_thread
        manifest = await in_thread(partial(archive.manifest, name))
        if not manifest.far_files:
            return (), ""
        why = elsewhere(manifest, bucket)
        if bucket is None or why:
            return (), f"no: {why}"
        try:
            database = str(archive.root / name / DATABASE)
            return tuple(await far_faults(database, bucket, False, in_thread)), "listed"
        except StorageError as error:
            return (), f"no: {error}"


def faults_of(archive: StoredBackups, name: str) -> Iterator[str]:
    """Say why this backup could not be put back as it was taken: digests, the database, files."""
    try:
        damaged = list(archive.faults(name))
        yield from damaged
        if damaged:
            return
        database = str(archive.root / name / DATABASE)
        yield from check_copy(database)
        listed = {line.path for line in archive.lines(name)}
        missing = [row.path for row in files_of(database) if row.due and row.path not in listed]
        absent = archive.manifest(name).absent_count
        if len(missing) != absent:
            yield f"{len(missing)} files of rows are not listed, of which {absent} were absent"
    except (StorageError, msgspec.DecodeError) as error:
        yield str(error)


def _all(archive: StoredBackups, name: str) -> tuple[str, ...]:
    return tuple(faults_of(archive, name))


def _told(archive: StoredBackups, name: str) -> tuple[str, Manifest | None, str]:
    try:
        return name, archive.manifest(name), ""
    except StorageError as error:
        return name, None, str(error)
