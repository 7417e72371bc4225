"""Removes what is old enough: ended jobs, and what is kept beside them.

One task looks at what is due and takes it away in small steps, each a unit among those of everybody
else. Between two steps it rests for a multiple of the time that the last one took, and while others
wait to write it lets them go first. A crash between two steps loses nothing: what is still due is
found again, and files whose rows are gone stand in the list of clearings.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import anyio
from msgspec import Struct

from jobrunner.actors.commits import ours
from jobrunner.actors.features.upgrades.upgrades import forget_declarations
from jobrunner.actors.keeping.cleaning import clear, folders_beside
from jobrunner.actors.requester import asked
from jobrunner.actors.shared import World
from jobrunner.core.decision import Clash, Unit
from jobrunner.core.keeping.retention import (
    Expire,
    FileIdle,
    FilesUsed,
    IdleFiles,
    Lot,
    Prune,
    Pruned,
    RetentionTerms,
    RipeJob,
    RipePage,
    before,
    times,
)
from jobrunner.core.units import AuditRecord, Note
from jobrunner.files.folders import existing

GEAR_MAX = 32.0
RECORDS_AT_ONCE = 200
FILES_AT_ONCE = 64
NAMING_AT_ONCE = 500
COUNTED_AT_ONCE = 5_000
COUNTED_MAX = 1_000_000
TOLD_EVERY_S = 30.0
RESTS = 4.0
GIVES_WAY_S = 0.25
LOOK_AGAIN_S = 0.005
BEYOND = None
Place = tuple[str, str | None]


class Taken(Struct, frozen=True):
    """Counts of what went, or would go: jobs by workflow and status (none: beyond the number that
    is kept), and the rest by its kind. ``done``: nothing more is due."""

    jobs: dict[Place, int]
    others: dict[str, int]
    done: bool

    @property
    def total(self) -> int:
        return sum(self.jobs.values()) + sum(self.others.values())

    def summary(self) -> dict[str, int]:
        """The counts by kind."""
        return {"jobs": sum(self.jobs.values()), **self.others}


class _Round:
    """Counts what goes, until its time is over."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self.is_over = is_over
        self.jobs: Counter[Place] = Counter()
        self.others: Counter[str] = Counter()

    def taken(self, done: bool) -> Taken:
        return Taken(dict(self.jobs), dict(self.others), done)


class Retention:
    """``reread`` is told of jobs that are gone."""

    def __init__(
        self, world: World, terms: RetentionTerms, reread: Callable[[str], None] = lambda job: None
    ) -> None:
        self._world = world
        self._terms = terms
        self._reread = reread
        self._turn = anyio.Lock()
        self._step_s = 0.0
        self._gear = 1.0

    async def run(self) -> None:
        """Remove what is due for as long as the service runs."""
        while True:
            taken = await self.prune(TOLD_EVERY_S)
            self._tell(taken)
            await forget_declarations(self._world)
            over = taken.done or self._world.draining
            await self._world.clock.sleep(self._terms.look_every_s if over else LOOK_AGAIN_S)

    async def order(self, actor: str, within_s: float) -> Taken:
        """Let go now what is due, as somebody orders, for at most so long."""
        taken = await self.prune(within_s)
        if taken.total:
            record = AuditRecord("retention.pruned", actor, taken.summary())
            await self._world.commit(asked(Note(record, self._world.clock.now())))
        self._tell(taken, actor=actor)
        return taken

    async def prune(self, within_s: float) -> Taken:
        """Let go what is due, for at most so long, and in no two places at once."""
        clock = self._world.clock
        until_s = clock.monotonic() + within_s
        async with self._turn:
            one = _Round(lambda: clock.monotonic() >= until_s or self._world.draining)
            before = -1
            while (taken := one.taken(done=True)).total > before:
                before = taken.total
                for take in (self._jobs, self._records, self._files):
                    await take(one)
                    if one.is_over():
                        return one.taken(done=False)
        return taken

    async def foresee(self) -> Taken:
        """Count what would go now, with nothing changed. Of files, those that are to be looked for
        in jobs: the ones found there would stay. Of each kind but jobs up to a million."""
        reader, now = self._world.reader, self._world.clock.now()
        jobs: dict[Place, int] = {}
        for lot in await reader.due_lots(self._terms, now):
            if lot.aged:
                jobs[lot.workflow, lot.status] = await self._counted(lot)
        ended = await reader.ended_counts()
        for workflow in {workflow for workflow, _, _ in ended}:
            most = self._terms.most(workflow)
            left = sum(
                count - jobs.get((workflow, status), 0)
                for of, status, count in ended
                if of == workflow and not self._terms.spares(workflow, status)
            )
            if most is not None and left > most:
                jobs[workflow, BEYOND] = left - most
        records = await reader.overdue(self._terms, now, COUNTED_MAX)
        others: dict[str, int] = {one.of: one.count for one in records}
        if self._terms.files_s:
            moment = before(now, self._terms.files_s)
            others["files"] = await reader.idle_count(moment, COUNTED_MAX)
        return Taken(jobs, others, done=False)

    # ------------------------------------------------------------ jobs

    async def _jobs(self, one: _Round) -> None:
        now = self._world.clock.now()
        for lot in await self._world.reader.due_lots(self._terms, now):
            after: tuple[int, int] | None = None
            while not one.is_over():
                began_s = self._world.clock.monotonic()
                page = await self._world.reader.ripe_jobs(lot, after, times(self._gear))
                if count := await self._forget(page.jobs):
                    one.jobs[lot.workflow, lot.status] += count
                after = page.after
                self._keep_up(page, self._world.clock.monotonic() - began_s)
                if after is None:
                    break

    def _keep_up(self, page: RipePage, took_s: float) -> None:
        """Take larger steps with shorter rests while more jobs come than go: while those of a step
        ended within less time than the step took."""
        ended = [one.job.updated_at for one in page.jobs]
        behind = page.after is not None and bool(ended) and ended[-1] - ended[0] < took_s * 1000
        self._gear = min(self._gear * 2, GEAR_MAX) if behind else max(self._gear / 2, 1.0)

    async def _forget(self, ripe: tuple[RipeJob, ...]) -> int:
        """Delete these jobs together; where one has moved on meanwhile, one by one, and that one
        stays."""
        if not ripe:
            return 0
        folders = {one.job.id: folders_beside(self._world, one.job, one.paths) for one in ripe}
        there = await self._there(folder for few in folders.values() for folder in few)
        jobs = tuple(
            Pruned(one.job, tuple(folder for folder in folders[one.job.id] if folder in there))
            for one in ripe
        )
        if not await self._step(Prune(jobs, self._world.clock.now())):
            return sum([await self._forget((one,)) for one in ripe]) if len(ripe) > 1 else 0
        for one in ripe:
            self._reread(one.job.id)
        if there:
            await clear(self._world, tuple(sorted(there)))
        self._world.meter.pruned("jobs", len(jobs))
        return len(jobs)

    async def _there(self, folders: Iterable[str]) -> frozenset[str]:
        """Pick the folders that are on the disk: most jobs have none."""
        wanted = sorted(set(folders))
        if not self._world.assets:
            return frozenset()
        found = await self._world.children.in_thread(partial(existing, self._world.assets, wanted))
        return frozenset(found)

    async def _counted(self, lot: Lot) -> int:
        total, after = 0, None
        while True:
            page = await self._world.reader.counted(lot, after, COUNTED_AT_ONCE)
            total, after = total + page.jobs, page.after
            if after is None:
                return total

    # ------------------------------------------------------------ beside jobs

    async def _records(self, one: _Round) -> None:
        """A step of each kind that is due, again and again."""
        while not one.is_over():
            due = await self._world.reader.overdue(
                self._terms, self._world.clock.now(), RECORDS_AT_ONCE
            )
            for record in due:
                if await self._step(Expire(record.of, record.before, RECORDS_AT_ONCE)):
                    self._world.meter.pruned(record.of, record.count)
                    one.others[record.of] += record.count
            if not due:
                return

    async def _files(self, one: _Round) -> None:
        while self._terms.files_s and not one.is_over():
            moment = before(self._world.clock.now(), self._terms.files_s)
            idle = await self._world.reader.idle_files(moment, FILES_AT_ONCE)
            if idle is None:
                return
            named, looked_to = await self._named(idle)
            await self._step(FilesUsed(tuple(sorted(named)), self._world.clock.now()))
            gone = [await self._lose(asset_id, folder, looked_to)
                    for asset_id, folder in idle.files if asset_id not in named]  # fmt: skip
            one.others["files"] += sum(gone)

    async def _named(self, idle: IdleFiles) -> tuple[set[str], int]:
        """Which of them a job of their owner names, and the last job that was looked at."""
        left = {asset_id for asset_id, _ in idle.files}
        named: set[str] = set()
        looked_to, more = 0, True
        while more:
            await self._give_way()
            wanted = tuple(sorted(left - named))
            page = await self._world.reader.naming(idle.user_id, wanted, looked_to, NAMING_AT_ONCE)
            named |= page.named
            looked_to, more = page.after, page.more
        return named, looked_to

    async def _lose(self, asset_id: str, folder: str, looked_to: int) -> int:
        now = self._world.clock.now()
        if not await self._step(FileIdle(asset_id, folder, looked_to, now)):
            await self._step(FilesUsed((asset_id,), now))
            return 0
        await clear(self._world, (folder,))
        self._world.meter.pruned("files", 1)
        return 1

    # ------------------------------------------------------------ steps

    async def _step(self, unit: Unit) -> bool:
        """Write it when others have had their turn; False where a fact has changed meanwhile."""
        await self._give_way()
        began_s = self._world.clock.monotonic()
        outcome = ours(await self._world.commit(unit))
        self._step_s = self._world.clock.monotonic() - began_s
        return not isinstance(outcome, Clash)

    async def _give_way(self) -> None:
        clock, patience_s = self._world.clock, GIVES_WAY_S / self._gear
        until_s = clock.monotonic() + patience_s
        await clock.sleep(min(self._step_s * RESTS / self._gear, patience_s))
        while self._world.store.waiting() and clock.monotonic() < until_s:
            await clock.sleep(LOOK_AGAIN_S)

    def _tell(self, taken: Taken, **more: Any) -> None:
        if taken.total:
            self._world.say("retention.pruned", "info", **taken.summary(), done=taken.done, **more)
