"""A copy made while the file is written; copies before migrations; plans of a restore."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

from jobrunner.core.keeping.backups import BackedUp, BackupFailed, Lost, RestorationTold
from jobrunner.errors import Misconfigured, StorageError
from jobrunner.ports import SystemChildren
from jobrunner.store.fsck import check_alone, check_copy
from jobrunner.store.keeping import backups
from jobrunner.store.keeping.backups import CopyStopped, facts_of
from jobrunner.store.keeping.migrating import migrate_alone
from jobrunner.store.keeping.restoring import (
    Renaming,
    RestorePlan,
    decide_restore,
    finish_restore,
    is_unfinished,
    lost_since,
    make_ready,
)
from jobrunner.store.migrations import latest
from jobrunner.store.store import Store
from tests.store.factory import NOON, birth, job, opened, raw, stored
from tests.store.test_stored import STORED, told, unpacked

pytestmark = pytest.mark.anyio
T = TypeVar("T")
COUNT = "SELECT count(*) FROM jobs"


async def grown(store: Store, first: int, last: int) -> None:
    for number in range(first, last):
        await stored(store, birth(job(number, params={"text": "x" * 2000})))


def jobs_in(place: Path) -> int:
    with closing(sqlite3.connect(f"{place.as_uri()}?immutable=1", uri=True)) as db:
        return int(db.execute(COUNT).fetchone()[0])


async def test_a_copy_has_all_that_was_committed_before_it_began(
    store: Store, tmp_path: Path
) -> None:
    await grown(store, 1, 51)
    place = tmp_path / "copy.db"
    as_of = await store.copy(str(place), SystemChildren(), lambda: True)
    assert as_of > NOON
    assert check_copy(str(place)) == ()
    assert jobs_in(place) == facts_of(str(place)).jobs == 50
    assert sorted(path.name for path in tmp_path.glob("copy.db*")) == ["copy.db"]


async def test_commits_go_on_between_two_steps_and_are_in_the_copy(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is let on only when a commit has come in between, and never begins again."""
    await grown(store, 1, 201)
    monkeypatch.setattr(backups, "STEP_PAGES", 8)
    loop, steps = asyncio.get_running_loop(), 0

    def commit_one(seconds: float) -> None:
        nonlocal steps
        steps += 1
        unit = birth(job(1000 + steps))
        asyncio.run_coroutine_threadsafe(stored(store, unit), loop).result(120)

    monkeypatch.setattr(backups, "rest", commit_one)
    place = tmp_path / "copy.db"
    await store.copy(str(place), SystemChildren(), lambda: True)
    assert steps > 10
    assert check_copy(str(place)) == ()
    assert jobs_in(place) == 200 + steps
    assert await store.check() == ()


async def test_a_copy_that_is_not_wanted_any_more_is_broken_off(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await grown(store, 1, 101)
    monkeypatch.setattr(backups, "STEP_PAGES", 1)
    answers = iter([True, True, False])
    with pytest.raises(CopyStopped):
        await store.copy(str(tmp_path / "copy.db"), SystemChildren(), lambda: next(answers))
    await grown(store, 101, 102)


async def test_a_copy_ends_before_its_handle_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the task that waited for it was called off."""
    monkeypatch.setattr(backups, "STEP_PAGES", 1)
    began, closed, late = asyncio.Event(), False, list[str]()
    loop = asyncio.get_running_loop()

    def wanted() -> bool:
        loop.call_soon_threadsafe(began.set)
        if closed:
            late.append("a step after the handle was closed")
        return True

    threads = Watched()
    async with opened(tmp_path) as store:
        await grown(store, 1, 101)
        copying = asyncio.create_task(store.copy(str(tmp_path / "copy.db"), threads, wanted))
        await began.wait()
        copying.cancel()
    closed = True
    await asyncio.to_thread(threads.over.wait)
    assert late == []


class Watched(SystemChildren):
    """Says when its thread is over, whoever waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.over = threading.Event()

    async def in_thread(self, function: Callable[[], T]) -> T:
        def watched() -> T:
            try:
                return function()
            finally:
                self.over.set()

        return await super().in_thread(watched)


async def test_a_place_that_cannot_be_written_is_said_and_costs_nobody_a_commit(
    store: Store, tmp_path: Path
) -> None:
    with pytest.raises(StorageError, match="cannot be written"):
        await store.copy(str(tmp_path / "no" / "copy.db"), SystemChildren(), lambda: True)
    await grown(store, 1, 2)


async def test_the_file_remembers_the_last_of_each_folder(store: Store) -> None:
    whole = BackedUp("/b", "2026", NOON, NOON + 1, 10, 5, 2)
    await store.commit(whole)
    await store.commit(BackupFailed("/b", NOON + 2, "no room"))
    await store.commit(BackupFailed("/c", NOON + 3, "no disk"))
    first, second = await store.reader.backups()
    assert (first.name, first.as_of, first.failure) == ("2026", NOON, "no room")
    assert (second.name, second.as_of, second.failed_at) == ("", None, NOON + 3)
    await store.commit(whole)
    assert (await store.reader.backups())[0].failed_at is None


@pytest.mark.parametrize("schema", STORED, ids=lambda path: path.name)
async def test_a_start_keeps_a_copy_before_it_migrates(schema: Path, tmp_path: Path) -> None:
    number = int(schema.name.removeprefix("schema-").removesuffix(".db.gz"))
    before = unpacked(schema, tmp_path).read_bytes()
    count = jobs_in(tmp_path / "jobs.db")
    async with opened(tmp_path) as store:
        assert store.brought is not None
        assert store.brought.schema == number
        copy = Path(store.brought.copy)
        assert await store.check() == ()
    assert copy.name == f"jobs.db.schema-{number}"
    assert copy.stat().st_mode & 0o777 == 0o600
    assert jobs_in(copy) == count
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (number,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    (tmp_path / "jobs.db").write_bytes(before)  # and it leads back
    async with opened(tmp_path) as again:
        assert await again.check() == ()


@pytest.mark.parametrize("schema", STORED, ids=lambda path: path.name)
def test_a_migration_can_be_tried(schema: Path, tmp_path: Path) -> None:
    path = str(unpacked(schema, tmp_path))
    number = int(schema.name.removeprefix("schema-").removesuffix(".db.gz"))
    shape = told(tmp_path, "SELECT * FROM sqlite_schema")
    tried = migrate_alone(path, dry_run=True, copies=True)
    assert (tried.schema, tried.steps) == (number, tuple(range(number + 1, latest() + 1)))
    assert told(tmp_path, "SELECT * FROM sqlite_schema") == shape
    assert told(tmp_path, "PRAGMA user_version") == [(number,)]
    assert not Path(tried.copy).exists()
    done = migrate_alone(path, dry_run=False, copies=True)
    assert done == tried
    assert Path(done.copy).exists()
    assert migrate_alone(path, dry_run=False, copies=True).steps == ()
    assert check_alone(path) == ()


def test_a_migration_without_a_copy_is_one_that_was_asked_for(tmp_path: Path) -> None:
    path = str(unpacked(STORED[0], tmp_path))
    (tmp_path / "jobs.db.schema-1.draft").mkdir()
    with pytest.raises(Misconfigured, match="--without-copy"):
        migrate_alone(path, dry_run=False, copies=True)
    assert told(tmp_path, "PRAGMA user_version") == [(1,)]
    assert migrate_alone(path, dry_run=False, copies=False).copy == ""
    assert check_alone(path) == ()


async def test_a_plan_is_carried_out_by_whoever_comes_next(tmp_path: Path) -> None:
    """Each renaming may have been done already, or not; none is done to a wrong file."""
    for done in range(3):
        folder = tmp_path / str(done)
        folder.mkdir()
        async with opened(folder):
            pass
        place, ready = folder / "jobs.db", folder / "jobs.db.ready"
        ready.write_bytes(place.read_bytes())
        make_ready(str(ready), "2026", NOON, NOON + 1000, Lost())
        moves = (Renaming(str(place), f"{place}.old", aside=True), Renaming(str(ready), str(place)))
        decide_restore(str(place), RestorePlan("2026", moves))
        for move in moves[:done]:
            Path(move.source).rename(move.target)
        assert is_unfinished(str(place))
        with pytest.raises(Misconfigured, match="cut off"):
            check_alone(str(place))
        async with opened(folder) as store:
            assert (found := await store.reader.restoration()) is not None
            assert (found.backup, found.since) == ("2026", NOON)
            assert await store.check() == ()
        assert sorted(path.name for path in folder.iterdir()) == [
            "jobs.db", "jobs.db.lock", "jobs.db.old"
        ]  # fmt: skip
        assert finish_restore(str(place)) is None


async def test_a_restored_file_numbers_on_from_above_what_was_told(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await grown(store, 1, 3)
        last = await store.reader.last_news()
    make_ready(str(tmp_path / "jobs.db"), "2026", NOON, NOON + 500, Lost(read=True, jobs_made=2))
    async with opened(tmp_path) as store:
        await grown(store, 3, 4)
        assert await store.reader.last_news() == last + 5000 + 1
        found = await store.reader.restoration()
        assert found is not None
        assert found.lost.jobs_made == 2
        await store.commit(RestorationTold(found.id, NOON))
        assert await store.reader.restoration() is None


async def test_the_file_that_is_replaced_is_asked_and_not_changed(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.db")
    assert lost_since(path, NOON) == Lost()
    async with opened(tmp_path) as store:
        await grown(store, 1, 4)
    before = (tmp_path / "jobs.db").read_bytes()
    found = lost_since(path, NOON + 2)
    assert (found.read, found.jobs_made, found.jobs_changed) == (True, 2, 2)
    assert (tmp_path / "jobs.db").read_bytes() == before
    (tmp_path / "jobs.db").write_bytes(b"no database" * 1000)
    assert lost_since(path, NOON) == Lost()


async def test_an_older_copy_is_examined_as_far_as_it_can_be(tmp_path: Path) -> None:
    path = unpacked(STORED[0], tmp_path)
    assert check_copy(str(path)) == ()
    assert check_copy(str(tmp_path / "none.db")) != ()
    with raw(tmp_path) as db:
        db.execute("PRAGMA journal_mode = delete")
    data = bytearray(path.read_bytes())
    data[-4096:] = b"\xff" * 4096
    path.write_bytes(data)
    assert check_copy(str(path)) != ()
