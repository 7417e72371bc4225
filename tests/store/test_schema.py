"""What the file itself refuses, whoever writes: raw SQL, without any of our code in between."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobrunner.core.units import Forget
from tests.store.factory import KINDS, everything, job, moved, opened, priced, raw, stored

pytestmark = pytest.mark.anyio


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[sqlite3.Connection]:
    """A file with a job of each status (their keys rise with the names below), one deleted job,
    and one with everything."""
    async with opened(tmp_path) as store:
        for number, status in enumerate(KINDS):
            await stored(store, priced(number, cost=1, status=status))
        whole = await stored(store, everything(50))
        assert whole.row == len(KINDS) + 1
        gone = await stored(store, priced(60, cost=1, status="broken"))
        await store.commit(Forget(gone, gone.created_at, "ada"))
    with raw(tmp_path) as connection:
        yield connection


def row_of(db: sqlite3.Connection, status: str) -> int:
    return int(db.execute("SELECT min(id) FROM jobs WHERE status = ?", (status,)).fetchone()[0])


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
async def test_every_pair_of_states(db: sqlite3.Connection, source: str, target: str) -> None:
    """R5: out of a final state leads nothing, by no path; the rest is for the core to judge."""
    row = row_of(db, source)
    change = "UPDATE jobs SET status = ?, kind = ? WHERE id = ?"
    if source == "done" and target != "done":
        with pytest.raises(sqlite3.IntegrityError, match="final state has no exit"):
            db.execute(change, (target, KINDS[target], row))
        assert db.execute("SELECT status FROM jobs WHERE id = ?", (row,)).fetchone() == ("done",)
    else:
        db.execute(change, (target, KINDS[target], row))


async def test_a_final_job_may_still_be_annotated(db: sqlite3.Connection) -> None:
    db.execute("UPDATE jobs SET version = version + 1 WHERE id = ?", (row_of(db, "done"),))


REFUSED = [
    ("P34: an unknown status", "UPDATE jobs SET status = 'unheard-of' WHERE id = 1", "FOREIGN KEY"),
    ("a kind that is not its status's", "UPDATE jobs SET kind = 'active' WHERE id = 1", "FOREIGN"),
    ("a final job made another", "UPDATE jobs SET definition = 2 WHERE id = 5", "no exit"),
    ("progress over 100", "UPDATE jobs SET progress = 101 WHERE id = 1", "CHECK"),
    ("progress below 0", "UPDATE jobs SET progress = -1 WHERE id = 1", "CHECK"),
    ("a priority out of range", "UPDATE jobs SET priority = 101 WHERE id = 1", "CHECK"),
    ("version 0", "UPDATE jobs SET version = 0 WHERE id = 1", "CHECK"),
    ("credits that are no state", "UPDATE jobs SET credits = 'lots' WHERE id = 1", "CHECK"),
    ("text for a number", "UPDATE jobs SET version = 'two' WHERE id = 1", "cannot store TEXT"),
    ("nothing for an owner", "UPDATE jobs SET user_id = NULL WHERE id = 1", "NOT NULL"),
    ("an id twice", "UPDATE jobs SET uid = (SELECT uid FROM jobs WHERE id = 2) WHERE id = 1",
     "UNIQUE"),
    ("a negative balance", "UPDATE accounts SET balance = -1", "CHECK"),
    ("less than nothing held", "UPDATE accounts SET held = -1", "CHECK"),
    ("a changed ledger", "UPDATE ledger SET amount = 1000 WHERE kind = 'grant'", "only grows"),
    ("a shorter ledger", "DELETE FROM ledger", "only grows"),
    ("money of a kind moved twice in a run", """
     INSERT INTO ledger (user_id, kind, amount, held_change, balance_after, held_after, job_id,
        run_id, reason, created_at)
     SELECT user_id, kind, amount, held_change, balance_after, held_after, job_id, run_id, '', 1
     FROM ledger WHERE kind = 'hold'
     """, "UNIQUE"),
    ("a hold that holds nothing", """
     INSERT INTO ledger (user_id, kind, amount, held_change, balance_after, held_after, job_id,
        run_id, reason, created_at) VALUES ('ada', 'hold', -1, 0, 1, 0, 'j', 'r', '', 1)
     """, "CHECK"),
    ("a charge without a job", """
     INSERT INTO ledger (user_id, kind, amount, held_change, balance_after, held_after, reason,
        created_at) VALUES ('ada', 'charge', -1, 0, 1, 0, '', 1)
     """, "CHECK"),
    ("money of a kind that is none", """
     INSERT INTO ledger (user_id, kind, amount, held_change, balance_after, held_after, reason,
        created_at) VALUES ('ada', 'gift', 1, 0, 1, 0, '', 1)
     """, "CHECK"),
    ("money of a stranger", """
     INSERT INTO ledger (user_id, kind, amount, held_change, balance_after, held_after, reason,
        created_at) VALUES ('nobody', 'grant', 1, 0, 1, 0, '', 1)
     """, "FOREIGN KEY"),
    ("a tombstone that changes its status", "UPDATE tombstones SET status = 'done'",
     "does not change"),
    ("history of no job", "UPDATE history SET job = 999 WHERE job = 1", "FOREIGN KEY"),
    ("a hop twice", "UPDATE history SET job = 2, version = 1 WHERE job = 1", "UNIQUE"),
    ("an attempt of no known standing", "UPDATE attempts SET status = 'lost'", "CHECK"),
    ("a lock of no known holder", "UPDATE locks SET holder = 'somebody'", "CHECK"),
    ("a state of no known kind", "UPDATE states SET kind = 'odd'", "CHECK"),
    ("a state that jobs are in", "DELETE FROM states WHERE name = 'queued'", "FOREIGN KEY"),
    ("a tally below nothing", "UPDATE tally SET jobs = -1", "CHECK"),
    ("an unknown role", "INSERT INTO tokens VALUES ('t', 'ada', 'god', x'00', 1, NULL, NULL, '[]')",
     "CHECK"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "why"), [case[1:] for case in REFUSED],
                         ids=[case[0] for case in REFUSED])  # fmt: skip
async def test_what_the_file_refuses(db: sqlite3.Connection, sql: str, why: str) -> None:
    """P34 P35 and R3 R5: enforced by the database, should every line above it be wrong."""
    with pytest.raises(sqlite3.IntegrityError, match=why):
        db.execute(sql)


async def test_every_settlement_of_a_hold_excludes_the_other(db: sqlite3.Connection) -> None:
    settle = """
        INSERT INTO ledger (user_id, kind, amount, held_change, balance_after, held_after, job_id,
            run_id, reason, created_at)
        SELECT 'ada', ?, ?, -1, balance, held, ?, 'run-0', '', 1 FROM accounts
    """
    db.execute(settle, ("release", 1, job(0).id))
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        db.execute(settle, ("capture", 0, job(0).id))


async def test_every_table_is_strict(db: sqlite3.Connection) -> None:
    tables = db.execute(
        "SELECT name, strict FROM pragma_table_list "
        "WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    ).fetchall()
    assert len(tables) > 15
    assert [name for name, strict in tables if not strict] == []


async def test_a_job_takes_with_it_what_hangs_on_it(db: sqlite3.Connection) -> None:
    row = len(KINDS) + 1
    hanging = ("payloads", "history", "attempts", "locks", "timers", "artifacts")
    for table in hanging:
        column = "SELECT count(*) FROM {} WHERE job = ?"
        assert db.execute(column.format(table), (row,)).fetchone()[0] > 0, table
    db.execute("DELETE FROM jobs WHERE id = ?", (row,))
    for table in hanging:
        assert db.execute(column.format(table), (row,)).fetchone() == (0,), table


async def test_what_is_asked_while_the_service_runs_needs_no_scan(db: sqlite3.Connection) -> None:
    """Each plan names an index; the full walk of a table is what must not be in it."""
    asked = [
        "SELECT 1 FROM jobs WHERE uid = 'x'",
        "SELECT 1 FROM jobs WHERE user_id = 'x' AND id < 9 ORDER BY id DESC LIMIT 1",
        (
            "SELECT 1 FROM jobs WHERE line_at IS NOT NULL AND stuck IS NULL AND paused = 0 "
            "ORDER BY priority DESC, line_at, id LIMIT 1"
        ),
        "SELECT 1 FROM attempts WHERE status = 'running' AND epoch < 3",
        (
            "SELECT 1 FROM timers t CROSS JOIN jobs j ON j.id = t.job WHERE t.due_at <= 5 "
            "ORDER BY t.due_at LIMIT 1"
        ),
        "SELECT 1 FROM ledger WHERE user_id = 'x' AND id < 9 ORDER BY id DESC LIMIT 1",
        "SELECT 1 FROM assets WHERE user_id = 'x' AND id < 9 ORDER BY id DESC LIMIT 1",
        "SELECT 1 FROM keys WHERE job_id = 'x'",
        "SELECT 1 FROM history WHERE job = 1 ORDER BY version, hop",
    ]
    for sql in asked:
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}")]
        assert not any("TEMP B-TREE" in step for step in plan), (sql, plan)
        assert all(
            "SEARCH" in step or ("SCAN" in step and "jobs_in_line" in step) for step in plan
        ), (sql, plan)


async def test_moving_after_the_cascade_is_still_refused(tmp_path: Path) -> None:
    """The version is compared even where the row is gone."""
    async with opened(tmp_path) as store:
        ended = await stored(store, priced(1, status="broken"))
        await store.commit(Forget(ended, 1, "ada"))
        outcome = await store.commit(moved(ended, "queued"))
        assert getattr(outcome, "reason", "") == "version"
