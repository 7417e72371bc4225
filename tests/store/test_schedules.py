"""Schedules in the file: a moment makes one job, whichever of its traces are left."""

from pathlib import Path

import pytest
from msgspec import structs

from jobrunner.core.decision import Clash, Decision
from jobrunner.core.features.schedules.schedules import (
    DropSchedule,
    HoldSchedule,
    KeepSchedule,
    MomentDone,
    Reached,
    Schedule,
)
from jobrunner.core.job import Paused, Scheduled
from jobrunner.core.keeping.retention import Expire, RetentionTerms
from jobrunner.core.questions import JobFilter
from jobrunner.core.units import Forget
from jobrunner.store.store import Store
from tests.store.factory import NOON, birth, job, moved, opened, stored

pytestmark = pytest.mark.anyio
NIGHTLY = Schedule("nightly", "toy", "ada", cron="@daily")


async def kept(store: Store) -> None:
    assert not isinstance(
        await store.commit(KeepSchedule(NIGHTLY, "http", "root", NOON, NOON, True)), Clash
    )


def fired(number: int, moment: int = NOON + 5) -> Decision:
    """The birth of a job for a moment, with its word."""
    mark = str(moment)
    made = birth(job(number, schedule=Scheduled("nightly", moment, mark)))
    return structs.replace(
        made, tick=MomentDone("nightly", mark, moment, NOON + 9, up_to=moment), keys=()
    )


async def test_a_birth_and_its_word_are_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await kept(store)
        made = await stored(store, fired(1))
        (one,) = await store.reader.schedules()
        assert (one.up_to, one.last_job, one.failed_at) == (NOON + 5, made.id, None)
        (row,) = await store.reader.firings("nightly", 9, None)
        assert (row.job_id, row.outcome, row.how) == (made.id, "fired", "due")
        assert await store.reader.job(made.id) == made
        found = await store.reader.jobs(JobFilter(schedule="nightly"))
        assert [one.id for one in found.jobs] == [made.id]
        assert (await store.reader.jobs(JobFilter(schedule="daily"))).jobs == ()


@pytest.mark.parametrize("left", ["both", "the job", "the firing"])
async def test_a_moment_makes_no_second_job(left: str, tmp_path: Path) -> None:
    """Also when its firing was forgotten, or its job was deleted."""
    async with opened(tmp_path) as store:
        await kept(store)
        made = await stored(store, fired(1))
        if left == "the job":
            await store.commit(Expire("firings", NOON + 100, 9))
            assert await store.reader.firings("nightly", 9, None) == ()
        if left == "the firing":
            ended = await stored(store, moved(made, "done"))
            await store.commit(Forget(ended, NOON + 50, "root"))
        assert await store.commit(fired(2)) == Clash(
            "tick", detail_of(await store.commit(fired(2)))
        )
        assert await store.reader.job("job-000002") is None
        assert await store.check() == ()


def detail_of(outcome: object) -> str:
    assert isinstance(outcome, Clash), outcome
    return outcome.detail


async def test_what_made_no_job_may_be_fired_by_hand(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await kept(store)
        refused = MomentDone("nightly", str(NOON + 5), NOON + 5, NOON + 6, outcome="refused",
                             code="QUOTA_EXCEEDED", up_to=NOON + 5)  # fmt: skip
        await store.commit(refused)
        (one,) = await store.reader.schedules()
        assert (one.up_to, one.failed_at, one.last_job) == (NOON + 5, NOON + 6, None)
        made = await stored(store, fired(1))
        (row,) = await store.reader.firings("nightly", 9, None)
        assert (row.outcome, row.job_id, row.code) == ("fired", made.id, "")


async def test_nothing_fires_for_a_schedule_that_is_gone(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await kept(store)
        await stored(store, fired(1))
        await store.commit(DropSchedule("nightly", "root", NOON))
        assert await store.reader.firings("nightly", 9, None) == ()
        assert detail_of(await store.commit(fired(2, NOON + 6))) == ""
        assert await store.reader.job("job-000002") is None
        assert (await store.reader.jobs(JobFilter(schedule="nightly"))).jobs != ()


async def test_pauses_and_how_far_it_has_come(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await kept(store)
        hold = HoldSchedule("nightly", Paused("root", NOON, "tea"), "root", NOON, "tea")
        assert not isinstance(await store.commit(hold), Clash)
        assert isinstance(await store.commit(hold), Clash)
        assert (await store.reader.schedules())[0].paused == hold.paused
        await store.commit(HoldSchedule("nightly", None, "root", NOON + 70))
        (one,) = await store.reader.schedules()
        assert (one.paused, one.up_to) == (None, NOON + 70)
        await store.commit(Reached("nightly", NOON + 3))
        assert (await store.reader.schedules())[0].up_to == NOON + 3
        again = KeepSchedule(NIGHTLY, "http", "root", NOON, NOON, fresh=True)
        assert isinstance(await store.commit(again), Clash)


async def test_firings_are_forgotten_when_they_are_old(tmp_path: Path) -> None:
    terms = RetentionTerms(firings_s=1)
    async with opened(tmp_path) as store:
        assert not store.scheduled
        await kept(store)
        await stored(store, fired(1))
        (due,) = await store.reader.overdue(terms, NOON + 5000, 9)
        assert (due.of, due.count) == ("firings", 1)
        await store.commit(Expire(due.of, due.before, 9))
        assert await store.reader.overdue(terms, NOON + 5000, 9) == ()
    async with opened(tmp_path) as store:
        assert store.scheduled
