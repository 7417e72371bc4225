"""Examines the file from outside, beside a service or without one; changes nothing.

A reader makes a log and its index where there are none and, read only, cannot remove them again. So
a file that was closed in good order is opened as one that nobody changes; others have both.
"""

import fcntl
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from msgspec import Struct

from jobrunner.core.questions import LastLife
from jobrunner.store.migrations import latest, level
from jobrunner.store.opening import APPLICATION_ID

STEPS = 100_000
WEEK_MS = 7 * 86_400_000


class Examined(Struct, frozen=True, kw_only=True):
    """``fault``: it cannot be read. ``owner`` is 0 for an empty one. ``damage`` is what the quick
    check found, None where it was not finished in time. What the newest schema alone knows is
    absent from a file of another one. ``expiring``: tokens with an end within a week."""

    fault: str = ""
    owner: int = APPLICATION_ID
    schema: int = 0
    newest: int = 0
    damage: str | None = ""
    life: LastLife | None = None
    admins: int | None = None
    expiring: int = 0
    stuck: int = 0
    backup_at: int | None = None
    backup_failure: str = ""

    @property
    def is_ours(self) -> bool:
        return self.owner == APPLICATION_ID


class Engine(Struct, frozen=True):
    """The SQLite library of this program."""

    version: str
    options: tuple[str, ...]


def holder_of(path: str) -> str:
    """Name the process that has the file, and its command if it is no service; empty if none has.
    The lock is asked for, and given back at once if it was free."""
    try:
        file = os.open(f"{path}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return os.read(file, 256).decode("utf-8", "replace").strip() or "unknown"
    finally:
        os.close(file)
    return ""


def examined(path: str, alone: bool, now: int, is_over: Callable[[], bool]) -> Examined:
    """``alone``: no process has it. The check of its pages ends when ``is_over``."""
    settled = alone and not _has_content(f"{path}-wal")
    address = f"{Path(path).absolute().as_uri()}?mode=ro{'&immutable=1' if settled else ''}"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=1)) as db:
            db.execute("PRAGMA wal_autocheckpoint = 0")
            return _examined(db, now, is_over)
    except sqlite3.Error as error:
        return Examined(fault=str(error))


def engine() -> Engine:
    with closing(sqlite3.connect(":memory:")) as db:
        options = tuple(name for (name,) in db.execute("PRAGMA compile_options"))
        return Engine(sqlite3.sqlite_version, options)


def _examined(db: sqlite3.Connection, now: int, is_over: Callable[[], bool]) -> Examined:
    owner = int(db.execute("PRAGMA application_id").fetchone()[0])
    schema = level(db)
    if owner != APPLICATION_ID or schema != latest():
        return Examined(owner=owner, schema=schema, newest=latest())
    life = db.execute("SELECT started_at, seen_at, ended_at FROM lives ORDER BY epoch DESC LIMIT 1")
    lived = life.fetchone()
    live = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)"
    asked = {"now": now, "soon": now + WEEK_MS}
    admins = f"SELECT count(*) FROM tokens WHERE role = 'admin' AND {live}"  # noqa: S608
    ending = f"SELECT count(*) FROM tokens WHERE expires_at < :soon AND {live}"  # noqa: S608
    backups = "SELECT max(as_of), max(failure) FROM backups"
    stuck = "SELECT count(*) FROM jobs WHERE stuck IS NOT NULL"
    backup_at, failure = db.execute(backups).fetchone()
    return Examined(
        schema=schema,
        newest=latest(),
        life=LastLife(*lived) if lived else None,
        admins=db.execute(admins, asked).fetchone()[0],
        expiring=db.execute(ending, asked).fetchone()[0],
        stuck=db.execute(stuck).fetchone()[0],
        backup_at=backup_at,
        backup_failure=failure or "",
        damage=_damage(db, is_over),
    )


def _damage(db: sqlite3.Connection, is_over: Callable[[], bool]) -> str | None:
    db.set_progress_handler(is_over, STEPS)
    try:
        found = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as error:
        return None if is_over() else str(error)
    return "" if found == "ok" else found.strip().replace("\n", "; ")


def _has_content(path: str) -> bool:
    with suppress(OSError):
        return os.path.getsize(path) > 0
    return False
