"""The one writer: a bounded line of units, and rounds that commit whatever waits in it.

Nobody is answered before COMMIT has returned. Once a commit's outcome is unknown, nothing is
written any more: what this process believes may no longer be what the file says.
"""

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

from jobrunner.core.decision import Clash, Unit
from jobrunner.core.features.meter import SILENT, Meter
from jobrunner.core.job import Snapshot
from jobrunner.errors import OutcomeUnknown, StorageError
from jobrunner.ports import Clock, StoreThread
from jobrunner.store.batch import Verdict, Written, commit, write_batch
from jobrunner.store.compiling import Work, compiled
from jobrunner.store.identity import Whereabouts
from jobrunner.store.pace import WriterQueue
from jobrunner.store.rounds import Rounds, Then
from jobrunner.store.statements import ENDED, SEEN

BATCH_UNITS = 512
LINE_UNITS = 4096
NOWHERE = Whereabouts("")


class StoreWriter:
    def __init__(
        self,
        hop: StoreThread,
        epoch: int,
        first_row: int,
        initial_credits: int,
        clock: Clock,
        meter: Meter = SILENT,
        whereabouts: Whereabouts = NOWHERE,
    ) -> None:
        self._hop = hop
        self._whereabouts = whereabouts
        self._clock = clock
        self._meter = meter
        self._commit_s = 0.0
        self._queue = WriterQueue(BATCH_UNITS, clock)
        self._epoch = epoch
        self._fresh_rows = count(first_row)
        self._initial_credits = initial_credits
        self._rounds: Rounds[Work, Verdict] = Rounds(
            self._commit_all, self._queue, _unanswered, gathers=True, longest=LINE_UNITS
        )
        self._lost = ""

    def commit(self, unit: Unit, then: Then[Snapshot | None] = None) -> Awaitable[Written | Clash]:
        """Write a unit; return when it is on the disk, or refused. ``then`` is given the job as it
        was stored, or None if it was not, before anybody is answered and even if the caller has
        gone meanwhile.

        Raises: StorageFull, OutcomeUnknown
        """
        work = compiled(unit, self._fresh_rows, self._initial_credits)
        follow = partial(_follow, then) if then else None
        return self._write(work, follow)

    def waiting(self) -> int:
        """Say how many units wait to be written, those for a place in line not counted."""
        return self._rounds.waiting

    async def mark_alive(self, now: int) -> None:
        """Write a sign of life into the file, which proves that writing works.

        Raises: StorageFull, OutcomeUnknown
        """
        await self._write(Work([SEEN.row(now=now, epoch=self._epoch)], alone=True))

    async def between(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run something else on the writer's handle, between two batches. It must leave no
        transaction behind, and be soon done.

        Raises: OutcomeUnknown, sqlite3.Error
        """
        if self._lost:
            raise OutcomeUnknown(f"no more is written since: {self._lost}")
        return await self._hop(function, *arguments)

    async def farewell(self, now: int) -> None:
        """Say goodbye in the file; where that fails, the next life takes this one for a crash."""
        with suppress(StorageError):
            await self._write(Work([ENDED.row(now=now, epoch=self._epoch)], alone=True))

    async def close(self, now: int) -> None:
        await self.farewell(now)
        await self._rounds.close()

    async def _write(self, work: Work, then: Then[Verdict] = None) -> Written | Clash:
        verdict = await self._rounds.ask(work, then)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    async def _commit_all(self, batch: list[Work]) -> list[Verdict]:
        if self._lost:
            return [OutcomeUnknown(f"no more is written since: {self._lost}") for _ in batch]
        began = self._clock.monotonic()
        verdicts = await self._written(batch)
        self._meter.committed(len(batch), self._clock.monotonic() - began, self._commit_s)
        self._queue.round_ended(len(batch), self._commit_s)
        lost = (verdict for verdict in verdicts if isinstance(verdict, OutcomeUnknown))
        self._lost = str(next(lost, ""))
        return verdicts

    async def _written(self, batch: list[Work]) -> list[Verdict]:
        try:
            found: list[Verdict] = await self._hop(write_batch, self._epoch, batch, self._commit)
        except Exception as error:  # noqa: BLE001 - the thread did not say what it did
            return [OutcomeUnknown(f"nobody knows what was written: {error!r}") for _ in batch]
        return found

    def _commit(self, connection: sqlite3.Connection) -> None:
        """Commit, on the writer's one thread. What a new start would not find is not written."""
        began = self._clock.monotonic()
        commit(connection)
        self._commit_s = self._clock.monotonic() - began
        if lost := self._whereabouts.lost():
            raise OutcomeUnknown(lost)


def _follow(then: Callable[[Snapshot | None], None], verdict: Verdict) -> None:
    then(verdict.snapshot if isinstance(verdict, Written) else None)


def _unanswered() -> OutcomeUnknown:
    return OutcomeUnknown("the service ended before the disk had answered")
