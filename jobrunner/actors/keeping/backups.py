"""Backups: made when somebody asks, and by the service itself.

The database first, the files after it: a row is written when its file is safe, so the copy names no
file that is not there. What is deleted meanwhile keeps its files until the backup is whole; the
deletion itself is not held up, and its files follow it then.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import anyio
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.actors.keeping.cleaning import clear_rest
from jobrunner.actors.keeping.drills import Drills
from jobrunner.actors.shared import World
from jobrunner.core.instants import text_of
from jobrunner.core.keeping.backups import (
    BackedUp,
    BackupFailed,
    CopyFacts,
    FileRow,
    LastBackup,
    Manifest,
)
from jobrunner.core.units import AuditRecord, Note
from jobrunner.errors import JobrunnerError, OutcomeUnknown, Refused, StorageError
from jobrunner.files.backups import Archive, lies_in, size_of
from jobrunner.ports import Children, Clock, Files
from jobrunner.store.keeping.backups import facts_of, files_of
from jobrunner.store.store import Store

AGAIN_S = 300.0
LATE = 2


class BackupSource(Struct, frozen=True):
    """The things that are backed up, and by which program. ``floor`` bytes of each disk are left
    alone. ``far_place`` is the store that files lie in, too."""

    store: Store
    assets: str
    version: str
    floor: int
    clock: Clock
    children: Children
    files: Files
    far_place: str = ""


class BackupMade(Struct, frozen=True):
    """A backup is whole; ``fault`` says why older ones could not be cleared away."""

    manifest: Manifest
    fault: str = ""


class BackupTerms(Struct, frozen=True):
    """Where the service makes backups by itself, how often, and how many it keeps; without ``path``
    or ``every_s`` only on request."""

    path: str = ""
    every_s: float = 0
    keep: int = 7


class BackupState(Struct, frozen=True, kw_only=True):
    """One backup as it stands: ``idle`` before the first of this life."""

    state: Literal["idle", "running", "done", "failed"] = "idle"
    folder: str = ""
    name: str = ""
    began_at: int | None = None
    manifest: Manifest | None = None
    detail: str = ""


async def back_up(
    source: BackupSource,
    folder: str,
    keep: int,
    wanted: Callable[[], bool],
    *,
    known: bool = False,
    name: str = "",
) -> BackupMade:
    """Make one, and remove those that are too old. A folder that is ``known`` to have had one is
    not made anew: its disk may only not be mounted.

    Raises: Misconfigured, Refused, StorageError
    """
    _demand_apart(folder, source)
    archive = Archive(folder, partial(_demand_room, source, folder))
    in_thread = source.children.in_thread
    name = name or name_at(source.clock.now())
    try:
        await in_thread(partial(archive.open, known))
        return await _backed_up(source, archive, name, keep, wanted)
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror or error}") from error
    finally:
        archive.close()


def is_known(backups: tuple[LastBackup, ...], folder: str) -> bool:
    """Say whether there was a whole one in this folder."""
    place = os.path.abspath(folder)
    return any(one.folder == place and one.name for one in backups)


def name_at(moment: int) -> str:
    return text_of(moment).replace(":", "")


async def _backed_up(
    source: BackupSource, archive: Archive, name: str, keep: int, wanted: Callable[[], bool]
) -> BackupMade:
    in_thread, began_at, path = source.children.in_thread, source.clock.now(), source.store.path
    place = archive.begin(name, path)
    try:
        _demand_room(source, os.path.dirname(place), size_of(path))
        as_of = await source.store.copy(place, source.children, wanted)
        gather = partial(archive.gather, name, path, source.assets, _facts, wanted)
        manifest = await in_thread(gather)
        manifest = replace(
            manifest,
            version=source.version,
            began_at=began_at,
            as_of=as_of,
            ended_at=source.clock.now(),
            far_place=source.far_place if manifest.far_files else "",
        )
        await in_thread(partial(archive.finish, manifest))
    except BaseException:
        archive.give_up(name, path)
        raise
    return BackupMade(manifest, await in_thread(partial(archive.prune, keep)))


def _facts(place: str) -> tuple[CopyFacts, Iterator[FileRow]]:
    return facts_of(place), files_of(place)


def _demand_apart(folder: str, source: BackupSource) -> None:
    """Raises: Refused, for a folder among the files of jobs, where it would be cleaned away."""
    if lies_in(folder, source.assets):
        raise Refused(
            "VALIDATION_ERROR",
            f"{folder} lies in {source.assets}, among the files of jobs: choose another",
        )


def _demand_room(source: BackupSource, folder: str, size: int) -> None:
    """Raises: StorageError"""
    free = source.files.free(folder)
    if free - size < source.floor:
        raise StorageError(
            f"the disk of {folder} has {free} bytes free, of which {source.floor} are kept and "
            f"{size} are wanted: make room there, or lower [store] min_free"
        )


class Backups:
    """Makes backups one at a time: those that were asked for, and those that are due."""

    def __init__(self, world: World, source: BackupSource, terms: BackupTerms) -> None:
        self._world = world
        self._source = source
        self._terms = terms
        self._asked = ""
        self._wake = anyio.Event()
        self._ended = anyio.Event()
        self._last: LastBackup | None = None
        self._due_at = 0.0
        self.state = BackupState()
        self.drills = Drills(world, terms.path)

    async def ask(self, folder: str, actor: str) -> BackupState:
        """Let one be made, in this folder or in the one of the settings.

        Raises: Refused
        """
        folder = folder or self._terms.path
        if not folder or (folder != self._terms.path and not os.path.isabs(folder)):
            text = "name a folder by its whole path, or set [backup] path"
            raise Refused("VALIDATION_ERROR", text)
        if self.state.state == "running" or self._asked:
            text = f"{self.state.name or 'one'} is being made in {self.state.folder or self._asked}"
            raise Refused("BACKUP_UNDER_WAY", text)
        _demand_apart(folder, self._source)
        self._asked = folder
        record = AuditRecord("db.backup", actor, {"folder": folder})
        try:
            await self._world.write(Note(record, self._world.clock.now()))
        except BaseException:
            self._asked = ""
            raise
        if self._asked:  # else the loop was awake, and has begun it
            self._begin(folder)
            self._wake.set()
        return self.state

    async def wait(self, seconds: float) -> BackupState:
        """The state, as soon as none is under way, or time is up."""
        ended = self._ended
        with anyio.move_on_after(seconds):
            while self.state.state == "running" and not self._world.draining:
                await ended.wait()
                ended = self._ended
        return self.state

    async def run(self) -> None:
        """Make backups for as long as the service runs."""
        await self._recall()
        while True:
            with anyio.move_on_after(self._due_in_s()):
                await self._wake.wait()
            self._wake = anyio.Event()
            folder, self._asked = self._asked or self._terms.path, ""
            if self.state.state != "running":
                self._begin(folder)
            await self._make(folder)

    def warnings(self) -> dict[str, str]:
        """Say what an operator should look at, though all goes on."""
        last = self._last
        if last is not None and last.failed_at is not None:
            since = f"since {text_of(last.ended_at)}" if last.ended_at else "and never was one"
            return {"backup": f"no backup could be made {since}: {last.failure}"}
        if self._by_itself and self._age_s(last) > LATE * self._terms.every_s:
            return {"backup": f"the last backup in {self._terms.path} is too old"}
        return {}

    @property
    def last_at(self) -> int | None:
        """The moment of the last whole one in the folder of the settings."""
        return self._last.as_of if self._last else None

    @property
    def _by_itself(self) -> bool:
        return bool(self._terms.path and self._terms.every_s)

    async def _recall(self) -> None:
        """A start does not begin the count anew: the file knows when the last one was made."""
        known = await self._world.reader.backups()
        folder = os.path.abspath(self._terms.path) if self._terms.path else ""
        self._last = next((one for one in known if one.folder == folder), None)
        age_s = self._age_s(self._last) if self._last and self._last.name else self._terms.every_s
        wait_s = max(self._terms.every_s - age_s, 0)
        self._due_at = self._world.clock.monotonic() + wait_s

    def _due_in_s(self) -> float:
        if self._asked:
            return 0
        return self._due_at - self._world.clock.monotonic() if self._by_itself else float("inf")

    def _age_s(self, last: LastBackup | None) -> float:
        at = last.as_of if last else None
        return (self._world.clock.now() - at) / 1000 if at is not None else 0

    def _begin(self, folder: str) -> None:
        now = self._world.clock.now()
        self.state = BackupState(state="running", folder=folder, name=name_at(now), began_at=now)

    async def _make(self, folder: str) -> None:
        world, began_s = self._world, self._world.clock.monotonic()
        world.files_wanted += 1
        try:
            made = await back_up(
                self._source,
                folder,
                self._terms.keep,
                self._wanted,
                known=is_known(await world.reader.backups(), folder),
                name=self.state.name,
            )
            await self._made(folder, made)
        except (JobrunnerError, OSError) as error:
            await self._failed(folder, error)
        finally:
            world.files_wanted -= 1
            self._ended.set()
            self._ended = anyio.Event()
        world.meter.backed_up(self.state.state, world.clock.monotonic() - began_s)
        await clear_rest(world)

    def _wanted(self) -> bool:
        return not self._world.draining

    async def _made(self, folder: str, whole: BackupMade) -> None:
        made = whole.manifest
        unit = backed_up(folder, made)
        await self._world.write(unit)
        if os.path.abspath(folder) == os.path.abspath(self._terms.path or folder):
            self._last = LastBackup(
                unit.folder, unit.name, unit.as_of, unit.ended_at, unit.bytes, unit.new_bytes,
                unit.files, None, "",
            )  # fmt: skip
            self._due_at = self._world.clock.monotonic() + self._terms.every_s
        self.state = replace(self.state, state="done", manifest=made)
        level = "warning" if made.absent_count or whole.fault else "info"
        self._world.say(
            "backup.made", level=level, folder=folder, name=made.name, jobs=made.jobs,
            files=made.files, bytes=unit.bytes, new_bytes=unit.new_bytes, absent=made.absent_count,
            absent_files=list(made.absent), not_cleared=whole.fault,
        )  # fmt: skip

    async def _failed(self, folder: str, error: Exception) -> None:
        failure = BackupFailed(os.path.abspath(folder), self._world.clock.now(), str(error))
        self.state = replace(self.state, state="failed", detail=failure.failure)
        self._due_at = self._world.clock.monotonic() + min(AGAIN_S, self._terms.every_s)
        if isinstance(error, OutcomeUnknown) or self._world.draining:
            return
        self._world.say("backup.failed", level="error", folder=folder, detail=failure.failure)
        if failure.folder == os.path.abspath(self._terms.path or folder):
            last = self._last or LastBackup(failure.folder, "", None, None, 0, 0, 0, None, "")
            self._last = replace(last, failed_at=failure.failed_at, failure=failure.failure)
        try:
            await self._world.write(failure)
        except StorageError:
            return  # the file has troubles of its own, and says so itself


def backed_up(folder: str, made: Manifest) -> BackedUp:
    """Make of it the note that the file keeps."""
    return BackedUp(
        folder=os.path.abspath(folder),
        name=made.name,
        as_of=made.as_of,
        ended_at=made.ended_at,
        bytes=made.database.size + made.bytes,
        new_bytes=made.database.size + made.new_bytes,
        files=made.files,
    )
