"""The store, opened: one writer, one reader, one process."""

import sqlite3
from collections.abc import Callable
from contextlib import AsyncExitStack

from jobrunner.core.features.meter import SILENT, Meter
from jobrunner.errors import Misconfigured
from jobrunner.ports import Clock, StoreThread
from jobrunner.store.describing import FileKeeper
from jobrunner.store.fsck import check
from jobrunner.store.hop import open_handle
from jobrunner.store.identity import Whereabouts
from jobrunner.store.keeping.backups import StoreTurns
from jobrunner.store.keeping.health import FileCondition, condition_of
from jobrunner.store.keeping.migrating import BroughtUp, prepare_with_copy
from jobrunner.store.keeping.standby.writing import NO_STANDBY, StandbyWriting
from jobrunner.store.keeping.upkeep import WAL_MAX
from jobrunner.store.opening import ProcessLock, lock_patiently, prepare_reader
from jobrunner.store.reader import StoreReader
from jobrunner.store.writer import StoreWriter


class Store:
    """``epoch`` is this life of the process; ``sqlite_version`` is for the log of the start, and so
    is ``brought``, when the file was of an older schema. ``commit`` writes a unit, ``waiting`` says
    how many wait for that. ``copy`` makes one while it is written. ``scheduled``: there were
    schedules in the file when it was opened."""

    def __init__(
        self,
        path: str,
        clock: Clock,
        epoch: int,
        writer: StoreWriter,
        reader: StoreReader,
        lock: ProcessLock,
        handles: AsyncExitStack,
        whereabouts: Whereabouts,
        keeper: FileKeeper,
        turns: StoreTurns,
        brought: BroughtUp | None,
    ) -> None:
        self.path = path
        self.keeper = keeper
        self._whereabouts = whereabouts
        self.epoch = epoch
        self.reader = reader
        self.sqlite_version = sqlite3.sqlite_version
        self.lock = lock
        self._clock = clock
        self._writer = writer
        self.commit = writer.commit
        self.waiting = writer.waiting
        self._handles = handles
        self.copy = turns.copied
        self.brought = brought
        self.scheduled = False

    async def mark_alive(self) -> None:
        """A sign of life, and the proof that writing works.

        Raises: StorageFull, OutcomeUnknown
        """
        await self._writer.mark_alive(self._clock.now())

    async def farewell(self) -> None:
        """Note that this life was asked to end: whatever becomes of it from now on is nobody's
        fault."""
        await self._writer.farewell(self._clock.now())

    async def condition(self) -> FileCondition:
        """How the file is now, for those who work on it and for a new start."""
        return await condition_of(self.path, self.epoch, self._whereabouts, self.reader)

    async def check(self) -> tuple[str, ...]:
        """List everything that is wrong with the file, as sentences. On a handle of its own, so
        that nobody waits for it."""
        handle = await open_handle(self.path)
        try:
            return await handle(check)
        finally:
            await handle.close()

    async def close(self) -> None:
        """Serve what waits, close the reader, then the writer, and let the lock go last."""
        await self.reader.close()
        await self._writer.close(self._clock.now())
        await self._handles.aclose()


async def open_store(
    path: str,
    *,
    clock: Clock,
    initial_credits: int = 0,
    writer_hop: StoreThread | None = None,
    reader_hop: StoreThread | None = None,
    meter: Meter = SILENT,
    wal_max: int = WAL_MAX,
    command: str = "",
    on_wait: Callable[[str], None] = lambda text: None,
    copying: StandbyWriting = NO_STANDBY,
) -> Store:
    """``initial_credits`` is what an account starts with, whoever its user is. The two hops are
    the seam for simulation: they are given functions that want a ``sqlite3.Connection`` first.
    ``wal_max`` is how large the write-ahead log may be.
    ``command`` says who opens it when it is not the service; ``on_wait`` is told when another
    command has it, which is waited for. ``copying`` has the last word about every commit.

    Raises: Misconfigured, StorageFull
    """
    async with AsyncExitStack() as handles:
        lock = await lock_patiently(path, command, clock, on_wait)
        handles.callback(lock.release)
        whereabouts = Whereabouts(path)
        handles.callback(whereabouts.close)  # after the handles of SQLite: last in, first out
        handles.callback(copying.tap.close)  # after them, too
        write = StoreTurns(writer_hop or await _handle(path, handles), clock, copying.tap.looked)
        handles.push_async_callback(write.close)
        prepared = await write(prepare_with_copy, path, clock.now(), wal_max)
        brought, (epoch, first_row), scheduled = prepared
        whereabouts.take()
        if writer_hop is None:
            whereabouts.hold()
        read = reader_hop or await _handle(path, handles)
        await read(prepare_reader, path)
        writer = copying.writer(write, epoch, first_row, initial_credits, clock, meter, whereabouts)
        reader = StoreReader(read, initial_credits)
        keeper = FileKeeper(path, writer.between, wal_max, clock)
        kept = handles.pop_all()
        store = Store(
            path, clock, epoch, writer, reader, lock, kept, whereabouts, keeper, write, brought
        )
        store.scheduled = scheduled
        return store


async def _handle(path: str, handles: AsyncExitStack) -> StoreThread:
    try:
        handle = await open_handle(path)
    except sqlite3.Error as error:
        raise Misconfigured(f"{path} cannot be opened: {error}") from error
    handles.push_async_callback(handle.close)
    return handle
