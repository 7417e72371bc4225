"""The file copied while it is written, and what it remembers of its backups.

The copy is made by SQLite's online backup, through the handle that writes: what is committed
between two of its steps is copied along, so it never begins again, and no reader keeps the log from
being emptied however slow the copy is. Python offers the whole of it as one call. That call
runs on a thread of its own, and the two threads use the handle in turn: the writer's for a batch,
the copy's for one step. So a commit waits for one step at most, and SQLite sees one user at a time.
Between two steps the copy rests as long as the last one took, and flushes what it has written: at
the end, all at once, that would hold up the next commits.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from jobrunner.core.job import Attempt
from jobrunner.core.keeping.backups import (
    BackedUp,
    BackupEvent,
    CopyFacts,
    FileRow,
    LastBackup,
    Lost,
    Restoration,
    RestorationTold,
    Uncertain,
)
from jobrunner.core.keeping.objects import FarFile
from jobrunner.errors import StorageError
from jobrunner.ports import Children, Clock, StoreThread, one_at_a_time, rest
from jobrunner.store.columns import Columns
from jobrunner.store.features import statements as beside
from jobrunner.store.keeping.restoring import flush
from jobrunner.store.migrations import level
from jobrunner.store.statements import Row

Db = sqlite3.Connection
T = TypeVar("T")

STEP_PAGES = 64
FLUSH_EVERY_STEPS = 64
STOPPING = "the service is stopping; no backup was made"
REST_LEAST_S = 0.0005
FILES = (
    "SELECT storage_path, sha256, url, {} FROM assets a {} WHERE storage_path <> '' ORDER BY a.id"
)
HERE = FILES.format("NULL", "")
HERE_AND_FAR = FILES.format("o.size", "LEFT JOIN objects o ON o.asset = a.id")
FAR_SINCE = 9
# A copy that is broken off is thrown away, so it needs no journal and no flushing of its own.
OF_A_COPY = ("journal_mode = off", "synchronous = off", "cache_size = -4096")


class CopyStopped(StorageError):
    """The copy is not wanted any more."""


class StoreTurns:
    """The handle that writes, for two users in turn. ``looked`` is called after each turn of the
    first, before anybody else has it."""

    def __init__(
        self, hop: StoreThread, clock: Clock, looked: Callable[[], None] = lambda: None
    ) -> None:
        self._hop = hop
        self._looked = looked
        self._clock = clock
        self._turn = one_at_a_time()
        self._copying = one_at_a_time()
        self._closed = False
        self._used = False

    async def __call__(self, function: Callable[..., T], *arguments: Any) -> T:
        return await self._hop(self._in_turn, function, *arguments)

    async def copied(
        self,
        place: str,
        children: Children,
        wanted: Callable[[], bool],
        last: Callable[[], object] = lambda: None,
    ) -> int:
        """Make a copy at ``place``, flushed; say as of when it is. ``last`` is called when all of
        it is there and nothing can be committed yet.

        Raises: StorageError
        """
        self._used = True
        source = await self._hop(_itself)
        return await children.in_thread(partial(self._copy, source, place, wanted, last))

    async def close(self) -> None:
        """A copy ends before its handle is closed, also when nobody waits for it any more: to call
        off the task that waits for a thread does not end the thread."""
        self._closed = True
        if self._used:
            await self._hop(self._copy_over)

    def _copy_over(self, connection: Db) -> None:
        with self._copying:
            return

    def _in_turn(self, connection: Db, function: Callable[..., T], *arguments: Any) -> T:
        with self._turn:
            try:
                return function(connection, *arguments)
            finally:
                self._looked()

    def _copy(
        self, source: Db, place: str, wanted: Callable[[], bool], last: Callable[[], object]
    ) -> int:
        with self._copying:
            return self._copy_alone(source, place, lambda: wanted() and not self._closed, last)

    def _copy_alone(
        self, source: Db, place: str, wanted: Callable[[], bool], last: Callable[[], object]
    ) -> int:
        pace = _Pace(self._turn, self._clock, place, wanted)
        if not wanted():
            raise CopyStopped(STOPPING)
        try:
            with closing(sqlite3.connect(place, isolation_level=None)) as target:
                for setting in OF_A_COPY:
                    target.execute(f"PRAGMA {setting}")
                with pace:
                    source.backup(target, pages=STEP_PAGES, progress=pace, sleep=REST_LEAST_S)
                    last()
            flush(place)
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"{place} cannot be written: {error}") from error
        return pace.as_of


class _Pace:
    """Has the turn while a step is made and gives it up between two."""

    def __init__(self, turn: Any, clock: Clock, place: str, wanted: Callable[[], bool]) -> None:
        self._turn = turn
        self._clock = clock
        self._place = place
        self._wanted = wanted
        self._steps = 0
        self._began = 0.0
        self.as_of = 0

    def __enter__(self) -> None:
        self._take()

    def __exit__(self, *ended: object) -> None:
        self._turn.release()

    def __call__(self, status: int, remaining: int, pages: int) -> None:
        if not self._wanted():
            raise CopyStopped(STOPPING)
        if not remaining:
            return
        took_s = self._clock.monotonic() - self._began
        self._turn.release()
        try:
            self._steps += 1
            if self._steps % FLUSH_EVERY_STEPS == 0:
                flush(self._place)
            rest(max(took_s, REST_LEAST_S))
        finally:
            self._take()

    def _take(self) -> None:
        self._turn.acquire()
        self.as_of, self._began = self._clock.now(), self._clock.monotonic()


def facts_of(place: str) -> CopyFacts:
    """Read a copy that nobody changes.

    Raises: StorageError
    """
    with _unchanging(place) as db:
        epoch = db.execute("SELECT coalesce(max(epoch), 0) FROM lives").fetchone()[0]
        jobs = db.execute("SELECT coalesce(sum(jobs), 0) FROM tally").fetchone()[0]
        return CopyFacts(level(db), epoch, jobs)


def files_of(place: str) -> Iterator[FileRow]:
    """The files that a copy speaks of: those of jobs and owners, those that a worker has sent, and
    those that an open attempt keeps."""
    with _unchanging(place) as db:
        for path, sha256, url, far in db.execute(HERE if level(db) < FAR_SINCE else HERE_AND_FAR):
            due = bool(sha256) and far is None and not url.startswith("http")
            yield FileRow(path, sha256, due, far)
        held = "SELECT j.uid, a.attempt FROM attempts a JOIN jobs j ON j.id = a.job"
        for job_id, text in db.execute(f"{held} WHERE a.status <> 'ended'"):
            yield from _held(job_id, msgspec.json.decode(text, type=Attempt))


def far_files_of(place: str, after: FarFile | None = None, limit: int = 1000) -> list[FarFile]:
    """List so many files of a copy that lie in a store of objects, by the order of their keys."""
    reached = (after.key, after.row) if after else ("", 0)
    with _unchanging(place) as db:
        if level(db) < FAR_SINCE:
            return []
        rows = db.execute(
            "SELECT asset, path, key, size FROM objects WHERE (key, asset) > (?, ?) "
            "ORDER BY key, asset LIMIT ?",
            (*reached, limit),
        )
        return [FarFile(*row) for row in rows]


def _held(job_id: str, attempt: Attempt) -> Iterator[FileRow]:
    for one in attempt.sent:
        yield FileRow(one.asset.storage_path, one.asset.sha256, due=True)
    for word in _words(attempt.kept):
        if f"/{job_id}/" in word:
            yield FileRow(word, "", due=False)


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _words(inner)


def _itself(connection: Db) -> Db:
    return connection


@contextmanager
def _unchanging(place: str) -> Iterator[Db]:
    """Open a file that nobody has and nobody changes: it needs no log beside it.

    Raises: StorageError
    """
    try:
        address = f"{Path(place).absolute().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as db:
            yield db
    except sqlite3.Error as error:
        raise StorageError(f"{place} cannot be read: {error}") from error


def backup_rows(unit: BackupEvent) -> Iterator[Row]:
    match unit:
        case BackedUp():
            yield beside.BACKED_UP.row(**structs.asdict(unit), failed_at=None, failure="")
        case RestorationTold():
            yield beside.RESTORATION_TOLD.row(**structs.asdict(unit))
        case _:
            yield beside.BACKUP_FAILED.row(**structs.asdict(unit))


BACKUP = Columns(LastBackup, "backups t")
RESTORATION = Columns(
    Restoration,
    "restorations t",
    read={"lost": lambda text: msgspec.json.decode(text, type=Lost)},
)


def backups(db: Db) -> tuple[LastBackup, ...]:
    """The last one of each folder."""
    return BACKUP.all(db, "ORDER BY t.folder")


def restoration(db: Db) -> Restoration | None:
    """The one that no start has told of yet."""
    found = RESTORATION.all(db, "WHERE t.told_at IS NULL ORDER BY t.id DESC LIMIT 1")
    return found[0] if found else None


def uncertain(db: Db, limit: int) -> Uncertain:
    due, awaited = "FROM deliveries WHERE due_at IS NOT NULL", "FROM awaits WHERE open = 1"
    return Uncertain(
        _first(db, f"SELECT uid {due} ORDER BY id LIMIT ?", limit),
        db.execute(f"SELECT count(*) {due}").fetchone()[0],
        _first(db, f"SELECT name {awaited} ORDER BY name LIMIT ?", limit),
        db.execute(f"SELECT count(*) {awaited}").fetchone()[0],
    )


def _first(db: Db, question: str, limit: int) -> tuple[str, ...]:
    return tuple(found for (found,) in db.execute(question, (limit,)))
