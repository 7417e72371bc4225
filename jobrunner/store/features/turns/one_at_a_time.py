"""Keys of jobs that are taken one at a time: who waits with one, and who has its turn."""

import sqlite3
from collections.abc import Iterator

from jobrunner.core.features.turns.in_line import Waiting
from jobrunner.core.job import Snapshot
from jobrunner.store.columns import Columns
from jobrunner.store.features.statements import TURN, TURN_OVER
from jobrunner.store.features.turns.in_line import IN_LINE, IN_ORDER
from jobrunner.store.rows import text
from jobrunner.store.statements import Row

Db = sqlite3.Connection

KEYED = Columns(
    Waiting,
    "jobs t LEFT JOIN turns w ON w.job = t.id",
    elsewhere={"job_id": "t.uid", "turn_key": "coalesce(w.key, '')", "row": "t.id"},
)
HAS_TURN = "AND (w.key IS NULL OR w.has = 1 OR w.key NOT IN (SELECT value FROM json_each(:taken)))"
LINE = f"{IN_LINE} {HAS_TURN} {IN_ORDER}"


def turn_rows(before: Snapshot, after: Snapshot) -> Iterator[Row]:
    if (before.turn_key, before.has_turn) == (after.turn_key, after.has_turn):
        return
    if after.turn_key:
        yield TURN.row(job=after.row, key=after.turn_key, has=after.has_turn)
    else:
        yield TURN_OVER.row(job=after.row)


def keyed_line(
    db: Db,
    limit: int,
    workflows: tuple[str, ...],
    but_not: tuple[str, ...],
    not_at: tuple[tuple[str, str, str], ...],
    taken: tuple[str, ...],
) -> tuple[Waiting, ...]:
    """The line without those whose key has no turn left."""
    asked = {"workflows": text(workflows), "but_not": text(but_not), "not_at": text(not_at)}
    return KEYED.all(db, LINE, **asked, taken=text(taken), limit=limit)


def turns(db: Db) -> tuple[tuple[str, str], ...]:
    """Job and key of everybody who has a turn."""
    held = "SELECT j.uid, w.key FROM turns w JOIN jobs j ON j.id = w.job WHERE w.has = 1"
    return tuple(db.execute(f"{held} ORDER BY w.job"))
