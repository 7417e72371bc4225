"""Asks the file how it is, beside the work and through a handle of its own.

The handles that work keep pages in memory, and may answer from there for a long time after the
disk has lost them. A new handle has nothing in memory: what it cannot read, a new start could not
read either.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

from msgspec import Struct

from jobrunner.errors import StorageError
from jobrunner.store.hop import open_handle
from jobrunner.store.identity import Whereabouts
from jobrunner.store.opening import APPLICATION_ID

SMALL_BYTES = 16 * 1024 * 1024
NOT_OURS = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class FileCondition(Struct, frozen=True):
    """Each a sentence, empty when all is well. ``lost``: what is written now is found by nobody.
    ``unreadable``: nothing can be read, and a new start could not read it either. ``damaged``:
    something cannot be read, or cannot be looked at."""

    lost: str = ""
    unreadable: str = ""
    damaged: str = ""

    @property
    def fault(self) -> str:
        return self.lost or self.unreadable or self.damaged


class Reading(Protocol):
    """The handle that answers questions, as far as it tells of the file."""

    async def pulse(self) -> int: ...

    def failures(self) -> str: ...


def pulse(connection: sqlite3.Connection) -> int:
    """The newest epoch. Asked of the handle that answers everybody's questions."""
    connection.execute("SELECT * FROM jobs ORDER BY id DESC LIMIT 1").fetchone()
    return int(connection.execute("SELECT max(epoch) FROM lives").fetchone()[0])


async def condition_of(
    path: str, epoch: int, whereabouts: Whereabouts, reader: Reading
) -> FileCondition:
    """How the file is for who has had it open since this epoch."""
    if lost := whereabouts.lost():
        return FileCondition(lost=lost)
    if spoilt := whereabouts.spoilt():
        return FileCondition(unreadable=spoilt)
    try:
        newest = await reader.pulse()
    except (StorageError, TypeError) as error:
        return FileCondition(unreadable=f"{path} cannot be read: {error}")
    if newest != epoch:
        return FileCondition(lost=f"{path} has been taken over by a later start ({newest})")
    found = await probed(path)
    return found if found.fault else FileCondition(damaged=reader.failures())


async def probed(path: str) -> FileCondition:
    """How the file looks to somebody who comes now."""
    try:
        handle = await open_handle(path)
    except sqlite3.Error as error:
        return FileCondition(damaged=f"{path} cannot be opened now: {error}")
    try:
        return await handle(look_over, path)
    finally:
        with suppress(sqlite3.Error):
            await handle.close()


def look_over(connection: sqlite3.Connection, path: str) -> FileCondition:
    """Runs on the handle's thread. Of each table both ends; all of a file that is small."""
    try:
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        pulse(connection)
    except (sqlite3.Error, TypeError) as error:
        return _unreadable(path, error)
    if owner != APPLICATION_ID:
        return FileCondition(unreadable=f"{path} is no database of this program any more")
    try:
        faults = list(_ends_of_tables(connection)) or list(_whole(connection))
    except sqlite3.Error as error:
        faults = [str(error)]
    return FileCondition(damaged=f"{path}: {faults[0]}" if faults else "")


def _unreadable(path: str, error: Exception) -> FileCondition:
    """Too many open files, or somebody else's lock, say nothing about what is on the disk."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in NOT_OURS:
        return FileCondition(damaged=f"{path} cannot be looked at now: {error}")
    return FileCondition(unreadable=f"{path} cannot be read: {error}")


def _ends_of_tables(connection: sqlite3.Connection) -> Iterator[str]:
    tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    for (name,) in connection.execute(tables).fetchall():
        for order in ("ASC", "DESC"):
            try:
                connection.execute(f'SELECT * FROM "{name}" ORDER BY 1 {order} LIMIT 1').fetchone()  # noqa: S608 - a name of the schema
            except sqlite3.Error as error:
                yield f"table {name} cannot be read: {error}"


def _whole(connection: sqlite3.Connection) -> Iterator[str]:
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    size = pages * connection.execute("PRAGMA page_size").fetchone()[0]
    if size <= SMALL_BYTES:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            yield str(found).strip().replace("\n", "; ")
