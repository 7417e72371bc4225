"""Puts a backup in the place of the file, whole or not at all.

Everything is made ready beside its place first, flushed, under names that nobody opens. Then a plan
of renamings is written down, and with that it is decided. Each renaming can be begun again, so
whoever has the process lock next (this command, a start, any other command) carries the plan out
to its end before it looks at the file. Before the plan nothing has changed; after it nobody sees
half of it.

A restored file is brought to the schema of today, remembers what it was restored from, and numbers
its history on from above what can have been told to anybody: who follows a stream by its numbers is
told all that comes.
"""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from jobrunner.core.keeping.backups import Lost
from jobrunner.errors import StorageError
from jobrunner.store.migrations import migrate

SUFFIX = ".restoring"
NAMED_MAX = 1000
# More than one process can write of its history in a millisecond.
HISTORY_PER_MS = 10


class Renaming(Struct, frozen=True):
    """``aside``: what is there goes out of the way. Such a one is done when its target is there,
    since its source may be the new thing by then; any other when its source is gone."""

    source: str
    target: str
    aside: bool = False


class RestorePlan(Struct, frozen=True):
    """``moves`` in their order; the old goes out of the way before the new comes."""

    backup: str
    moves: tuple[Renaming, ...]


def decide_restore(path: str, plan: RestorePlan) -> None:
    """Write the plan: from here on the restore will be finished, whatever becomes of this
    process."""
    place, draft = f"{path}{SUFFIX}", f"{path}{SUFFIX}.draft"
    with open(draft, "wb") as file:
        file.write(msgspec.json.encode(plan))
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, place)
    flush(_folder(place))


def finish_restore(path: str) -> RestorePlan | None:
    """Carry out what is planned, if anything is. The caller has the process lock.

    Raises: OSError, StorageError
    """
    place = f"{path}{SUFFIX}"
    try:
        with open(place, "rb") as file:
            plan = msgspec.json.decode(file.read(), type=RestorePlan)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise StorageError(f"{place} is no plan of a restore: remove it ({error})") from error
    for move in plan.moves:
        if os.path.lexists(move.source) and not (move.aside and os.path.lexists(move.target)):
            os.rename(move.source, move.target)
    for folder in sorted({_folder(move.target) for move in plan.moves}):
        flush(folder)
    os.unlink(place)
    flush(_folder(place))
    return plan


def is_unfinished(path: str) -> bool:
    return os.path.lexists(f"{path}{SUFFIX}")


def make_ready(place: str, backup: str, since: int, until: int, lost: Lost) -> None:
    """Bring a copy of a backup's database to today, and let it remember whence it came.

    Raises: StorageError
    """
    try:
        with closing(sqlite3.connect(place, isolation_level=None)) as db:
            db.execute("PRAGMA foreign_keys = 1")
            migrate(db)
            _remember(db, backup, since, until, lost)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        flush(place)
    except sqlite3.Error as error:
        raise StorageError(f"{place} cannot be made ready: {error}") from error


def _remember(db: sqlite3.Connection, backup: str, since: int, until: int, lost: Lost) -> None:
    db.execute("BEGIN IMMEDIATE")
    db.execute(
        "INSERT INTO restorations (backup, since, until, lost) VALUES (?, ?, ?, ?)",
        (backup, since, until, msgspec.json.encode(lost).decode()),
    )
    db.execute(
        "UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'history'",
        ((until - since) * HISTORY_PER_MS,),
    )
    db.execute("COMMIT")


def lost_since(path: str, since: int) -> Lost:
    """Ask the file that is to be replaced what it knows of the time after ``since``, as far as it
    can be read without changing it."""
    if not os.path.exists(path):
        return Lost()
    log = os.path.exists(f"{path}-wal")
    address = f"{Path(path).absolute().as_uri()}?mode=ro{'' if log else '&immutable=1'}"
    with suppress(sqlite3.Error), closing(sqlite3.connect(address, uri=True)) as db:
        return _lost(db, since)
    return Lost()


def _lost(db: sqlite3.Connection, since: int) -> Lost:
    changed = "SELECT count(*), count(*) FILTER (WHERE created_at >= :since) FROM jobs"
    asked = {"since": since, "limit": NAMED_MAX}
    jobs_changed, jobs_made = db.execute(f"{changed} WHERE updated_at >= :since", asked).fetchone()
    webhooks = """
        SELECT source || ':' || webhook_id FROM webhooks WHERE at >= :since ORDER BY id LIMIT :limit
    """
    notifications = """
        SELECT d.uid FROM deliveries d WHERE d.created_at >= :since OR EXISTS
            (SELECT 1 FROM delivery_tries t WHERE t.delivery = d.id AND t.at >= :since)
        ORDER BY d.id LIMIT :limit
    """
    return Lost(
        True,
        jobs_made,
        jobs_changed,
        tuple(found for (found,) in db.execute(webhooks, asked)),
        tuple(found for (found,) in db.execute(notifications, asked)),
    )


def flush(place: str) -> None:
    """Bring a file, or the names in a folder, onto the disk."""
    handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _folder(place: str) -> str:
    return os.path.dirname(os.path.abspath(place))
