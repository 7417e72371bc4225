-- Which stage each place of a declaration was bound to at the last start: what differs at the next
-- one is brought to the jobs that rest there. ``settled`` is 0 while that is under way, and then
-- nobody knows which of the two bindings a job is in the shape of. ``was``, ``changed_at`` and
-- ``jobs`` tell of the last change.
CREATE TABLE bindings (
    definition INTEGER NOT NULL REFERENCES definitions (id),
    status     TEXT NOT NULL,
    job_type   TEXT NOT NULL,
    stage      TEXT NOT NULL,
    settled    INTEGER NOT NULL CHECK (settled IN (0, 1)),
    was        TEXT NOT NULL DEFAULT '',
    changed_at INTEGER,
    jobs       INTEGER NOT NULL DEFAULT 0 CHECK (jobs >= 0),
    PRIMARY KEY (definition, status, job_type)
) STRICT, WITHOUT ROWID;

-- A token of role workflow may be for some workflows only (none named: for all). A token that takes
-- the place of others succeeds them: what they had claimed is its own.
ALTER TABLE tokens ADD COLUMN workflows TEXT NOT NULL DEFAULT '[]';

CREATE TABLE successions (
    successor TEXT NOT NULL REFERENCES tokens (id),
    token     TEXT NOT NULL REFERENCES tokens (id),
    PRIMARY KEY (successor, token)
) STRICT, WITHOUT ROWID;

-- Files that stages had made were stored without a time. Their ids begin with the moment at which they
-- were saved, in milliseconds, as twelve hexadecimal digits.
UPDATE assets SET created_at = (
    WITH RECURSIVE read (place, value) AS (
        SELECT 0, 0
        UNION ALL
        SELECT
            place + 1,
            value * 16 + instr('0123456789abcdef', substr(replace(uid, '-', ''), place + 1, 1)) - 1
        FROM read WHERE place < 12
    )
    SELECT value FROM read WHERE place = 12
)
WHERE created_at = 0 AND uid GLOB '[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-7*';
