"""Every statement that writes about files in a store of objects, in the order in which they run."""

from jobrunner.store.statements import Statement, insert

FILE_THERE = Statement("""
    INSERT INTO objects (asset, path, key, size, stored_at, here_until)
    SELECT id, storage_path, :key, :size, :at, :here_until FROM assets
    WHERE id = :row AND storage_path = :path
    ON CONFLICT DO NOTHING
""")
# Its asset went while it was on its way: the object is nobody's.
FILE_FOR_NOBODY = Statement("""
    INSERT INTO objects_left (key, left_at) SELECT :key, NULL
    WHERE NOT EXISTS (SELECT 1 FROM objects WHERE key = :key)
    ON CONFLICT (key) DO NOTHING
""")
FILE_BACK = Statement("DELETE FROM objects WHERE asset = :row AND key = :key")
COPY_HERE = Statement("UPDATE objects SET here_until = :until WHERE path = :path")
KEY_SEEN = Statement("UPDATE objects_left SET left_at = :at WHERE key = :key AND left_at IS NULL")
KEY_CLEARED = Statement("DELETE FROM objects_left WHERE key = :key")
MOVES_OLD = Statement("DELETE FROM file_moves WHERE ended_at < :before")
MOVE = Statement(
    insert("file_moves", "uid target actor at status up_to reached moved bytes skipped ended_at"),
    taken="exists",
)
MOVE_REACHED = Statement("""
    UPDATE file_moves SET reached = :reached, moved = moved + :moved, bytes = bytes + :bytes,
        skipped = skipped + :skipped
    WHERE uid = :id AND status = 'running'
""")
MOVE_TURNED = Statement(
    "UPDATE file_moves SET status = :status, ended_at = :at WHERE uid = :id AND status = 'running'",
    missed="missing",
)

OBJECTS_IN_ORDER = (
    FILE_THERE, FILE_FOR_NOBODY, FILE_BACK, COPY_HERE, KEY_SEEN, KEY_CLEARED, MOVES_OLD, MOVE,
    MOVE_REACHED, MOVE_TURNED,
)  # fmt: skip
