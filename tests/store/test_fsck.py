"""``db check`` finds what was broken on purpose, and nothing in a sound file."""

import sqlite3
from pathlib import Path

import pytest
from msgspec import structs

from jobrunner.core.units import Forget
from jobrunner.errors import Misconfigured
from jobrunner.store.fsck import check_alone, check_file
from tests.store.factory import (
    attempt,
    everything,
    moved,
    opened,
    plain_hop,
    priced,
    raw,
    stored,
)

pytestmark = pytest.mark.anyio
LEFT = "job-000001"
ENDED = "job-000002"


async def furnish(folder: Path) -> None:
    """A job at work (1), one that ended (2), one in line (3), one that was deleted (4)."""
    async with opened(folder) as store:
        await stored(store, everything(1))
        two = await stored(store, priced(2, line_at=5))
        two = await stored(store, moved(two, "working", line_at=None))
        ended = attempt(1, status="ended")
        await stored(
            store,
            structs.replace(moved(two, "done", "capture", credits="captured"), attempts=(ended,)),
        )
        await stored(store, priced(3, line_at=7))
        gone = await stored(store, priced(4))
        gone = await stored(store, moved(gone, "broken", "release", credits="released"))
        await store.commit(Forget(gone, 9, "ada"))
        assert await store.check() == ()


def bound(status: str, stage: str) -> str:
    """What that place was bound to at the last start."""
    return (
        f"INSERT INTO bindings SELECT id, '{status}', 'plain', '{stage}', 1, '', NULL, 0 "
        "FROM definitions; "
    )


PLANTED = [
    ("in line, bound to outside", bound("queued", "external"),
     "in line for a slot, but is bound to external"),
    ("in no line, bound to the house",
     bound("queued", "toy.work") + "UPDATE jobs SET line_at = NULL WHERE id = 3",
     "in no line, but is bound to toy.work"),
    ("for another stage", bound("working", "toy.other") + "UPDATE attempts SET status = 'due', "
     "attempt = json_remove(attempt, '$.started_at') WHERE job = 1",
     "for another stage than toy.other"),
    ("held outside, bound to the house",
     bound("working", "toy.work") + "UPDATE attempts SET holder = 'worker' WHERE job = 1",
     "somebody outside holds it unclaimed"),
    ("not passed on", bound("resting", "toy.work") + "UPDATE attempts SET status = 'ended'; "
     "UPDATE jobs SET status = 'resting', kind = 'waiting' WHERE id = 1",
     "rests in resting, though its run is live"),
    ("balance", "UPDATE accounts SET balance = balance + 5", "account ada: balance 21"),
    ("held", "UPDATE accounts SET held = held - 1", "sums up to"),
    ("balance after", ("DROP TRIGGER ledger_does_not_change; "
     "UPDATE ledger SET balance_after = 99 WHERE id = 2"), "ledger row 2 of ada"),
    ("settled twice", ("DROP INDEX ledger_once; DROP INDEX ledger_settled_once; "
     "INSERT INTO ledger (user_id, kind, amount, held_change, balance_after, held_after, job_id, "
     "run_id, reason, created_at) SELECT 'ada', 'release', 3, -3, balance + 3, held - 3, "
     f"'{ENDED}', 'run-2', '', 1 FROM accounts"), f"job {ENDED}: credits are captured"),
    ("credits", f"UPDATE jobs SET credits = 'none' WHERE uid = '{LEFT}'", "credits are none"),
    ("a hold of a deleted job", ("INSERT INTO ledger (user_id, kind, amount, held_change, "
     "balance_after, held_after, job_id, run_id, reason, created_at) SELECT 'ada', 'hold', -1, 1, "
     "balance - 1, held + 1, 'job-000004', 'other', '', 1 FROM accounts"),
     "job-000004, deleted: its ledger still holds 1"),
    ("timer", "INSERT INTO timers VALUES (2, 'retry', 5)", "still has the timer retry"),
    ("paused, says the column", f"UPDATE jobs SET paused = 1 WHERE uid = '{LEFT}'",
     f"job {LEFT}: its column says paused 1"),
    ("paused at the end", f"UPDATE jobs SET paused = 1 WHERE uid = '{ENDED}'", "still paused"),
    ("a bulk that is done too early", ("INSERT INTO bulks (uid, orders, actor, status, created_at, "
     "ended_at) VALUES ('b', '{}', 'root', 'done', 1, 2); "
     "INSERT INTO bulk_items (bulk, place, job_id) VALUES (1, 0, 'j')"),
     "bulk b is done, and 1 of its items"),
    ("lock", "INSERT INTO locks VALUES (2, 'job', 'r', 'stage', 1, NULL)", "still has the lock"),
    ("line", "UPDATE jobs SET line_at = 1 WHERE id = 2", "still has a place in line"),
    ("attempt", "UPDATE attempts SET status = 'due' WHERE job = 2", "has the open attempt 1"),
    ("attempts", ("INSERT INTO attempts SELECT job, 2, status, holder, epoch, attempt "
     "FROM attempts WHERE job = 1"), "2 attempts are open"),
    ("chain", "UPDATE history SET from_status = 'resting' WHERE job = 2 AND version = 2",
     "goes from resting to working at version 2, but it stood at queued"),
    ("birth", "DELETE FROM history WHERE job = 2 AND version = 1", "but it stood at None"),
    ("hop", "UPDATE history SET hop = 2 WHERE job = 2 AND version = 3", "has no hop 2 - 1"),
    ("end of history", "DELETE FROM history WHERE job = 2 AND version = 3",
     "status done at version 3, but its history ends with working"),
    ("no history", "DELETE FROM history WHERE job = 3", "ends with None"),
    ("future", "UPDATE history SET version = 9 WHERE job = 2 AND version = 3", "at version 9"),
    ("out of final", ("UPDATE history SET to_status = 'done' WHERE job = 2 AND version = 1; "
     "UPDATE history SET from_status = 'done' WHERE job = 2 AND version = 2"),
     "leaves the final state done"),
    ("kind", "DROP TRIGGER final_is_final; UPDATE jobs SET kind = 'active' WHERE id = 2",
     "refers to a row of states"),
    ("artifact", ("INSERT INTO artifacts "
     "SELECT job, name, 2, 1, created_at, \"by\", run_id, asset, value FROM artifacts"),
     "artifact draft has 2 current versions"),
    ("key", "UPDATE keys SET job_id = 'nowhere'", "leads to job nowhere"),
    ("tombstone", ("INSERT INTO tombstones "
     "(uid, user_id, workflow, status, created_at, deleted_at) "
     f"VALUES ('{LEFT}', 'ada', 'toy', 'done', 1, 1)"), "is there and has a tombstone"),
    ("tally", "UPDATE tally SET jobs = jobs + 1 WHERE status = 'working'",
     "1 jobs of toy are working, 0 of them in line; the tally says 2 and 0"),
    ("tally of nothing", "DELETE FROM tally WHERE status = 'queued'", "1 jobs of toy are queued"),
    ("unreadable", "UPDATE jobs SET rest = '{\"locks\": 5}' WHERE id = 1", "cannot be read"),
    ("timers apart", "DELETE FROM timers WHERE job = 1 AND purpose = 'limit'", "its timers differ"),
    ("locks apart", "DELETE FROM locks", "its locks differ"),
    ("attempt apart", "UPDATE attempts SET status = 'ended'", "its open attempt differs"),
    ("schedule apart", "INSERT INTO scheduled (job, schedule, mark) VALUES (3, 'nightly', '5')",
     "was made by schedule nightly for 5"),
    ("a firing without its job", ("INSERT INTO schedules (name, schedule, owner, up_to, made_by, "
     "made_at, changed_at) VALUES ('nightly', '{}', 'http', 0, 'root', 0, 0); INSERT INTO firings "
     "(schedule, mark, moment, how, outcome, job_id, at) "
     "VALUES ('nightly', '5', 5, 'due', 'fired', 'job-000003', 5)"),
     "schedule nightly fired 5 as job job-000003"),
    ("orphan", "DELETE FROM jobs WHERE id = 3", "refers to a row of jobs"),
    ("index", ("PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'CREATE INDEX "
     "jobs_of_user ON jobs (workflow)' WHERE name = 'jobs_of_user'"), "structure: row 1 missing"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "sentence"), [case[1:] for case in PLANTED],
                         ids=[case[0] for case in PLANTED])  # fmt: skip
async def test_what_was_broken_is_found(tmp_path: Path, sql: str, sentence: str) -> None:
    """R3 R5 R21: every rule of the check is broken once, and its sentence says what and where."""
    await furnish(tmp_path)
    path = str(tmp_path / "jobs.db")
    assert check_file(path) == ()
    with raw(tmp_path) as db:
        db.execute("PRAGMA foreign_keys = OFF")
        for statement in sql.split("; "):
            db.execute(statement)
    found = check_file(path)
    assert any(sentence in fault for fault in found), found


async def test_a_page_of_rubbish_is_found(tmp_path: Path) -> None:
    await furnish(tmp_path)
    path = tmp_path / "jobs.db"
    with raw(tmp_path) as db:
        page = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'ledger'").fetchone()[0]
    data = bytearray(path.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = b"\x5a" * 4096
    path.write_bytes(data)
    assert check_file(str(path)) != ()


async def test_a_check_changes_nothing_and_needs_no_service(tmp_path: Path) -> None:
    await furnish(tmp_path)
    path = tmp_path / "jobs.db"
    before = path.read_bytes()
    path.chmod(0o400)
    assert check_file(str(path)) == ()
    assert path.read_bytes() == before


async def test_a_check_reads_what_a_killed_process_left_in_the_wal(tmp_path: Path) -> None:
    """The file is copied with its WAL while it is in use: as good as killed."""
    (tmp_path / "live").mkdir()
    (tmp_path / "dead").mkdir()
    async with opened(tmp_path / "live") as store:
        await stored(store, everything(1))
        for name in ("jobs.db", "jobs.db-wal"):
            (tmp_path / "dead" / name).write_bytes((tmp_path / "live" / name).read_bytes())
    dead = tmp_path / "dead" / "jobs.db"
    assert len(dead.read_bytes()) <= 4096, "everything else is in the WAL"
    assert check_file(str(dead)) == ()


async def test_a_check_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be opened"):
        check_file(str(tmp_path / "nothing.db"))
    (tmp_path / "text.db").write_bytes(b"rubbish" * 1000)
    assert "damaged beyond reading" in check_file(str(tmp_path / "text.db"))[0]
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE t (x)")
    db.close()
    assert "another program" in check_file(str(tmp_path / "other.db"))[0]


def test_a_check_of_a_file_that_is_not_there_makes_nothing(tmp_path: Path) -> None:
    """Neither the file nor a lock beside it, which a later start would find."""
    with pytest.raises(Misconfigured, match="does not exist"):
        check_alone(str(tmp_path / "jobs.db"))
    assert list(tmp_path.iterdir()) == []


async def test_a_check_while_the_service_writes(tmp_path: Path) -> None:
    write = plain_hop(tmp_path)
    async with opened(tmp_path, writer_hop=write) as store:
        await stored(store, priced(1))
        assert await store.check() == ()
        await stored(store, priced(2))
        assert await store.check() == ()
    write.connection.close()
