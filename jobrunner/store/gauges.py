"""Reads how things stand, in one cheap read: every question has an index that holds only what
lives, or a table that counts as it goes."""

import sqlite3
from typing import Any

from jobrunner.core.questions import Gauges
from jobrunner.store.keeping.upkeep import size

Db = sqlite3.Connection

# The index of the line begins with the priority: of each that is there, only the first is read.
LONGEST = """
    WITH RECURSIVE present (priority) AS (
        SELECT max(priority) FROM jobs WHERE line_at IS NOT NULL AND stuck IS NULL AND paused = 0
        UNION ALL
        SELECT (
            SELECT max(j.priority) FROM jobs j WHERE j.line_at IS NOT NULL AND j.stuck IS NULL
                AND j.paused = 0 AND j.priority < present.priority
        ) FROM present WHERE present.priority IS NOT NULL
    )
    SELECT min((
        SELECT min(j.line_at) FROM jobs j WHERE j.line_at IS NOT NULL AND j.stuck IS NULL
            AND j.paused = 0 AND j.priority = present.priority
    )) FROM present WHERE priority IS NOT NULL
"""


def gauges(db: Db) -> Gauges:
    """Cheap however many jobs there are."""
    tally = db.execute(
        "SELECT workflow, status, jobs FROM tally WHERE jobs > 0 ORDER BY workflow, status"
    ).fetchall()
    return Gauges(
        tuple(tally),
        int(_one(db, "SELECT coalesce(sum(in_line), 0) FROM tally")),
        _one(db, LONGEST),
        _one(db, "SELECT min(due_at) FROM timers"),
        int(_one(db, "SELECT count(*) FROM attempts WHERE status = 'running'")),
        int(_one(db, "SELECT count(*) FROM attempts WHERE status = 'parked'")),
        int(_one(db, "SELECT count(*) FROM deliveries WHERE due_at IS NOT NULL")),
        int(_one(db, "SELECT count(*) FROM endpoints WHERE failing_since IS NOT NULL")),
        int(_one(db, "SELECT count(*) FROM endpoints WHERE disabled_at IS NOT NULL")),
        *_sizes(db),
        int(_one(db, "SELECT count(*) FROM questions WHERE standing = 'open'")),
    )


def _one(db: Db, question: str) -> Any:
    return db.execute(question).fetchone()[0]


def _sizes(db: Db) -> tuple[int, int, int]:
    path = str(db.execute("PRAGMA database_list").fetchone()[2])
    unused = int(_one(db, "PRAGMA freelist_count")) * int(_one(db, "PRAGMA page_size"))
    return size(path), size(f"{path}-wal"), unused
