"""Many submissions under one name: each is taken or refused by itself, as if it had come alone.

Nothing is kept of a call but what became of it. One that was cut off is sent again: what is there
already is found by its key in the batch, and the rest is made. What was refused only for now (too
much to do, a full disk) leaves the batch open, so that sending it again goes on.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from jobrunner.actors.commits import ours
from jobrunner.actors.features.bulk import Bulks
from jobrunner.actors.features.reruns import Wish
from jobrunner.actors.features.submissions import Submissions
from jobrunner.actors.requester import asked
from jobrunner.actors.shared import World
from jobrunner.core.decision import Clash
from jobrunner.core.declaration.states import TokenRole
from jobrunner.core.features.bulk import Orders
from jobrunner.core.features.families.batches import (
    Batch,
    BatchClosed,
    BatchForgotten,
    BatchLink,
    BatchRefused,
    BatchUnit,
    NewBatch,
)
from jobrunner.core.features.notifications import lane_of
from jobrunner.core.features.turns.singletons import by_declaration
from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.messages import Submit
from jobrunner.errors import OutcomeUnknown, PluginFault, Refused, StorageFull

AT_ONCE = 32
PAGE = 1_000
OPEN, ILL = 0, 2
LATER = frozenset({"DRAINING", "OVERLOADED", "STORAGE_FULL", "WORKFLOW_UNAVAILABLE"})
CANCEL = "cancel"


class Sent(Struct, frozen=True):
    """A submission of a batch, under its key there; or why it is none."""

    key: str
    submission: Submit | None = None
    refused: Refused | None = None


class ItemAnswer(Struct, frozen=True):
    """The fate of one: its job, new or ``replayed``, or the refusal. ``mismatch``: that job was
    made of another submission."""

    key: str
    job_id: str = ""
    status: str = ""
    replayed: bool = False
    mismatch: bool = False
    refused: Refused | None = None


class Batches:
    def __init__(
        self, world: World, submissions: Submissions, bulks: Bulks, outbox: Callable[[], None]
    ) -> None:
        self._world = world
        self._submissions = submissions
        self._bulks = bulks
        self._outbox = outbox

    async def found(self, batch_id: str, actor: Actor) -> Batch:
        """Raises: Refused NOT_FOUND, also for a stranger's."""
        batch = await self._world.reader.batch(batch_id)
        if batch is None or not (actor.oversees or batch.user_id == actor.name):
            raise Refused("NOT_FOUND", f"there is no batch {batch_id}")
        return batch

    async def begun(
        self, user_id: str, key: str | None, notify_url: str, rerun_of: str | None = None
    ) -> tuple[Batch, bool]:
        """The batch of this key, made if there is none; and whether it was there."""
        reader = self._world.reader
        if key is not None and (known := await reader.batch_of_key(user_id, key)):
            return known, True
        batch_id, now = self._world.ids.fresh(), self._world.clock.now()
        lane = lane_of(user_id, notify_url) if notify_url else ""
        unit = NewBatch(batch_id, user_id, key, now, notify_url, lane, rerun_of)
        if not await self._write(unit) and key is not None:
            known = await reader.batch_of_key(user_id, key)
            assert known is not None, "what is in the way of a batch is one of its key"
            return known, True
        made = await reader.batch(batch_id)
        assert made is not None, "a batch that was made is there"
        return made, False

    async def add(self, batch: Batch, items: Sequence[Sent]) -> list[ItemAnswer]:
        """Take each by itself; what is there already is found again."""
        answers: list[ItemAnswer] = []
        for first in range(0, len(items), AT_ONCE):
            answers += await self._lot(batch, items[first : first + AT_ONCE])
        for one in answers:
            if one.refused is not None:
                self._world.meter.refused_in_batch(one.refused.code)
        refused = tuple(
            (one.key, one.refused.code, one.refused.detail[:500])
            for one in answers
            if one.refused is not None and one.refused.code not in ("JOB_GONE", "BATCH_CLOSED")
        )
        if refused and batch.open:
            await self._write(BatchRefused(batch.id, refused))
        return answers

    async def _lot(self, batch: Batch, items: Sequence[Sent]) -> list[ItemAnswer]:
        """Several at once; those under one singleton's key come after each other, as in the call:
        side by side each would only be in the other's way, and any of them the last."""
        rows: dict[object, list[tuple[int, Sent]]] = {}
        for place, one in enumerate(items):
            rows.setdefault(self._alone_by(one) or place, []).append((place, one))
        found = await asyncio.gather(*(self._row(batch, row) for row in rows.values()))
        told = {place: answer for answers in found for place, answer in answers}
        return [told[place] for place in range(len(items))]

    async def _row(
        self, batch: Batch, row: Sequence[tuple[int, Sent]]
    ) -> list[tuple[int, ItemAnswer]]:
        return [(place, await self._taken(batch, one)) for place, one in row]

    def _alone_by(self, one: Sent) -> object:
        """Return the key of a singleton, or nothing where a job is none, or where nobody can say
        before its turn."""
        asked = one.submission
        definition = self._world.registry.current(asked.workflow) if asked else None
        if asked is None or definition is None:
            return None
        try:
            asked = by_declaration(definition, asked, self._world.clock.now())
        except PluginFault:
            return None
        return (asked.workflow, asked.singleton.key) if asked.singleton else None

    async def close(self, batch: Batch) -> None:
        """Close a batch to further jobs; one that is closed stays so."""
        if batch.open:
            await self._write(BatchClosed(batch.id, self._world.clock.now()))
            self._outbox()

    async def cancel(self, batch: Batch, actor: Actor) -> None:
        """Close it, and order that each of its jobs that goes on is cancelled."""
        await self.close(batch)
        job_ids = [one async for one in self._jobs(batch, OPEN)]
        if job_ids:
            role = cast(TokenRole, actor.role)  # nobody else comes by HTTP
            orders = Orders(CANCEL, reason=f"batch {batch.id} was canceled", role=role)
            await self._bulks.order(orders, job_ids, actor)

    async def rerun(
        self, batch: Batch, actor: Actor, key: str | None, correlation_id: str
    ) -> tuple[Batch, bool, list[ItemAnswer]]:
        """A batch of those that ended ill, done again. Of very many, the next call goes on."""
        again, known = await self.begun(batch.user_id, key, batch.notify_url, batch.id)
        failed: list[str] = []
        after, more = "", True
        while more and len(failed) < PAGE:
            page = await self._world.reader.batch_jobs(batch.id, ILL, after, PAGE)
            failed += [one for one in page if not known or not await self._has(again, one)]
            after, more = page[-1] if page else "", len(page) == PAGE
        answers = await self._rerun(again, actor, failed[:PAGE], correlation_id)
        if not more and len(failed) <= PAGE and not is_unfinished(answers):
            await self.close(again)
        return again, known, answers

    async def _has(self, batch: Batch, key: str) -> bool:
        found = await self._world.reader.batch_item(batch.id, key)
        return found is not None and bool(found[0].job_id)

    async def forget(self, batch: Batch) -> None:
        """Raises: Refused, while a job of it goes on or may come."""
        if not await self._write(BatchForgotten(batch.id)):
            text = f"batch {batch.id} has not ended; close it, and wait for its jobs"
            raise Refused("BATCH_NOT_ENDED", text)

    async def _rerun(
        self, again: Batch, actor: Actor, job_ids: Sequence[str], correlation_id: str
    ) -> list[ItemAnswer]:
        answers: list[ItemAnswer] = []
        for first in range(0, len(job_ids), AT_ONCE):
            lot = job_ids[first : first + AT_ONCE]
            doing = (self._done_again(again, actor, one, correlation_id) for one in lot)
            answers += await asyncio.gather(*doing)
        return answers

    async def _done_again(
        self, again: Batch, actor: Actor, job_id: str, correlation_id: str
    ) -> ItemAnswer:
        wish = Wish(by=actor, correlation_id=correlation_id, batch=BatchLink(again.id, job_id))
        try:
            job = await self._world.reader.job(job_id)
            if job is None:
                raise Refused("JOB_GONE", f"job {job_id} was deleted", job_id=job_id)
            answer = await self._bulks.reruns.rerun(job, wish)
        except Refused as refused:
            return ItemAnswer(job_id, refused=refused)
        return ItemAnswer(job_id, answer.job.id, answer.job.status, answer.replayed)

    async def _taken(self, batch: Batch, one: Sent) -> ItemAnswer:
        if one.submission is None or not batch.open:
            known = await self._world.reader.batch_item(batch.id, one.key)
            if known is not None and known[0].job_id:
                mismatch = one.submission is not None and _differs(one.submission, known[1])
                return ItemAnswer(one.key, known[0].job_id, _status(known[1]), True, mismatch)
            refused = one.refused
            if refused is None and known is not None:
                refused = Refused(known[0].code, known[0].detail)
            closed = Refused("BATCH_CLOSED", f"batch {batch.id} takes no more jobs")
            return ItemAnswer(one.key, refused=refused or closed)
        linked = replace(one.submission, batch=BatchLink(batch.id, one.key))
        try:
            answer = await self._submissions.submit(linked)
        except OutcomeUnknown:
            raise
        except StorageFull as fault:
            return ItemAnswer(one.key, refused=Refused("STORAGE_FULL", str(fault)))
        except Refused as refused:
            return ItemAnswer(one.key, refused=refused)
        job, replayed = answer.job, answer.replayed
        mismatch = replayed and job.batch == linked.batch and _differs(linked, job)
        return ItemAnswer(one.key, job.id, job.status, replayed, mismatch)

    async def _jobs(self, batch: Batch, ended: int) -> AsyncIterator[str]:
        after = ""
        while page := await self._world.reader.batch_jobs(batch.id, ended, after, PAGE):
            for job_id in page:
                yield job_id
            after = page[-1]

    async def _write(self, unit: BatchUnit) -> bool:
        """False when it was refused as somebody else's was first."""
        return not isinstance(ours(await self._world.commit(asked(unit))), Clash)


def is_unfinished(answers: Sequence[ItemAnswer]) -> bool:
    """Say whether something was refused only for now."""
    return any(one.refused is not None and one.refused.code in LATER for one in answers)


def _differs(sent: Submit, job: Snapshot | None) -> bool:
    """Say whether this job, known by its key in the batch, was made of another submission."""
    said = (sent.workflow, sent.job_type, sent.params)
    return job is not None and said != (job.workflow, job.job_type, job.params)


def _status(job: object) -> str:
    return str(getattr(job, "status", ""))
