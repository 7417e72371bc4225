"""Who may open the file, and how it is set when they have."""

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jobrunner.errors import Misconfigured
from jobrunner.ports import SystemClock
from jobrunner.store.hop import Handle, open_handle
from jobrunner.store.migrations import latest, migrate, statements, take_step
from jobrunner.store.opening import READER, WRITER, prepare_reader, prepare_writer, settings_of
from jobrunner.store.store import Store, open_store
from tests.store.factory import DECLARED, NOON, job, opened, plain_hop, raw

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).resolve().parents[2]


async def reopen(folder: Path) -> Store:
    return await open_store(str(folder / "jobs.db"), clock=SystemClock())


async def refusal(folder: Path) -> str:
    with pytest.raises(Misconfigured) as refused:
        await reopen(folder)
    return str(refused.value)


async def test_every_setting_is_what_was_asked_for(tmp_path: Path) -> None:
    """R1: WAL and FULL, on the handles that are really used."""
    path = str(tmp_path / "jobs.db")
    writer, reader = await open_handle(path, make=True), None
    try:
        await writer(prepare_writer, path, NOON)
        reader = await open_handle(path)
        await reader(prepare_reader, path)
        assert await writer(settings_of, tuple(WRITER)) == WRITER
        assert await reader(settings_of, tuple(READER)) == READER
        names = ("journal_mode", "auto_vacuum", "application_id", "user_version", "synchronous")
        found = await writer(settings_of, names)
        assert found == {
            "journal_mode": "wal",
            "auto_vacuum": 2,
            "application_id": 0x6A6F6272,
            "user_version": latest(),
            "synchronous": 2,
        }
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await reader.execute("DELETE FROM jobs")
    finally:
        if reader is not None:
            await reader.close()
        await writer.close()


async def test_a_setting_that_does_not_take_refuses_the_start(tmp_path: Path) -> None:
    """A database in memory has no WAL, and says so only when it is read back."""
    path = ":memory:"
    writer = Handle(lambda: sqlite3.connect(path, isolation_level=None), iter_chunk_size=64)
    await writer
    try:
        with pytest.raises(Misconfigured, match="did not take journal_mode = 'wal'"):
            await writer(prepare_writer, path, NOON)
    finally:
        await writer.close()


async def test_the_file_is_its_owners_alone(store: Store) -> None:
    for name in (store.path, f"{store.path}-wal", f"{store.path}.lock"):
        assert stat.S_IMODE(os.stat(name).st_mode) == 0o600, name


async def test_a_second_process_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    """R2: one process on a file, whoever came first."""
    command = [sys.executable, "-m", "tests.store.endless", str(tmp_path), "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "open\n"
            assert f"in use by process {child.pid}" in await refusal(tmp_path)
        finally:
            child.kill()
    store = await reopen(tmp_path)
    await store.close()


async def test_a_second_store_in_the_same_process_is_refused(store: Store, tmp_path: Path) -> None:
    assert f"in use by process {os.getpid()}" in await refusal(tmp_path)


async def test_the_lock_goes_with_the_close(tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        async with opened(tmp_path) as store:
            assert store.epoch == epoch


async def test_each_life_is_remembered(tmp_path: Path) -> None:
    async with opened(tmp_path) as first:
        assert await first.reader.last_life(first.epoch) is None
        await first.mark_alive()
    async with opened(tmp_path) as second:
        life = await second.reader.last_life(second.epoch)
        assert life is not None
        assert life.ended_at is not None
        assert life.started_at <= life.seen_at <= life.ended_at
        second.lock.release()
        async with opened(tmp_path) as third:
            assert (died := await third.reader.last_life(third.epoch)) is not None
            assert died.ended_at is None


async def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    """R20: an older program does not guess."""
    async with opened(tmp_path):
        pass
    with raw(tmp_path) as db:
        db.execute(f"PRAGMA user_version = {latest() + 1}")
    before = (tmp_path / "jobs.db").read_bytes()
    said = await refusal(tmp_path)
    assert f"schema {latest() + 1}" in said
    assert "jobs.db" in said
    assert (tmp_path / "jobs.db").read_bytes() == before


@pytest.mark.parametrize("application_id", [0, 77])
async def test_a_foreign_file_is_refused_and_left_alone(
    tmp_path: Path, application_id: int
) -> None:
    with raw(tmp_path) as db:
        db.execute(f"PRAGMA application_id = {application_id}")
        db.execute("CREATE TABLE theirs (x)")
    before = (tmp_path / "jobs.db").read_bytes()
    assert "another program" in await refusal(tmp_path)
    assert (tmp_path / "jobs.db").read_bytes() == before


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_bytes(b"not a database at all, but long enough" * 100)
    said = await refusal(tmp_path)
    assert "damaged" in said
    assert "restore" in said


async def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    """The schema page is overwritten behind the header."""
    async with opened(tmp_path):
        pass
    path = tmp_path / "jobs.db"
    data = bytearray(path.read_bytes())
    data[100:4096] = b"\xff" * 3996
    path.write_bytes(data)
    assert "damaged" in await refusal(tmp_path)


async def test_a_path_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").mkdir()
    assert "jobs.db" in await refusal(tmp_path)
    (tmp_path / "file").write_text("")
    assert "check [store] path" in await refusal(tmp_path / "file")


async def test_a_refused_start_leaves_no_lock_and_no_thread(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_bytes(b"rubbish" * 1000)
    await refusal(tmp_path)
    (tmp_path / "jobs.db").unlink()
    async with opened(tmp_path) as store:
        assert store.epoch == 1


async def test_an_interrupted_birth_goes_on(tmp_path: Path) -> None:
    """The process died between the marks of birth and the first table."""
    with raw(tmp_path) as db:
        db.execute("PRAGMA auto_vacuum = 2")
        db.execute(f"PRAGMA application_id = {0x6A6F6272}")
    async with opened(tmp_path) as store:
        assert await store.check() == ()


async def test_a_step_happens_whole_or_not_at_all() -> None:
    """R20: statements and number share one transaction."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        take_step(db, 1, "CREATE TABLE a (x);\nCREATE TABLE b (;\n")
    assert db.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    assert db.execute("PRAGMA user_version").fetchone() == (0,)
    assert not db.in_transaction
    migrate(db)
    assert db.execute("PRAGMA user_version").fetchone() == (latest(),)
    db.close()


def test_triggers_are_not_cut_in_two() -> None:
    text = "CREATE TRIGGER t AFTER INSERT ON a\nBEGIN\n  SELECT 1;\n  SELECT 2;\nEND;\nSELECT 3;\n"
    assert [piece.strip()[-4:] for piece in statements(text)] == ["END;", "T 3;"]


async def test_the_seam_takes_a_plain_connection(tmp_path: Path) -> None:
    """The same functions on a connection of the caller's, at a moment of the caller's choosing."""
    write, read = plain_hop(tmp_path), plain_hop(tmp_path)
    async with opened(tmp_path, writer_hop=write, reader_hop=read) as store:
        assert await store.reader.job(job(1).id) is None
        assert not isinstance(await store.commit(DECLARED), Exception)
    assert write.ran == 4
    write.connection.close()
    read.connection.close()
