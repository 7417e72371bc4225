"""What commits change is read from the log before anything overwrites it, and makes the same file:
whatever befalls the log, and wherever the copying is cut off."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from jobrunner.core.keeping.standby import CopiedChange, CopiedLine, ReachedChange
from jobrunner.ports import SystemChildren, SystemClock, since_boot
from jobrunner.store.hop import open_handle
from jobrunner.store.keeping.backups import StoreTurns
from jobrunner.store.keeping.standby.replaying import CopyReplay
from jobrunner.store.keeping.standby.tap import Pages, Tap
from jobrunner.store.keeping.upkeep import give_back, tend

pytestmark = pytest.mark.anyio
LINE = CopiedLine(1, 1)
STEPS = 100


class Copied:
    """A file under way, its tap, and the copy that follows."""

    def __init__(self, folder: Path, turns: StoreTurns, tap: Tap) -> None:
        self.path = folder / "jobs.db"
        self.turns, self.tap = turns, tap
        self.replay = CopyReplay(str(folder / "copy.db"))

    async def do(self, sql: str, *values: Any) -> None:
        await self.turns(lambda db: db.execute(sql, values))

    async def base(self) -> None:
        numbers: list[int] = []
        await self.turns.copied(
            str(self.replay.place),
            SystemChildren(),
            lambda: True,
            lambda: numbers.append(self.tap.begin()),
        )
        self.replay.say(ReachedChange(1, 1, numbers[0], 0))

    def follow(self) -> Pages | None:
        if (pages := self.tap.take()) is None:
            return None
        reached = self.replay.reached()
        assert reached is not None
        if pages.number > reached.number:
            assert pages.number == reached.number + 1
            numbers = tuple(sorted(pages.found))
            change = CopiedChange(
                number=pages.number,
                as_of=pages.as_of,
                page_bytes=pages.page_bytes,
                pages=pages.count,
                numbers=numbers,
            )
            data = b"".join(pages.found[number] for number in numbers)
            self.replay.apply(change, data, ReachedChange(1, 1, pages.number, 0))
        self.tap.copied()
        return pages

    async def same(self) -> None:
        """The same rows, the same pages, and no fault in them."""
        self.follow()
        live = await self.turns(contents)
        with closing(sqlite3.connect(f"{self.replay.place.as_uri()}?immutable=1", uri=True)) as db:
            assert contents(db) == live
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            [pages] = await self.turns(page_count)
            [page_bytes] = db.execute("PRAGMA page_size").fetchone()
            assert self.replay.place.stat().st_size == pages * page_bytes


def contents(db: sqlite3.Connection) -> list[Any]:
    return db.execute("SELECT id, text FROM t ORDER BY id").fetchall()


def page_count(db: sqlite3.Connection) -> Any:
    return db.execute("PRAGMA page_count").fetchone()


@asynccontextmanager
async def copied(folder: Path) -> AsyncIterator[Copied]:
    handle = await open_handle(str(folder / "jobs.db"), make=True)
    tap = Tap(str(folder / "jobs.db"), since_boot, SystemClock().now)
    turns = StoreTurns(handle, SystemClock(), tap.looked)
    for setting in ("auto_vacuum = 2", "journal_mode = wal", "wal_autocheckpoint = 20"):
        await turns(lambda db, said=setting: db.execute(f"PRAGMA {said}"))
    await turns(lambda db: db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)"))
    try:
        yield Copied(folder, turns, tap)
    finally:
        await turns.close()
        await handle.close()
        tap.close()


async def step(it: Copied, random: Random, number: int) -> None:
    """One of the things that befall the file."""
    match random.randrange(12):
        case 0:
            await it.do("DELETE FROM t WHERE id % 3 = ?", number % 3)
        case 1:
            await it.turns(give_back, random.randrange(1, 40))
        case 2:
            await it.turns(tend, random.choice([1, 64 * 1024**2]))
        case 3:
            await it.turns(rolled_back)
        case 4:
            await it.base()
        case 5 | 6:
            it.follow()
        case _:
            await it.do("INSERT INTO t (text) VALUES (?)", "x" * random.randrange(1, 30_000))


def rolled_back(db: sqlite3.Connection) -> None:
    """With more pages than stay in memory, so that some of them reach the log."""
    db.execute("PRAGMA cache_size = 2")
    db.execute("BEGIN IMMEDIATE")
    for _ in range(20):
        db.execute("INSERT INTO t (text) VALUES (?)", ("y" * 9_000,))
    db.execute("ROLLBACK")


@pytest.mark.parametrize("seed", range(2))
async def test_the_copy_is_the_file_whatever_befalls_its_log(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    async with copied(tmp_path) as it:
        await it.base()
        for number in range(STEPS):
            await step(it, random, number)
            if not random.randrange(10):
                await it.same()
        await it.same()


async def test_what_is_taken_is_behind_until_it_is_copied(tmp_path: Path) -> None:
    async with copied(tmp_path) as it:
        await it.base()
        assert it.tap.take() is None
        await it.do("INSERT INTO t (text) VALUES ('a')")
        since = it.tap.since
        assert since is not None
        taken = it.tap.take()
        assert it.tap.since == since
        await it.do("INSERT INTO t (text) VALUES ('b')")
        assert it.tap.take() is taken, "it was not copied, so it comes again"
        it.tap.copied()
        assert it.tap.since is not None
        assert it.tap.since > since


async def test_a_change_that_was_cut_off_is_written_again(tmp_path: Path) -> None:
    async with copied(tmp_path) as it:
        await it.base()
        await it.do("INSERT INTO t (text) VALUES (?)", "x" * 50_000)
        said, it.replay.say = it.replay.say, cut_off  # type: ignore[method-assign]
        with pytest.raises(OSError, match="cut off"):
            it.follow()
        it.replay.say = said  # type: ignore[method-assign]
        await it.same()


def cut_off(reached: ReachedChange) -> None:
    raise OSError("cut off")
