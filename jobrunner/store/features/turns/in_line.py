"""The line for slots, read from the table: who is next, who waits, how many are ahead of one."""

import sqlite3

from jobrunner.core.features.turns.in_line import Waiting
from jobrunner.core.job import Snapshot
from jobrunner.core.questions import Place
from jobrunner.store import rows
from jobrunner.store.columns import Columns

Db = sqlite3.Connection
AHEAD = 1_000

WAITING = Columns(Waiting, "jobs t", elsewhere={"job_id": "t.uid", "turn_key": "''", "row": "t.id"})
IN_LINE = """
    WHERE t.line_at IS NOT NULL AND t.stuck IS NULL AND t.paused = 0
        AND t.workflow IN (SELECT value FROM json_each(:workflows))
        AND t.user_id NOT IN (SELECT value FROM json_each(:but_not))
        AND (:not_at = '[]' OR json_array(t.workflow, t.status, t.job_type) NOT IN
            (SELECT value FROM json_each(:not_at)))
"""
IN_ORDER = "ORDER BY t.priority DESC, t.line_at, t.id LIMIT :limit"
LINE = IN_LINE + IN_ORDER


def line(
    db: Db,
    limit: int,
    workflows: tuple[str, ...],
    but_not: tuple[str, ...] = (),
    not_at: tuple[tuple[str, str, str], ...] = (),
) -> tuple[Waiting, ...]:
    """Highest priority first, then who waits longest."""
    asked = {"workflows": rows.text(workflows), "but_not": rows.text(but_not)}
    return WAITING.all(db, LINE, **asked, not_at=rows.text(not_at), limit=limit)


def line_users(db: Db) -> tuple[tuple[int, str, int], ...]:
    """Priority, user, and how many jobs of these wait for a slot."""
    found = db.execute(
        "SELECT priority, user_id, count(*) FROM jobs "
        "WHERE line_at IS NOT NULL AND stuck IS NULL AND paused = 0 "
        "GROUP BY priority, user_id"
    )
    return tuple(found)


def place(db: Db, job: Snapshot, workflows: tuple[str, ...]) -> Place:
    """Count the jobs ahead, but not to the end of a long line: what matters is whether the turn is
    near."""
    found = db.execute(
        "SELECT count(*) FROM (SELECT 1 FROM jobs "
        "WHERE line_at IS NOT NULL AND stuck IS NULL AND paused = 0 "
        "AND priority >= :priority AND (priority > :priority OR (line_at, id) < (:line_at, :row)) "
        "AND workflow IN (SELECT value FROM json_each(:workflows)) "
        "ORDER BY priority DESC, line_at, id LIMIT :most)",
        {
            "priority": job.priority,
            "line_at": job.line_at,
            "row": job.row,
            "workflows": rows.text(workflows),
            "most": AHEAD + 1,
        },
    )
    ahead = int(found.fetchone()[0])
    return Place(min(ahead, AHEAD), ahead <= AHEAD)
