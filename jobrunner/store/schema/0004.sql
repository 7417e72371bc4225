-- A token may have the role ``reader``, which reads everything and acts on nothing. What a column may
-- hold cannot be changed where it is, so the table is made anew, and with it the one that refers to it.
CREATE TABLE tokens_anew (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    role       TEXT NOT NULL CHECK (role IN ('user', 'workflow', 'admin', 'reader')),
    digest     BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    workflows  TEXT NOT NULL DEFAULT '[]'
) STRICT;

INSERT INTO tokens_anew (id, name, role, digest, created_at, expires_at, revoked_at, workflows)
SELECT id, name, role, digest, created_at, expires_at, revoked_at, workflows FROM tokens ORDER BY rowid;

CREATE TEMP TABLE successions_kept AS SELECT successor, token FROM successions;
DROP TABLE successions;
DROP TABLE tokens;
ALTER TABLE tokens_anew RENAME TO tokens;

CREATE TABLE successions (
    successor TEXT NOT NULL REFERENCES tokens (id),
    token     TEXT NOT NULL REFERENCES tokens (id),
    PRIMARY KEY (successor, token)
) STRICT, WITHOUT ROWID;

INSERT INTO successions (successor, token) SELECT successor, token FROM successions_kept;
DROP TABLE successions_kept;
