"""Files as their owner sees them, over all jobs."""

from contextlib import closing

from jobrunner.core.questions import AssetRow
from jobrunner.store import rows
from jobrunner.store.jobs import LAST, Db

MOST_JOBS = 10_000
LETTERS_MAX = 8 * 1024**2
# The jobs that somebody works on come first: these are few, and it is their workers who ask.
AT_WORK = """
    (SELECT job FROM attempts INDEXED BY attempts_running WHERE status = 'running') w
    CROSS JOIN jobs j ON j.id = w.job AND j.user_id = :user_id
"""
NEWEST = "(SELECT * FROM jobs WHERE user_id = :user_id ORDER BY id DESC LIMIT :most) j"
NAMING = """
    SELECT ifnull(length(p.params), 0) + ifnull(
            (SELECT sum(length(a.value)) FROM artifacts a WHERE a.job = j.id), 0),
        ifnull(instr(p.params, :asset), 0) OR EXISTS
            (SELECT 1 FROM artifacts a WHERE a.job = j.id AND instr(a.value, :asset))
    FROM {0} LEFT JOIN payloads p ON p.job = j.id
    WHERE j.workflow IN (SELECT value FROM json_each(:workflows))
"""


def library(db: Db, user_id: str | None, limit: int, after: int | None) -> tuple[AssetRow, ...]:
    """Newest first; of everybody, where no owner is named."""
    whose = "" if user_id is None else "t.user_id = :user_id AND"
    newest = f"WHERE {whose} t.id < :after ORDER BY t.id DESC LIMIT :limit"
    return rows.ASSET.all(db, newest, user_id=user_id, after=after or LAST, limit=limit)


def asset(db: Db, asset_id: str) -> AssetRow | None:
    return rows.ASSET.one(db, "WHERE t.uid = :asset_id", asset_id=asset_id)


def named_by(db: Db, row: AssetRow, workflows: tuple[str, ...]) -> bool:
    """Look at jobs of the file's owner, those at work before the newest: at so many and so many
    letters of theirs, since everybody else's questions wait for this one."""
    asked = {"user_id": row.user_id, "workflows": rows.text(workflows), "asset": row.asset.id}
    left = LETTERS_MAX
    for source in (AT_WORK, NEWEST):
        with closing(db.execute(NAMING.format(source), {**asked, "most": MOST_JOBS})) as found:
            for letters, is_named in found:
                left -= letters
                if is_named or left <= 0:
                    return bool(is_named)
    return False
