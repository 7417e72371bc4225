"""Work for outside workers: users take turns at what is equally urgent."""

import sqlite3
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrunner.store.features.turns import claimable as asked
from jobrunner.store.migrations import migrate

USERS = ("ada", "eve", "kim")
STATUSES = ("queued", "working")
NOW = 9
PLACE = {"workflow": "toy", "status": "queued", "job_type": None, "now": NOW, "limit": 9}
Kept = list[tuple[str, int, int, str]]


@pytest.fixture(scope="module")
def db() -> sqlite3.Connection:
    """A file without the laws that make a row need others."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    migrate(connection)
    connection.execute("PRAGMA foreign_keys = OFF")
    return connection


def filled(db: sqlite3.Connection, jobs: Kept) -> None:
    db.execute("DELETE FROM jobs")
    db.executemany(
        "INSERT INTO jobs (id, uid, workflow, definition, job_type, user_id, status, kind, version,"
        " beat, progress, priority, claim_at, paused, quota, created_at, updated_at, cost, credits,"
        " rest) VALUES (?, ?, 'toy', 1, 'plain', ?, ?, 'queued', 1, 0, 0, ?, ?, 0, 0, 0, 0, 0,"
        " 'none', '{}')",
        [(row, f"job-{row}", *one[::3], *one[1:3]) for row, one in enumerate(jobs, 1)],
    )


def modelled(jobs: Kept, statuses: tuple[str, ...], limit: int, last: str) -> list[str]:
    """The most urgent, then by how many turns one had, then users from the last on, then by age."""
    turns, places = Counter[tuple[int, str]](), list[tuple[tuple[int, int, bool, str], str]]()
    for row, (user_id, priority, claim_at, status) in enumerate(jobs, 1):
        if claim_at <= NOW and status in statuses:
            turns[priority, user_id] += 1
            turn = turns[priority, user_id]
            places.append(((-priority, turn, user_id <= last, user_id), f"job-{row}"))
    return [uid for _, uid in sorted(places)[:limit]]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(USERS),
            st.integers(-1, 1),
            st.integers(8, 10),
            st.sampled_from(STATUSES),
        ),
        max_size=24,
    ),
    st.sampled_from([("queued",), ("working",), STATUSES]),
    st.integers(1, 12),
    st.sampled_from(["", *USERS, "who has left"]),
)
def test_users_take_turns_and_the_oldest_of_each_is_first(
    db: sqlite3.Connection, jobs: Kept, statuses: tuple[str, ...], limit: int, last: str
) -> None:
    filled(db, jobs)
    found = asked.claimable(db, "toy", statuses, None, NOW, limit, last)
    assert list(found) == modelled(jobs, statuses, limit, last)


def counted(db: sqlite3.Connection, limit: int, last: str) -> tuple[tuple[str, ...], int]:
    """What is found, and with how many hundred steps of the file's engine."""
    steps = []
    db.set_progress_handler(lambda: steps.append(1), 100)
    try:
        return asked.claimable(db, "toy", ("queued",), None, NOW, limit, last), len(steps)
    finally:
        db.set_progress_handler(None, 0)


def test_many_who_have_much_are_read_no_further_than_is_wanted(db: sqlite3.Connection) -> None:
    """Of each of a hundred one or two, and not a hundred of each."""
    filled(db, [(f"user-{number:02}", 0, 0, "queued") for number in range(100)] * 50)
    found, steps = counted(db, 108, "")
    assert found == tuple(f"job-{row}" for row in range(1, 109))
    assert steps < 300


def test_who_has_much_there_costs_another_nothing(db: sqlite3.Connection) -> None:
    """Only heads are read, with the index that has them in order."""
    filled(db, [("eve", 0, 0, "queued")] * 5_000 + [("ada", 0, 0, "queued")])
    found, steps = counted(db, 2, "ada")
    assert found == ("job-1", "job-5001")
    assert steps < 10
    for question in (asked.HIGHEST, asked.NEXT_USER, asked.OLDEST):
        names = PLACE | {"below": 1, "priority": 0, "last": "", "user_id": "ada"}
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {question}", names)]
        assert ["jobs_to_claim" in step and "SEARCH" in step for step in plan] == [True], plan
