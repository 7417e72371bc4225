"""What is nobody's in a store of objects, as the rows know it."""

import sqlite3

from jobrunner.store.keeping.objects import DAY_MS, keys_orphaned
from jobrunner.store.migrations import migrate

NOON = 1_767_225_600_000
SINCE = "INSERT INTO restorations (backup, since, until, lost) VALUES ('b', ?, ?, '{}')"

GONE = """
    INSERT INTO tombstones (uid, user_id, workflow, status, created_at, deleted_at)
    VALUES ('job', 'ada', 'toy', 'done', 1, 2)
"""


def test_what_came_after_the_moment_of_a_restored_backup_may_have_had_a_row() -> None:
    """The service that made the backup may go on, beside one that only tries it out; and what a
    take-over lost had been put there before."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    migrate(db)
    db.execute(GONE)
    keys = tuple((f"ada/job/{'a' * 64}/{place}", NOON + place * DAY_MS) for place in range(-3, 3))
    assert keys_orphaned(db, keys) == tuple(key for key, _ in keys)
    db.execute(SINCE, (NOON, NOON + DAY_MS))
    assert keys_orphaned(db, keys) == tuple(key for key, _ in keys[:2])
