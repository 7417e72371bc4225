-- Rates. A row for each name that was ever taken from: when its bucket would be full again, and until
-- when a provider holds it back, and whose word that was. It is written in the commit of the start that
-- takes from it, so no start is forgotten by a crash.
CREATE TABLE rates (
    name       TEXT PRIMARY KEY CHECK (name <> ''),
    full_at    INTEGER NOT NULL,
    held_until INTEGER NOT NULL DEFAULT 0 CHECK (held_until >= 0),
    held_by    TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
-- Sessions of the dashboard: a person who showed a token is known by a cookie for a while. As with
-- tokens, only the digest of the secret is kept.
CREATE TABLE sessions (
    id         INTEGER PRIMARY KEY,
    digest     BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    token      TEXT NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL CHECK (expires_at > created_at)
) STRICT;

CREATE INDEX sessions_of_token ON sessions (token);
CREATE INDEX sessions_by_end ON sessions (expires_at);
