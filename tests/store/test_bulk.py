"""Pauses and bulks in the file: what is asked around a paused job, and acts that are done once."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from jobrunner.core.decision import Clash
from jobrunner.core.features.bulk import BulkTurned, MoreItems, NewBulk, Orders, Tick, Ticked
from jobrunner.core.job import Paused, Timer
from jobrunner.core.questions import JobFilter
from jobrunner.core.units import Halt, Unhalt
from jobrunner.store.features.bulk import KEPT_MS
from jobrunner.store.store import Store
from tests.store.factory import opened, priced, refused, stored

pytestmark = pytest.mark.anyio
TEA = Paused("ada", 5, "tea")
CLOCKS = (Timer("deadline", 3), Timer("lease", 4))


async def test_a_paused_job_is_not_called_and_only_clocks_of_held_work_are_told(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as store:
        born = await stored(store, priced(1, line_at=5, paused=TEA, timers=CLOCKS))
        names = (born.workflow,)
        assert await store.reader.line(9, names) == ()
        assert (await store.reader.counts()).in_line == 0
        assert [one.purpose for one in await store.reader.due_timers(9, 9, names)] == ["lease"]
        found = await store.reader.job(born.id)
        assert found is not None
        assert found.paused == TEA
        page = await store.reader.jobs(JobFilter(paused=True))
        assert [job.id for job in page.jobs] == [born.id]
        assert await store.check() == ()


async def test_a_paused_workflow_keeps_its_clocks(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        born = await stored(store, priced(1, timers=CLOCKS))
        names = (born.workflow,)
        assert len(await store.reader.due_timers(9, 9, names)) == 2
        await store.commit(Halt("workflow", born.workflow, TEA))
        assert [one.purpose for one in await store.reader.due_timers(9, 9, names)] == ["lease"]
        assert await store.reader.next_timer(names) == 4
        assert await store.reader.pauses() == (("workflow", born.workflow, TEA),)
        assert await refused(store, Halt("workflow", born.workflow, TEA)) == "exists"
        await store.commit(Unhalt("workflow", born.workflow, "root", 9))
        assert len(await store.reader.due_timers(9, 9, names)) == 2
        assert await refused(store, Unhalt("workflow", born.workflow, "root", 9)) == "missing"


async def test_an_act_and_the_word_that_it_was_done_are_one(tmp_path: Path) -> None:
    """A second act of the same item is refused with all that it would have written."""
    async with opened(tmp_path) as store:
        await begun(store, "one", 2)
        first, second = priced(1), priced(2)
        await stored(store, replace(first, tick=Tick("one", 0)))
        assert await refused(store, replace(second, tick=Tick("one", 0))) == "tick"
        assert await store.reader.job(second.after.id) is None
        assert [one.place for one in await store.reader.bulk_ahead("one", 9)] == [1]
        assert await refused(store, Ticked(Tick("one", 0, "failed"))) == "tick"
        await store.commit(BulkTurned("one", "aborted", "root", 8))
        assert await refused(store, replace(second, tick=Tick("one", 1))) == "tick"
        assert await refused(store, BulkTurned("one", "done", "root", 9)) == "missing"
        found = await store.reader.bulk("one")
        assert found is not None
        assert (found.status, found.total, found.done, found.ended_at) == ("aborted", 2, 1, 8)
        assert await store.check() == ()


async def test_old_orders_are_forgotten(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await begun(store, "one", 1)
        await store.commit(BulkTurned("one", "aborted", "root", 7))
        await store.commit(NewBulk("two", Orders("pause"), "root", 7 + KEPT_MS))
        assert await store.reader.bulk("one") is not None
        await store.commit(NewBulk("three", Orders("pause"), "root", 8 + KEPT_MS))
        assert await store.reader.bulk("one") is None


async def begun(store: Store, bulk_id: str, items: int) -> None:
    for unit in (
        NewBulk(bulk_id, Orders("pause"), "root", 1),
        MoreItems(bulk_id, 0, tuple(f"job-{number}" for number in range(items))),
        BulkTurned(bulk_id, "running", "root", 2, items, "pause"),
    ):
        assert not isinstance(await store.commit(unit), Clash)
