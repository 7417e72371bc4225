"""Acts on many jobs, carried out beside everything else.

An order is written down with its jobs before it is acknowledged; then one task goes through all
open bulks, a slice of each in turn, no faster than it is set to. It asks each job as anybody would,
so locks, guards and audit are the usual ones. What a slice leaves open is found in the table: after
a crash, a drain or a full disk the same task simply goes on.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.actors.features.reruns import Reruns, Wish
from jobrunner.actors.features.submissions import Submissions
from jobrunner.actors.keeping.deletions import Deletions
from jobrunner.actors.requester import ADDRESS, asked
from jobrunner.actors.shared import World
from jobrunner.actors.slots import WorkLimits
from jobrunner.actors.supervisor import Supervisor
from jobrunner.core.access import unknown
from jobrunner.core.decision import Clash, Decision, NoOp, Unit
from jobrunner.core.features.bulk import (
    Bulk,
    BulkItem,
    BulkTurned,
    MoreItems,
    NewBulk,
    Orders,
    Status,
    Tick,
    Ticked,
    message_of,
)
from jobrunner.core.job import Actor
from jobrunner.core.questions import JobFilter
from jobrunner.errors import JobrunnerError, OutcomeUnknown, Refused, StorageError

SLICE = 8
PAGE = 1000
JOBS_MAX = 100_000
FORESEEN_MAX = 1000
AGAIN_S = 1.0
NOT_NOW = frozenset({"DRAINING", "OVERLOADED", "STORAGE_FULL"})


class Foreseen(Struct, frozen=True):
    """A forecast for one job: a word (``done``, ``satisfied``) or an error code."""

    job_id: str
    status: str
    outcome: str
    to: str = ""
    detail: str = ""


class Bulks:
    def __init__(
        self,
        world: World,
        supervisor: Supervisor,
        deletions: Deletions,
        submissions: Submissions,
        limits: WorkLimits,
    ) -> None:
        self._world = world
        self._supervisor = supervisor
        self._deletions = deletions
        self.reruns = Reruns(world, submissions)
        self._pace_s = SLICE / limits.bulk_per_second if limits.bulk_per_second else 0.0
        self._nudge = asyncio.Event()
        self._turned = asyncio.Event()

    async def find(self, which: JobFilter) -> list[str]:
        """The ids of all jobs that a filter finds now.

        Raises: Refused, where they are too many for one bulk.
        """
        found: list[str] = []
        after = None
        while True:
            page = await self._world.reader.ids_of(_page(which, after))
            found += [job_id for _, job_id in page]
            if len(found) > JOBS_MAX:
                raise Refused(
                    "VALIDATION_ERROR",
                    f"more than {JOBS_MAX} jobs are meant; narrow the filter",
                    errors=[{"path": "$.filter", "message": f"at most {JOBS_MAX} jobs"}],
                )
            if len(page) < PAGE:
                return found
            after = page[-1][0]

    async def order(self, orders: Orders, job_ids: list[str], actor: Actor) -> Bulk:
        """Write it down, whole, and begin."""
        bulk_id = self._world.ids.fresh()
        orders = replace(orders, address=ADDRESS.get())
        await self._write(NewBulk(bulk_id, orders, actor.name, self._world.clock.now()))
        for first in range(0, len(job_ids), PAGE):
            await self._write(MoreItems(bulk_id, first, tuple(job_ids[first : first + PAGE])))
        await self._turn(bulk_id, "running", actor.name, orders, len(job_ids))
        self._nudge.set()
        return await self.found(bulk_id)

    async def found(self, bulk_id: str) -> Bulk:
        """Raises: Refused NOT_FOUND."""
        bulk = await self._world.reader.bulk(bulk_id)
        if bulk is None or bulk.status == "gathering":
            raise Refused("NOT_FOUND", f"there is no bulk {bulk_id}")
        return bulk

    async def ended(self, bulk_id: str, wait_s: float) -> Bulk:
        """Wait until it is over, or time is up."""
        with anyio.move_on_after(wait_s):
            turned = self._turned
            while (await self.found(bulk_id)).status == "running" and not self._world.draining:
                await turned.wait()
                turned = self._turned
        return await self.found(bulk_id)

    async def abort(self, bulk_id: str, actor: Actor) -> Bulk:
        """Begin nothing more of it; done items stay done. A bulk that is over stays as it is."""
        bulk = await self.found(bulk_id)
        if bulk.status == "running":
            await self._turn(bulk_id, "aborted", actor.name, bulk.orders, bulk.total)
        return await self.found(bulk_id)

    async def foresee(
        self, orders: Orders, job_ids: list[str], actor: Actor
    ) -> AsyncIterator[Foreseen]:
        """Forecast the first so many, each as it stands now, with nothing written."""
        for job_id in job_ids[:FORESEEN_MAX]:
            yield await self._foreseen(orders, job_id, actor)

    async def run(self) -> None:
        """Take a slice of every open bulk in turn, for ever."""
        await self._drop_unacknowledged()
        while True:
            self._nudge.clear()
            worked = False
            for bulk in await self._world.reader.open_bulks():
                if bulk.status == "running" and not self._world.draining:
                    worked = True
                    await self._slice(bulk)
                    await self._world.clock.sleep(self._pace_s)
            if not worked:
                await self._nudge.wait()

    async def _drop_unacknowledged(self) -> None:
        """Abort bulks whose items were never all written: nobody was promised them."""
        for bulk in await self._world.reader.open_bulks():
            if bulk.status == "gathering":
                await self._turn(bulk.id, "aborted", bulk.actor, bulk.orders, bulk.total)

    async def _slice(self, bulk: Bulk) -> None:
        """The next items, from where the whole was ordered."""
        ADDRESS.set(bulk.orders.address)
        ahead = await self._world.reader.bulk_ahead(bulk.id, SLICE)
        if not ahead:
            await self._turn(bulk.id, "done", bulk.actor, bulk.orders, bulk.total)
            return
        faults: list[JobrunnerError] = []
        async with anyio.create_task_group() as group:
            for item in ahead:
                group.start_soon(self._try, bulk, item, faults)
        unknown = [fault for fault in faults if isinstance(fault, OutcomeUnknown)]
        if unknown:
            raise unknown[0]
        if faults:
            await self._world.clock.sleep(AGAIN_S)

    async def _try(self, bulk: Bulk, item: BulkItem, faults: list[JobrunnerError]) -> None:
        try:
            await self._act(bulk, item)
        except JobrunnerError as fault:
            faults.append(fault)

    async def _act(self, bulk: Bulk, item: BulkItem) -> None:
        """Do one item. Where the disk is full, or the service too busy, it stays ahead.

        Raises: JobrunnerError
        """
        tick = Tick(bulk.id, item.place)
        actor = Actor(bulk.actor, bulk.orders.role)
        try:
            await self._done(bulk.orders, item.job_id, actor, tick)
            over = Tick(bulk.id, item.place, "satisfied")
        except Refused as refused:
            if refused.code in NOT_NOW:
                raise StorageError(refused.detail) from refused
            over = Tick(bulk.id, item.place, "failed", refused.code, refused.detail[:500])
        except JobrunnerError:
            raise
        except Exception as bug:  # noqa: BLE001 - one bad job is not the others'
            over = Tick(bulk.id, item.place, "failed", "INTERNAL", repr(bug)[:500])
        await self._world.commit(Ticked(over))

    async def _done(self, orders: Orders, job_id: str, actor: Actor, tick: Tick) -> None:
        """Raises: Refused"""
        message = message_of(orders, actor)
        if message is not None:
            await self._supervisor.ask(job_id, message, tick)
        elif orders.command == "delete":
            await self._deletions.forget(job_id, actor, None, tick)
        else:
            job = await self._world.reader.job(job_id)
            if job is None:
                raise unknown(job_id)
            await self.reruns.rerun(job, _wish(orders, actor), tick)

    async def _foreseen(self, orders: Orders, job_id: str, actor: Actor) -> Foreseen:
        status = ""
        try:
            job = await self._world.reader.job(job_id)
            if job is None:
                raise unknown(job_id)
            status = job.status
            message = message_of(orders, actor)
            if message is None:
                return await self._foreseen_here(orders, job_id, actor)
            _, verdict = await self._supervisor.foresee(job_id, message)
        except Refused as refused:
            return Foreseen(job_id, status, refused.code, detail=refused.detail)
        match verdict:
            case Refused():
                return Foreseen(job_id, status, verdict.code, detail=verdict.detail)
            case NoOp():
                return Foreseen(job_id, status, "satisfied", status)
            case Decision():
                return Foreseen(job_id, status, "done", verdict.after.status)

    async def _foreseen_here(self, orders: Orders, job_id: str, actor: Actor) -> Foreseen:
        """Deleting, and doing again: of the latter, what is left to know is the price and the key.

        Raises: Refused
        """
        job = await self._world.reader.job(job_id)
        if job is None:
            raise unknown(job_id)
        if orders.command == "rerun":
            plan = await self.reruns.planned(job, _wish(orders, actor))
            return Foreseen(job_id, job.status, "done", detail=f"from {plan.origin.place}")
        if not job.ended:
            text = f"the job is {job.status}; it can be deleted when it has ended"
            return Foreseen(job_id, job.status, "JOB_NOT_SETTLED", detail=text)
        return Foreseen(job_id, job.status, "done")

    async def _turn(
        self, bulk_id: str, status: Status, actor: str, orders: Orders, total: int
    ) -> None:
        now = self._world.clock.now()
        await self._write(BulkTurned(bulk_id, status, actor, now, total, orders.command))
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()

    async def _write(self, unit: Unit) -> None:
        """The first status change wins."""
        outcome = await self._world.commit(asked(unit))
        assert not isinstance(outcome, Clash) or outcome.reason in ("missing", "epoch")


def _page(which: JobFilter, after: int | None) -> JobFilter:
    return replace(which, after=after, limit=PAGE, oldest_first=True)


def _wish(orders: Orders, actor: Actor) -> Wish:
    fields: dict[str, Any] = orders.fields
    place, params = fields.get("from"), fields.get("params") or {}
    return Wish(by=actor, place=place, params=params, reason=orders.reason)
