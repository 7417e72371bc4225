"""Rates in the file: a row each, written in the commit of the start that takes from it."""

import sqlite3
from collections.abc import Iterator

from msgspec import structs

from jobrunner.core.decision import Decision
from jobrunner.core.features.turns.rates import RateRow
from jobrunner.store.columns import Columns
from jobrunner.store.features.statements import RATE
from jobrunner.store.rows import text
from jobrunner.store.statements import Row

Db = sqlite3.Connection

AHEAD_MAX = 1_000
RATES = Columns(RateRow, "rates t")


def rate_rows(decision: Decision) -> Iterator[Row]:
    return (RATE.row(**structs.asdict(row)) for row in decision.rates)


def rates(db: Db) -> tuple[RateRow, ...]:
    return RATES.all(db, "ORDER BY t.name")


def in_line_by(db: Db) -> dict[tuple[str, str], int]:
    """How many are in line, by workflow and status."""
    found = db.execute("SELECT workflow, status, in_line FROM tally WHERE in_line > 0")
    return {(workflow, status): count for workflow, status, count in found}


def ahead_at(
    db: Db, places: tuple[tuple[str, str, str], ...], priority: int, line_at: int, row: int
) -> int:
    """How many stand in line before this job at one of these places; counted up to a bound."""
    found = db.execute(
        "SELECT count(*) FROM (SELECT 1 FROM jobs "
        "WHERE line_at IS NOT NULL AND stuck IS NULL AND paused = 0 "
        "AND priority >= :priority AND (priority > :priority OR (line_at, id) < (:line_at, :row)) "
        "AND json_array(workflow, status, job_type) IN (SELECT value FROM json_each(:places)) "
        "LIMIT :most)",
        {
            "priority": priority,
            "line_at": line_at,
            "row": row,
            "places": text(places),
            "most": AHEAD_MAX,
        },
    )
    return int(found.fetchone()[0])
