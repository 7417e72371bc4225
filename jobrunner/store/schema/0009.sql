-- Charts. A row for each bucket of time in which something happened to jobs of a workflow, of a span
-- whose buckets are ``step_s`` long; the row of the line, which is nobody's, names no workflow. Each
-- span has so many buckets and no more. ``counted`` is JSON.
CREATE TABLE charts (
    step_s   INTEGER NOT NULL CHECK (step_s > 0),
    at       INTEGER NOT NULL CHECK (at % (step_s * 1000) = 0),
    workflow TEXT NOT NULL,
    counted  TEXT NOT NULL CHECK (counted <> ''),
    PRIMARY KEY (step_s, at, workflow)
) STRICT, WITHOUT ROWID;
-- Files in a store of objects. A row for each file that lies there whole, beside its asset; until
-- ``here_until`` a copy of it lies on the disk, too. A row that goes, with whatever it goes, leaves its key
-- behind, so that the object is removed later: no deletion has to know of it.
CREATE TABLE objects (
    asset      INTEGER PRIMARY KEY REFERENCES assets (id) ON DELETE CASCADE,
    path       TEXT NOT NULL UNIQUE CHECK (path <> ''),
    key        TEXT NOT NULL CHECK (key <> ''),
    size       INTEGER NOT NULL CHECK (size >= 0),
    stored_at  INTEGER NOT NULL,
    here_until INTEGER
) STRICT;

CREATE INDEX objects_of_key ON objects (key);
CREATE INDEX objects_here ON objects (here_until) WHERE here_until IS NOT NULL;

-- Keys that no row names any more. ``left_at`` is when somebody with a clock first saw that.
CREATE TABLE objects_left (
    key     TEXT PRIMARY KEY CHECK (key <> ''),
    left_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX objects_left_by_age ON objects_left (left_at);

CREATE TRIGGER objects_go AFTER DELETE ON objects
BEGIN
    INSERT INTO objects_left (key, left_at) VALUES (OLD.key, NULL) ON CONFLICT (key) DO NOTHING;
END;

CREATE TRIGGER objects_come AFTER INSERT ON objects
BEGIN
    DELETE FROM objects_left WHERE key = NEW.key;
END;

-- Orders to move files between disk and store. ``reached`` is the key of the last asset that was looked at
-- and ``up_to`` that of the last one there was when it was given, so a crash loses nothing of it.
CREATE TABLE file_moves (
    id       INTEGER PRIMARY KEY,
    uid      TEXT NOT NULL UNIQUE,
    target   TEXT NOT NULL CHECK (target IN ('s3', 'disk')),
    actor    TEXT NOT NULL,
    at       INTEGER NOT NULL,
    status   TEXT NOT NULL CHECK (status IN ('running', 'done', 'aborted')),
    up_to    INTEGER NOT NULL,
    reached  INTEGER NOT NULL DEFAULT 0 CHECK (reached >= 0),
    moved    INTEGER NOT NULL DEFAULT 0 CHECK (moved >= 0),
    bytes    INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    skipped  INTEGER NOT NULL DEFAULT 0 CHECK (skipped >= 0),
    ended_at INTEGER,
    CHECK ((status = 'running') = (ended_at IS NULL))
) STRICT;

CREATE UNIQUE INDEX file_moves_open ON file_moves (status) WHERE status = 'running';
