"""Migrations as an operator meets them: with a copy first, tried and taken back, or as a command.

A step is whole by itself, but only a copy leads back to the program of before.
"""

import os
import sqlite3
from contextlib import closing, suppress

from msgspec import Struct

from jobrunner.errors import Misconfigured, StorageError
from jobrunner.store.features.schedules.schedules import has_schedules
from jobrunner.store.keeping.restoring import flush
from jobrunner.store.keeping.upkeep import WAL_MAX
from jobrunner.store.migrations import latest, level, migrate, statements, steps
from jobrunner.store.opening import is_new, lock_process, prepare_writer, translated


class BroughtUp(Struct, frozen=True):
    """A file was brought to the schema of today; ``copy`` is how it was before."""

    schema: int
    copy: str


class Migration(Struct, frozen=True):
    """A migration: from which schema, by which steps; ``copy`` is the file as it was, or where that
    would be kept."""

    schema: int
    steps: tuple[int, ...] = ()
    copy: str = ""


def prepare_with_copy(
    connection: sqlite3.Connection, path: str, now: int, wal_max: int = WAL_MAX
) -> tuple[BroughtUp | None, tuple[int, int], bool]:
    """Prepare the writer's handle, after a copy where that changes the schema. Also whether there
    are schedules: a service without any need not look for them."""
    brought = keep_before(connection, path)
    return brought, prepare_writer(connection, path, now, wal_max), has_schedules(connection)


def keep_before(connection: sqlite3.Connection, path: str) -> BroughtUp | None:
    """Keep a copy of a file that is about to be brought to the schema of today. Runs on the
    writer's thread, before everything else.

    Raises: Misconfigured, StorageFull
    """
    try:
        if is_new(connection, path) or level(connection) == latest():
            return None
        return BroughtUp(level(connection), _kept(connection, path))
    except sqlite3.Error as error:
        raise translated(error, path) from error


def migrate_alone(path: str, *, dry_run: bool, copies: bool) -> Migration:
    """While nobody else has the file.

    Raises: Misconfigured, StorageError
    """
    if not os.path.exists(path):
        raise Misconfigured(f"{path} does not exist: [store] path says where it should be")
    lock = lock_process(path, "db migrate")
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            return _tried(connection, path) if dry_run else _done(connection, path, copies)
    except sqlite3.Error as error:
        raise StorageError(f"{path} cannot be brought to schema {latest()}: {error}") from error
    finally:
        lock.release()


def _tried(connection: sqlite3.Connection, path: str) -> Migration:
    is_new(connection, path)
    return Migration(level(connection), trial(connection), place_of_copy(connection, path))


def _done(connection: sqlite3.Connection, path: str, copies: bool) -> Migration:
    if is_new(connection, path) or level(connection) == latest():
        return Migration(level(connection))
    before, copy = level(connection), _kept(connection, path) if copies else ""
    for setting in ("foreign_keys = 1", "synchronous = full"):
        connection.execute(f"PRAGMA {setting}")
    migrate(connection)
    return Migration(before, tuple(range(before + 1, latest() + 1)), copy)


def _kept(connection: sqlite3.Connection, path: str) -> str:
    try:
        return keep_copy(connection, path)
    except (OSError, sqlite3.Error) as error:
        raise Misconfigured(
            f"{path} has schema {level(connection)} and is to be brought to {latest()}, but no "
            f"copy of it can be kept beside it first ({error}): make room there, or make a backup "
            "with the program that wrote it, and run `jobrunner db migrate --without-copy`"
        ) from error


def trial(connection: sqlite3.Connection) -> tuple[int, ...]:
    """Take every step that is still to come, and take all of them back: the numbers of the steps.

    Raises: sqlite3.Error, where one of them cannot be taken on this file.
    """
    ahead = tuple(range(level(connection) + 1, latest() + 1))
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number in ahead:
            for statement in statements(steps()[number - 1]):
                connection.execute(statement)
    finally:
        connection.execute("ROLLBACK")
    return ahead


def keep_copy(connection: sqlite3.Connection, path: str) -> str:
    """Keep the file as it is now beside itself, under a name that says which schema it has. One of
    an earlier migration from the same schema is replaced.

    Raises: OSError, sqlite3.Error
    """
    kept = place_of_copy(connection, path)
    draft = f"{kept}.draft"
    with suppress(FileNotFoundError):
        os.unlink(draft)
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(draft, isolation_level=None)) as target:
        target.execute("PRAGMA journal_mode = off")
        connection.backup(target)
    flush(draft)
    os.replace(draft, kept)
    flush(os.path.dirname(os.path.abspath(kept)))
    return kept


def place_of_copy(connection: sqlite3.Connection, path: str) -> str:
    return f"{path}.schema-{level(connection)}"
