"""Files that earlier programs left behind. Each schema that was ever in use has one in ``stored/``,
as it was when the program of its time closed it."""

import gzip
import shutil
import sqlite3
from pathlib import Path

import pytest
from msgspec import structs

from jobrunner.core.decision import KeyRow
from jobrunner.core.questions import DoorQuestion
from jobrunner.store.migrations import latest
from tests.store.factory import NOON, keyed, moved, opened, raw, refused
from tests.store.factory import stored as written

pytestmark = pytest.mark.anyio


def schema_of(stored: Path) -> int:
    return int(stored.name.removeprefix("schema-").removesuffix(".db.gz"))


STORED = sorted((Path(__file__).parent / "stored").glob("schema-*.db.gz"), key=schema_of)
WITHOUT_TIMES = STORED[:2]  # schema 3 gave files the times that they had not


def unpacked(stored: Path, folder: Path) -> Path:
    with gzip.open(stored) as packed, (folder / "jobs.db").open("wb") as file:
        shutil.copyfileobj(packed, file)
    return folder / "jobs.db"


def told(folder: Path, question: str) -> list[tuple[object, ...]]:
    with raw(folder) as db:
        return db.execute(question).fetchall()


def test_every_schema_before_this_one_has_a_file() -> None:
    names = [stored.name for stored in STORED]
    assert names == [f"schema-{number}.db.gz" for number in range(1, latest())]


@pytest.mark.parametrize("stored", STORED, ids=lambda path: path.name)
async def test_it_opens_and_keeps_what_it_held(stored: Path, tmp_path: Path) -> None:
    """R20: every row of before is there, nothing breaks a law, and it is as new as a new file."""
    unpacked(stored, tmp_path)
    questions = (
        "SELECT uid, status, version, rest FROM jobs ORDER BY id",
        "SELECT user_id, balance, held FROM accounts ORDER BY user_id",
        "SELECT kind, amount, job_id FROM ledger ORDER BY id",
        "SELECT job, to_status, version FROM history ORDER BY seq",
    )
    before = [told(tmp_path, question) for question in questions]
    assert all(before)
    async with opened(tmp_path) as store:
        assert await store.check() == ()
        assert await store.reader.job(str(before[0][0][0])) is not None
    assert [told(tmp_path, question) for question in questions] == before
    assert told(tmp_path, "PRAGMA user_version") == [(latest(),)]


@pytest.mark.parametrize("stored", STORED, ids=lambda path: path.name)
async def test_it_becomes_what_a_new_file_is(stored: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    unpacked(stored, tmp_path)
    for folder in (tmp_path, tmp_path / "new"):
        async with opened(folder):
            pass
    assert shape(tmp_path) == shape(tmp_path / "new")


async def test_a_key_of_before_is_found_by_its_text(tmp_path: Path) -> None:
    """C35: schema 10 keeps short keys under their text, and this file has one under a digest."""
    unpacked(STORED[8], tmp_path)
    key = '["client","order-2"]'
    question = DoorQuestion("ada", "toy", key, None, quota=False, now=NOON)
    async with opened(tmp_path) as store:
        known = (await store.reader.door(question)).known
        assert known is not None
        assert known.snapshot is not None
        assert known.snapshot.id == "job-000002"
        assert [await refused(store, keyed(90 + number, key)) for number in range(2)] == ["key"] * 2
        again = (KeyRow(key, "new", "", takes_from=known.job_id),)
        ended = (moved(known.snapshot, "broken"),)
        await written(store, structs.replace(keyed(92, key), keys=again, also=ended))
        known = (await store.reader.door(question)).known
        assert known is not None
        assert (known.job_id, known.body_digest) == ("job-000092", "new")


@pytest.mark.parametrize("stored", WITHOUT_TIMES, ids=lambda path: path.name)
async def test_files_without_a_time_get_that_of_their_id(stored: Path, tmp_path: Path) -> None:
    """Files that stages had made were kept as of 1970, until the third schema."""
    unpacked(stored, tmp_path)
    rows = [
        ("019b76da-a800-7abc-8def-0123456789ab", 0, 1767225600000),
        ("019b76da-a801-7abc-8def-0123456789ab", 5, 5),
        ("no-uuid", 0, 0),
    ]
    with sqlite3.connect(tmp_path / "jobs.db") as db:
        db.executemany(
            "INSERT INTO assets (uid, user_id, asset_type, url, storage_path, sha256, created_at)"
            " VALUES (?, 'ada', 'image', '/x', 'x', '', ?)",
            [row[:2] for row in rows],
        )
    db.close()
    async with opened(tmp_path):
        pass
    for uid, _, created_at in rows:
        question = f"SELECT created_at FROM assets WHERE uid = '{uid}'"
        assert told(tmp_path, question) == [(created_at,)]


def shape(folder: Path) -> set[tuple[object, ...]]:
    """Tables, indexes and triggers, by what was said to make them."""
    return set(told(folder, "SELECT type, name, tbl_name, sql FROM sqlite_schema"))


def test_a_stored_file_is_what_it_says(tmp_path: Path) -> None:
    for stored in STORED:
        with sqlite3.connect(unpacked(stored, tmp_path)) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (schema_of(stored),)
        db.close()
