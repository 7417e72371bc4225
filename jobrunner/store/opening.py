"""Opens a path as two handles that are known to be set as they should be.

The order matters, so it stands here once:

1. The process lock, before anything is read: two processes on one file is the one mistake that
   nothing later can repair. It sits on a file of its own, because closing any plain handle on the
   database would drop SQLite's own locks in this process.
2. A restore that was cut off is finished: until then nobody knows which file is the right one.
3. Whose file is it? A foreign, a newer or a broken one is refused before a byte of it changes.
4. The marks of birth (``auto_vacuum``, ``application_id``), which only an empty file can take.
5. WAL and the other settings, each read back: a setting that did not take is a promise broken.
6. Migrations, after a copy, then a new epoch.

One handle writes and checkpoints; readers do neither. SQLite from 3.7.0 to 3.51.2 can corrupt a
WAL when one connection checkpoints while another commits.
"""

import fcntl
import os
import sqlite3
from collections.abc import Callable
from typing import Any

from jobrunner.errors import Misconfigured, StorageFull
from jobrunner.ports import Clock
from jobrunner.store.identity import demand_own
from jobrunner.store.keeping.restoring import finish_restore
from jobrunner.store.keeping.upkeep import IN_MEMORY, ON_DISK, WAL_MAX
from jobrunner.store.migrations import latest, level, migrate

APPLICATION_ID = 0x6A6F6272  # "jobr"
INCREMENTAL = 2
FULL = 2
COMMANDS_TAKE_S = 15.0
LOOK_AGAIN_S = 0.1
UNSAID = "it has just begun"

EVERYWHERE: dict[str, Any] = {
    "synchronous": FULL,
    "foreign_keys": 1,
    "trusted_schema": 0,
    "busy_timeout": 5000,
    "mmap_size": 0,
}
WRITER = EVERYWHERE | {
    "journal_mode": "wal",
    "journal_size_limit": WAL_MAX,
    "wal_autocheckpoint": 1000,
    "cache_size": -64 * 1024,
    # SQLite notes what a statement that fails would have to take back, for each statement.
    "temp_store": IN_MEMORY,
}
READER = EVERYWHERE | {"wal_autocheckpoint": 0, "query_only": 1}


class FileInUse(Misconfigured):
    """Another process has the file. ``command`` says that it is one which is done soon."""

    def __init__(self, path: str, holder: str, command: str) -> None:
        cure = "or give this one a store path of its own"
        who = f"process {holder}: stop that one first, {cure}"
        if command:
            who = f"process {holder} ({command}), which takes long: wait for its end, {cure}"
        super().__init__(f"{path} is in use by {who}")
        self.holder = holder
        self.command = command


class ProcessLock:
    """Keeps a file to one process. The lock dies with its holder, however that one ends.
    ``command`` is empty for the service, which keeps it."""

    def __init__(self, path: str, command: str = "") -> None:
        demand_own(path)
        self._path = f"{path}.lock"
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder, _, held_for = os.read(self._file, 256).decode("utf-8", "replace").partition(" ")
            os.close(self._file)
            known = holder.strip()
            raise FileInUse(
                path, known or "unknown", held_for.strip() if known else UNSAID
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()} {command}\n".encode(), 0)

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


async def lock_patiently(
    path: str, command: str, clock: Clock, on_wait: Callable[[str], None]
) -> ProcessLock:
    """A command that has the file is waited for, and it is said which.

    Raises: Misconfigured, at once beside a service.
    """
    until = clock.monotonic() + COMMANDS_TAKE_S
    said = False
    while True:
        try:
            return lock_process(path, command)
        except FileInUse as held:
            if not held.command or clock.monotonic() >= until:
                raise
            if not said:
                on_wait(f"{path} is in use by process {held.holder} ({held.command}); waiting")
            said = True
        await clock.sleep(LOOK_AGAIN_S)


def lock_process(path: str, command: str = "") -> ProcessLock:
    """Makes the folder and, readable by its owner only, the file when they are not there yet."""
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o700, exist_ok=True)
        lock = ProcessLock(path, command)
        finish_restore(path)
        if not os.path.exists(path):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise Misconfigured(f"{path} cannot be opened ({error}): check [store] path") from error
    return lock


def prepare_writer(
    connection: sqlite3.Connection, path: str, now: int, wal_max: int = WAL_MAX
) -> tuple[int, int]:
    """Runs on the writer's thread. Returns the new epoch and the first unused job key."""
    try:
        if is_new(connection, path):
            _give_birth(connection)
        # A step may sort a whole table.
        _apply(connection, WRITER | {"journal_size_limit": wal_max, "temp_store": ON_DISK}, path)
        _check_birth(connection, path)
        migrate(connection)
        _apply(connection, {"temp_store": IN_MEMORY}, path)
        return _new_epoch(connection, now), _next_row(connection)
    except sqlite3.Error as error:
        raise translated(error, path) from error


def prepare_reader(connection: sqlite3.Connection, path: str) -> None:
    """Runs on the reader's thread."""
    try:
        _apply(connection, READER, path)
    except sqlite3.Error as error:
        raise translated(error, path) from error


def settings_of(connection: sqlite3.Connection, names: tuple[str, ...]) -> dict[str, Any]:
    found = {name: connection.execute(f"PRAGMA {name}").fetchone() for name in names}
    return {name: row[0] if row else 0 for name, row in found.items()}


def is_new(connection: sqlite3.Connection, path: str) -> bool:
    """Say whether nothing is in it yet.

    Raises: Misconfigured for a file that is not ours, or is of a later program.
    """
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    filled = bool(connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])
    if owner == 0 and not filled and level(connection) == 0:
        return True
    if owner != APPLICATION_ID:
        raise Misconfigured(
            f"{path} is a database of another program (application_id {owner}): "
            "set [store] path to a file of jobrunner's own, or to one that does not exist yet"
        )
    if level(connection) > latest():
        raise Misconfigured(
            f"{path} has schema {level(connection)}, and this program knows schemas up to "
            f"{latest()}: start the newer jobrunner that wrote it, or put a backup in its place "
            "with `jobrunner db restore FOLDER --force`; migrations keep a copy as *.schema-NUMBER"
        )
    return False


def _give_birth(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _check_birth(connection: sqlite3.Connection, path: str) -> None:
    wanted = {"auto_vacuum": INCREMENTAL, "application_id": APPLICATION_ID}
    _refuse_differences(wanted, settings_of(connection, tuple(wanted)), path)


def _apply(connection: sqlite3.Connection, wanted: dict[str, Any], path: str) -> None:
    for name, value in wanted.items():
        connection.execute(f"PRAGMA {name} = {value}")
    _refuse_differences(wanted, settings_of(connection, tuple(wanted)), path)


def _refuse_differences(wanted: dict[str, Any], found: dict[str, Any], path: str) -> None:
    faults = [
        f"{path}: SQLite {sqlite3.sqlite_version} did not take {name} = {value!r}, it has "
        f"{found[name]!r}: use a local file system and an unmodified SQLite"
        for name, value in wanted.items()
        if found[name] != value
    ]
    if faults:
        raise Misconfigured(*faults)


def _new_epoch(connection: sqlite3.Connection, now: int) -> int:
    born = connection.execute("INSERT INTO lives (started_at, seen_at) VALUES (?, ?)", (now, now))
    assert born.lastrowid is not None
    return born.lastrowid


def _next_row(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(id), 0) + 1 FROM jobs").fetchone()[0])


def translated(error: sqlite3.Error, path: str) -> Exception:
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    if name == "SQLITE_FULL":
        return StorageFull(f"{path}: no room on the disk to start: free some space")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return Misconfigured(
            f"{path} is damaged, or no database at all ({error}): put a backup in its place "
            "with `jobrunner db restore FOLDER --force`, which keeps this one beside it"
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return Misconfigured(f"{path} is locked by another program: close that one first")
    return Misconfigured(f"{path} cannot be opened ({name}: {error}): check path and permissions")
