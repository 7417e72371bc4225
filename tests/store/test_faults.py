"""What the store says when the disk is full, when it breaks, and when the process is killed."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jobrunner.core.decision import Clash
from jobrunner.core.questions import JobFilter
from jobrunner.errors import OutcomeUnknown, StorageError, StorageFull
from jobrunner.store.batch import Written
from jobrunner.store.hop import open_handle
from jobrunner.store.store import Store
from tests.store.factory import (
    PlainHop,
    Planted,
    birth,
    job,
    keyed,
    opened,
    plain_hop,
    priced,
    refused,
    stored,
)

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).resolve().parents[2]
ALL = JobFilter(limit=1000)


@asynccontextmanager
async def planted(folder: Path) -> AsyncIterator[tuple[Store, PlainHop, Planted]]:
    write, read = plain_hop(folder), plain_hop(folder)
    assert isinstance(write.connection, Planted)
    try:
        async with opened(folder, writer_hop=write, reader_hop=read) as store:
            yield store, write, write.connection
    finally:
        read.connection.close()
        write.connection.close()


async def together(store: Store, numbers: range) -> list[object]:
    """Births of big jobs, committed at the same time."""
    return await asyncio.gather(
        *(store.commit(birth(job(number, params={"text": "x" * 3000}))) for number in numbers),
        return_exceptions=True,
    )


async def numbers(store: Store) -> set[int]:
    return {found.created_at % 100_000 for found in (await store.reader.jobs(ALL)).jobs}


def limit_pages(connection: sqlite3.Connection, more: int) -> int:
    pages = int(connection.execute("PRAGMA page_count").fetchone()[0])
    return int(connection.execute(f"PRAGMA max_page_count = {pages + more}").fetchone()[0])


@pytest.mark.parametrize("room", [0, 1, 2, 3, 5, 8, 13, 21, 34])
async def test_a_full_disk_is_a_plain_no(tmp_path: Path, room: int) -> None:
    """R17: wherever in a batch the room ends, nothing is lost or invented, reads go on, and the
    service needs no restart when there is room again."""
    handle = await open_handle(str(tmp_path / "jobs.db"), make=True)
    try:
        async with opened(tmp_path, writer_hop=handle) as store:
            await stored(store, keyed(1, "old"))
            await handle(limit_pages, room)
            told = {1}
            for first in range(10, 50, 10):
                outcomes = await together(store, range(first, first + 10))
                for number, outcome in enumerate(outcomes, first):
                    assert isinstance(outcome, Written | StorageFull), outcome
                    told.update({number} if isinstance(outcome, Written) else ())
            assert len(told) < 41, "the test is meant to run out of room"
            assert await numbers(store) == {number % 100_000 for number in map(at, told)}
            await handle(limit_pages, 100_000)
            assert await refused(store, keyed(60, "old")) == "key"
            await stored(store, priced(61))
            assert await store.check() == ()
    finally:
        await handle.close()


def at(number: int) -> int:
    return job(number).created_at


WHERE = ["COMMIT", "SAVEPOINT", "INSERT INTO jobs", "INSERT INTO history", "RELEASE", "SELECT max"]


@pytest.mark.parametrize("gone", [True, False], ids=["rolled back", "still open"])
@pytest.mark.parametrize("where", WHERE)
async def test_full_at_any_statement_refuses_the_whole_batch(
    tmp_path: Path, where: str, gone: bool
) -> None:
    """R17: after SQLite has rolled back by itself no further statement runs, so the units behind
    the failed one are not written outside the transaction."""
    async with planted(tmp_path) as (store, write, db):
        write.statements.clear()
        db.plant(where, sqlite3.SQLITE_FULL, gone)
        outcomes = await together(store, range(6))
        assert [type(outcome) for outcome in outcomes] == [StorageFull] * 6
        assert "free some space" in str(outcomes[0])
        after = write.statements[write.statements.index("ROLLBACK") + 1 :]
        assert after == []
        assert not db.in_transaction
        assert (await store.reader.jobs(ALL)).jobs == ()
        outcomes = await together(store, range(6))
        assert all(isinstance(outcome, Written) for outcome in outcomes)
        assert await store.check() == ()


@pytest.mark.parametrize("gone", [True, False], ids=["rolled back", "still open"])
@pytest.mark.parametrize("where", WHERE)
async def test_any_other_error_of_the_disk_ends_all_writing(
    tmp_path: Path, where: str, gone: bool
) -> None:
    """R18: nobody knows what is in the file, everybody is told so, reads go on."""
    async with planted(tmp_path) as (store, write, db):
        await stored(store, priced(1))
        db.plant(where, sqlite3.SQLITE_IOERR_FSYNC, gone)
        outcomes = await together(store, range(10, 14))
        assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown] * 4
        ran = write.ran
        with pytest.raises(OutcomeUnknown, match="no more is written"):
            await store.commit(priced(2))
        with pytest.raises(OutcomeUnknown):
            await store.mark_alive()
        assert write.ran == ran, "the file is left alone"
        assert await store.reader.job(job(1).id) is not None
    async with opened(tmp_path) as again:
        life = await again.reader.last_life(again.epoch)
        assert life is not None
        assert life.ended_at is None, "such an end is no goodbye"


async def test_units_in_line_behind_a_lost_batch_are_not_tried(tmp_path: Path) -> None:
    async with planted(tmp_path) as (store, _, db):
        db.plant("COMMIT", sqlite3.SQLITE_IOERR, gone=False)
        outcomes = await together(store, range(600))
        assert {type(outcome) for outcome in outcomes} == {OutcomeUnknown}
        assert (await store.reader.jobs(ALL)).jobs == ()


async def test_a_lock_that_another_program_keeps_is_a_plain_no(tmp_path: Path) -> None:
    async with planted(tmp_path) as (store, _, db):
        db.plant("BEGIN", sqlite3.SQLITE_BUSY)
        with pytest.raises(StorageFull, match="write lock"):
            await store.commit(priced(1))
        await stored(store, priced(1))


async def test_a_rollback_that_fails_leaves_nobody_sure(tmp_path: Path) -> None:
    async with planted(tmp_path) as (store, _, db):
        db.plant("COMMIT", sqlite3.SQLITE_FULL, gone=False)
        plain = db.execute

        def no_rollback(sql: str, *rest: object) -> sqlite3.Cursor:
            if sql == "ROLLBACK":
                raise sqlite3.OperationalError("planted as well")
            return plain(sql, *rest)

        db.execute = no_rollback  # type: ignore[method-assign]
        with pytest.raises(OutcomeUnknown):
            await store.commit(priced(1))
        plain("ROLLBACK")


async def test_an_error_of_a_read_is_that_questions_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await stored(store, priced(1))
        lost = store.reader.jobs(JobFilter(limit="x"))  # type: ignore[arg-type]
        bad, good = await asyncio.gather(lost, store.reader.job(job(1).id), return_exceptions=True)
        assert isinstance(bad, Exception)
        assert good is not None
        assert not isinstance(good, BaseException)


async def test_a_read_that_the_disk_fails_is_a_storage_error(tmp_path: Path) -> None:
    read = plain_hop(tmp_path)
    async with opened(tmp_path, reader_hop=read) as store:
        db = read.connection
        assert isinstance(db, Planted)
        db.plant("SELECT coalesce(sum", sqlite3.SQLITE_IOERR_READ, gone=False)
        with pytest.raises(StorageError, match="counts"):
            await store.reader.counts()
        assert (await store.reader.counts()).in_line == 0
    db.close()


def acknowledged(child: "subprocess.Popen[str]", lines: int) -> Iterator[tuple[str, int]]:
    """What a committing process was told, up to so many lines and then until it is dead."""
    assert child.stdout is not None
    for count, line in enumerate(child.stdout):
        word, _, number = line.strip().partition(" ")
        if number:
            yield word, int(number)
        if count == lines:
            child.send_signal(signal.SIGKILL)


async def test_no_acknowledged_commit_is_lost_to_a_kill(tmp_path: Path) -> None:
    """R1: killed again and again at whatever it was doing, with all that was said by then kept."""
    told: dict[int, str] = {}
    for round_number in range(10):
        first = 1 + round_number * 10_000
        command = [sys.executable, "-m", "tests.store.endless", str(tmp_path), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
            said = acknowledged(child, 23 + 37 * round_number)
            told |= {number: word for word, number in said}
        async with opened(tmp_path, initial_credits=1_000_000) as store:
            for number, word in told.items():
                found = await store.reader.job(job(number).id)
                assert found is not None, f"{word} {number} was acknowledged and is lost"
                assert word == "born" or found.status == "done"
            assert await store.check() == ()
            assert store.epoch == 2 * (round_number + 1)
    assert len(told) > 100


async def test_a_clash_is_not_an_error(tmp_path: Path) -> None:
    async with planted(tmp_path) as (store, write, _):
        await stored(store, keyed(1, "k"))
        outcome = await store.commit(keyed(2, "k"))
        assert isinstance(outcome, Clash)
        assert "keys" in outcome.detail
        assert write.statements[-1] == "COMMIT"
