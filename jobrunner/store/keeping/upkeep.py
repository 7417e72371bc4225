"""Keeps the file's log small, and gives unused room back to the disk.

SQLite writes its log back by the 4 MiB, and begins it anew when nobody reads in it. Under readers
that follow one upon another there may be no such moment; then the log is cut here, between two of
our own transactions. Nobody can cut a log in which somebody reads for good: it grows with every
write until that one ends. Who it is, the locks on the file say.

All this runs on the writer's handle, between two batches.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

WAL_MAX = 64 * 1024**2
ON_DISK, IN_MEMORY = 1, 2
BUSY_MS = 20
READ_LOCKS = range(123, 128)
LOCKS = "/proc/locks"

Db = sqlite3.Connection


class Tended(Struct, frozen=True):
    """How the file is. ``too_large``: its log is over the limit and could not be cut; ``readers``
    are then those who read in it, as far as the system tells."""

    wal_bytes: int
    page_bytes: int
    pages: int
    free_pages: int
    too_large: bool = False
    readers: tuple[str, ...] = ()


def tend(db: Db, wal_max: int) -> Tended:
    """Cut the log if it is half as large as it may be."""
    path = _path(db)
    cut = size(f"{path}-wal") < wal_max // 2 or _is_cut(db)
    wal_bytes = size(f"{path}-wal")
    too_large = not cut and wal_bytes > wal_max
    readers = tuple(readers_of(f"{path}-shm")) if too_large else ()
    page_bytes, pages, free_pages = (_pragma(db, name) for name in PAGES)
    return Tended(wal_bytes, page_bytes, pages, free_pages, too_large, readers)


PAGES = "page_size", "page_count", "freelist_count"


def _is_cut(db: Db) -> bool:
    """First all is written back that can be; only when that was all is it worth to wait, a moment,
    for those who read."""
    _, logged, written = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    if logged != written:
        return False
    patience = _pragma(db, "busy_timeout")
    db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    try:
        busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        db.execute(f"PRAGMA busy_timeout = {patience}")
    return not busy


def give_back(db: Db, pages: int) -> int:
    """Let go of so many unused pages at the end of the file; how many are left."""
    try:
        # As a script: a single statement without columns is not followed to its end.
        db.executescript(f"BEGIN IMMEDIATE; PRAGMA incremental_vacuum({pages:d}); COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return _pragma(db, "freelist_count")


def compact(db: Db) -> None:
    """Write the file anew without gaps, beside itself; a crash leaves it as it was."""
    with suppress(sqlite3.Error):
        folder = os.path.dirname(_path(db)).replace("'", "''")
        db.execute(f"PRAGMA temp_store_directory = '{folder}'")
    db.execute(f"PRAGMA temp_store = {ON_DISK}")
    try:
        db.execute("VACUUM")
    finally:
        db.execute(f"PRAGMA temp_store = {IN_MEMORY}")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def readers_of(path: str) -> Iterator[str]:
    """Name the processes that hold a lock of a reader on the index of the log."""
    try:
        node = os.stat(path).st_ino
        with open(LOCKS, encoding="ascii", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    yield from dict.fromkeys(_named(int(pid)) for pid in _holders(lines, node))


def _holders(lines: list[str], node: int) -> Iterator[str]:
    """Lines are like ``1: POSIX  ADVISORY  READ  4711 08:01:1234 123 123``."""
    for line in lines:
        fields = line.split()
        if len(fields) < 8 or "->" in fields or fields[5].rpartition(":")[2] != str(node):
            continue
        first, last = int(fields[6]), READ_LOCKS[-1] if fields[7] == "EOF" else int(fields[7])
        if first <= READ_LOCKS[-1] and last >= READ_LOCKS[0]:
            yield fields[4]


def _named(pid: int) -> str:
    if pid == os.getpid():
        return "this service itself"
    with suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
        return f"process {pid} ({file.read().strip()})"
    return f"process {pid}" if pid > 0 else "a process of another container"


def size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _path(db: Db) -> str:
    return str(db.execute("PRAGMA database_list").fetchone()[2])


def _pragma(db: Db, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])
