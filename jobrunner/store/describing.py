"""Describes the file and what takes its room, on a handle of its own and table by table, so that no
question keeps the log from being begun anew for long."""

import os
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from statistics import median
from typing import Any

from jobrunner.core.features.upgrades.upgrades import UnderWay
from jobrunner.core.keeping.census import Census
from jobrunner.core.keeping.retention import RetentionTerms
from jobrunner.core.keeping.upkeep import FileInfo, JobAge, TableSize
from jobrunner.errors import StorageError, StorageFull
from jobrunner.ports import Clock
from jobrunner.store.features.upgrades.upgrades import under_way
from jobrunner.store.hop import open_handle
from jobrunner.store.keeping.census import census
from jobrunner.store.keeping.retention import ended_counts
from jobrunner.store.keeping.upkeep import Tended, compact, give_back, size, tend
from jobrunner.store.opening import prepare_reader

Db = sqlite3.Connection
Between = Callable[..., Awaitable[Any]]

FLUSHES = 5
SAMPLE_ROWS = 200
INDEXES_SHARE = 1.3
TABLES = """
    SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name
"""
# What is kept apart for its size belongs to its table too: an index, or what numbers the rows.
# Pages are counted: the sum of their sizes overflows in SQLite, beyond 2 GiB.
PAGES = """
    SELECT sum(pageno) FROM dbstat WHERE aggregate = TRUE
        AND name IN (SELECT name FROM sqlite_schema WHERE tbl_name = ?)
"""
OLDEST_ENDED = """
    SELECT uid, updated_at FROM jobs WHERE workflow = ? AND status = ?
        AND kind IN ('settled', 'final') ORDER BY updated_at LIMIT 1
"""


class FileKeeper:
    """Looks after the file beside the work. ``between`` runs a function on the writer's
    handle, between two batches."""

    def __init__(self, path: str, between: Between, wal_max: int, clock: Clock) -> None:
        self._path = path
        self._between = between
        self._wal_max = wal_max
        self._clock = clock

    async def tend(self) -> Tended:
        """Keep the log small, and say how the file is.

        Raises: StorageError
        """
        found: Tended = await self._done(tend, self._wal_max)
        return found

    async def give_back(self, pages: int) -> int:
        """Let go of so many unused pages of the file; say how many are left.

        Raises: StorageError
        """
        return int(await self._done(give_back, pages))

    async def census(self, terms: RetentionTerms, now: int) -> Census:
        """Count the jobs that rest. On a handle of its own: it may take a while.

        Raises: StorageError
        """
        found: Census = await self._apart(census, terms, now)
        return found

    async def under_way(self) -> tuple[UnderWay, ...]:
        """Count the jobs that have not ended, by declaration and place, in the same way.

        Raises: StorageError
        """
        found: tuple[UnderWay, ...] = await self._apart(under_way)
        return found

    async def _apart(self, question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            handle = await open_handle(self._path)
            try:
                await handle(prepare_reader, self._path)
                return await handle(question, *arguments)
            finally:
                await handle.close()
        except sqlite3.Error as error:
            raise StorageError(f"jobs could not be counted: {error}") from error

    async def compact(self) -> None:
        """Write the file anew without gaps. It takes as long as the file is large, and as much room
        again: for a file that nobody else uses.

        Raises: StorageError
        """
        await self._done(compact)

    async def info(self) -> FileInfo:
        """Describe the file, on a handle of its own."""
        handle = await open_handle(self._path)
        try:
            return await handle(describe, self._wal_max, self._clock.monotonic)
        finally:
            await handle.close()

    async def _done(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return await self._between(function, *arguments)
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
            kind = StorageFull if full else StorageError
            raise kind(f"the file could not be looked after: {error}") from error


def describe(db: Db, wal_max: int, monotonic: Callable[[], float]) -> FileInfo:
    db.execute("PRAGMA query_only = 1")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    path = str(db.execute("PRAGMA database_list").fetchone()[2])
    tables = [name for (name,) in db.execute(TABLES).fetchall()]
    estimated = not _has_dbstat(db)
    measure = _estimated if estimated else _measured
    sizes = [TableSize(name, measure(db, name)) for name in tables]
    return FileInfo(
        path=path,
        file_bytes=size(path),
        wal_bytes=size(f"{path}-wal"),
        wal_max_bytes=wal_max,
        page_bytes=_one(db, "PRAGMA page_size"),
        pages=_one(db, "PRAGMA page_count"),
        free_pages=_one(db, "PRAGMA freelist_count"),
        schema=_one(db, "PRAGMA user_version"),
        sqlite_version=sqlite3.sqlite_version,
        jobs=_one(db, "SELECT coalesce(sum(jobs), 0) FROM tally"),
        tables=tuple(sorted(sizes, key=lambda one: -one.bytes)),
        estimated=estimated,
        oldest_job=_oldest(db.execute("SELECT uid, created_at FROM jobs ORDER BY id LIMIT 1")),
        oldest_ended=min(_ended(db), key=lambda job: job.at, default=None),
        last_backup_at=_last_backup_at(db),
        far_files=_one(db, "SELECT count(*) FROM objects"),
        far_bytes=_one(db, "SELECT coalesce(sum(size), 0) FROM objects"),
        flush_ms=round(_flush_ms(f"{path}.flush", monotonic), 3),
    )


def _has_dbstat(db: Db) -> bool:
    with suppress(sqlite3.Error):
        db.execute("SELECT 1 FROM dbstat LIMIT 1").fetchone()
        return True
    return False


def _measured(db: Db, table: str) -> int:
    pages = int(db.execute(PAGES, (table,)).fetchone()[0] or 0)
    return pages * _one(db, "PRAGMA page_size")


def _estimated(db: Db, table: str) -> int:
    """Estimate a size by the oldest and the newest rows, and by what indexes come to on average."""
    columns = [name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))]
    width = " + ".join(f'coalesce(length(CAST("{name}" AS BLOB)), 0) + 1' for name in columns)
    rows = _one(db, f'SELECT count(*) FROM "{table}"')  # noqa: S608 - a name of the schema
    first = f'"{columns[0]}"'
    found = [
        row
        for order in ("ASC", "DESC")
        for (row,) in db.execute(
            f'SELECT {width} FROM "{table}" ORDER BY {first} {order} LIMIT {SAMPLE_ROWS}'  # noqa: S608 - names of the schema
        )
    ]
    return int(rows * sum(found) / len(found) * INDEXES_SHARE) if found else 0


def _ended(db: Db) -> Iterator[JobAge]:
    for workflow, status, _ in ended_counts(db):
        if (job := _oldest(db.execute(OLDEST_ENDED, (workflow, status)))) is not None:
            yield job


def _oldest(found: sqlite3.Cursor) -> JobAge | None:
    row = found.fetchone()
    return JobAge(*row) if row else None


def _last_backup_at(db: Db) -> int | None:
    """Return None where there is none, or where backups are not noted."""
    with suppress(sqlite3.OperationalError):
        found: int | None = db.execute("SELECT max(as_of) FROM backups").fetchone()[0]
        return found
    return None


def _flush_ms(path: str, monotonic: Callable[[], float]) -> float:
    """A page, written beside the file and kept by the disk; the usual one of a few."""
    taken = []
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        for _ in range(FLUSHES):
            began = monotonic()
            os.write(handle, bytes(4096))
            os.fsync(handle)
            taken.append((monotonic() - began) * 1000)
    finally:
        os.close(handle)
        os.unlink(path)
    return median(taken)


def _one(db: Db, question: str) -> int:
    return int(db.execute(question).fetchone()[0])
