-- The last backup in each folder, and what went wrong there since.
CREATE TABLE backups (
    folder    TEXT PRIMARY KEY CHECK (folder <> ''),
    name      TEXT NOT NULL DEFAULT '',
    as_of     INTEGER,
    ended_at  INTEGER,
    bytes     INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    new_bytes INTEGER NOT NULL DEFAULT 0 CHECK (new_bytes >= 0),
    files     INTEGER NOT NULL DEFAULT 0 CHECK (files >= 0),
    failed_at INTEGER,
    failure   TEXT NOT NULL DEFAULT '',
    CHECK ((name = '') = (as_of IS NULL) AND (name = '') = (ended_at IS NULL)),
    CHECK ((failed_at IS NULL) = (failure = ''))
) STRICT, WITHOUT ROWID;

-- This file was put in place from a backup: what happened from ``since`` to ``until`` is not in it.
-- ``told_at`` is set by the first start that has said so.
CREATE TABLE restorations (
    id      INTEGER PRIMARY KEY,
    backup  TEXT NOT NULL,
    since   INTEGER NOT NULL,
    until   INTEGER NOT NULL CHECK (until >= since),
    lost    TEXT NOT NULL,
    told_at INTEGER
) STRICT;
