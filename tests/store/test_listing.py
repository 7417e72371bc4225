"""Whatever a list can be asked for is looked at."""

import sqlite3
from typing import Any

import msgspec
import pytest
from msgspec import structs
from msgspec.structs import fields

from jobrunner.core.questions import JobFilter
from jobrunner.http.routes.jobs.jobs import JobsQuery
from jobrunner.store import listing, rows
from jobrunner.store.listing import NARROW, jobs
from jobrunner.store.migrations import migrate

ELSEWHERE = {
    *("user_id", "after", "oldest_first", "id_begins", "parent", "batch"),  # a walk along an index
    *("statuses", "kinds", "labels", "param_values"),  # as many conditions as there are values
    "text",  # looked for in several places
    *("limit", "offset"),
}
ASKED_AS = {"statuses": "status", "labels": "label", "oldest_first": "order", "after": "cursor"}
ASKED_AS |= {"id_begins": "id", "kinds": "kind", "param_values": "param"}
NOT_ASKED_FOR = {"workflows"}  # what a token is bound to
APART = {"id", "uid", "definition", "quota"}  # given at birth by the statement itself


def test_every_field_of_a_filter_narrows_the_list() -> None:
    """A field that the store forgot would be taken at the door and change nothing."""
    assert {field.name for field in fields(JobFilter)} == NARROW.keys() | ELSEWHERE


def test_every_field_of_a_filter_can_be_asked_for() -> None:
    """One that no query leads to would be a column that nobody can select by."""
    asked = {field.name for field in fields(JobsQuery)}
    wanted = {field.name for field in fields(JobFilter)} - NOT_ASKED_FOR
    assert {ASKED_AS.get(name, name) for name in wanted} <= asked


@pytest.mark.parametrize("which", [{}, {"user_id": "ada"}, {"after": 9}, {"oldest_first": True}])
def test_jobs_are_found_by_the_beginning_of_their_ids_in_an_index(which: dict[str, Any]) -> None:
    """However many jobs there are: no step of the plan walks through all of them."""
    plan = planned(JobFilter(id_begins="019a1b2c", **which))
    assert any("SEARCH j USING INDEX sqlite_autoindex_jobs_1" in step for step in plan), plan
    assert not any(step.startswith("SCAN j") for step in plan), plan


@pytest.mark.parametrize("bound", ["created_from", "created_before"])
@pytest.mark.parametrize("which", [{}, {"user_id": "ada"}, {"after": 9}, {"oldest_first": True}])
def test_of_a_time_only_its_own_jobs_are_looked_at(bound: str, which: dict[str, Any]) -> None:
    """Two looks into the index of ids say between which numbers they lie."""
    asked: dict[str, Any] = {bound: 1_767_225_600_000, **which}
    plan = planned(JobFilter(**asked))
    assert any("sqlite_autoindex_jobs_1 (uid>?)" in step for step in plan), plan
    assert any(step.startswith("SEARCH j ") for step in plan), plan
    assert not any(step.startswith("SCAN j") for step in plan), plan


@pytest.mark.parametrize("rare", ["stuck", "paused"])
@pytest.mark.parametrize("which", [{}, {"user_id": "ada"}, {"after": 9}, {"oldest_first": True}])
def test_of_a_user_with_very_many_jobs_the_few_are_looked_at(
    rare: str, which: dict[str, Any]
) -> None:
    plan = planned(JobFilter(**which | {rare: True}))
    assert any(f" j USING INDEX jobs_{rare}" in step for step in plan), plan
    assert not any("TEMP B-TREE" in step for step in plan), plan


def planned(which: JobFilter) -> list[str]:
    """How SQLite goes about this list."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    asked: list[str] = []
    connection.set_trace_callback(asked.append)
    jobs(connection, which)
    connection.set_trace_callback(None)
    *_, listed = asked  # the edge of the page may be looked for first
    return [step[3] for step in connection.execute(f"EXPLAIN QUERY PLAN {listed}")]


@pytest.mark.parametrize("asked", [{"text": "needle"}, {"param_values": (("says", "needle"),)}])
@pytest.mark.parametrize("rare", [False, True])
def test_a_search_looks_through_so_many_letters_and_goes_on(
    asked: dict[str, Any], rare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody's questions wait for this one, so it ends soon, whatever users have stored."""
    monkeypatch.setattr(listing, "LETTERS_MAX", 5_000)
    db = filled(["needle"] + [f"{'hay' * 500}{place}" for place in range(12)])
    which, looked = JobFilter(user_id="ada", paused=rare, **asked), []
    while not (page := jobs(db, which)).jobs:
        assert page.next_after is not None
        looked.append(page.next_after)
        which = structs.replace(which, after=page.next_after)
    assert (looked, page.jobs[0].row, page.next_after) == ([10, 6, 2], 1, None)


def test_what_came_of_jobs_is_looked_through_in_so_many_letters_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "LETTERS_MAX", 5_000)
    db = filled([f"{'hay' * 500}{place}" for place in range(12)])
    db.execute("UPDATE payloads SET result = params, params = '{}'")
    assert jobs(db, JobFilter(text="needle")).next_after == 9


def test_a_text_that_is_nearly_there_is_not_compared_letter_by_letter() -> None:
    """SQLite's LIKE takes both lengths multiplied for these: minutes, for texts that users may
    write."""
    db = filled(["a" * 1000, "100% A_A"])

    def refuse(*given: object) -> None:
        raise AssertionError(f"LIKE{given}")

    db.create_function("like", 3, refuse)
    db.create_function("like", 2, refuse)
    assert jobs(db, JobFilter(text="a" * 199 + "b")).jobs == ()
    assert [job.row for job in jobs(db, JobFilter(text="0% a_a")).jobs] == [2]
    assert jobs(db, JobFilter(text="a%a")).jobs == ()


def filled(words: list[str]) -> sqlite3.Connection:
    """A job for each of these words."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    migrate(db)
    db.execute("INSERT INTO definitions VALUES (1, 'd', 'toy', '1', x'7b7d', 0)")
    for row, said in enumerate(words, 1):
        db.execute(
            "INSERT INTO jobs (id, uid, workflow, definition, job_type, user_id, status, kind, "
            "version, beat, progress, priority, quota, created_at, updated_at, cost, credits, "
            "rest, paused) VALUES (?, ?, 'toy', 1, 'toy', 'ada', 'done', 'final', 1, 0, 0, 0, 0, "
            "1, 1, 0, 'none', '{}', 1)",
            (row, f"{row:036d}"),
        )
        params = msgspec.json.encode({"says": said}).decode()
        db.execute("INSERT INTO payloads (job, params) VALUES (?, ?)", (row, params))
    return db


def test_every_column_of_a_job_is_written() -> None:
    """One that no list names would keep its default for good, beside the true value in ``rest``."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(jobs)")}
    assert columns - APART == {*rows.FIXED, *rows.PLACE, *rows.MOVING}


def test_children_are_found_by_their_parent_in_an_index() -> None:
    plan = planned(JobFilter(user_id="ada", parent="019a1b2c"))
    assert any("SEARCH c USING" in step for step in plan), plan
    assert not any(step.startswith("SCAN") for step in plan), plan


@pytest.mark.parametrize("workflow", [None, "mill"])
def test_a_status_that_no_job_has_is_found_without_looking_at_jobs(workflow: str | None) -> None:
    db = sqlite3.connect(":memory:", isolation_level=None)
    said: list[str] = []
    migrate(db)
    db.execute("INSERT INTO tally VALUES ('mill', 'done', 3, 0), ('mill', 'failed', 0, 0)")
    db.execute("INSERT INTO tally VALUES ('oven', 'failed', 1, 0)")
    db.set_trace_callback(said.append)
    found = jobs(db, JobFilter(statuses=("failed", "lost"), workflow=workflow))
    assert (found.jobs, found.next_after) == ((), None)
    looked = any("FROM jobs" in text for text in said)
    assert looked == (workflow is None), "the oven has one"
