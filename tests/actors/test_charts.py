"""The charts are written now and then, and what is written stays small whatever happens."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from jobrunner.actors.keeping.charts import ChartKeeper
from jobrunner.core.features.meter import Meter
from jobrunner.core.keeping.charts import FLUSH_S, SPANS, Counting, Span
from jobrunner.errors import StorageFull
from jobrunner.store.store import Store
from tests.store.factory import NOON, birth, job, opened, raw, stored

pytestmark = pytest.mark.anyio
DAY_S = 86_400


class Clock:
    """Others move it; a sleep takes its time at once."""

    def __init__(self) -> None:
        self.now_ms = NOON
        self.slept: list[float] = []

    def now(self) -> int:
        return self.now_ms

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_ms += int(seconds * 1000)
        await anyio.lowlevel.checkpoint()


class House:
    """A keeper over a real file, and what it counts."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.counting = Counting()
        self.meter = Meter(charts=self.counting)
        self.reader = store.reader
        self.commit = store.commit
        world: Any = self
        self.keeper = ChartKeeper(world)

    async def passes(self, seconds: float, *, jobs: int = 0) -> None:
        """Jobs are made and end, a second each, and so much time goes by."""
        for _ in range(jobs):
            self.counting.submitted("toy")
            self.counting.ended("toy", "completed", 1000)
        self.clock.now_ms += int(seconds * 1000)
        await self.keeper.flush()

    async def made(self, span: Span) -> int:
        """So many were made within a span, by the charts."""
        begins_at = SPANS[span].begins_at(self.clock.now())
        rows = await self.keeper.rows(span, begins_at)
        return sum(row.counted.made for row in rows)


def rows(folder: Path) -> int:
    with raw(folder) as db:
        return int(db.execute("SELECT count(*) FROM charts").fetchone()[0])


async def test_what_happened_is_in_every_span(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        house = House(store)
        for _ in range(5):
            await house.passes(FLUSH_S, jobs=2)
        assert [await house.made(span) for span in SPANS] == [10, 10, 10]
        assert await store.check() == ()


async def test_a_start_goes_on_in_the_same_buckets(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        first = House(store)
        await first.passes(1, jobs=3)
        second = House(store, first.clock)
        await second.passes(1, jobs=4)
        assert [await second.made(span) for span in SPANS] == [7, 7, 7]
        assert rows(tmp_path) == len(SPANS)


async def test_a_crash_loses_what_was_not_written_and_no_more(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        first = House(store)
        await first.passes(FLUSH_S, jobs=3)
        first.counting.submitted("toy")
        assert await House(store, first.clock).made("day") == 3
        await first.keeper.close()
        assert await House(store, first.clock).made("day") == 4


async def test_it_looks_at_the_end_of_each_ten_seconds(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        house = House(store)
        house.clock.now_ms += 3_500
        async with anyio.create_task_group() as group:
            group.start_soon(house.keeper.run)
            while len(house.clock.slept) < 4:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        assert house.clock.slept[:3] == [FLUSH_S - 3.5, FLUSH_S, FLUSH_S]


async def test_where_nothing_happens_nothing_is_written(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        house = House(store)
        await house.passes(FLUSH_S)
        assert (rows(tmp_path), house.keeper.written) == (0, 0)


async def test_the_line_is_looked_at(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await stored(store, birth(job(1, line_at=NOON)))
        house = House(store)
        await house.passes(FLUSH_S)
        (row,) = await house.keeper.rows("hour", SPANS["hour"].begins_at(house.clock.now()))
        assert (row.counted.in_line, row.counted.waits_ms) == (1, FLUSH_S * 1000)


async def test_months_of_work_leave_no_more_rows_than_there_are_buckets(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        house = House(store)
        for _ in range(60):
            await house.passes(SPANS["hour"].step_s, jobs=1)
        for _ in range(300):
            await house.passes(SPANS["week"].step_s, jobs=1)
        most = sum(span.count + 1 for span in SPANS.values())
        assert rows(tmp_path) <= most
        assert await house.made("week") == SPANS["week"].count - 1, "the last bucket begins now"


async def test_a_clock_that_was_a_year_ahead_leaves_nothing_behind(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        house = House(store)
        house.clock.now_ms += 365 * DAY_S * 1000
        await house.passes(0, jobs=1)
        house.clock.now_ms -= 365 * DAY_S * 1000
        await house.passes(FLUSH_S)  # what is counted now belongs to the moment before the leap
        await house.passes(FLUSH_S, jobs=1)
        assert rows(tmp_path) == len(SPANS)
        assert await house.made("hour") == 1


async def test_what_a_full_disk_does_not_take_is_written_later(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        house = House(store)

        async def full(*unit: Any) -> Any:
            raise StorageFull("no room")

        house.commit = full  # type: ignore[assignment]
        with pytest.raises(StorageFull):
            await house.passes(FLUSH_S, jobs=2)
        await house.keeper.close()  # says nothing
        house.commit = store.commit
        await house.passes(FLUSH_S, jobs=1)
        assert await house.made("hour") == 3


async def test_without_a_meter_that_counts_nothing_is_asked() -> None:
    world: Any = SimpleNamespace(meter=Meter(), clock=Clock())
    await ChartKeeper(world).flush()
