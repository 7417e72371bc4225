"""The news of jobs, for those who follow them: of one job, or of all in the order of commits.

There is one writer, so a sequence number that can be seen has no smaller one still to come.
"""

import sqlite3

from msgspec import structs

from jobrunner.core.features.streams import HistoryRow, Moved, News, NewsQuestion, Story
from jobrunner.core.questions import PAGE
from jobrunner.store import rows
from jobrunner.store.columns import Columns
from jobrunner.store.jobs import MOST, job

LAST_HOP = 2**31

Db = sqlite3.Connection


def history(
    db: Db, job_id: str, limit: int = PAGE, after: tuple[int, int] = (0, 0)
) -> tuple[HistoryRow, ...]:
    """Oldest first, from behind this version and hop."""
    version, hop = after
    return rows.HISTORY.all(
        db,
        "WHERE j.uid = :job_id AND (t.version, t.hop) > (:version, :hop) "
        "ORDER BY t.version, t.hop LIMIT :limit",
        job_id=job_id,
        version=version,
        hop=hop,
        limit=limit,
    )


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
        "SELECT max(seq) FROM "
        "(SELECT seq FROM history WHERE seq > :after ORDER BY seq LIMIT :most)",
        {"after": question.after, "most": MOST},
    ).fetchone()[0]
    if looked is None:
        return News((), question.after)
    asked = structs.asdict(question) | {"workflows": rows.text(question.workflows)}
    told = TOLD.all(db, NEWS, **asked, looked=looked)
    if len(told) < question.limit:
        return News(told, looked)
    whole = set(_of_whole_versions([one.row for one in told]))
    kept = tuple(one for one in told if one.row in whole)
    return News(kept, kept[-1].row.seq)


def last_news(db: Db) -> int:
    return int(db.execute("SELECT coalesce(max(seq), 0) FROM history").fetchone()[0])


# CROSS JOIN: history leads, in its order; a job that does not fit is looked up and passed over.
TOLD = Columns(
    Moved,
    "history t CROSS JOIN jobs j ON j.id = t.job",
    elsewhere={
        "workflow": "j.workflow",
        "user_id": "j.user_id",
        "rests": """
            j.kind IN ('settled', 'final') AND NOT EXISTS (SELECT 1 FROM history n
                WHERE n.job = t.job AND (n.version, n.hop) > (t.version, t.hop))""",
    },
    read={"rests": bool},
    first=rows.HISTORY,
)
NEWS = """
    WHERE t.seq > :after AND t.seq <= :looked AND (:user_id IS NULL OR j.user_id = :user_id)
        AND (:workflow IS NULL OR j.workflow = :workflow)
        AND (:workflows = '[]' OR j.workflow IN (SELECT value FROM json_each(:workflows)))
    ORDER BY t.seq LIMIT :limit
"""


def _of_whole_versions(found: "list[HistoryRow] | tuple[HistoryRow, ...]") -> list[HistoryRow]:
    """Leave out the last version of a full page, which may have more hops, unless it is the only
    one."""
    last = (found[-1].job_id, found[-1].version)
    kept = [row for row in found if (row.job_id, row.version) != last]
    return kept or list(found)
