"""Charts in the file: a row per workflow for each bucket of time in which something happened."""

import sqlite3
from collections.abc import Iterator

import msgspec

from jobrunner.core.keeping.charts import SPANS, Charted, ChartRow, ChartSpan, Counted
from jobrunner.store.rows import text
from jobrunner.store.statements import Row, Statement, upsert

Db = sqlite3.Connection

CHART_ROW = Statement(upsert("charts", "step_s at workflow counted", "step_s at workflow"))
CHARTS_OVER = Statement("DELETE FROM charts WHERE step_s = :step_s AND (at < :first OR at > :last)")
CHARTS_IN_ORDER = (CHART_ROW, CHARTS_OVER)
WITHIN = """
    SELECT step_s, at, workflow, counted FROM charts
    WHERE step_s = ? AND at >= ? AND at < ? ORDER BY at
"""
OWN = """
    SELECT workflow, status, kind IN ('settled', 'final'), created_at, updated_at FROM
        (SELECT * FROM jobs WHERE user_id = :user_id ORDER BY id DESC LIMIT :most)
    WHERE updated_at >= :begins_at
"""
_decoder = msgspec.json.Decoder(Counted)


def chart_rows_of(chart: Charted) -> Iterator[Row]:
    """A bucket stays as long as a part of it is within its span."""
    for row in chart.rows:
        yield CHART_ROW.row(
            step_s=row.step_s, at=row.at, workflow=row.workflow, counted=text(row.counted)
        )
    for span in SPANS.values():
        first = span.bucket(chart.now) - span.long_ms
        yield CHARTS_OVER.row(step_s=span.step_s, first=first, last=chart.now + span.long_ms)


def chart_rows(db: Db, spans: tuple[tuple[int, int, int], ...]) -> tuple[ChartRow, ...]:
    """The rows of each of these steps (s) whose buckets begin from a moment on and before another
    one, in the order of time."""
    return tuple(
        ChartRow(step_s, at, workflow, _decoder.decode(counted))
        for span in spans
        for step_s, at, workflow, counted in db.execute(WITHIN, span)
    )


def own_charts(
    db: Db, user_id: str, span: ChartSpan, begins_at: int, most: int
) -> tuple[ChartRow, ...]:
    """Count the newest jobs of a user as rows. They are ended by the status they rest in."""
    asked = {"user_id": user_id, "begins_at": begins_at, "most": most}
    found: dict[tuple[int, str], Counted] = {}
    for workflow, status, ended, created_at, updated_at in db.execute(OWN, asked):
        if created_at >= begins_at:
            found.setdefault((span.bucket(created_at), workflow), Counted()).made += 1
        if ended:
            counted = found.setdefault((span.bucket(updated_at), workflow), Counted())
            counted.end(status, updated_at - created_at)
    return tuple(
        ChartRow(span.step_s, at, workflow, counted) for (at, workflow), counted in found.items()
    )
