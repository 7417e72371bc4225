"""The census, against questions that read every row, and that it reads no more than rests."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jobrunner.core.keeping.census import BatchCensus, OpenChildren, RestingJobs
from jobrunner.core.keeping.retention import RetentionTerms, WorkflowRetention
from jobrunner.store.features.families.families import children_named
from jobrunner.store.keeping import census as asked
from jobrunner.store.keeping.census import census
from tests.store.test_gauges import made, put

pytestmark = pytest.mark.anyio

NOW = 1_000_000
STATES = {"w": "waiting", "q": "queued", "a": "active", "s": "settled", "f": "final"}
KEPT = RetentionTerms()


async def filled(path: Path, jobs: int, luck: random.Random) -> sqlite3.Connection:
    """Jobs of two workflows in every state, some of them held; and one workflow without any."""
    await made(path)
    db = sqlite3.connect(path, isolation_level=None)
    for number, workflow in enumerate(("one", "two"), 1):
        db.execute(
            "INSERT INTO definitions (id, name, digest, version, data, stored_at) "
            "VALUES (?, ?, ?, '1', x'00', 1)",
            (number, workflow, workflow),
        )
        for state in STATES.items():
            db.execute("INSERT INTO states VALUES (?, ?, ?)", (number, *state))
    db.execute("INSERT INTO tally VALUES ('none', 'w', 0, 0)")
    for number in range(jobs):
        definition, workflow = luck.choice(((1, "one"), (2, "two")))
        status = luck.choice([*STATES])
        claim = {"claim_at": luck.choice((0, 5, NOW + 5))}
        held: list[dict[str, object]] = [{}, {}, {"stuck": "x"}, {"paused": 1}, {**claim}]
        how = luck.choice(held)
        about = {"status": status, "kind": STATES[status], "updated_at": luck.randint(10, NOW)}
        put(db, number, definition=definition, workflow=workflow, **about, **how)
        db.execute(
            "INSERT INTO tally VALUES (?, ?, 1, 0) ON CONFLICT DO UPDATE SET jobs = jobs + 1",
            (workflow, status),
        )
    return db


SLOW = {
    "stuck": ("NULL", "stuck IS NOT NULL"),
    "paused": ("NULL", "paused = 1"),
    "unclaimed": ("min(max(claim_at, updated_at))", f"claim_at <= {NOW}"),
    "waiting": ("min(updated_at)", "kind = 'waiting'"),
}


async def test_it_counts_what_rests_by_workflow(tmp_path: Path) -> None:
    with closing(await filled(tmp_path / "jobs.db", 400, random.Random(5))) as db:
        found = census(db, KEPT, NOW)
        for name, (since, where) in SLOW.items():
            question = (
                f"SELECT workflow, count(*), {since} FROM jobs NOT INDEXED WHERE {where} "
                "GROUP BY workflow ORDER BY workflow"
            )
            counted = [RestingJobs(*row) for row in db.execute(question)]
            assert len(counted) == 2, name
            assert getattr(found, name) == (RestingJobs("none", 0), *counted), name
        assert not db.in_transaction


async def test_dead_letters_that_are_on_no_list_are_nobodys_alarm(tmp_path: Path) -> None:
    with closing(await filled(tmp_path / "jobs.db", 0, random.Random(5))) as db:
        assert (census(db, KEPT, NOW).dead_letters, census(db, KEPT, NOW).dead_letter_at) == (
            0,
            None,
        )
        for at, hidden in ((7, 0), (9, 0), (11, 1)):
            db.execute(
                "INSERT INTO dead_letters (at, job_id, workflow, user_id, reason, failure_code,"
                " failure_message, failed_stage, hidden)"
                " VALUES (?, 'j', 'w', 'u', '', '', '', '', ?)",
                (at, hidden),
            )
        found = census(db, KEPT, NOW)
    assert (found.dead_letters, found.dead_letter_at) == (2, 9)


GONE = "SELECT count(*) FROM jobs WHERE updated_at <"
ENDED = "kind IN ('settled', 'final')"


@pytest.mark.parametrize(
    ("terms", "due"),
    [
        (KEPT, "SELECT 0"),
        (RetentionTerms(ended_s=200), f"{GONE} 800000 AND {ENDED}"),
        (
            RetentionTerms(workflows={"one": WorkflowRetention({"f": 500}, None)}),
            f"{GONE} 500000 AND workflow = 'one' AND status = 'f'",
        ),
        (
            RetentionTerms(workflows={"one": WorkflowRetention({}, 10)}),
            f"SELECT count(*) - 10 FROM jobs WHERE {ENDED} AND workflow = 'one'",
        ),
        (
            RetentionTerms(ended_s=200, workflows={"one": WorkflowRetention({}, 3)}),
            f"SELECT sum(updated_at < 800000 OR workflow = 'one') - 3 FROM jobs WHERE {ENDED}",
        ),
    ],
    ids=["kept", "by age", "by status", "by number", "by both"],
)  # fmt: skip
async def test_what_retention_is_behind_with(
    tmp_path: Path, terms: RetentionTerms, due: str
) -> None:
    with closing(await filled(tmp_path / "jobs.db", 400, random.Random(5))) as db:
        assert census(db, terms, NOW).retained == db.execute(due).fetchone()[0]


async def test_families_and_batches_are_counted_while_they_go_on(tmp_path: Path) -> None:
    with closing(await filled(tmp_path / "jobs.db", 40, random.Random(5))) as db:
        assert (census(db, KEPT, NOW).children, census(db, KEPT, NOW).parents) == ((), 0)
        bear(db, range(2, 40))
        db.execute("INSERT INTO family_waits VALUES (1, 1, 5, NULL, 1)")
        for number, (is_open, unended, ended_at) in enumerate(BATCHES):
            db.execute(
                "INSERT INTO batches (uid, user_id, open, unended, created_at, ended_at)"
                " VALUES (?, 'u', ?, ?, 1, ?)",
                (str(number), is_open, unended, ended_at),
            )
        found = census(db, KEPT, NOW)
        counted = db.execute(
            "SELECT c.workflow, j.kind, count(*) FROM children c JOIN jobs j ON j.id = c.job"
            " WHERE c.ended = 0 GROUP BY 1, 2"
        )
        assert found.children == tuple(OpenChildren(*row) for row in counted)
        assert sum(one.jobs for one in found.children) == 19
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {asked.CHILDREN}")]
        assert plan[:2] == [
            "SCAN c USING INDEX children_open",
            "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
        ]
    assert (found.parents, found.batches) == (1, BatchCensus(open=2, running=1, jobs=7))


BATCHES = ((1, 0, None), (1, 3, None), (0, 4, None), (0, 0, 9))


def bear(db: sqlite3.Connection, jobs: range) -> None:
    """The first job has these as children; every second one goes on."""
    for job in jobs:
        db.execute(
            "INSERT INTO children (parent, job, uid, run_id, key, at_end, ended, user_id, workflow,"
            " at) VALUES (1, ?, ?, 'run', ?, 'cancel', ?, 'u', 'one', 1)",
            (job, f"child-{job}", f"key-{job}", job % 2),
        )


async def test_a_look_at_a_few_children_reads_none_of_their_siblings(tmp_path: Path) -> None:
    """A parent looks at all of them, some at a time."""
    with closing(await filled(tmp_path / "jobs.db", 300, random.Random(5))) as db:
        parent = db.execute("SELECT uid FROM jobs WHERE id = 1").fetchone()[0]
        steps = []
        for first, last in ((2, 20), (20, 300)):
            bear(db, range(first, last))
            steps.append(seen_in_steps(db, parent))
        assert steps[1] == steps[0]


def seen_in_steps(db: sqlite3.Connection, parent: str) -> int:
    """How many steps SQLite takes for a look at three children, one of them named twice."""
    steps = [0]

    def count() -> int:
        steps[0] += 1
        return 0

    db.set_progress_handler(count, 1)
    try:
        named = ("child-3", "child-7", "child-5", "child-7", "nobody")
        found = children_named(db, parent, named)
    finally:
        db.set_progress_handler(None, 0)
    assert sorted(row.job_id for row in found) == ["child-3", "child-5", "child-7"]
    return steps[0]


async def test_no_question_reads_every_job(tmp_path: Path) -> None:
    """The plan of each names an index that holds what rests, and no scan of a table."""
    with closing(await filled(tmp_path / "jobs.db", 10, random.Random(5))) as db:
        for question in (asked.STUCK, asked.PAUSED, asked.UNCLAIMED, asked.WAITING, asked.DEAD):
            plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {question}", {"now": 1})]
            read = [step for step in plan if step.startswith(("SCAN", "SEARCH"))]
            assert read
            assert all("INDEX" in step for step in read), plan
