"""``db check``: asks the file whether everything holds that must be true of it.

Each rule is a sentence and a select that finds where it does not hold; the sentence is filled in
with what was found. The constraints of the schema make most of this impossible to break through
this program; a faulty disk, a foreign tool and a bug of ours are what is looked for.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from jobrunner.errors import Misconfigured
from jobrunner.store import rows
from jobrunner.store.invariants import RULES
from jobrunner.store.keeping.restoring import is_unfinished
from jobrunner.store.migrations import latest, level
from jobrunner.store.opening import APPLICATION_ID, ProcessLock

FAULTS_MAX = 100


def check_alone(path: str) -> tuple[str, ...]:
    """Say what is wrong with the file, while nobody else has it.

    Raises: Misconfigured, where the file is not there, or is in use.
    """
    if is_unfinished(path):
        raise Misconfigured(
            f"a restore of {path} was cut off: `jobrunner db restore` or any start finishes it"
        )
    if not os.path.exists(path):
        raise Misconfigured(f"{path} does not exist: [store] path says where it should be")
    lock = ProcessLock(path, "db check")
    try:
        return check_file(path)
    finally:
        lock.release()


def check_file(path: str) -> tuple[str, ...]:
    """Check the file without a running service, and without changing anything.

    Raises: Misconfigured, where the file cannot even be opened.
    """
    try:
        connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise Misconfigured(f"{path} cannot be opened: {error}") from error
    try:
        return check(connection)
    finally:
        connection.close()


def check_copy(path: str) -> tuple[str, ...]:
    """A copy that nobody has and nobody changes. Of one with an older schema only the structure is
    examined: its meaning is that of another program."""
    try:
        address = f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            older = level(connection) < latest()
            return tuple(_structure(connection)) if older else check(connection)
    except sqlite3.Error as error:
        return (f"{path} cannot be read: {error}",)


def check(connection: sqlite3.Connection) -> tuple[str, ...]:
    """At most so many faults, as sentences; none is good. One moment of the file, unchanged."""
    connection.execute("PRAGMA query_only = 1")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    try:
        return _examine(connection)
    except sqlite3.DatabaseError as error:
        return (f"the file is damaged beyond reading: {error}",)


def _examine(connection: sqlite3.Connection) -> tuple[str, ...]:
    connection.execute("BEGIN")
    try:
        if foreign := tuple(_foreign(connection)):
            return foreign
        faults = list(_structure(connection)) or list(_meaning(connection))
        return tuple(faults[:FAULTS_MAX])
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _foreign(connection: sqlite3.Connection) -> Iterator[str]:
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    if owner != APPLICATION_ID:
        yield f"the file belongs to another program (application_id {owner})"
    elif level(connection) != latest():
        found, cure = level(connection), "the next start of the service brings it up to date"
        cure = cure if found < latest() else "check it with the program that wrote it"
        yield f"the file has schema {found}, this program checks schema {latest()}: {cure}"


def _structure(connection: sqlite3.Connection) -> Iterator[str]:
    """Find what SQLite itself can tell; where the structure is broken, meaning is not asked for."""
    for (text,) in connection.execute(f"PRAGMA integrity_check({FAULTS_MAX})"):
        if text != "ok":
            yield f"structure: {text}"
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"row {row} of {table} refers to a row of {parent} that is not there"


def _meaning(connection: sqlite3.Connection) -> Iterator[str]:
    for rule in RULES:
        for found in connection.execute(f"{rule.sql} LIMIT {FAULTS_MAX}"):
            yield rule.sentence.format(*found)
    yield from _snapshots(connection)


def _snapshots(connection: sqlite3.Connection) -> Iterator[str]:
    """The texts decode, and the tables derived from them say the same."""
    for found in connection.execute(rows.SELECT_WHOLE):
        job = rows.whole_job(found, ())
        if job.unreadable:
            yield f"job {job.id}: what is stored of it cannot be read: {job.unreadable}"
            continue
        if {(timer.purpose, timer.due_at) for timer in job.timers} != _timers(connection, job.row):
            yield f"job {job.id}: its timers differ from the table of timers"
        if {(lock.scope, lock.run_id) for lock in job.locks} != _locks(connection, job.row):
            yield f"job {job.id}: its locks differ from the table of locks"
        opened = {job.attempt.serial} if job.attempt else set()
        if opened != _open_attempts(connection, job.row):
            yield f"job {job.id}: its open attempt differs from the table of attempts"


def _timers(connection: sqlite3.Connection, row: int) -> set[tuple[str, int]]:
    return set(connection.execute("SELECT purpose, due_at FROM timers WHERE job = ?", (row,)))


def _locks(connection: sqlite3.Connection, row: int) -> set[tuple[str, str]]:
    return set(connection.execute("SELECT scope, run_id FROM locks WHERE job = ?", (row,)))


def _open_attempts(connection: sqlite3.Connection, row: int) -> set[int]:
    found = connection.execute(
        "SELECT serial FROM attempts WHERE job = ? AND status <> 'ended'", (row,)
    )
    return {serial for (serial,) in found}
