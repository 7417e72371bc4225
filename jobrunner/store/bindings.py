"""What each place of a declaration was bound to at the last start, and which jobs may have to be
brought to another binding."""

import sqlite3
from collections.abc import Iterator
from typing import Any

from jobrunner.core.binding import Bind, Binding, Resting, Spot
from jobrunner.store import statements as sql
from jobrunner.store.rows import text
from jobrunner.store.statements import Statement

Db = sqlite3.Connection
Row = tuple[Statement, tuple[Any, ...]]

# Whoever rests where a binding matters is in line, up for a claim, held by somebody, timed, or was
# put aside or paused: each of these is an index, and whatever has ended is in none of them.
RESTING = """
    WITH found (row) AS (
        SELECT id FROM jobs WHERE line_at IS NOT NULL AND stuck IS NULL AND paused = 0
        UNION SELECT id FROM jobs WHERE claim_at IS NOT NULL
        UNION SELECT id FROM jobs WHERE stuck IS NOT NULL
        UNION SELECT id FROM jobs WHERE paused = 1
        UNION SELECT job FROM attempts WHERE status = 'running'
        UNION SELECT job FROM timers)
    SELECT j.id, j.uid, d.digest, j.status, j.job_type
    FROM found CROSS JOIN jobs j ON j.id = found.row JOIN definitions d ON d.id = j.definition
    WHERE j.id > ?1 AND json_array(d.digest, j.status, j.job_type) IN
        (SELECT value FROM json_each(?2))
    ORDER BY j.id LIMIT ?3
"""


def binding_rows(unit: Bind) -> Iterator[Row]:
    for one in unit.bindings:
        yield sql.BINDING, (
            one.digest, one.status, one.job_type, one.stage, int(one.settled), one.was,
            one.changed_at, one.jobs,
        )  # fmt: skip


def bindings(db: Db) -> tuple[Binding, ...]:
    found = db.execute(
        "SELECT d.digest, b.status, b.job_type, b.stage, b.settled, b.was, b.changed_at, b.jobs "
        "FROM bindings b JOIN definitions d ON d.id = b.definition"
    )
    return tuple(
        Binding(digest, status, job_type, stage, bool(settled), was, changed_at, jobs)
        for digest, status, job_type, stage, settled, was, changed_at, jobs in found
    )


def resting(db: Db, places: tuple[Spot, ...], after: int, limit: int) -> tuple[Resting, ...]:
    """Jobs in these places, by their key, the first after ``after``."""
    wanted = text([text(place) for place in places])
    found = db.execute(RESTING, (after, wanted, limit))
    return tuple(Resting(row[0], row[1], row[2:]) for row in found)
