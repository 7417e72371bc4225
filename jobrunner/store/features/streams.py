"""What befell jobs, for those who follow them: of one job, or of all in the order of commits.

There is one writer, so a sequence number that can be seen has no smaller one still to come.
"""

import sqlite3

from jobrunner.core.questions import PAGE, HistoryRow, News, NewsQuestion, Story, Told
from jobrunner.store import rows
from jobrunner.store.jobs import MOST, job

LAST_HOP = 2**31

Db = sqlite3.Connection


def history(
    db: Db, job_id: str, limit: int = PAGE, after: tuple[int, int] = (0, 0)
) -> tuple[HistoryRow, ...]:
    found = db.execute(
        f"{rows.SELECT_HISTORY} WHERE j.uid = ? AND (h.version, h.hop) > (?, ?) "
        "ORDER BY h.version, h.hop LIMIT ?",
        (job_id, *after, limit),
    )
    return tuple(HistoryRow(*row) for row in found)


def story(db: Db, job_id: str, after: int, limit: int) -> Story | None:
    now = job(db, job_id)
    if now is None:
        return None
    found = history(db, job_id, limit, (after, LAST_HOP))
    if len(found) < limit:
        return Story(now, found)
    return Story(now, tuple(_of_whole_versions(found)), whole=False)


def news(db: Db, question: NewsQuestion) -> News:
    """Looks at so many rows at most: whoever waits for something rare asks again from there."""
    looked = db.execute(
        "SELECT max(seq) FROM (SELECT seq FROM history WHERE seq > ? ORDER BY seq LIMIT ?)",
        (question.after, MOST),
    ).fetchone()[0]
    if looked is None:
        return News((), question.after)
    found = db.execute(
        TOLD,
        (
            question.after,
            looked,
            question.user_id,
            question.workflow,
            question.limit,
            rows.text(question.workflows),
        ),
    )
    told = [Told(HistoryRow(*row[:12]), row[12], row[13], bool(row[14])) for row in found]
    if len(told) < question.limit:
        return News(tuple(told), looked)
    whole = set(_of_whole_versions([one.row for one in told]))
    kept = tuple(one for one in told if one.row in whole)
    return News(kept, kept[-1].row.seq)


def last_news(db: Db) -> int:
    return int(db.execute("SELECT coalesce(max(seq), 0) FROM history").fetchone()[0])


# CROSS JOIN: history leads, in its order; a job that does not fit is looked up and passed over.
TOLD = """
    SELECT h.seq, j.uid, h.version, h.hop, h.from_status, h.to_status, h."trigger", h.actor,
        h.reason, h.run_id, h.event_id, h.at, j.workflow, j.user_id,
        j.kind IN ('settled', 'final') AND NOT EXISTS (
            SELECT 1 FROM history n
            WHERE n.job = h.job AND (n.version, n.hop) > (h.version, h.hop))
    FROM history h CROSS JOIN jobs j ON j.id = h.job
    WHERE h.seq > ?1 AND h.seq <= ?2 AND (?3 IS NULL OR j.user_id = ?3)
        AND (?4 IS NULL OR j.workflow = ?4)
        AND (?6 = '[]' OR j.workflow IN (SELECT value FROM json_each(?6)))
    ORDER BY h.seq LIMIT ?5
"""


def _of_whole_versions(found: "list[HistoryRow] | tuple[HistoryRow, ...]") -> list[HistoryRow]:
    """Without the last version of a full page, which may have more hops; unless it is the only
    one."""
    last = (found[-1].job_id, found[-1].version)
    kept = [row for row in found if (row.job_id, row.version) != last]
    return kept or list(found)
