"""Every statement that writes, and what a hit that is missing or a row that is taken means.

The order in which they stand is the order in which a set of units is written: what a foreign key
points at comes first, and what most often refuses a unit (version, key, event, money) comes
before the bulk. A statement runs once per row; a row that it should have hit and did not is a
clash of kind ``missed``, a unique constraint in its way is one of kind ``taken``. Where a reason
is empty, such a thing would be a bug of ours.
"""

from msgspec import Struct


class Statement(Struct, frozen=True, eq=False):
    sql: str
    missed: str = ""
    taken: str = ""

    def __hash__(self) -> int:
        return id(self)


SEEN = Statement("UPDATE lives SET seen_at = ? WHERE epoch = ?")
ENDED = Statement("UPDATE lives SET seen_at = ?1, ended_at = ?1 WHERE epoch = ?2")
DEFINITION = Statement("""
    INSERT INTO definitions (digest, name, version, data, stored_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (digest) DO NOTHING
""")
STATE = Statement("""
    INSERT INTO states (definition, name, kind)
    SELECT id, ?2, ?3 FROM definitions WHERE digest = ?1
    ON CONFLICT (definition, name) DO NOTHING
""")
JOB_BORN = Statement(
    """
    INSERT INTO jobs (id, uid, workflow, definition, job_type, user_id, quota, created_at,
        status, kind, line_at, claim_at, stuck, paused,
        version, beat, progress, priority, updated_at, credits, cost, rest)
    VALUES (?, ?, ?, (SELECT id FROM definitions WHERE digest = ?), ?, ?, ?, ?,
        ?, ?, ?, ?, ?, ?,
        ?, ?, ?, ?, ?, ?, ?, ?)
    """,
    taken="exists",
)
JOB_MOVED = Statement(
    """
    UPDATE jobs SET status = ?, kind = ?, line_at = ?, claim_at = ?, stuck = ?, paused = ?,
        version = ?, beat = ?, progress = ?, priority = ?, updated_at = ?, credits = ?, cost = ?,
        rest = ?
    WHERE id = ? AND version = ? AND beat = ?
    """,
    missed="version",
)
JOB_OUT_OF_LINE = Statement("""
    UPDATE tally SET in_line = in_line - 1 WHERE (workflow, status) = (SELECT workflow, status
    FROM jobs WHERE uid = ? AND line_at IS NOT NULL AND stuck IS NULL AND paused = 0)
""")
JOB_UNREADABLE = Statement(
    "UPDATE jobs SET stuck = ?, claim_at = NULL WHERE uid = ? AND stuck IS NULL", missed="version"
)
# A report of progress: none of the columns that indexes and triggers watch.
JOB_TOUCHED = Statement(
    """
    UPDATE jobs SET version = ?, beat = ?, progress = ?, priority = ?, updated_at = ?,
        credits = ?, cost = ?, rest = ?
    WHERE id = ? AND version = ? AND beat = ?
    """,
    missed="version",
)
TOMBSTONE = Statement(
    """
    INSERT INTO tombstones (uid, user_id, workflow, status, created_at, deleted_at)
    SELECT uid, user_id, workflow, status, created_at, ? FROM jobs
    WHERE id = ? AND version = ? AND kind IN ('settled', 'final')
    """,
    missed="version",
)
EVENTS_KEPT = Statement("""
    INSERT INTO kept_events (tombstone, event_id, digest, occurred_at)
    SELECT t.id, e.event_id, e.digest, e.occurred_at
    FROM events e JOIN jobs j ON j.id = e.job JOIN tombstones t ON t.uid = j.uid WHERE j.id = ?
""")
CLEARING = Statement("""
    INSERT INTO clearings (folder, at) VALUES (?, ?) ON CONFLICT (folder) DO NOTHING
""")
CLEARED = Statement("DELETE FROM clearings WHERE folder = ?")
JOB_GONE = Statement("DELETE FROM jobs WHERE id = ?")
KEY = Statement(
    """
    INSERT INTO keys (user_id, workflow, digest, job_id, body_digest, parts)
    VALUES (?, ?, ?, ?, ?, ?)
    """,
    taken="key",
)
KEY_MOVED = Statement(
    """
    UPDATE keys SET job_id = ?, body_digest = ?, parts = ?
    WHERE user_id = ? AND workflow = ? AND digest = ? AND job_id = ?
    """,
    missed="key",
)
EVENT = Statement(
    "INSERT INTO events (job, event_id, digest, occurred_at) VALUES (?, ?, ?, ?)", taken="event"
)
WEBHOOK_TOLD = Statement(
    """
    INSERT INTO webhooks (source, webhook_id, name, at, applied, reason, job)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    """,
    taken="webhook",
)
# For nobody now; refused when somebody has come to await it since that was looked at, and one that
# is to be kept also when nobody awaits it any more.
WEBHOOK_STORED = Statement(
    """
    INSERT INTO webhooks (source, webhook_id, name, at, applied, reason, job, value)
    SELECT ?1, ?2, ?3, ?4, ?5, ?6, (SELECT job FROM awaits WHERE name = ?3), ?7
    WHERE NOT EXISTS (SELECT 1 FROM awaits
        WHERE name = ?3 AND (?7 IS NOT NULL OR (open = 1 AND job IS NOT NULL)))
    """,
    missed="awaited",
    taken="webhook",
)
WEBHOOK_HANDED = Statement(
    """
    UPDATE webhooks SET applied = 1, reason = '', value = NULL, job = ?2
    WHERE id = ?1 AND value IS NOT NULL
    """,
    missed="awaited",
)
WEBHOOKS_LEFT = Statement("""
    UPDATE webhooks SET reason = 'over', value = NULL WHERE name = ? AND value IS NOT NULL
""")
AWAIT_OVER = Statement("UPDATE awaits SET open = 0 WHERE name = ? AND job = ?")
# Refused when another job awaits this name, or a webhook of it has come since that was looked at.
AWAIT = Statement(
    """
    INSERT INTO awaits (name, job, serial, at, open) SELECT ?1, ?2, ?3, ?4, 1
    WHERE NOT EXISTS
        (SELECT 1 FROM webhooks WHERE name = ?1 AND value IS NOT NULL AND at >= ?5)
    ON CONFLICT (name) DO UPDATE SET job = excluded.job, serial = excluded.serial,
        at = excluded.at, open = 1
    WHERE awaits.open = 0 OR awaits.job IS NULL OR awaits.job = excluded.job
    """,
    missed="awaited",
)
AWAIT_PAST = Statement(
    """
    INSERT INTO awaits (name, job, serial, at, open) VALUES (?, ?, ?, ?, 0)
    ON CONFLICT (name) DO UPDATE SET job = excluded.job, serial = excluded.serial,
        at = excluded.at, open = 0
    WHERE awaits.open = 0 OR awaits.job IS NULL OR awaits.job = excluded.job
    """,
    missed="awaited",
)
WEBHOOKS_EXPIRED = Statement("""
    UPDATE webhooks SET reason = 'expired', value = NULL
    WHERE id IN (SELECT id FROM webhooks WHERE value IS NOT NULL AND at < ? LIMIT ?)
""")
WEBHOOKS_FORGOTTEN = Statement("""
    DELETE FROM webhooks WHERE id IN
        (SELECT id FROM webhooks WHERE job IS NULL AND value IS NULL AND at < ? LIMIT ?)
""")
AWAITS_FORGOTTEN = Statement("""
    DELETE FROM awaits WHERE name IN (SELECT name FROM awaits WHERE job IS NULL AND at < ? LIMIT ?)
""")
ACCOUNT = Statement("""
    INSERT INTO accounts (user_id, initial, opened_at) VALUES (?, ?, ?)
    ON CONFLICT (user_id) DO NOTHING
""")
ACCOUNT_NEW = Statement(
    "INSERT INTO accounts (user_id, initial, opened_at) VALUES (?, 0, ?)", taken="exists"
)
# Too little held is no clash but a bug, left to the CHECK: who captures or releases must have held.
LEDGER = Statement(
    """
    INSERT INTO ledger (user_id, kind, amount, held_change, balance_after, held_after, job_id,
        run_id, reason, created_at)
    SELECT user_id, ?2, ?3, ?4, balance + ?3, held + ?4, ?5, ?6, ?7, ?8
    FROM accounts WHERE user_id = ?1 AND balance + ?3 >= 0
    """,
    missed="balance",
    taken="ledger",
)
GRANT_KEY = Statement(
    """
    INSERT INTO grant_keys (user_id, key, entry)
    SELECT user_id, ?2, max(id) FROM ledger WHERE user_id = ?1
    """,
    taken="key",
)
HISTORY = Statement("""
    INSERT INTO history (job, version, hop, from_status, to_status, "trigger", actor, reason,
        run_id, event_id, at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
""")
PAYLOAD = Statement("""
    INSERT INTO payloads (job, labels, params, result) VALUES (?, ?, ?, ?)
    ON CONFLICT (job) DO UPDATE SET labels = excluded.labels, params = excluded.params,
        result = excluded.result
""")
LOCK_FREED = Statement("DELETE FROM locks WHERE job = ? AND scope = ?")
LOCK = Statement("""
    INSERT INTO locks (job, scope, run_id, holder, epoch, lease_until) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (job, scope) DO UPDATE SET run_id = excluded.run_id, holder = excluded.holder,
        epoch = excluded.epoch, lease_until = excluded.lease_until
""")
TIMER_GONE = Statement("DELETE FROM timers WHERE job = ? AND purpose = ?")
TIMER = Statement("""
    INSERT INTO timers (job, purpose, due_at) VALUES (?, ?, ?)
    ON CONFLICT (job, purpose) DO UPDATE SET due_at = excluded.due_at
""")
ATTEMPT = Statement("""
    INSERT INTO attempts (job, serial, status, holder, epoch, attempt) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (job, serial) DO UPDATE SET status = excluded.status, holder = excluded.holder,
        epoch = excluded.epoch, attempt = excluded.attempt
""")
LINES = Statement("""
    UPDATE attempts SET attempt = json_set(attempt, '$.log', json(?1))
    WHERE job = (SELECT id FROM jobs WHERE uid = ?2) AND serial = ?3 AND status = 'ended'
""")
ARTIFACT_RETIRED = Statement(
    "UPDATE artifacts SET current = 0 WHERE job = ? AND name = ? AND version = ?"
)
ARTIFACT = Statement("""
    INSERT INTO artifacts (job, name, version, current, created_at, "by", run_id, asset, value)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
""")
ASSET = Statement(
    """
    INSERT INTO assets (uid, job, user_id, asset_type, url, storage_path, file_size, sha256,
        created_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
    """,
    taken="exists",
)
ASSET_GONE = Statement("DELETE FROM assets WHERE uid = ? AND job IS NULL", missed="missing")
TOKEN = Statement(
    """
    INSERT INTO tokens (id, name, role, digest, created_at, expires_at, workflows)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    """,
    taken="exists",
)
SUCCESSION = Statement("INSERT INTO successions (successor, token) VALUES (?, ?)")
TOKEN_REVOKED = Statement(
    "UPDATE tokens SET revoked_at = ?1 WHERE (id = ?2 OR name = ?2) AND revoked_at IS NULL",
    missed="missing",
)
TOKEN_ENDS = Statement(
    "UPDATE tokens SET expires_at = min(coalesce(expires_at, ?1), ?1) "
    "WHERE id = ?2 AND revoked_at IS NULL",
    missed="missing",
)
AUDIT = Statement("INSERT INTO audit (at, event, actor, job_id, fields) VALUES (?, ?, ?, ?, ?)")
DEAD_LETTER = Statement("""
    INSERT INTO dead_letters (at, job_id, workflow, user_id, reason, failure_code,
        failure_message, failed_stage, hidden)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
""")
HALT = Statement(
    'INSERT INTO pauses (scope, name, "by", at, reason) VALUES (?, ?, ?, ?, ?)', taken="exists"
)
UNHALT = Statement("DELETE FROM pauses WHERE scope = ? AND name = ?", missed="missing")
BULK = Statement("""
    INSERT INTO bulks (uid, orders, actor, status, created_at) VALUES (?, ?, ?, 'gathering', ?)
""")
BULK_OLD = Statement("DELETE FROM bulks WHERE ended_at < ?")
BULK_ITEM = Statement("""
    INSERT INTO bulk_items (bulk, place, job_id)
    SELECT id, ?2, ?3 FROM bulks WHERE uid = ?1
""")
BULK_TURNED = Statement(
    """
    UPDATE bulks SET status = ?2, ended_at = ?3
    WHERE uid = ?1 AND status IN ('gathering', 'running') AND status <> ?2
    """,
    missed="missing",
)
# Before a job is touched: an act that was done, or a bulk that was aborted, touches none.
TICK = Statement(
    """
    UPDATE bulk_items SET outcome = ?3, code = ?4, detail = ?5
    WHERE bulk = (SELECT id FROM bulks WHERE uid = ?1 AND status = 'running')
        AND place = ?2 AND outcome IS NULL
    """,
    missed="tick",
)
BINDING = Statement("""
    INSERT INTO bindings (definition, status, job_type, stage, settled, was, changed_at, jobs)
    SELECT id, ?2, ?3, ?4, ?5, ?6, ?7, ?8 FROM definitions WHERE digest = ?1
    ON CONFLICT (definition, status, job_type) DO UPDATE SET stage = excluded.stage,
        settled = excluded.settled, was = excluded.was, changed_at = excluded.changed_at,
        jobs = excluded.jobs
""")
TALLY = Statement("""
    INSERT INTO tally (workflow, status, jobs, in_line) VALUES (?1, ?2, max(?3, 0), max(?4, 0))
    ON CONFLICT (workflow, status) DO UPDATE SET jobs = jobs + ?3, in_line = in_line + ?4
""")
# An owner who is a user has at most so many notifications waiting; what is more is kept, not sent.
WAITING_MAX = 1000
ENDPOINT = Statement("""
    INSERT INTO endpoints (owner, url) VALUES (?, ?) ON CONFLICT (owner, url) DO NOTHING
""")
DELIVERY = Statement(f"""
    INSERT INTO deliveries (uid, job, endpoint, owner, lane, type, body, created_at, status,
        due_at, note)
    SELECT ?1, ?2, id, ?3, ?4, ?5, ?6, ?7, s, iif(s = 'due', ?7, NULL), CASE s
        WHEN 'disabled' THEN 'the endpoint is disabled'
        WHEN 'failed' THEN '{WAITING_MAX} notifications of this owner wait already' ELSE '' END
    FROM (SELECT id, CASE WHEN disabled_at IS NOT NULL THEN 'disabled'
        WHEN instr(?3, ':') = 0 AND (SELECT count(*) FROM (SELECT 1 FROM deliveries
            WHERE owner = ?3 AND due_at IS NOT NULL LIMIT {WAITING_MAX})) = {WAITING_MAX}
        THEN 'failed' ELSE 'due' END AS s
        FROM endpoints WHERE owner = ?3 AND url = ?8 LIMIT 1)
""")  # noqa: S608 - a number of our own
# While it was tried, its endpoint may have been disabled by another: then it is held back.
TRIED = Statement(
    """
    UPDATE deliveries SET tries = ?2, spent = spent + 1,
        status = iif(?3 = 'due' AND shut, 'disabled', ?3),
        due_at = iif(?3 = 'due' AND shut, NULL, ?4),
        note = iif(?3 = 'due' AND shut, 'the endpoint is disabled', ?5)
    FROM (SELECT d.id AS which, e.disabled_at IS NOT NULL AS shut
        FROM deliveries d JOIN endpoints e ON e.id = d.endpoint WHERE d.id = ?1)
    WHERE id = which AND tries = ?2 - 1
    """,
    missed="missing",
)
TRY = Statement("""
    INSERT INTO delivery_tries (delivery, number, at, latency_ms, http_status, error)
    VALUES (?, ?, ?, ?, ?, ?)
""")
ENDPOINT_WELL = Statement("""
    UPDATE endpoints SET failing_since = NULL, failures = 0, last_error = ''
    WHERE id = (SELECT endpoint FROM deliveries WHERE id = ?) AND failing_since IS NOT NULL
""")
ENDPOINT_FAILS = Statement("""
    UPDATE endpoints SET failing_since = coalesce(failing_since, ?2), failures = failures + 1,
        last_error = ?3
    WHERE id = (SELECT endpoint FROM deliveries WHERE id = ?1)
""")
ENDPOINT_DISABLED = Statement("""
    UPDATE endpoints SET disabled_at = coalesce(disabled_at, ?2)
    WHERE id = (SELECT endpoint FROM deliveries WHERE id = ?1)
""")
HELD_BACK = Statement("""
    UPDATE deliveries SET status = 'disabled', due_at = NULL, note = 'the endpoint is disabled'
    WHERE status = 'due' AND endpoint = (SELECT endpoint FROM deliveries WHERE id = ?)
""")
REDELIVERED = Statement(
    """
    UPDATE deliveries SET status = 'due', due_at = ?2, spent = 0, note = ''
    WHERE uid = ?1 AND EXISTS
        (SELECT 1 FROM endpoints WHERE id = deliveries.endpoint AND disabled_at IS NULL)
    """,
    missed="missing",
)
ENDPOINT_ENABLED = Statement(
    """
    UPDATE endpoints SET disabled_at = NULL, failing_since = NULL, failures = 0, last_error = ''
    WHERE id = ? AND disabled_at IS NOT NULL
    """,
    missed="missing",
)
LET_GO = Statement("""
    UPDATE deliveries SET status = 'due', due_at = ?2, spent = 0, note = ''
    WHERE endpoint = ?1 AND status = 'disabled'
""")

IN_ORDER = (
    SEEN, ENDED, TICK, DEFINITION, STATE, BINDING, JOB_BORN, JOB_MOVED, JOB_TOUCHED,
    JOB_OUT_OF_LINE, JOB_UNREADABLE, TOMBSTONE,
    EVENTS_KEPT, JOB_GONE, KEY,
    KEY_MOVED, EVENT,
    WEBHOOK_TOLD, WEBHOOK_STORED, WEBHOOK_HANDED, WEBHOOKS_LEFT, AWAIT_OVER, AWAIT, AWAIT_PAST,
    WEBHOOKS_EXPIRED, WEBHOOKS_FORGOTTEN, AWAITS_FORGOTTEN,
    ACCOUNT, ACCOUNT_NEW, LEDGER, GRANT_KEY, HISTORY, PAYLOAD, LOCK_FREED, LOCK, TIMER_GONE,
    TIMER, ATTEMPT, LINES, ARTIFACT_RETIRED, ARTIFACT, ASSET,
    ASSET_GONE, CLEARING, CLEARED, TOKEN, TOKEN_REVOKED, TOKEN_ENDS, SUCCESSION, AUDIT, DEAD_LETTER,
    HALT, UNHALT, BULK_OLD, BULK,
    BULK_ITEM, BULK_TURNED, TALLY,
    ENDPOINT, DELIVERY, TRIED, TRY, ENDPOINT_WELL, ENDPOINT_FAILS, ENDPOINT_DISABLED, HELD_BACK,
    REDELIVERED, ENDPOINT_ENABLED, LET_GO,
)  # fmt: skip
