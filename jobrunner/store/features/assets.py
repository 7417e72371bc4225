"""Files as their owner sees them, over all jobs."""

from jobrunner.core.questions import AssetRow
from jobrunner.store import rows
from jobrunner.store.jobs import LAST, Db

MOST_JOBS = 10_000
NAMED_BY = """
    SELECT EXISTS (
        SELECT 1 FROM (
            SELECT id FROM jobs
            WHERE user_id = :user_id AND workflow IN (SELECT value FROM json_each(:workflows))
            ORDER BY id DESC LIMIT :most) j
        WHERE EXISTS (SELECT 1 FROM payloads p WHERE p.job = j.id AND instr(p.params, :asset))
            OR EXISTS (SELECT 1 FROM artifacts a WHERE a.job = j.id AND instr(a.value, :asset)))
"""


def library(db: Db, user_id: str | None, limit: int, after: int | None) -> tuple[AssetRow, ...]:
    """Newest first; of everybody, where no owner is named."""
    whose = "" if user_id is None else "t.user_id = :user_id AND"
    newest = f"WHERE {whose} t.id < :after ORDER BY t.id DESC LIMIT :limit"
    return rows.ASSET.all(db, newest, user_id=user_id, after=after or LAST, limit=limit)


def asset(db: Db, asset_id: str) -> AssetRow | None:
    return rows.ASSET.one(db, "WHERE t.uid = :asset_id", asset_id=asset_id)


def named_by(db: Db, row: AssetRow, workflows: tuple[str, ...]) -> bool:
    """Looks at the newest jobs of the file's owner: so many, and no more."""
    asked = {"user_id": row.user_id, "workflows": rows.text(workflows), "asset": row.asset.id}
    return bool(db.execute(NAMED_BY, {**asked, "most": MOST_JOBS}).fetchone()[0])
