"""A file that is gone, another one in its place, one that cannot be read: what the store says."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from jobrunner.errors import Misconfigured, OutcomeUnknown, StorageError
from jobrunner.store.fsck import check_file
from jobrunner.store.rounds import InOrder, Rounds
from tests.store.factory import Planted, job, opened, plain_hop, priced, raw, stored

pytestmark = pytest.mark.anyio

GARBAGE = b"\x11" * 4096


def gone(path: Path) -> None:
    path.unlink()


def replaced(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    os.replace(copy, path)


def moved(path: Path) -> None:
    path.rename(path.with_name("aside"))


@pytest.mark.parametrize("ending", ["", "-wal", ".lock"])
@pytest.mark.parametrize("lose", [gone, replaced, moved])
async def test_nothing_is_acknowledged_that_a_new_start_would_not_find(
    tmp_path: Path, ending: str, lose: Callable[[Path], None]
) -> None:
    """R1: SQLite itself goes on writing to a file without a name, and says that all is well."""
    async with opened(tmp_path) as store:
        await stored(store, priced(1))
        assert (await store.condition()).fault == ""
        lose(tmp_path / f"jobs.db{ending}")
        assert f"jobs.db{ending} is" in (await store.condition()).lost
        with pytest.raises(OutcomeUnknown, match="start again"):
            await store.commit(priced(2))
        with pytest.raises(OutcomeUnknown, match="no more is written"):
            await store.mark_alive()


async def test_a_file_that_was_overwritten_is_unreadable(tmp_path: Path) -> None:
    """Also while the handles that work have every page in memory."""
    async with opened(tmp_path) as store:
        await stored(store, priced(1))
        await compacted(tmp_path)
        with (tmp_path / "jobs.db").open("r+b") as file:
            file.write(GARBAGE * ((tmp_path / "jobs.db").stat().st_size // len(GARBAGE)))
        found = await store.condition()
        assert "was overwritten" in found.unreadable
        assert not found.lost


async def compacted(folder: Path) -> None:
    """Everything is in the file, and nothing in its log."""
    with raw(folder) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


async def test_damage_somewhere_is_found_and_is_not_the_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await stored(store, priced(1))
        await compacted(tmp_path)
        with raw(tmp_path) as connection:
            where = "SELECT rootpage FROM sqlite_schema WHERE name = 'audit'"
            page = connection.execute(where).fetchone()[0]
            size = connection.execute("PRAGMA page_size").fetchone()[0]
        with (tmp_path / "jobs.db").open("r+b") as file:
            file.seek((page - 1) * size)
            file.write(GARBAGE)
        found = await store.condition()
        assert found.damaged
        assert not found.unreadable


async def test_a_later_start_on_the_same_file_is_noticed(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        with raw(tmp_path) as connection:
            connection.execute("INSERT INTO lives (started_at, seen_at) VALUES (1, 1)")
        assert "taken over" in (await store.condition()).lost


async def test_questions_that_failed_are_a_fault_for_one_look(tmp_path: Path) -> None:
    read = plain_hop(tmp_path)
    async with opened(tmp_path, reader_hop=read) as store:
        db = read.connection
        assert isinstance(db, Planted)
        db.plant("SELECT coalesce(sum", sqlite3.SQLITE_IOERR_READ, gone=False)
        with pytest.raises(StorageError):
            await store.reader.counts()
        assert "counts" in (await store.condition()).damaged
        assert (await store.condition()).fault == ""
    db.close()


@pytest.mark.parametrize("where", ["BEGIN", "COMMIT"])
async def test_a_transaction_that_fails_around_a_question_is_an_error_of_ours(
    tmp_path: Path, where: str
) -> None:
    """R18: raw errors of the database would end whoever asked, and with him the service."""
    read = plain_hop(tmp_path)
    async with opened(tmp_path, reader_hop=read) as store:
        await stored(store, priced(1))
        db = read.connection
        assert isinstance(db, Planted)
        db.plant(where, sqlite3.SQLITE_IOERR_READ, gone=False)
        asked = store.reader.job(job(1).id)
        said: object = (await asyncio.gather(asked, return_exceptions=True))[0]
        assert said == await store.reader.job(job(1).id) or type(said) is StorageError
        assert await store.reader.job(job(1).id) is not None
        assert not db.in_transaction
    db.close()


async def test_who_waits_is_told_when_a_round_is_ended_from_outside() -> None:
    """And is not cancelled himself: he would be gone without having answered anybody."""
    gate = anyio.Event()

    async def serve(asked: list[int]) -> list[int]:
        await gate.wait()
        return asked

    rounds: Rounds[int, int] = Rounds(serve, InOrder(1))
    asked = [asyncio.ensure_future(rounds.ask(number)) for number in range(2)]
    await anyio.wait_all_tasks_blocked()
    [task] = [task for task in asyncio.all_tasks() if task.get_name() == "store round"]
    task.cancel()
    said = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(one) for one in said] == [StorageError, StorageError]


async def test_a_look_makes_no_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        (tmp_path / "jobs.db").unlink()
        with pytest.raises(sqlite3.Error):
            await store.check()
        assert not (tmp_path / "jobs.db").exists()
    with pytest.raises(Misconfigured, match="cannot be opened"):
        check_file(str(tmp_path / "absent.db"))
    assert not (tmp_path / "absent.db").exists()
