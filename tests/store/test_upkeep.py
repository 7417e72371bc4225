"""The file stays small by itself: its log beside readers of all kinds, and what nothing uses."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from jobrunner.core.keeping.retention import Prune, Pruned
from jobrunner.store.describing import TABLES, _estimated, _measured
from jobrunner.store.store import Store
from tests.store.factory import birth, job, moved, opened, raw, stored

pytestmark = pytest.mark.anyio
WAL_MAX = 8 * 1024**2
READER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN")
db.execute("SELECT count(*) FROM jobs").fetchone()
print("reads", flush=True)
sys.stdin.read()
"""


@contextmanager
def endless_reader(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that reads in the file until it is told to end."""
    command = [sys.executable, "-c", READER, str(folder / "jobs.db")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reads\n"
        yield process


def wal(folder: Path) -> int:
    return (folder / "jobs.db-wal").stat().st_size


async def fill(store: Store, folder: Path, size: int) -> None:
    """Write until the log is so large, or it is clear that it never will be."""
    for number in range(400):
        await stored(store, birth(job(_fresh(), params={"text": "x" * 50_000, "n": number})))
        if wal(folder) > size:
            return


def _fresh() -> int:
    _numbers[0] += 1
    return _numbers[0]


_numbers = [0]


async def test_the_log_is_cut_when_nobody_reads_in_it(tmp_path: Path) -> None:
    async with opened(tmp_path, wal_max=WAL_MAX) as store:
        with raw(tmp_path) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM jobs").fetchone()
            await fill(store, tmp_path, WAL_MAX)
            assert wal(tmp_path) > WAL_MAX
            held = await store.keeper.tend()
            assert held.too_large
        found = await store.keeper.tend()
        assert (found.too_large, found.wal_bytes, wal(tmp_path)) == (False, 0, 0)
        assert await store.check() == ()
        await stored(store, birth(job(_fresh())))


async def test_beside_short_readers_the_log_keeps_to_its_limit(tmp_path: Path) -> None:
    """One begins before the other ends, so SQLite never finds a moment to begin the log anew."""
    async with opened(tmp_path, wal_max=WAL_MAX) as store:
        sizes = []
        with raw(tmp_path) as one, raw(tmp_path) as two:
            for number in range(300):
                reader, other = (one, two) if number % 2 else (two, one)
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM jobs").fetchone()
                await stored(store, birth(job(_fresh(), params={"text": "x" * 100_000})))
                if other.in_transaction:
                    other.execute("COMMIT")
                if number % 20 == 19:
                    reader.execute("COMMIT")
                    await store.keeper.tend()
                sizes.append(wal(tmp_path))
        assert max(sizes) < WAL_MAX
        assert sum(sizes) > 0


async def test_who_reads_for_good_is_named(tmp_path: Path) -> None:
    """Nothing can cut a log that is read in; its size is told with the process that reads."""
    async with opened(tmp_path, wal_max=WAL_MAX) as store:
        await stored(store, birth(job(_fresh())))
        with endless_reader(tmp_path) as process:
            await fill(store, tmp_path, WAL_MAX)
            found = await store.keeper.tend()
            assert found.too_large
            assert found.wal_bytes == wal(tmp_path) > WAL_MAX
            assert [one.split(" (")[0] for one in found.readers] == [f"process {process.pid}"]
            process.stdin.close()  # type: ignore[union-attr]
            process.wait()
            assert not (await store.keeper.tend()).too_large
        assert wal(tmp_path) == 0


async def test_unused_pages_go_back_a_few_at_a_time(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        gone = []
        for _ in range(40):
            born = await stored(store, birth(job(_fresh(), params={"text": "x" * 30_000})))
            gone.append(Pruned(await stored(store, moved(born, "done"))))
        await store.commit(Prune(tuple(gone), 1))
        before = await store.keeper.tend()
        assert before.free_pages > 200
        left = await store.keeper.give_back(16)
        found = await store.keeper.tend()
        assert (left, found.free_pages) == (before.free_pages - 16, before.free_pages - 16)
        assert found.pages == before.pages - 16
        assert await store.keeper.give_back(100_000) == 0
        assert await store.keeper.give_back(10) == 0
        assert await store.check() == ()


async def test_a_file_written_anew_has_no_gaps_and_all_that_it_held(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        texts = {"text": "x" * 30_000}
        born = [await stored(store, birth(job(_fresh(), params=texts))) for _ in range(60)]
        kept, *others = born
        over = [await stored(store, moved(one, "done")) for one in others[::2]]
        await store.commit(Prune(tuple(map(Pruned, over)), 1))
        pages = (await store.keeper.tend()).pages
        await store.keeper.compact()
        found = await store.keeper.tend()
        assert found.free_pages == 0
        assert found.pages < pages * 2 // 3
        assert await store.reader.job(kept.id) == kept
        assert await store.check() == ()
    async with opened(tmp_path) as again:
        assert (await again.reader.job(kept.id)) is not None


async def test_each_page_belongs_to_one_table(tmp_path: Path) -> None:
    """Those beyond a row's own page, too."""
    async with opened(tmp_path) as store:
        for size in (10, 5000, 50_000):
            await stored(store, birth(job(_fresh(), params={"text": "x" * size})))
    with raw(tmp_path) as db:
        listed = (
            "SELECT sum(pgsize) FROM dbstat WHERE name NOT IN ('sqlite_schema', 'sqlite_sequence')"
        )
        tables = [name for (name,) in db.execute(TABLES).fetchall()]
        assert sum(_measured(db, name) for name in tables) == db.execute(listed).fetchone()[0]


@pytest.mark.long
def test_a_table_may_be_large(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "large.db", isolation_level=None)) as db:
        for pragma in ("page_size = 65536", "journal_mode = off", "synchronous = off"):
            db.execute(f"PRAGMA {pragma}")
        db.execute("CREATE TABLE large (data BLOB)")
        for _ in range(3):
            db.execute("INSERT INTO large VALUES (zeroblob(900000000))")
        assert 2_700_000_000 < _measured(db, "large") < 2_710_000_000


async def test_an_estimate_is_of_the_right_size(tmp_path: Path) -> None:
    """For an SQLite that was built without the table that tells exactly."""
    async with opened(tmp_path) as store:
        for _ in range(200):
            await stored(store, birth(job(_fresh(), params={"text": "x" * 700})))
    with raw(tmp_path) as db:
        for table in ("payloads", "history", "jobs"):
            exact = _measured(db, table)
            assert exact / 3 < _estimated(db, table) < exact * 2, table
