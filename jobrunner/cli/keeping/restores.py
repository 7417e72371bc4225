"""``db restore``: a backup in the place of the file, its secrets and its files.

Everything is made ready beside its place and read back by its digests first. What is there now is
renamed and stays; that it is to be renamed is written down before the first of it is, so whoever
comes after a crash finds either the old, or the new, or a plan to be finished.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from jobrunner.cli.frame.options import Where
from jobrunner.cli.frame.system import clock
from jobrunner.cli.keeping.backups import chosen
from jobrunner.errors import FilesUnreachable, Misconfigured, StorageError

if TYPE_CHECKING:
    from jobrunner.config.settings import Config
    from jobrunner.core.keeping.backups import Manifest
    from jobrunner.files.stored_backups import StoredBackups
    from jobrunner.store.keeping.restoring import Renaming

READY, REPLACED = ".ready", ".replaced-"
WITH_IT = ("-wal", "-shm")


class RestorePlaces(Struct, frozen=True):
    """Where a service of these settings has its things."""

    database: str
    assets: str

    @property
    def beside(self) -> Path:
        return Path(self.database).parent

    def taken(self) -> list[str]:
        """List what stands there now."""
        found = [self.database] if _holds(self.database) else []
        return [*found, self.assets] if _holds(self.assets) else found


async def restore(
    folder: Path,
    /,
    *,
    at: str = "",
    force: bool = False,
    accept_loss: bool = False,
    where: Where = Where(),
) -> None:
    """Put a backup in FOLDER in the place of the database and of the files of these settings.

    Files of it that lie in a store of objects stay there; it is looked first whether they do.

    Parameters
    ----------
    at
        The name of the backup; else the newest.
    force
        Also over existing files, which are kept beside, under a name with ``.replaced-``.
    accept_loss
        Also where files in the store of objects are missing, or cannot be looked at.
    """
    from jobrunner.files.stored_backups import StoredBackups
    from jobrunner.store.keeping.restoring import finish_restore
    from jobrunner.store.opening import ProcessLock

    config = where.load()
    places = RestorePlaces(os.path.abspath(config.store.path), os.path.abspath(config.store.assets))
    archive = StoredBackups(str(folder))
    name = chosen(archive, at)
    os.makedirs(places.beside, mode=0o700, exist_ok=True)
    lock = ProcessLock(places.database, "db restore")
    try:
        if finished := finish_restore(places.database):
            print(f"a restore of {finished.backup} was cut off; now it is finished")
            if finished.backup == name:
                return
        _demand_room_for(places, force)
        lost = await _far_lost(archive, name, config)
        if lost and not accept_loss:
            raise StorageError(f"nothing was restored: {lost}; --accept-loss restores the rest")
        _restored(archive, name, places)
        if lost:
            print(f"not all files are there: {lost}")
    except OSError as error:
        raise StorageError(f"nothing was restored: {error}") from error
    finally:
        lock.release()


async def _far_lost(archive: "StoredBackups", name: str, config: "Config") -> str:
    """Say what is wrong with its files in the store of objects; empty when they are there."""
    from jobrunner.actors.keeping.far_files import far_faults
    from jobrunner.cli.keeping.backups import store_of
    from jobrunner.files.stored_backups import DATABASE
    from jobrunner.ports import system_ports

    try:
        bucket = store_of(archive.manifest(name), config)
        if bucket is None:
            return ""
        database, in_thread = archive.root / name / DATABASE, system_ports().children.in_thread
        return "; ".join(await far_faults(str(database), bucket, False, in_thread))
    except (Misconfigured, FilesUnreachable) as error:
        return str(error)


def _demand_room_for(places: RestorePlaces, force: bool) -> None:
    """Raises: Misconfigured"""
    if os.path.ismount(places.assets):
        raise Misconfigured(
            f"{places.assets} is where a disk is mounted, and cannot be renamed: set [store] "
            "assets to a folder on that disk"
        )
    if (taken := places.taken()) and not force:
        raise Misconfigured(
            f"{taken[0]} is there already: with --force it is kept beside, under another name"
        )


def _restored(archive: "StoredBackups", name: str, places: RestorePlaces) -> None:
    from jobrunner.core.instants import text_of
    from jobrunner.store.keeping.restoring import RestorePlan, decide_restore, finish_restore

    manifest, now = archive.manifest(name), clock.now()
    _clear(places)
    try:
        _make_ready(archive, manifest, places, max(now, manifest.as_of))
    except BaseException:
        _clear(places)
        raise
    moment = text_of(now).replace(":", "")
    plan = RestorePlan(manifest.name, tuple(_moves(manifest, places, moment)))
    decide_restore(places.database, plan)
    finish_restore(places.database)
    print(f"{name} is restored to {places.database} and {places.assets}:")
    print(f"{manifest.jobs} jobs and {manifest.files} files, as of {text_of(manifest.as_of)}")
    if manifest.far_files:
        print(f"{manifest.far_files} more files lie in {manifest.far_place}, and stay there")
    for move in plan.moves:
        if move.aside:
            print(f"{move.source} is kept as {move.target}")
    print("the next start says which notifications and webhooks of the time since may be repeated")
    print("or missing")


def _make_ready(
    archive: "StoredBackups", manifest: "Manifest", places: RestorePlaces, now: int
) -> None:
    """Put everything at its place but for its name, and on the disk.

    Raises: StorageError, OSError
    """
    from jobrunner.files.folders import flush, made
    from jobrunner.files.stored_backups import copied, linked
    from jobrunner.store.keeping.restoring import lost_since, make_ready

    inside, database = archive.root / manifest.name, Path(places.database + READY)
    copied(inside / manifest.database.name, database, manifest.database.sha256)
    lost = lost_since(places.database, manifest.as_of)
    make_ready(str(database), manifest.name, manifest.as_of, now, lost)
    for part in manifest.beside:
        copied(inside / part.name, Path(f"{places.beside / part.name}{READY}"), part.sha256)
    root = made(Path(places.assets + READY))
    folders = {root}
    for line in archive.lines(manifest.name):
        place = root / line.path
        folders.add(made(place.parent))
        linked(archive.place_of(line.sha256), place, line.sha256)
    for one in sorted(folders):
        flush(one)
    flush(places.beside)


def _moves(manifest: "Manifest", places: RestorePlaces, moment: str) -> Iterator["Renaming"]:
    from jobrunner.store.keeping.restoring import Renaming

    aside = f"{places.database}{REPLACED}{moment}"
    named = [(places.database + end, aside + end) for end in ("", *WITH_IT)]
    own = [str(places.beside / part.name) for part in manifest.beside]
    named += [(place, f"{place}{REPLACED}{moment}") for place in (*own, places.assets)]
    yield from (Renaming(place, old, aside=True) for place, old in named if os.path.lexists(place))
    for place in (places.database, *own, places.assets):
        yield Renaming(place + READY, place)


def _clear(places: RestorePlaces) -> None:
    """Remove the rest of a restore that was cut off before it was decided."""
    from jobrunner.files.stored_backups import BESIDE

    shutil.rmtree(places.assets + READY, ignore_errors=True)
    databases = [places.database + READY + end for end in ("", *WITH_IT)]
    for place in (*databases, *(f"{places.beside / name}{READY}" for name in BESIDE)):
        for end in ("", ".draft"):
            Path(place + end).unlink(missing_ok=True)


def _holds(place: str) -> bool:
    """A file with something in it, or a folder."""
    try:
        return bool(os.listdir(place) if os.path.isdir(place) else os.path.getsize(place))
    except FileNotFoundError:
        return False
