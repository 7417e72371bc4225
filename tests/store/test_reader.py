"""Questions and their answers, in the order and within the bounds that were promised."""

import asyncio
from pathlib import Path

import pytest
from msgspec import UNSET, structs

from jobrunner.core.decision import Decision, QuotaAssert
from jobrunner.core.job import Asset, Snapshot, Timer
from jobrunner.core.questions import DoorQuestion, DueTimer, JobFilter, OpenAttempt, Place
from jobrunner.store import listing
from jobrunner.store.features.turns import in_line
from jobrunner.store.store import Store
from tests.store.factory import (
    NOON,
    attempt,
    birth,
    counted,
    everything,
    job,
    keyed,
    moved,
    opened,
    plain_hop,
    priced,
    raw,
    stored,
)

pytestmark = pytest.mark.anyio
TOY = ("toy",)


async def born(store: Store, *snapshots: Snapshot) -> list[Snapshot]:
    return [await stored(store, birth(one)) for one in snapshots]


async def pages(store: Store, which: JobFilter) -> list[list[str]]:
    """All pages, each as the ids on it."""
    found = []
    for _ in range(100):
        page = await store.reader.jobs(which)
        found.append([one.id for one in page.jobs])
        if page.next_after is None:
            return found
        which = structs.replace(which, after=page.next_after)
    raise AssertionError("the pages do not end")


def ids(*numbers: int) -> list[str]:
    return [job(number).id for number in numbers]


# ------------------------------------------------------------------------------------- lists


async def test_a_list_shows_the_newest_first_without_the_bulk(store: Store) -> None:
    await stored(store, everything(1))
    await born(store, job(2), job(3))
    page = await store.reader.jobs(JobFilter(user_id="ada"))
    assert [one.id for one in page.jobs] == ids(3, 2, 1)
    assert page.next_after is None
    oldest = page.jobs[-1]
    assert (oldest.params, oldest.result, oldest.artifacts) == (UNSET, None, {})
    assert oldest.labels == {"team": "blue", "tier": "1"}


@pytest.mark.parametrize("oldest_first", [False, True])
async def test_pages_meet_without_gap_or_overlap(store: Store, oldest_first: bool) -> None:
    await born(store, *(job(number) for number in range(10)))
    which = JobFilter(limit=3, oldest_first=oldest_first)
    order = list(range(10)) if oldest_first else list(range(9, -1, -1))
    assert [one for page in await pages(store, which) for one in page] == ids(*order)
    assert [len(page) for page in await pages(store, which)] == [3, 3, 3, 1]
    assert [len(page) for page in await pages(store, structs.replace(which, limit=5))] == [5, 5]
    skipped = await store.reader.jobs(structs.replace(which, offset=8))
    assert [one.id for one in skipped.jobs] == ids(*order[8:])


async def test_a_page_stays_where_it_was_while_jobs_arrive(store: Store) -> None:
    await born(store, *(job(number) for number in range(6)))
    first = await store.reader.jobs(JobFilter(limit=3))
    await born(store, job(6), job(7))
    second = await store.reader.jobs(JobFilter(limit=3, after=first.next_after))
    assert [one.id for one in second.jobs] == ids(2, 1, 0)


@pytest.mark.parametrize(
    ("which", "found"),
    [
        (JobFilter(user_id="eve"), (2,)),
        (JobFilter(user_id="nobody"), ()),
        (JobFilter(workflow="toy"), (4, 3, 2, 1)),
        (JobFilter(workflow="other"), (5,)),
        (JobFilter(statuses=("resting", "done")), (4, 3)),
        (JobFilter(job_type="fancy"), (1,)),
        (JobFilter(labels=(("team", "blue"),)), (2, 1)),
        (
            JobFilter(
                labels=(("team", "blue"), ("a.b'$", "ü")),
            ),
            (1,),
        ),
        (JobFilter(labels=(("team", "red"),)), ()),
        (JobFilter(stuck=True), (4,)),
        (JobFilter(id_begins="job-00000"), (5, 4, 3, 2, 1)),
        (JobFilter(id_begins="job-000002"), (2,)),
        (JobFilter(id_begins="job-00000", limit=9, after=3, oldest_first=True), (4, 5)),
        (JobFilter(id_begins="job-00001"), ()),
        (JobFilter(user_id="ada", statuses=("queued",), job_type="fancy"), (1,)),
    ],
)
async def test_what_a_list_is_narrowed_to(
    store: Store, which: JobFilter, found: tuple[int, ...]
) -> None:
    await born(
        store,
        job(1, job_type="fancy", labels={"team": "blue", "a.b'$": "ü"}),
        job(2, user_id="eve", labels={"team": "blue"}),
        job(3, status="done"),
        job(4, status="resting", stuck="PARAMS_STALE"),
        job(5, workflow="other"),
    )
    page = await store.reader.jobs(which)
    assert [one.id for one in page.jobs] == ids(*found)
    assert page.next_after is None


@pytest.mark.parametrize("oldest_first", [False, True])
async def test_a_page_looks_at_so_many_rows_and_says_where_to_go_on(
    store: Store, monkeypatch: pytest.MonkeyPatch, oldest_first: bool
) -> None:
    """An empty page with a cursor: the one match is at the far end."""
    monkeypatch.setattr(listing, "ROWS_MAX", 4)
    rare = 9 if oldest_first else 0
    await born(store, *(job(n, job_type="rare" if n == rare else "plain") for n in range(10)))
    which = JobFilter(job_type="rare", oldest_first=oldest_first)
    assert await pages(store, which) == [[], [], ids(rare)]
    exact = structs.replace(which, limit=1)
    assert await pages(store, exact) == [[], [], ids(rare)]
    assert await pages(store, JobFilter(limit=100)) == [ids(9, 8, 7, 6, 5, 4, 3, 2, 1, 0)], (
        "nothing has to be looked at row by row"
    )


async def test_a_page_that_is_full_before_its_edge_goes_on_behind_its_last_job(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "ROWS_MAX", 4)
    await born(store, *(job(number) for number in range(10)))
    which = JobFilter(workflow="toy", limit=3)
    assert [one for page in await pages(store, which) for one in page] == ids(*range(9, -1, -1))


# ------------------------------------------------------------------------ what is to be done


async def test_the_line(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Priority before age; a stuck job does not stand in it."""
    await born(
        store,
        job(1, line_at=NOON + 5),
        job(2, line_at=NOON + 3, user_id="eve"),
        job(3, line_at=NOON + 9, priority=5),
        job(4, line_at=NOON, stuck="why"),
        job(5),
        job(6, line_at=NOON + 3),
        job(7, line_at=NOON, workflow="other"),
    )
    read = store.reader
    assert [one.job_id for one in await read.line(10, TOY)] == ids(3, 2, 6, 1)
    assert [one.job_id for one in await read.line(2, TOY)] == ids(3, 2)
    assert [one.job_id for one in await read.line(2, TOY, ("eve",))] == ids(3, 6)
    assert await read.line(10, ()) == ()
    for number, ahead in ((3, 0), (2, 1), (6, 2), (1, 3)):
        waiting = await read.job(job(number).id)
        assert waiting is not None
        assert await read.place(waiting, TOY) == Place(ahead, exact=True)
        monkeypatch.setattr(in_line, "AHEAD", 2)
        assert await read.place(waiting, TOY) == Place(min(ahead, 2), exact=ahead <= 2)
        monkeypatch.undo()
    first = (await read.line(1, ("other",)))[0]
    assert (first.user_id, first.workflow, first.status, first.job_type, first.line_at) == (
        "ada", "other", "queued", "plain", NOON,
    )  # fmt: skip
    assert (await read.counts()).in_line == 5
    counts = await read.counts()
    assert counts.by_status == (("other", "queued", 1), ("toy", "queued", 6))
    assert (counts.in_line, counts.timers) == (5, 0)


async def test_timers_earliest_first(store: Store) -> None:
    late = await stored(store, birth(job(1, timers=(Timer("deadline", 30), Timer("lease", 10)))))
    await born(
        store,
        job(2, timers=(Timer("retry", 20),)),
        job(3, timers=(Timer("retry", 5),), stuck="why"),
        job(4, timers=(Timer("retry", 7),), workflow="other"),
    )
    read = store.reader
    assert await read.due_timers(20, 10, TOY) == (
        DueTimer(late.id, "lease", 10),
        DueTimer(job(2).id, "retry", 20),
    )
    assert len(await read.due_timers(99, 2, (*TOY, "other"))) == 2
    assert await read.due_timers(20, 10, TOY, 20) == ()
    assert await read.next_timer(TOY) == 10
    assert await read.next_timer(TOY, 10) == 20
    assert await read.next_timer((*TOY, "other")) == 7
    assert await read.next_timer(()) is None
    await stored(store, moved(late, "resting", timers=(Timer("deadline", 31),)))
    assert await read.next_timer(TOY) == 20


async def test_what_an_outside_worker_may_take(store: Store) -> None:
    """Queued without a place in line, or an attempt that nobody holds, when its time has come."""
    due = attempt(1, stage="external")
    given = {
        1: job(1),
        2: job(2, priority=3),
        3: job(3, line_at=NOON),
        4: job(4, timers=(Timer("run_at", 50),)),
        5: job(5, status="working", attempt=due),
        6: job(6, status="working", attempt=structs.replace(due, not_before=70)),
        7: job(7, status="working", attempt=structs.replace(due, status="running", holder="w")),
        8: job(8, status="working", attempt=structs.replace(due, stage="toy.work")),
        9: job(9, status="resting"),
        10: job(10, stuck="why"),
        11: job(11, job_type="fancy"),
        12: job(12, workflow="other"),
    }
    for one in given.values():
        attempts = (one.attempt,) if one.attempt else ()
        await stored(store, birth(one, attempts=attempts))
    claimable = store.reader.claimable
    assert list(await claimable("toy", ("queued",), None, 10, 9)) == ids(2, 1, 11)
    assert list(await claimable("toy", ("queued", "working"), None, 10, 9)) == ids(2, 1, 5, 11)
    assert list(await claimable("toy", (), None, 70, 9)) == ids(2, 1, 4, 5, 6, 11)
    assert list(await claimable("toy", (), "fancy", 70, 9)) == ids(11)
    assert list(await claimable("toy", (), None, 70, 2)) == ids(2, 1)
    assert await claimable("none", (), None, 70, 2) == ()


async def test_attempts_that_died_with_an_earlier_process(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for number, part in enumerate(
            (
                {"status": "running", "holder": "stage"},
                {"status": "running", "holder": "worker-7"},
                {"status": "parked", "holder": "stage"},
                {"status": "ended", "holder": "stage"},
            )
        ):
            one = attempt(1, epoch=store.epoch, **part)
            await stored(store, birth(job(number, status="working", attempt=one), attempts=(one,)))
        assert await store.reader.open_attempts(store.epoch) == ()
    async with opened(tmp_path):
        pass
    async with opened(tmp_path) as later:
        assert await later.reader.open_attempts(later.epoch) == (
            OpenAttempt(job(0).id, 1, stage="toy.work"),
        )
        life = await later.reader.last_life(later.epoch)
        with raw(tmp_path) as db:
            first = db.execute("SELECT started_at, seen_at, ended_at FROM lives WHERE epoch = 1")
            assert life is not None
            assert structs.astuple(life) == first.fetchone(), "not of the one in between"


# --------------------------------------------------------------------------- single questions


async def test_what_is_not_there(store: Store) -> None:
    read = store.reader
    assert await read.job("x") is None
    assert await read.tombstone("x") is None
    assert await read.asset("x") is None
    assert await read.artifact("x", "y", None) is None
    assert await read.event("x", "y") is None
    assert await read.history("x") == ()
    assert await read.attempts("x") == ()
    assert await read.assets("x") == ()


async def test_the_door(store: Store) -> None:
    known = await stored(store, keyed(1, "k"))
    await stored(store, counted(2, QuotaAssert(open_jobs=9), created_at=NOON))
    question = DoorQuestion("ada", "toy", "k", "d", quota=True, now=NOON + 10)
    facts = await store.reader.door(question)
    assert facts.known is not None
    assert (facts.known.snapshot, facts.known.body_digest) == (known, "body-k")
    assert (facts.derived, facts.balance) == (None, 25)
    assert (facts.open_jobs, facts.last_minute, facts.last_day) == (1, 1, 1)
    plain = await store.reader.door(structs.replace(question, quota=False, key_digest=None))
    assert (plain.known, plain.open_jobs, plain.last_day) == (None, 0, 0)


async def test_the_library_and_the_ledger_go_page_by_page(store: Store) -> None:
    for number in range(5):
        asset = Asset(f"a{number}", "image", f"/{number}", created_at=NOON + number)
        await stored(store, structs.replace(priced(number, cost=1), assets=(asset,)))
    first = await store.reader.library("ada", 3, None)
    rest = await store.reader.library("ada", 3, first[-1].row)
    assert [row.asset.id for row in (*first, *rest)] == ["a4", "a3", "a2", "a1", "a0"]
    assert (first[0].job_id, first[0].user_id) == (job(4).id, "ada")
    assert await store.reader.library("eve", 3, None) == ()
    assert await store.reader.library(None, 3, None) == first
    assert await store.reader.library(None, 3, first[-1].row) == rest
    top = await store.reader.ledger("ada", 4, None)
    below = await store.reader.ledger("ada", 4, top[-1].id)
    assert [row.kind for row in (*top, *below)] == ["hold"] * 5 + ["grant"]


async def test_whatever_waits_is_answered_in_one_trip(tmp_path: Path) -> None:
    read = plain_hop(tmp_path)
    async with opened(tmp_path, reader_hop=read) as store:
        await stored(store, priced(1))
        before = read.ran
        found = await asyncio.gather(*(store.reader.job(job(1).id) for _ in range(60)))
        assert read.ran - before == 1
        assert len({one.id for one in found if one}) == 1
    read.connection.close()


async def test_a_reader_sees_what_was_just_committed(store: Store) -> None:
    one: Decision = priced(1)
    after = await stored(store, one)
    for progress in range(1, 30):
        step = structs.replace(after, progress=progress, beat=after.beat + 1)
        after = await stored(store, Decision(before=after, after=step))
        assert await store.reader.job(after.id) == after
