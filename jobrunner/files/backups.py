"""A folder of backups: each under the moment at which it began, with what is the same kept once.

    FOLDER/2026-01-31T030000.000Z/jobrunner.db    the database as it was
                                  notify.secret   and what else lay beside it
                                  files.list      a line for each file: digest, size, path
                                  manifest.json   digests, sizes and counts; written last
    FOLDER/files/ab/ab12...                       the files themselves, by their digest

Files of jobs never change, so the next backup needs only those that are new; and they get a second
name where the disk can do that, or are copied where it cannot. A backup without a manifest is one
that was cut off: the next one clears it away. Who makes one has the folder's lock.

The folder is the backups' own: the oldest are removed from it, and files that none of them names.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from jobrunner.core.keeping.backups import BackupPart, CopyFacts, FileRow, Manifest
from jobrunner.errors import Misconfigured, Refused, StorageError
from jobrunner.files.folders import flush, flushed, flushed_copy, made, sha256_of
from jobrunner.files.library import inside, is_absent, tidy
from jobrunner.files.stored_backups import (
    BESIDE,
    DATABASE,
    FILES,
    LIST,
    MANIFEST,
    FileLine,
    Sealed,
    StoredBackups,
    second_name,
)

LOCK = ".lock"
OTHERS = {FILES, LOCK, "lost+found"}
ABSENT_NAMED = 100


class Archive(StoredBackups):
    """The folder, for whoever makes backups in it. ``room`` is asked before so many bytes are
    copied here, and raises when they are too many."""

    def __init__(self, root: str, room: Callable[[int], None] = lambda size: None) -> None:
        super().__init__(root)
        self._room = room
        self._lock = -1
        self._fresh: set[Path] = set()
        self._cleared = False

    def open(self, known: bool = False) -> None:
        """Have the folder for oneself, and clear away what was cut off. One that is ``known`` has
        to be there.

        Raises: Misconfigured, Refused, OSError
        """
        if known and not self.root.is_dir():
            raise Misconfigured(
                f"{self.root} is gone, and had backups: mount its disk, or make the folder to "
                "begin anew"
            )
        made(self.root)
        if strange := sorted(set(os.listdir(self.root)) - OTHERS - set(self.folders())):
            raise Misconfigured(
                f"{self.root} holds {strange[0]!r}, which is no backup: give backups a folder of "
                "their own"
            )
        self._lock = _locked(self.root, fcntl.LOCK_EX)
        made(self.root / FILES)
        for name in self.folders():
            if not (self.root / name / MANIFEST).exists():
                self._clear(name)

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def begin(self, name: str, database: str) -> str:
        """Begin, and say where to copy the database: here, or beside it where this is another disk.
        The writer makes the copy, and no other disk may hold it up."""
        folder = self.root / name
        folder.mkdir(mode=0o700)
        if os.stat(os.path.dirname(os.path.abspath(database))).st_dev == folder.stat().st_dev:
            return str(folder / DATABASE)
        place = _beside(database)
        place.unlink(missing_ok=True)
        return str(place)

    def gather(
        self,
        name: str,
        database: str,
        assets: str,
        read: Callable[[str], tuple[CopyFacts, Iterator[FileRow]]],
        wanted: Callable[[], bool],
    ) -> Manifest:
        """Take all that belongs to a copy of the database which is made; ``read`` reads it.

        Raises: StorageError, OSError
        """
        part = self.take_database(name, _beside(database))
        facts, rows = read(str(self.root / name / DATABASE))
        count = _Count()
        listed = self.list_files(name, self._taken(rows, assets, count, wanted))
        beside = [self.take_beside(name, Path(database).with_name(one)) for one in BESIDE]
        return Manifest(
            name=name,
            version="",
            schema=facts.schema,
            epoch=facts.epoch,
            began_at=0,
            as_of=0,
            ended_at=0,
            database=part,
            list=listed,
            beside=tuple(one for one in beside if one),
            jobs=facts.jobs,
            files=count.files,
            bytes=count.bytes,
            new_files=count.new_files,
            new_bytes=count.new_bytes,
            absent_count=count.absent,
            absent=tuple(count.named),
            far_files=count.far_files,
            far_bytes=count.far_bytes,
        )

    def _taken(
        self, rows: Iterator[FileRow], assets: str, count: "_Count", wanted: Callable[[], bool]
    ) -> Iterator[FileLine]:
        for row in rows:
            if not wanted():
                raise StorageError("the service is stopping; no backup was made")
            if row.far is not None:
                count.refer(row.far)
                continue
            taken = self.take_file(assets, row.path, row.sha256)
            if taken is not None:
                line, new = taken
                count.add(line.size, new)
                yield line
            elif row.due:
                count.miss(row.path)

    def take_beside(self, name: str, place: Path) -> BackupPart | None:
        """Keep a small file that lies beside the database, if it is there."""
        try:
            data = place.read_bytes()
        except FileNotFoundError:
            return None
        return self._written(self.root / name / place.name, data)

    def take_database(self, name: str, place: Path) -> BackupPart:
        """The copy of the database, which lies here already, or at ``place`` on another disk."""
        target = self.root / name / DATABASE
        if not target.exists():
            self._room(place.stat().st_size)
            flushed_copy(place, target)
            place.unlink()
        return BackupPart(DATABASE, target.stat().st_size, sha256_of(target))

    def take_file(self, assets: str, path: str, sha256: str) -> tuple[FileLine, bool] | None:
        """Keep a file of a job, and say whether it is new here; None for one that is not there, or
        is not what its digest says.

        Raises: OSError
        """
        try:
            source = inside(assets, path)
            if sha256 and (known := self._known(sha256, source)):
                return FileLine(sha256, known, path), False
            found = sha256_of(source)
        except OSError as error:
            if is_absent(error):
                return None
            raise
        if sha256 and found != sha256:
            return None
        if known := self._known(found, source):
            return FileLine(found, known, path), False
        return FileLine(found, self._add(source, found), path), True

    def list_files(self, name: str, lines: Iterator[FileLine]) -> BackupPart:
        """Write down which files belong to this backup, as they come."""
        place = self.root / name / LIST
        with flushed(place) as file:
            file.writelines(f"{line.sha256} {line.size} {line.path}\n".encode() for line in lines)
        return BackupPart(LIST, place.stat().st_size, sha256_of(place))

    def finish(self, manifest: Manifest) -> None:
        """Flush everything to the disk, then write the manifest."""
        for folder in sorted(self._fresh):
            flush(folder)
        folder = self.root / manifest.name
        flush(folder)
        flush(self.root)
        told = msgspec.json.encode(manifest)
        sealed = Sealed(msgspec.Raw(told), hashlib.sha256(told).hexdigest())
        draft = folder / f"{MANIFEST}.draft"
        self._written(draft, msgspec.json.encode(sealed))
        os.replace(draft, folder / MANIFEST)
        flush(folder)

    def give_up(self, name: str, database: str) -> None:
        _beside(database).unlink(missing_ok=True)
        tidy(str(self.root / name))

    def prune(self, keep: int) -> str:
        """Remove all but the newest ``keep``, and files that none of those names. Say why that
        could not be: what can be removed is known only when every list can be read."""
        try:
            for name in self.names()[:-keep]:
                (self.root / name / MANIFEST).unlink()
                flush(self.root / name)
                self._clear(name)
            if self._cleared:
                self._sweep()
        except (OSError, StorageError) as error:
            return str(error)
        return ""

    def _clear(self, name: str) -> None:
        tidy(str(self.root / name))
        self._cleared = True

    def _known(self, sha256: str, source: Path) -> int | None:
        """The size of a file that is here already, and is as long as its source."""
        size = source.stat().st_size
        try:
            return size if self.place_of(sha256).stat().st_size == size else None
        except FileNotFoundError:
            return None

    def _add(self, source: Path, sha256: str) -> int:
        target = self.place_of(sha256)
        if target.parent not in self._fresh:
            self._fresh.add(made(target.parent))
        if not second_name(source, target):
            self._room(source.stat().st_size)
            flushed_copy(source, target)
        return target.stat().st_size

    def _sweep(self) -> None:
        wanted = {line.sha256 for name in self.names() for line in self.lines(name)}
        for folder, _, names in os.walk(self.root / FILES):
            for name in names:
                if name not in wanted:
                    Path(folder, name).unlink()

    def _written(self, place: Path, data: bytes) -> BackupPart:
        with flushed(place) as file:
            file.write(data)
        return BackupPart(place.name, len(data), hashlib.sha256(data).hexdigest())


class _Count:
    def __init__(self) -> None:
        self.files = self.bytes = self.new_files = self.new_bytes = self.absent = 0
        self.far_files = self.far_bytes = 0
        self.named: list[str] = []

    def refer(self, size: int) -> None:
        """Note a file that lies in a store, and stays there."""
        self.far_files += 1
        self.far_bytes += size

    def add(self, size: int, new: bool) -> None:
        self.files += 1
        self.bytes += size
        self.new_files += new
        self.new_bytes += size if new else 0

    def miss(self, path: str) -> None:
        self.absent += 1
        if len(self.named) < ABSENT_NAMED:
            self.named.append(path)


def size_of(path: str) -> int:
    return os.path.getsize(path)


def lies_in(folder: str, above: str) -> bool:
    place, root = os.path.realpath(folder), os.path.realpath(above)
    return os.path.commonpath([place, root]) == root


def _beside(database: str) -> Path:
    return Path(f"{os.path.abspath(database)}.copying")


def _locked(root: Path, how: int) -> int:
    """Raises: Refused, while another process makes a backup here; OSError"""
    handle = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        text = f"a backup is being made in {root}: wait for its end"
        raise Refused("BACKUP_UNDER_WAY", text) from None
    return handle
