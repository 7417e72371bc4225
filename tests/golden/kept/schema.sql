CREATE TABLE accounts (
    user_id   TEXT PRIMARY KEY,
    initial   INTEGER NOT NULL CHECK (initial >= 0),
    balance   INTEGER NOT NULL DEFAULT 0 CHECK (balance >= 0),
    held      INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0),
    opened_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID

CREATE TRIGGER accounts_start_with_a_grant AFTER INSERT ON accounts WHEN NEW.initial > 0
BEGIN
    INSERT INTO ledger (user_id, kind, amount, held_change, balance_after, held_after, reason,
                        created_at)
    VALUES (NEW.user_id, 'grant', NEW.initial, 0, NEW.initial, 0, 'initial', NEW.opened_at);
END

CREATE TABLE artifacts (
    job        INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL CHECK (version >= 1),
    current    INTEGER NOT NULL CHECK (current IN (0, 1)),
    created_at INTEGER NOT NULL,
    "by"       TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    asset      TEXT NOT NULL,
    value      TEXT NOT NULL,
    PRIMARY KEY (job, name, version)
) STRICT, WITHOUT ROWID

CREATE TABLE assets (
    id           INTEGER PRIMARY KEY,
    uid          TEXT NOT NULL UNIQUE,
    job          INTEGER REFERENCES jobs (id) ON DELETE CASCADE,
    user_id      TEXT NOT NULL,
    asset_type   TEXT NOT NULL,
    url          TEXT NOT NULL,
    storage_path TEXT NOT NULL,
    file_size    INTEGER CHECK (file_size >= 0),
    sha256       TEXT NOT NULL,
    created_at   INTEGER NOT NULL
, used_at INTEGER) STRICT

CREATE INDEX assets_idle ON assets (coalesce(used_at, created_at)) WHERE job IS NULL

CREATE INDEX assets_of_job ON assets (job)

CREATE INDEX assets_of_user ON assets (user_id)

CREATE TABLE attempts (
    job     INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    serial  INTEGER NOT NULL CHECK (serial >= 1),
    status  TEXT NOT NULL CHECK (status IN ('due', 'running', 'parked', 'ended')),
    holder  TEXT NOT NULL,
    epoch   INTEGER NOT NULL,
    attempt TEXT NOT NULL,
    PRIMARY KEY (job, serial)
) STRICT, WITHOUT ROWID

CREATE INDEX attempts_parked ON attempts (job) WHERE status = 'parked'

CREATE INDEX attempts_running ON attempts (epoch) WHERE status = 'running'

CREATE TABLE audit (
    id     INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    event  TEXT NOT NULL,
    actor  TEXT NOT NULL,
    job_id TEXT,
    fields TEXT NOT NULL
) STRICT

CREATE INDEX audit_by_age ON audit (at)

CREATE TABLE awaits (
    name   TEXT PRIMARY KEY,
    job    INTEGER REFERENCES jobs (id) ON DELETE SET NULL,
    serial INTEGER NOT NULL CHECK (serial >= 1),
    at     INTEGER NOT NULL,
    open   INTEGER NOT NULL CHECK (open IN (0, 1))
) STRICT, WITHOUT ROWID

CREATE INDEX awaits_of_job ON awaits (job)

CREATE INDEX awaits_of_nobody ON awaits (at) WHERE job IS NULL

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
) STRICT, WITHOUT ROWID

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
) STRICT, WITHOUT ROWID

CREATE INDEX batch_items_ill ON batch_items (batch, uid) WHERE ended = 2

CREATE INDEX batch_items_of_job ON batch_items (job)

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
) STRICT

CREATE INDEX batches_ended ON batches (ended_at) WHERE ended_at IS NOT NULL

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
) STRICT, WITHOUT ROWID

CREATE TABLE bulk_items (
    bulk    INTEGER NOT NULL REFERENCES bulks (id) ON DELETE CASCADE,
    place   INTEGER NOT NULL CHECK (place >= 0),
    job_id  TEXT NOT NULL,
    outcome TEXT CHECK (outcome IN ('done', 'satisfied', 'failed')),
    code    TEXT NOT NULL DEFAULT '',
    detail  TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (bulk, place)
) STRICT, WITHOUT ROWID

CREATE INDEX bulk_items_ahead ON bulk_items (bulk, place) WHERE outcome IS NULL

CREATE INDEX bulk_items_failed ON bulk_items (bulk, place) WHERE outcome = 'failed'

CREATE TABLE bulks (
    id         INTEGER PRIMARY KEY,
    uid        TEXT NOT NULL UNIQUE,
    orders     TEXT NOT NULL,
    actor      TEXT NOT NULL,
    status     TEXT NOT NULL CHECK (status IN ('gathering', 'running', 'done', 'aborted')),
    created_at INTEGER NOT NULL,
    ended_at   INTEGER,
    CHECK ((status IN ('done', 'aborted')) = (ended_at IS NOT NULL))
) STRICT

CREATE INDEX bulks_open ON bulks (id) WHERE status IN ('gathering', 'running')

CREATE TABLE charts (
    step_s   INTEGER NOT NULL CHECK (step_s > 0),
    at       INTEGER NOT NULL CHECK (at % (step_s * 1000) = 0),
    workflow TEXT NOT NULL,
    counted  TEXT NOT NULL CHECK (counted <> ''),
    PRIMARY KEY (step_s, at, workflow)
) STRICT, WITHOUT ROWID

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
) STRICT

CREATE INDEX children_by_age ON children (user_id, workflow, at)

CREATE INDEX children_of_job ON children (job)

CREATE INDEX children_open ON children (parent, id) WHERE ended = 0

CREATE TABLE clearings (
    folder TEXT PRIMARY KEY CHECK (folder <> ''),
    at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID

CREATE TABLE dead_letters (
    id              INTEGER PRIMARY KEY,
    at              INTEGER NOT NULL,
    job_id          TEXT NOT NULL,
    workflow        TEXT NOT NULL,
    user_id         TEXT NOT NULL,
    reason          TEXT NOT NULL,
    failure_code    TEXT NOT NULL,
    failure_message TEXT NOT NULL,
    failed_stage    TEXT NOT NULL,
    hidden          INTEGER NOT NULL CHECK (hidden IN (0, 1))
) STRICT

CREATE INDEX dead_letters_by_age ON dead_letters (at)

CREATE INDEX dead_letters_shown ON dead_letters (at) WHERE hidden = 0

CREATE TABLE decisions (
    job        INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    version    INTEGER NOT NULL CHECK (version >= 1),
    beat       INTEGER NOT NULL CHECK (beat >= 0),
    definition INTEGER NOT NULL REFERENCES definitions (id),
    data       BLOB NOT NULL,
    PRIMARY KEY (job, version, beat)
) STRICT, WITHOUT ROWID

CREATE INDEX decisions_of_definition ON decisions (definition)

CREATE TABLE definitions (
    id        INTEGER PRIMARY KEY,
    digest    TEXT NOT NULL UNIQUE,
    name      TEXT NOT NULL,
    version   TEXT NOT NULL,
    data      BLOB NOT NULL,
    stored_at INTEGER NOT NULL
) STRICT

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
) STRICT

CREATE INDEX deliveries_due ON deliveries (due_at, lane) WHERE due_at IS NOT NULL

CREATE INDEX deliveries_due_of_owner ON deliveries (owner) WHERE due_at IS NOT NULL

CREATE INDEX deliveries_in_trouble ON deliveries (status, id) WHERE status <> 'delivered'

CREATE INDEX deliveries_of_endpoint ON deliveries (endpoint, status)

CREATE INDEX deliveries_of_job ON deliveries (job)

CREATE TABLE delivery_tries (
    delivery    INTEGER NOT NULL REFERENCES deliveries (id) ON DELETE CASCADE,
    number      INTEGER NOT NULL CHECK (number >= 1),
    at          INTEGER NOT NULL,
    latency_ms  INTEGER NOT NULL CHECK (latency_ms >= 0),
    http_status INTEGER,
    error       TEXT NOT NULL,
    PRIMARY KEY (delivery, number)
) STRICT, WITHOUT ROWID

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
) STRICT

CREATE TRIGGER endpoints_go_with_their_last_delivery AFTER DELETE ON deliveries
BEGIN
    DELETE FROM endpoints WHERE id = OLD.endpoint
        AND NOT EXISTS (SELECT 1 FROM deliveries WHERE endpoint = OLD.endpoint);
END

CREATE INDEX endpoints_troubled ON endpoints (id)
    WHERE failing_since IS NOT NULL OR disabled_at IS NOT NULL

CREATE TABLE events (
    job         INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    event_id    TEXT NOT NULL,
    digest      TEXT NOT NULL,
    occurred_at INTEGER NOT NULL,
    PRIMARY KEY (job, event_id)
) STRICT, WITHOUT ROWID

CREATE TABLE family_waits (
    job        INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    serial     INTEGER NOT NULL CHECK (serial >= 1),
    due        INTEGER NOT NULL,
    spare      INTEGER,
    counts_any INTEGER NOT NULL CHECK (counts_any IN (0, 1))
) STRICT

CREATE INDEX family_waits_over ON family_waits (job) WHERE due <= 0 OR spare <= 0

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
) STRICT

CREATE UNIQUE INDEX file_moves_open ON file_moves (status) WHERE status = 'running'

CREATE TRIGGER final_is_final BEFORE UPDATE OF status, kind, definition ON jobs
WHEN OLD.kind = 'final'
    AND (NEW.status <> OLD.status OR NEW.kind <> OLD.kind OR NEW.definition <> OLD.definition)
BEGIN
    SELECT RAISE(ABORT, 'a final state has no exit');
END

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
) STRICT

CREATE INDEX firings_at ON firings (at)

CREATE INDEX firings_newest ON firings (schedule, id)

CREATE TABLE grant_keys (
    user_id TEXT NOT NULL,
    key     TEXT NOT NULL,
    entry   INTEGER NOT NULL UNIQUE REFERENCES ledger (id),
    PRIMARY KEY (user_id, key)
) STRICT, WITHOUT ROWID

CREATE TABLE history (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    job         INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    version     INTEGER NOT NULL CHECK (version >= 1),
    hop         INTEGER NOT NULL CHECK (hop >= 1),
    from_status TEXT,
    to_status   TEXT NOT NULL,
    "trigger"   TEXT NOT NULL,
    actor       TEXT NOT NULL,
    reason      TEXT,
    run_id      TEXT NOT NULL,
    event_id    TEXT,
    at          INTEGER NOT NULL
) STRICT

CREATE UNIQUE INDEX history_of_job ON history (job, version, hop)

CREATE TABLE jobs (
    id         INTEGER PRIMARY KEY,
    uid        TEXT NOT NULL UNIQUE,
    workflow   TEXT NOT NULL,
    definition INTEGER NOT NULL,
    job_type   TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    status     TEXT NOT NULL,
    kind       TEXT NOT NULL,
    version    INTEGER NOT NULL CHECK (version >= 1),
    beat       INTEGER NOT NULL CHECK (beat >= 0),
    progress   INTEGER NOT NULL CHECK (progress BETWEEN 0 AND 100),
    priority   INTEGER NOT NULL CHECK (priority BETWEEN -100 AND 100),
    line_at    INTEGER,
    claim_at   INTEGER,
    stuck      TEXT,
    quota      INTEGER NOT NULL CHECK (quota IN (0, 1)),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    cost       INTEGER NOT NULL CHECK (cost >= 0),
    credits    TEXT NOT NULL
        CHECK (credits IN ('none', 'held', 'captured', 'released', 'charged', 'refunded')),
    rest       TEXT NOT NULL, paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    FOREIGN KEY (definition, status, kind) REFERENCES states (definition, name, kind)
) STRICT

CREATE INDEX jobs_counted ON jobs (user_id, workflow, created_at) WHERE quota = 1

CREATE INDEX jobs_ended ON jobs (workflow, status, updated_at) WHERE kind IN ('settled', 'final')

CREATE INDEX jobs_in_line ON jobs (priority DESC, line_at, id)
    WHERE line_at IS NOT NULL AND stuck IS NULL AND paused = 0

CREATE INDEX jobs_of_definition ON jobs (definition)

CREATE INDEX jobs_of_user ON jobs (user_id)

CREATE INDEX jobs_open ON jobs (user_id, workflow)
    WHERE quota = 1 AND kind IN ('waiting', 'queued', 'active')

CREATE INDEX jobs_paused ON jobs (id) WHERE paused = 1

CREATE INDEX jobs_stuck ON jobs (id) WHERE stuck IS NOT NULL

CREATE INDEX jobs_to_claim ON jobs (workflow, status, priority DESC, user_id, id, claim_at)
    WHERE claim_at IS NOT NULL

CREATE INDEX jobs_waiting ON jobs (workflow, updated_at) WHERE kind = 'waiting'

CREATE TABLE kept_events (
    tombstone   INTEGER NOT NULL REFERENCES tombstones (id) ON DELETE CASCADE,
    event_id    TEXT NOT NULL,
    digest      TEXT NOT NULL,
    occurred_at INTEGER NOT NULL,
    PRIMARY KEY (tombstone, event_id)
) STRICT, WITHOUT ROWID

CREATE TABLE keys (
    user_id     TEXT NOT NULL,
    workflow    TEXT NOT NULL,
    digest      TEXT NOT NULL,
    job_id      TEXT NOT NULL,
    body_digest TEXT NOT NULL,
    parts       TEXT NOT NULL,
    PRIMARY KEY (user_id, workflow, digest)
) STRICT, WITHOUT ROWID

CREATE INDEX keys_of_job ON keys (job_id)

CREATE TABLE ledger (
    id            INTEGER PRIMARY KEY,
    user_id       TEXT NOT NULL REFERENCES accounts (user_id),
    kind          TEXT NOT NULL,
    amount        INTEGER NOT NULL,
    held_change   INTEGER NOT NULL,
    balance_after INTEGER NOT NULL CHECK (balance_after >= 0),
    held_after    INTEGER NOT NULL,
    job_id        TEXT,
    run_id        TEXT,
    reason        TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    CHECK (CASE kind
        WHEN 'grant'   THEN amount <> 0 AND held_change = 0 AND job_id IS NULL
        WHEN 'hold'    THEN amount < 0 AND held_change = -amount
        WHEN 'capture' THEN amount = 0 AND held_change < 0
        WHEN 'release' THEN amount > 0 AND held_change = -amount
        WHEN 'charge'  THEN amount < 0 AND held_change = 0
        WHEN 'refund'  THEN amount > 0 AND held_change = 0
        ELSE FALSE END),
    CHECK (kind = 'grant' OR (job_id IS NOT NULL AND run_id IS NOT NULL))
) STRICT

CREATE TRIGGER ledger_does_not_change BEFORE UPDATE ON ledger
BEGIN
    SELECT RAISE(ABORT, 'the ledger only grows');
END

CREATE TRIGGER ledger_does_not_shrink BEFORE DELETE ON ledger
BEGIN
    SELECT RAISE(ABORT, 'the ledger only grows');
END

CREATE TRIGGER ledger_moves_account AFTER INSERT ON ledger
BEGIN
    UPDATE accounts SET balance = balance + NEW.amount, held = held + NEW.held_change
    WHERE user_id = NEW.user_id;
END

CREATE INDEX ledger_of_user ON ledger (user_id)

CREATE UNIQUE INDEX ledger_once ON ledger (job_id, run_id, kind) WHERE job_id IS NOT NULL

CREATE UNIQUE INDEX ledger_settled_once ON ledger (job_id, run_id)
    WHERE kind IN ('capture', 'release')

CREATE TABLE limits (
    key    TEXT PRIMARY KEY CHECK (key <> ''),
    value  TEXT NOT NULL,
    "by"   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    reason TEXT
) STRICT, WITHOUT ROWID

CREATE TABLE lives (
    epoch      INTEGER PRIMARY KEY,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    ended_at   INTEGER
) STRICT

CREATE TABLE locks (
    job         INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    scope       TEXT NOT NULL,
    run_id      TEXT NOT NULL,
    holder      TEXT NOT NULL CHECK (holder IN ('stage', 'external')),
    epoch       INTEGER NOT NULL,
    lease_until INTEGER,
    PRIMARY KEY (job, scope)
) STRICT, WITHOUT ROWID

CREATE TABLE objects (
    asset      INTEGER PRIMARY KEY REFERENCES assets (id) ON DELETE CASCADE,
    path       TEXT NOT NULL UNIQUE CHECK (path <> ''),
    key        TEXT NOT NULL CHECK (key <> ''),
    size       INTEGER NOT NULL CHECK (size >= 0),
    stored_at  INTEGER NOT NULL,
    here_until INTEGER
) STRICT

CREATE TRIGGER objects_come AFTER INSERT ON objects
BEGIN
    DELETE FROM objects_left WHERE key = NEW.key;
END

CREATE TRIGGER objects_go AFTER DELETE ON objects
BEGIN
    INSERT INTO objects_left (key, left_at) VALUES (OLD.key, NULL) ON CONFLICT (key) DO NOTHING;
END

CREATE INDEX objects_here ON objects (here_until) WHERE here_until IS NOT NULL

CREATE TABLE objects_left (
    key     TEXT PRIMARY KEY CHECK (key <> ''),
    left_at INTEGER
) STRICT, WITHOUT ROWID

CREATE INDEX objects_left_by_age ON objects_left (left_at)

CREATE INDEX objects_of_key ON objects (key)

CREATE TABLE partings (
    job  INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    last INTEGER NOT NULL,
    at   INTEGER NOT NULL
) STRICT

CREATE TABLE pauses (
    scope  TEXT NOT NULL CHECK (scope IN ('workflow', 'stage')),
    name   TEXT NOT NULL,
    "by"   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    reason TEXT,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID

CREATE TABLE payloads (
    job    INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    labels TEXT,
    params TEXT,
    result TEXT
) STRICT

CREATE TABLE questions (
    id         INTEGER PRIMARY KEY,
    digest     TEXT NOT NULL UNIQUE,
    job        INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    user_id    TEXT NOT NULL,
    name       TEXT NOT NULL,
    standing   TEXT NOT NULL CHECK (standing IN ('open', 'given', 'over')),
    asked_at   INTEGER NOT NULL,
    posed      TEXT NOT NULL
) STRICT

CREATE INDEX questions_of_job ON questions (job)

CREATE INDEX questions_open ON questions (id) WHERE standing = 'open'

CREATE INDEX questions_open_of_user ON questions (user_id, id) WHERE standing = 'open'

CREATE TABLE rates (
    name       TEXT PRIMARY KEY CHECK (name <> ''),
    full_at    INTEGER NOT NULL,
    held_until INTEGER NOT NULL DEFAULT 0 CHECK (held_until >= 0),
    held_by    TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID

CREATE TABLE repinnings (
    job     INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    version INTEGER NOT NULL CHECK (version >= 1),
    was     TEXT NOT NULL,
    became  TEXT NOT NULL CHECK (became <> was),
    PRIMARY KEY (job, version)
) STRICT, WITHOUT ROWID

CREATE TABLE restorations (
    id      INTEGER PRIMARY KEY,
    backup  TEXT NOT NULL,
    since   INTEGER NOT NULL,
    until   INTEGER NOT NULL CHECK (until >= since),
    lost    TEXT NOT NULL,
    told_at INTEGER
) STRICT

CREATE TABLE scheduled (
    job INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    schedule TEXT NOT NULL,
    mark TEXT NOT NULL,
    UNIQUE (schedule, mark)
) STRICT

CREATE INDEX scheduled_jobs ON scheduled (schedule, job)

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
) STRICT

CREATE TABLE sessions (
    id         INTEGER PRIMARY KEY,
    digest     BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    token      TEXT NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL CHECK (expires_at > created_at)
) STRICT

CREATE INDEX sessions_by_end ON sessions (expires_at)

CREATE INDEX sessions_of_token ON sessions (token)

CREATE TABLE sqlite_sequence(name,seq)

CREATE TABLE states (
    definition INTEGER NOT NULL REFERENCES definitions (id),
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('waiting', 'queued', 'active', 'settled', 'final')),
    PRIMARY KEY (definition, name),
    UNIQUE (definition, name, kind)
) STRICT, WITHOUT ROWID

CREATE TABLE successions (
    successor TEXT NOT NULL REFERENCES tokens (id),
    token     TEXT NOT NULL REFERENCES tokens (id),
    PRIMARY KEY (successor, token)
) STRICT, WITHOUT ROWID

CREATE TABLE tally (
    workflow TEXT NOT NULL,
    status   TEXT NOT NULL,
    jobs     INTEGER NOT NULL CHECK (jobs >= 0),
    in_line  INTEGER NOT NULL CHECK (in_line >= 0),
    PRIMARY KEY (workflow, status)
) STRICT, WITHOUT ROWID

CREATE TABLE timers (
    job     INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    purpose TEXT NOT NULL,
    due_at  INTEGER NOT NULL,
    PRIMARY KEY (job, purpose)
) STRICT, WITHOUT ROWID

CREATE INDEX timers_due ON timers (due_at)

CREATE TABLE "tokens" (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    role       TEXT NOT NULL CHECK (role IN ('user', 'workflow', 'admin', 'reader')),
    digest     BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    workflows  TEXT NOT NULL DEFAULT '[]'
) STRICT

CREATE TABLE tombstones (
    id         INTEGER PRIMARY KEY,
    uid        TEXT NOT NULL UNIQUE,
    user_id    TEXT NOT NULL,
    workflow   TEXT NOT NULL,
    status     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    deleted_at INTEGER NOT NULL
) STRICT

CREATE INDEX tombstones_by_age ON tombstones (deleted_at)

CREATE TRIGGER tombstones_do_not_change BEFORE UPDATE ON tombstones
BEGIN
    SELECT RAISE(ABORT, 'a tombstone does not change');
END

CREATE INDEX tombstones_of_user ON tombstones (user_id, workflow, created_at)

CREATE TABLE turns (
    job INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    key TEXT NOT NULL CHECK (key <> ''),
    has INTEGER NOT NULL CHECK (has IN (0, 1))
) STRICT

CREATE INDEX turns_held ON turns (job) WHERE has = 1

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
) STRICT

CREATE INDEX upgrades_open ON upgrades (id) WHERE status = 'running'

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
) STRICT

CREATE INDEX webhooks_kept ON webhooks (name) WHERE value IS NOT NULL

CREATE INDEX webhooks_of_job ON webhooks (job)

CREATE INDEX webhooks_of_nobody ON webhooks (at) WHERE job IS NULL AND value IS NULL
