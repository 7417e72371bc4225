"""Pages of jobs. A page looks at a bounded number of rows, whatever is asked for; so it may hold
fewer jobs than it could and still say where to go on. A job that cannot be read is passed over."""

import sqlite3
from typing import Any

from jobrunner.core.questions import JobFilter, JobPage
from jobrunner.store.rows import SELECT_BRIEF, brief_job, text

ROWS_MAX = 10_000


def jobs(db: sqlite3.Connection, which: JobFilter) -> JobPage:
    walk, walked = _walk(which)
    narrow, narrowed = _narrow(which)
    edge = _edge(db, which, walk, walked) if narrow and not (which.stuck or which.paused) else None
    if edge is not None:
        walk, walked = [*walk, f"j.id {'<=' if which.oldest_first else '>='} ?"], [*walked, edge]
    found = db.execute(
        f"{SELECT_BRIEF} {_where([*walk, *narrow])} {_order(which)} LIMIT ? OFFSET ?",
        (*walked, *narrowed, which.limit + 1, which.offset),
    ).fetchall()
    looked = tuple(map(brief_job, found[: which.limit]))
    page = tuple(job for job in looked if not job.unreadable)
    return JobPage(page, looked[-1].row if len(found) > which.limit else edge)


def matching(db: sqlite3.Connection, which: JobFilter) -> tuple[tuple[int, str], ...]:
    """Only the rows and ids of what a filter finds, a page of them, oldest first. Who asks goes on
    behind the last one until a page is empty."""
    walk, walked = _walk(which)
    narrow, narrowed = _narrow(which)
    found = db.execute(
        "SELECT j.id, j.uid FROM jobs j LEFT JOIN payloads p ON p.job = j.id "  # noqa: S608
        f"{_where([*walk, *narrow])} ORDER BY j.id LIMIT ?",
        (*walked, *narrowed, which.limit),
    )
    return tuple(found)


def _walk(which: JobFilter) -> tuple[list[str], list[Any]]:
    """What an index walks along."""
    conditions: list[tuple[str, Any]] = []
    if which.user_id is not None:
        conditions.append(("j.user_id = ?", which.user_id))
    if which.after is not None:
        conditions.append((f"j.id {'>' if which.oldest_first else '<'} ?", which.after))
    return [condition for condition, _ in conditions], [value for _, value in conditions]


def _narrow(which: JobFilter) -> tuple[list[str], list[Any]]:
    """What has to be looked at row by row."""
    conditions: list[tuple[str, tuple[Any, ...]]] = []
    if which.workflow is not None:
        conditions.append(("j.workflow = ?", (which.workflow,)))
    if which.workflows:
        of_them = "j.workflow IN (SELECT value FROM json_each(?))"
        conditions.append((of_them, (text(which.workflows),)))
    if which.statuses:
        marks = ", ".join("?" * len(which.statuses))
        conditions.append((f"j.status IN ({marks})", which.statuses))
    if which.job_type is not None:
        conditions.append(("j.job_type = ?", (which.job_type,)))
    if which.stuck:
        conditions.append(("j.stuck IS NOT NULL", ()))
    if which.paused:
        conditions.append(("j.paused = 1", ()))
    label = "EXISTS (SELECT 1 FROM json_each(p.labels) l WHERE l.key = ? AND l.value = ?)"
    conditions.extend((label, pair) for pair in which.labels)
    return (
        [condition for condition, _ in conditions],
        [value for _, values in conditions for value in values],
    )


def _edge(
    db: sqlite3.Connection, which: JobFilter, walk: list[str], walked: list[Any]
) -> int | None:
    """The last row this page may look at; None when the walk ends before it gets that far."""
    found = db.execute(
        f"SELECT j.id FROM jobs j {_where(walk)} {_order(which)} LIMIT 1 OFFSET ?",  # noqa: S608
        (*walked, ROWS_MAX - 1),
    ).fetchone()
    return int(found[0]) if found else None


def _where(conditions: list[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def _order(which: JobFilter) -> str:
    return f"ORDER BY j.id {'ASC' if which.oldest_first else 'DESC'}"
