"""Which jobs are due to go, and what stays of those that went: compared with a model that looks at
every job."""

import random
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from jobrunner.core.decision import Clash, DeadLetter, EventRow, Notification
from jobrunner.core.features.families.batches import BatchClosed, NewBatch
from jobrunner.core.job import Artifact, Asset, Snapshot
from jobrunner.core.keeping.retention import (
    Expire,
    FileIdle,
    FilesUsed,
    Lot,
    Prune,
    Pruned,
    RetentionTerms,
    RipeJob,
    StepLimits,
    WorkflowRetention,
)
from jobrunner.core.questions import DoorQuestion
from jobrunner.core.units import AuditRecord, Note, Shelve, Tried
from jobrunner.store.store import Store
from tests.store.factory import (
    NOON,
    birth,
    failure,
    job,
    keyed,
    moved,
    opened,
    priced,
    raw,
    refused,
    stored,
)

pytestmark = pytest.mark.anyio
DAY_MS = 86_400_000
LIMITS = StepLimits(jobs=16, rows=256, bytes=256 * 1024)


async def ended(store: Store, number: int, status: str = "done", at: int = NOON) -> Snapshot:
    born = await stored(store, birth(job(number, created_at=at, updated_at=at)))
    return await stored(
        store, structs.replace(moved(born, status), after=_at(moved(born, status).after, at))
    )


def _at(after: Snapshot, at: int) -> Snapshot:
    return structs.replace(after, updated_at=at)


async def due(
    store: Store, terms: RetentionTerms, now: int, limits: StepLimits = LIMITS
) -> set[str]:
    """The ids of all jobs that are due, page by page."""
    found: set[str] = set()
    for lot in await store.reader.due_lots(terms, now):
        after: tuple[int, int] | None = None
        while True:
            page = await store.reader.ripe_jobs(lot, after, limits)
            found |= {one.job.id for one in page.jobs}
            after = page.after
            if after is None:
                break
    return found


def expected(jobs: list[Snapshot], terms: RetentionTerms, now: int) -> set[str]:
    """By the words of the settings, one job at a time."""
    own = terms.workflows.get("toy", WorkflowRetention())
    going = set()
    for one in jobs:
        age_s = own.ages.get(one.status, terms.ended_s)
        if one.kind in ("settled", "final") and age_s and one.updated_at < now - age_s * 1000:
            going.add(one.id)
    counted = [
        one for one in jobs if one.kind in ("settled", "final") and own.ages.get(one.status) != 0
    ]
    if own.most is not None:
        excess = max(len(counted) - own.most, 0)
        counted.sort(key=lambda one: (one.updated_at, one.row))
        going |= {one.id for one in counted[:excess]}
    return going


@pytest.mark.parametrize("seed", range(12))
async def test_those_are_due_that_the_settings_say(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    now = NOON + 100 * DAY_MS
    async with opened(tmp_path) as store:
        jobs = []
        for number in range(chance.randint(0, 60)):
            status = chance.choice(("done", "broken", "queued", "resting"))
            at = now - chance.choice((0, 1, 10, 30, 31, 90)) * DAY_MS - chance.randint(0, 3)
            if status in ("done", "broken"):
                jobs.append(await ended(store, number, status, at))
            else:
                jobs.append(await stored(store, birth(job(number, status=status, updated_at=at))))
        for _ in range(8):
            ages = {
                status: chance.choice((0, 86_400, 30 * 86_400, 90 * 86_400))
                for status in ("done", "broken")
                if chance.random() < 0.6
            }
            most = chance.choice((None, None, 0, 5, 30))
            terms = RetentionTerms(
                ended_s=chance.choice((0, 10 * 86_400)),
                workflows={"toy": WorkflowRetention(ages, most)},
            )
            limits = StepLimits(chance.choice((1, 3, 64)), chance.choice((4, 1000)))
            assert await due(store, terms, now, limits) == expected(jobs, terms, now)


async def test_by_default_everything_is_kept(store: Store) -> None:
    await ended(store, 1)
    assert await store.reader.due_lots(RetentionTerms(), NOON + 10_000 * DAY_MS) == ()


async def pruned(store: Store, jobs: set[str] | tuple[RipeJob, ...], at: int = NOON) -> Any:
    found = [one.job for one in jobs if isinstance(one, RipeJob)]
    for one in jobs:
        if isinstance(one, str):
            read = await store.reader.job(one)
            assert read is not None
            found.append(read)
    return await store.commit(Prune(tuple(Pruned(one) for one in found), at))


async def test_what_goes_with_a_job_and_what_stays(tmp_path: Path) -> None:
    """DESIGN 8.7: key, events, ledger, audit and dead letter outlive it; nothing else does."""
    async with opened(tmp_path) as store:
        born = await stored(
            store,
            structs.replace(
                priced(1),
                keys=keyed(1, "key").keys,
                event=EventRow("e", "d", NOON),
                assets=(Asset("asset-1", "image", "/x", storage_path="ada/x/y", created_at=NOON),),
                artifacts=(),
                audits=(AuditRecord("SAFE_BLOCK", "ada"),),
                dead_letters=(DeadLetter("tired", failure()),),
            ),
        )
        over = await stored(store, moved(born, "done", "capture", credits="captured"))
        page = await store.reader.ripe_jobs(
            Lot("toy", "done", over.updated_at, over.row), None, LIMITS
        )
        assert page.jobs[0].paths == ("ada/x/y",)
        assert not isinstance(await pruned(store, page.jobs, NOON + 5), Clash)
        read = store.reader
        assert await read.job(born.id) is None
        assert await read.event(born.id, "e") == ("e", "d")
        stone = await read.tombstone(born.id)
        assert stone is not None
        assert (stone.status, stone.deleted_at) == ("done", NOON + 5)
        facts = await read.door(DoorQuestion("ada", "toy", "key", None, quota=False, now=NOON))
        assert facts.known is not None
        assert facts.known.snapshot is None
        assert [row.kind for row in await read.ledger("ada", 9, None)] == [
            "capture",
            "hold",
            "grant",
        ]
        assert [row.event for row in await read.audit(9, None)] == ["SAFE_BLOCK"]
        assert len(await read.dead_letters(9, None, False)) == 1
        assert (await read.counts()).by_status == ()
        assert await store.check() == ()
    with raw(tmp_path) as db:
        tables = ("jobs", "payloads", "history", "attempts", "artifacts", "assets", "events")
        left = [db.execute(f"SELECT count(*) FROM {one}").fetchone()[0] for one in tables]
        assert left == [0] * len(tables)


async def test_a_key_is_free_when_its_tombstone_has_gone(store: Store) -> None:
    born = await stored(store, structs.replace(keyed(1, "key"), event=EventRow("e", "d", NOON)))
    await stored(store, moved(born, "done"))
    await pruned(store, {born.id}, NOON)
    terms = RetentionTerms(keys_s=2 * 86_400)
    assert await store.reader.overdue(terms, NOON + 2 * DAY_MS, 100) == ()
    assert await refused(store, keyed(2, "key")) == "key"
    (found,) = await store.reader.overdue(terms, NOON + 2 * DAY_MS + 1, 100)
    assert (found.of, found.count) == ("keys", 1)
    await store.commit(Expire("keys", found.before, 10))
    assert await store.reader.tombstone(born.id) is None
    assert await store.reader.event(born.id, "e") is None
    await stored(store, keyed(2, "key"))
    assert await store.check() == ()


async def test_a_tombstone_stays_a_day_for_the_quota_counts_it(store: Store) -> None:
    born = await stored(store, birth(job(1)))
    await stored(store, moved(born, "done"))
    await pruned(store, {born.id}, NOON)
    assert await store.reader.overdue(RetentionTerms(keys_s=1), NOON + DAY_MS, 100) == ()
    assert await store.reader.overdue(RetentionTerms(keys_s=0), NOON + 9 * DAY_MS, 100) == ()


async def test_old_records_go_oldest_first_and_so_many_at_a_time(store: Store) -> None:
    for number in range(5):
        await store.commit(Note(AuditRecord("seen", "ada", {"n": number}), NOON + number))
        letter = DeadLetter("tired", failure())
        await stored(
            store,
            structs.replace(birth(job(number, updated_at=NOON + number)), dead_letters=(letter,)),
        )
    terms = RetentionTerms(audit_s=1, dead_letters_s=1)
    found = await store.reader.overdue(terms, NOON + 1003, 100)
    assert [(one.of, one.count) for one in found] == [("audit", 3), ("dead_letters", 3)]
    for one in found:
        await store.commit(Expire(one.of, one.before, 2))
    assert [row.fields["n"] for row in await store.reader.audit(9, None)] == [4, 3, 2]
    assert len(await store.reader.dead_letters(9, None, True)) == 3


async def test_batches_that_have_ended_go_by_their_end(store: Store) -> None:
    """One that is open stays, however old it is; by default they are kept for 30 days."""
    for number in range(3):
        await store.commit(NewBatch(f"b{number}", "ada", None, NOON))
    for number in range(2):
        await store.commit(BatchClosed(f"b{number}", NOON + number))
    terms = RetentionTerms(batches_s=1)
    assert await store.reader.overdue(terms, NOON + 1000, 100) == ()
    (found,) = await store.reader.overdue(terms, NOON + 1001, 100)
    assert (found.of, found.count) == ("batches", 1)
    await store.commit(Expire("batches", found.before, 10))
    assert [one.id for one in await store.reader.batches("ada", 9, None)] == ["b2", "b1"]


async def test_one_that_has_moved_on_keeps_all_of_its_step(store: Store) -> None:
    first, second = await ended(store, 1), await ended(store, 2, "broken")
    revived = await stored(store, moved(second, "queued"))
    unit = Prune((Pruned(first), Pruned(second)), NOON)
    assert await refused(store, unit) == "version"
    assert await store.reader.job(first.id) == first
    assert await store.reader.job(second.id) == revived
    assert await store.reader.tombstone(first.id) is None


async def test_a_step_is_bounded_by_jobs_rows_and_bytes(store: Store) -> None:
    for number in range(6):
        born = await stored(store, birth(job(number, params={"text": "x" * 5000})))
        await stored(store, moved(born, "done"))
    lot = Lot("toy", "done", NOON * 2, 2**60)

    async def sizes(limits: StepLimits) -> list[int]:
        found, after = [], None
        while True:
            page = await store.reader.ripe_jobs(lot, after, limits)
            found.append(len(page.jobs))
            after = page.after
            if after is None:
                return found

    assert await sizes(LIMITS) == [6]
    assert await sizes(StepLimits(jobs=4)) == [4, 2]
    assert await sizes(StepLimits(rows=6)) == [2, 2, 2]
    assert await sizes(StepLimits(bytes=12_000)) == [2, 2, 2]
    assert await sizes(StepLimits(bytes=1)) == [1] * 6


async def test_that_nothing_is_due_costs_the_same_however_many_there_are(tmp_path: Path) -> None:
    """The steps that SQLite makes, counted: those for a hundred jobs and those for one."""
    terms = RetentionTerms(ended_s=86_400, workflows={"toy": WorkflowRetention({}, 1000)})
    steps = []
    async with opened(tmp_path) as store:
        for number in range(100):
            await ended(store, number, at=NOON + number)
            if number in (0, 99):
                steps.append(await store.reader.ask(_steps, terms))
    assert steps[0] == steps[1] < 1000


def _steps(db: Any, terms: RetentionTerms) -> int:
    from jobrunner.store.keeping.retention import due_lots, overdue

    made = 0

    def count() -> int:
        nonlocal made
        made += 1
        return 0

    db.set_progress_handler(count, 1)
    try:
        assert due_lots(db, terms, NOON + DAY_MS) == ()
        assert overdue(db, RetentionTerms(audit_s=1, dead_letters_s=1), NOON, 100) == ()
    finally:
        db.set_progress_handler(None, 0)
    return made


def lone(number: int, at: int = NOON) -> Shelve:
    path = f"ada/file-{number}/x"
    asset = Asset(f"file-{number}", "input", "/x", path, 3, sha256="0" * 64, created_at=at)
    return Shelve(asset, "ada")


async def test_what_is_to_be_told_of_a_job_is_told_before_it_goes(store: Store) -> None:
    told = Notification("n1", "ada", "lane", "https://a.example/x", "job.ended", "{}")
    born = await stored(store, birth(job(1)))
    over = structs.replace(moved(born, "done"), notifications=(told,))
    first = await stored(store, over)
    second = await ended(store, 2, at=first.updated_at)
    lot = Lot("toy", "done", NOON * 2, 2**60)
    page = await store.reader.ripe_jobs(lot, None, LIMITS)
    assert ([one.job.id for one in page.jobs], page.held) == ([second.id], 1)
    (row,) = await store.reader.due_deliveries(NOON * 2, 9, (), ())
    await store.commit(Tried(row.row, 1, NOON, 5, 200, "", "delivered"))
    page = await store.reader.ripe_jobs(lot, None, LIMITS)
    assert {one.job.id for one in page.jobs} == {first.id, second.id}


async def test_a_file_that_a_job_names_is_looked_for_again_after_as_long(store: Store) -> None:
    read = store.reader
    await store.commit(lone(1))
    await store.commit(lone(2))
    draft = Artifact("draft", 1, {"of": "file-2"}, NOON, "ada", "run-1", "")
    await stored(store, birth(job(1, artifacts={"draft": draft}), artifacts=(draft,)))
    assert await read.idle_files(NOON, 9) is None
    found = await read.idle_files(NOON + 1, 9)
    assert found is not None
    assert found.files == (("file-1", "ada/file-1"), ("file-2", "ada/file-2"))
    naming = await read.naming("ada", ("file-1", "file-2"), 0, 10)
    assert naming.named == {"file-2"}
    assert not naming.more
    await store.commit(FilesUsed(("file-2",), NOON + 5))
    await store.commit(FileIdle("file-1", "ada/file-1", naming.after, NOON))
    assert await read.asset("file-1") is None
    assert await read.clearings(9) == ("ada/file-1",)
    assert await read.idle_files(NOON + 5, 9) is None
    again = await read.idle_files(NOON + 6, 9)
    assert again is not None
    assert await store.check() == ()


async def test_a_file_that_a_new_job_names_stays(store: Store) -> None:
    await store.commit(lone(1))
    naming = await store.reader.naming("ada", ("file-1",), 0, 10)
    assert naming.named == set()
    await stored(store, birth(job(1, params={"from": "file-1"})))
    assert await refused(store, FileIdle("file-1", "ada/file-1", naming.after, NOON)) == "missing"
    assert await store.reader.asset("file-1") is not None
