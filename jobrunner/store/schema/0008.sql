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
-- Schedules: what is submitted when, and what came of each moment. A job knows its moment by a row
-- beside it, which goes with the job; a moment makes one job as long as either is there.
CREATE TABLE schedules (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    schedule TEXT NOT NULL,
    owner TEXT NOT NULL CHECK (owner IN ('file', 'http')),
    up_to INTEGER NOT NULL,
    paused TEXT,
    last_job TEXT,
    failed_at INTEGER,
    made_by TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT;

CREATE TABLE firings (
    id INTEGER PRIMARY KEY,
    schedule TEXT NOT NULL REFERENCES schedules (name) ON DELETE CASCADE,
    mark TEXT NOT NULL,
    moment INTEGER NOT NULL,
    "last" INTEGER CHECK ("last" >= moment),
    "count" INTEGER NOT NULL DEFAULT 1 CHECK ("count" >= 1),
    how TEXT NOT NULL CHECK (how IN ('due', 'trigger', 'backfill')),
    outcome TEXT NOT NULL CHECK (outcome IN ('fired', 'same', 'skipped', 'refused', 'missed')),
    job_id TEXT,
    code TEXT NOT NULL DEFAULT '',
    detail TEXT NOT NULL DEFAULT '',
    at INTEGER NOT NULL,
    CHECK ((outcome IN ('fired', 'same')) = (job_id IS NOT NULL)),
    UNIQUE (schedule, mark)
) STRICT;

CREATE INDEX firings_newest ON firings (schedule, id);

CREATE INDEX firings_at ON firings (at);

CREATE TABLE scheduled (
    job INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    schedule TEXT NOT NULL,
    mark TEXT NOT NULL,
    UNIQUE (schedule, mark)
) STRICT;

CREATE INDEX scheduled_jobs ON scheduled (schedule, job);
-- Answers from anywhere. A question that an attempt asks, found by the digest of its token; the
-- token itself is in no file. What was answered stands in the attempt; ``posed`` is what was asked.
-- A row goes with its job.
CREATE TABLE questions (
    id         INTEGER PRIMARY KEY,
    digest     TEXT NOT NULL UNIQUE,
    job        INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    user_id    TEXT NOT NULL,
    name       TEXT NOT NULL,
    standing   TEXT NOT NULL CHECK (standing IN ('open', 'given', 'over')),
    asked_at   INTEGER NOT NULL,
    posed      TEXT NOT NULL
) STRICT;

CREATE INDEX questions_of_job ON questions (job);
CREATE INDEX questions_open ON questions (id) WHERE standing = 'open';
CREATE INDEX questions_open_of_user ON questions (user_id, id) WHERE standing = 'open';
-- Upgrades. An order to move jobs under way to the declaration of today. What became of those that were
-- looked at is counted here, so that it can be told, and gone on with, after a crash.
CREATE TABLE upgrades (
    id        INTEGER PRIMARY KEY,
    uid       TEXT NOT NULL UNIQUE,
    workflow  TEXT NOT NULL,
    digest    TEXT NOT NULL,
    version   TEXT NOT NULL,
    actor     TEXT NOT NULL,
    at        INTEGER NOT NULL,
    reason    TEXT,
    dry       INTEGER NOT NULL CHECK (dry IN (0, 1)),
    status    TEXT NOT NULL CHECK (status IN ('running', 'done', 'aborted')),
    looked_at INTEGER NOT NULL DEFAULT 0 CHECK (looked_at >= 0),
    moved     INTEGER NOT NULL DEFAULT 0 CHECK (moved >= 0),
    stays     TEXT NOT NULL DEFAULT '[]',
    ended_at  INTEGER,
    CHECK ((status = 'running') = (ended_at IS NULL))
) STRICT;

CREATE INDEX upgrades_open ON upgrades (id) WHERE status = 'running';

-- Which declaration a job was under before it was moved: its history up to that version speaks the words
-- of that one.
CREATE TABLE repinnings (
    job     INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    version INTEGER NOT NULL CHECK (version >= 1),
    was     TEXT NOT NULL,
    became  TEXT NOT NULL CHECK (became <> was),
    PRIMARY KEY (job, version)
) STRICT, WITHOUT ROWID;

-- One at a time. A row for each job that waits or works under a key; with ``has`` its attempt is under
-- way, parked included.
CREATE TABLE turns (
    job INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    key TEXT NOT NULL CHECK (key <> ''),
    has INTEGER NOT NULL CHECK (has IN (0, 1))
) STRICT;

CREATE INDEX turns_held ON turns (job) WHERE has = 1;
-- Families. A child is a job that a stage of another one submitted. Its tie stands here and goes with
-- its parent, so a child that is deleted is still known to have been one. ``ended`` is how it looks to
-- its parent: not over (0), ended well (1), ended ill (2); ``awaited`` marks those that the parent's
-- attempt waits for. ``user_id``, ``workflow`` and ``at`` tell quotas by the minute whom not to count.
CREATE TABLE children (
    id       INTEGER PRIMARY KEY,
    parent   INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    job      INTEGER REFERENCES jobs (id) ON DELETE SET NULL,
    uid      TEXT NOT NULL UNIQUE,
    run_id   TEXT NOT NULL,
    key      TEXT NOT NULL CHECK (key <> ''),
    at_end   TEXT NOT NULL CHECK (at_end IN ('cancel', 'leave', 'wait')),
    ended    INTEGER NOT NULL CHECK (ended IN (0, 1, 2)),
    awaited  INTEGER NOT NULL DEFAULT 0 CHECK (awaited IN (0, 1)),
    user_id  TEXT NOT NULL,
    workflow TEXT NOT NULL,
    at       INTEGER NOT NULL,
    UNIQUE (parent, run_id, key),
    CHECK (ended > 0 OR job IS NOT NULL)
) STRICT;

CREATE INDEX children_of_job ON children (job);
CREATE INDEX children_by_age ON children (user_id, workflow, at);
CREATE INDEX children_open ON children (parent, id) WHERE ended = 0;

-- The wait of a parent, as long as its attempt is parked on it. ``due`` counts down the ends that are
-- still needed, ``spare`` those that went ill and can still be borne (NULL: any number); when one of
-- them is used up, the parent is to be told.
CREATE TABLE family_waits (
    job        INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    serial     INTEGER NOT NULL CHECK (serial >= 1),
    due        INTEGER NOT NULL,
    spare      INTEGER,
    counts_any INTEGER NOT NULL CHECK (counts_any IN (0, 1))
) STRICT;

CREATE INDEX family_waits_over ON family_waits (job) WHERE due <= 0 OR spare <= 0;

-- Parents that ended before their children: those up to the ``last`` one that are to be cancelled are
-- told so, and then the row goes. A parent that is revived has other children from then on.
CREATE TABLE partings (
    job  INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    last INTEGER NOT NULL,
    at   INTEGER NOT NULL
) STRICT;
-- Which declarations jobs still need: one that none does is forgotten. Jobs are born under the newest, so
-- their entries are added at one end, and no move of a job touches them.
CREATE INDEX jobs_of_definition ON jobs (definition);

-- Decisions on record, where a workflow's settings ask for it: what each was decided with, as packed JSON.
-- The declaration that decided it stays as long as one of them.
CREATE TABLE decisions (
    job        INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    version    INTEGER NOT NULL CHECK (version >= 1),
    beat       INTEGER NOT NULL CHECK (beat >= 0),
    definition INTEGER NOT NULL REFERENCES definitions (id),
    data       BLOB NOT NULL,
    PRIMARY KEY (job, version, beat)
) STRICT, WITHOUT ROWID;

CREATE INDEX decisions_of_definition ON decisions (definition);
-- Limits that an operator changed at run time: they stand over the settings until they are reset.
-- ``value`` is JSON.
CREATE TABLE limits (
    key    TEXT PRIMARY KEY CHECK (key <> ''),
    value  TEXT NOT NULL,
    "by"   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    reason TEXT
) STRICT, WITHOUT ROWID;


-- Batches. ``unended`` counts the jobs of a batch that go on; ``ended_at`` is set by the commit with
-- which the last of them ended, once nothing may be added any more. ``lane`` is that of the
-- notification which the same commit makes.
CREATE TABLE batches (
    id         INTEGER PRIMARY KEY,
    uid        TEXT NOT NULL UNIQUE,
    user_id    TEXT NOT NULL,
    key        TEXT,
    open       INTEGER NOT NULL CHECK (open IN (0, 1)),
    unended    INTEGER NOT NULL CHECK (unended >= 0),
    notify_url TEXT NOT NULL DEFAULT '',
    lane       TEXT NOT NULL DEFAULT '',
    rerun_of   TEXT,
    created_at INTEGER NOT NULL,
    ended_at   INTEGER,
    UNIQUE (user_id, key)
) STRICT;

CREATE INDEX batches_ended ON batches (ended_at) WHERE ended_at IS NOT NULL;

-- What was sent for a batch, known by its key there: a job, or why there is none. ``ended`` is as in
-- ``children``.
CREATE TABLE batch_items (
    batch  INTEGER NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    key    TEXT NOT NULL CHECK (key <> ''),
    job    INTEGER REFERENCES jobs (id) ON DELETE SET NULL,
    uid    TEXT NOT NULL DEFAULT '',
    ended  INTEGER NOT NULL DEFAULT 0 CHECK (ended IN (0, 1, 2)),
    code   TEXT NOT NULL DEFAULT '',
    detail TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (batch, key),
    CHECK ((uid = '') = (code <> ''))
) STRICT, WITHOUT ROWID;

CREATE INDEX batch_items_of_job ON batch_items (job);
CREATE INDEX batch_items_ill ON batch_items (batch, uid) WHERE ended = 2;
