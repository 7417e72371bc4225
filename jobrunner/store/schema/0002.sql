-- Pausing. The flag itself is in the job's text; the column is for questions and for the index of
-- the line, which leaves out who must not be called.
ALTER TABLE jobs ADD COLUMN paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1));

DROP INDEX jobs_in_line;

CREATE INDEX jobs_in_line ON jobs (priority DESC, line_at, id)
    WHERE line_at IS NOT NULL AND stuck IS NULL AND paused = 0;

CREATE INDEX jobs_paused ON jobs (id) WHERE paused = 1;

CREATE TABLE pauses (
    scope  TEXT NOT NULL CHECK (scope IN ('workflow', 'stage')),
    name   TEXT NOT NULL,
    "by"   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    reason TEXT,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;

-- Acts on many jobs. A bulk is gathered before it is acknowledged, then runs; an item without an
-- outcome is still to be done, and gets its outcome in the transaction of its act.
CREATE TABLE bulks (
    id         INTEGER PRIMARY KEY,
    uid        TEXT NOT NULL UNIQUE,
    orders     TEXT NOT NULL,
    actor      TEXT NOT NULL,
    status     TEXT NOT NULL CHECK (status IN ('gathering', 'running', 'done', 'aborted')),
    created_at INTEGER NOT NULL,
    ended_at   INTEGER,
    CHECK ((status IN ('done', 'aborted')) = (ended_at IS NOT NULL))
) STRICT;

CREATE INDEX bulks_open ON bulks (id) WHERE status IN ('gathering', 'running');

CREATE TABLE bulk_items (
    bulk    INTEGER NOT NULL REFERENCES bulks (id) ON DELETE CASCADE,
    place   INTEGER NOT NULL CHECK (place >= 0),
    job_id  TEXT NOT NULL,
    outcome TEXT CHECK (outcome IN ('done', 'satisfied', 'failed')),
    code    TEXT NOT NULL DEFAULT '',
    detail  TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (bulk, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX bulk_items_ahead ON bulk_items (bulk, place) WHERE outcome IS NULL;
CREATE INDEX bulk_items_failed ON bulk_items (bulk, place) WHERE outcome = 'failed';


-- What stays of a deleted job beside its tombstone: the event ids that it accepted.
CREATE TABLE kept_events (
    tombstone   INTEGER NOT NULL REFERENCES tombstones (id) ON DELETE CASCADE,
    event_id    TEXT NOT NULL,
    digest      TEXT NOT NULL,
    occurred_at INTEGER NOT NULL,
    PRIMARY KEY (tombstone, event_id)
) STRICT, WITHOUT ROWID;

-- Folders whose rows are gone and whose files are to follow: written with the deletion, removed when
-- the files are off the disk, so that a crash between the two leaves no file for good.
CREATE TABLE clearings (
    folder TEXT PRIMARY KEY CHECK (folder <> ''),
    at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Keys of grants: what was given under a key is not given again. They stay, as the ledger does.
CREATE TABLE grant_keys (
    user_id TEXT NOT NULL,
    key     TEXT NOT NULL,
    entry   INTEGER NOT NULL UNIQUE REFERENCES ledger (id),
    PRIMARY KEY (user_id, key)
) STRICT, WITHOUT ROWID;

-- Notifications going out: the outbox. An endpoint is a URL as one owner gave it (a user, or an
-- operator for ``workflow:NAME``); it is there as long as a delivery to it is. A lane is what its
-- owner has at one host: deliveries in it may hold up each other, and no others.
CREATE TABLE endpoints (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    owner         TEXT NOT NULL,
    url           TEXT NOT NULL,
    failing_since INTEGER,
    failures      INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    last_error    TEXT NOT NULL DEFAULT '',
    disabled_at   INTEGER,
    UNIQUE (owner, url),
    CHECK ((failing_since IS NULL) = (failures = 0))
) STRICT;

CREATE INDEX endpoints_troubled ON endpoints (id)
    WHERE failing_since IS NOT NULL OR disabled_at IS NOT NULL;

CREATE TABLE deliveries (
    id         INTEGER PRIMARY KEY,
    uid        TEXT NOT NULL UNIQUE,
    job        INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    endpoint   INTEGER NOT NULL REFERENCES endpoints (id),
    owner      TEXT NOT NULL,
    lane       TEXT NOT NULL,
    type       TEXT NOT NULL,
    body       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    status     TEXT NOT NULL CHECK (status IN ('due', 'delivered', 'failed', 'disabled')),
    due_at     INTEGER,
    tries      INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
    spent      INTEGER NOT NULL DEFAULT 0 CHECK (spent BETWEEN 0 AND tries),
    note       TEXT NOT NULL DEFAULT '',
    CHECK ((status = 'due') = (due_at IS NOT NULL))
) STRICT;

CREATE INDEX deliveries_due ON deliveries (due_at, lane) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_due_of_owner ON deliveries (owner) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_of_job ON deliveries (job);
CREATE INDEX deliveries_of_endpoint ON deliveries (endpoint, status);
CREATE INDEX deliveries_in_trouble ON deliveries (status, id) WHERE status <> 'delivered';

CREATE TABLE delivery_tries (
    delivery    INTEGER NOT NULL REFERENCES deliveries (id) ON DELETE CASCADE,
    number      INTEGER NOT NULL CHECK (number >= 1),
    at          INTEGER NOT NULL,
    latency_ms  INTEGER NOT NULL CHECK (latency_ms >= 0),
    http_status INTEGER,
    error       TEXT NOT NULL,
    PRIMARY KEY (delivery, number)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER endpoints_go_with_their_last_delivery AFTER DELETE ON deliveries
BEGIN
    DELETE FROM endpoints WHERE id = OLD.endpoint
        AND NOT EXISTS (SELECT 1 FROM deliveries WHERE endpoint = OLD.endpoint);
END;

-- Webhooks. An attempt announces by what name it awaits one, and the name stays when the attempt is
-- over; a job that is deleted leaves its names and its webhooks' ids behind, for as long as keys are
-- kept. A value stands there only while a webhook waits for somebody to await it.
CREATE TABLE awaits (
    name   TEXT PRIMARY KEY,
    job    INTEGER REFERENCES jobs (id) ON DELETE SET NULL,
    serial INTEGER NOT NULL CHECK (serial >= 1),
    at     INTEGER NOT NULL,
    open   INTEGER NOT NULL CHECK (open IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE INDEX awaits_of_job ON awaits (job);
CREATE INDEX awaits_of_nobody ON awaits (at) WHERE job IS NULL;

CREATE TABLE webhooks (
    id         INTEGER PRIMARY KEY,
    source     TEXT NOT NULL,
    webhook_id TEXT NOT NULL,
    name       TEXT NOT NULL,
    at         INTEGER NOT NULL,
    applied    INTEGER NOT NULL CHECK (applied IN (0, 1)),
    reason     TEXT NOT NULL,
    job        INTEGER REFERENCES jobs (id) ON DELETE SET NULL,
    value      TEXT CHECK (value IS NULL OR (applied = 0 AND job IS NULL)),
    UNIQUE (source, webhook_id),
    CHECK (applied = (reason = ''))
) STRICT;

CREATE INDEX webhooks_of_job ON webhooks (job);
CREATE INDEX webhooks_kept ON webhooks (name) WHERE value IS NOT NULL;
CREATE INDEX webhooks_of_nobody ON webhooks (at) WHERE job IS NULL AND value IS NULL;

-- Attempts that await a callback: for the question how many there are.
CREATE INDEX attempts_parked ON attempts (job) WHERE status = 'parked';
