"""The statements of what stands beside a job: webhooks, tokens, audit, pauses, bulks, deliveries.

They are run after those of the job itself, in the order at the end of this file.
"""

from jobrunner.core.features.sessions import SESSIONS_MAX
from jobrunner.store.features.answers import QUESTION
from jobrunner.store.features.schedules.schedule_statements import SCHEDULES_IN_ORDER
from jobrunner.store.keeping.object_statements import OBJECTS_IN_ORDER
from jobrunner.store.rows import MOVING, PLACE
from jobrunner.store.statements import Statement, insert, upsert

GRANT_KEY = Statement(
    """
    INSERT INTO grant_keys (user_id, key, entry)
    SELECT user_id, :key, max(id) FROM ledger WHERE user_id = :user_id
    """,
    taken="key",
)
BINDING = Statement("""
    INSERT INTO bindings (definition, status, job_type, stage, settled, was, changed_at, jobs)
    SELECT id, :status, :job_type, :stage, :settled, :was, :changed_at, :jobs
    FROM definitions WHERE digest = :digest
    ON CONFLICT (definition, status, job_type) DO UPDATE SET stage = excluded.stage,
        settled = excluded.settled, was = excluded.was, changed_at = excluded.changed_at,
        jobs = excluded.jobs
""")
WEBHOOK_TOLD = Statement(
    insert("webhooks", "source webhook_id name at applied reason job"),
    taken="webhook",
)
# For nobody now; refused when somebody has come to await it since that was looked at, and one that
# is to be kept also when nobody awaits it any more.
WEBHOOK_STORED = Statement(
    """
    INSERT INTO webhooks (source, webhook_id, name, at, applied, reason, job, value)
    SELECT :source, :webhook_id, :name, :at, :applied, :reason,
        (SELECT job FROM awaits WHERE name = :name), :value
    WHERE NOT EXISTS (SELECT 1 FROM awaits WHERE name = :name
        AND (:value IS NOT NULL OR (open = 1 AND job IS NOT NULL)))
    """,
    missed="awaited",
    taken="webhook",
)
WEBHOOK_HANDED = Statement(
    """
    UPDATE webhooks SET applied = 1, reason = '', value = NULL, job = :job
    WHERE id = :webhook AND value IS NOT NULL
    """,
    missed="awaited",
)
WEBHOOKS_LEFT = Statement("""
    UPDATE webhooks SET reason = 'over', value = NULL WHERE name = :name AND value IS NOT NULL
""")
AWAIT_OVER = Statement("UPDATE awaits SET open = 0 WHERE name = :name AND job = :job")
# Refused when another job awaits this name, or a webhook of it has come since that was looked at.
AWAIT = Statement(
    """
    INSERT INTO awaits (name, job, serial, at, open) SELECT :name, :job, :serial, :at, 1
    WHERE NOT EXISTS
        (SELECT 1 FROM webhooks WHERE name = :name AND value IS NOT NULL AND at >= :since)
    ON CONFLICT (name) DO UPDATE SET job = excluded.job, serial = excluded.serial,
        at = excluded.at, open = 1
    WHERE awaits.open = 0 OR awaits.job IS NULL OR awaits.job = excluded.job
    """,
    missed="awaited",
)
AWAIT_PAST = Statement(
    """
    INSERT INTO awaits (name, job, serial, at, open) VALUES (:name, :job, :serial, :at, 0)
    ON CONFLICT (name) DO UPDATE SET job = excluded.job, serial = excluded.serial,
        at = excluded.at, open = 0
    WHERE awaits.open = 0 OR awaits.job IS NULL OR awaits.job = excluded.job
    """,
    missed="awaited",
)
WEBHOOKS_EXPIRED = Statement("""
    UPDATE webhooks SET reason = 'expired', value = NULL
    WHERE id IN (SELECT id FROM webhooks WHERE value IS NOT NULL AND at < :before LIMIT :most)
""")
WEBHOOKS_FORGOTTEN = Statement("""
    DELETE FROM webhooks WHERE id IN
        (SELECT id FROM webhooks WHERE job IS NULL AND value IS NULL AND at < :before LIMIT :most)
""")
AWAITS_FORGOTTEN = Statement("""
    DELETE FROM awaits WHERE name IN
        (SELECT name FROM awaits WHERE job IS NULL AND at < :before LIMIT :most)
""")
TOKEN = Statement(
    insert("tokens", "id name role digest created_at expires_at workflows"),
    taken="exists",
)
SUCCESSION = Statement(insert("successions", "successor token"))
TOKEN_REVOKED = Statement(
    "UPDATE tokens SET revoked_at = :at "
    "WHERE (id = :token OR name = :token) AND revoked_at IS NULL",
    missed="missing",
)
TOKEN_ENDS = Statement(
    "UPDATE tokens SET expires_at = min(coalesce(expires_at, :at), :at) "
    "WHERE id = :token AND revoked_at IS NULL",
    missed="missing",
)
SESSIONS_OVER = Statement("DELETE FROM sessions WHERE expires_at <= :at")
SESSION = Statement(insert("sessions", "digest token created_at expires_at"), taken="exists")
SESSIONS_TOO_MANY = Statement(f"""
    DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE token = :token
        ORDER BY id DESC LIMIT -1 OFFSET {SESSIONS_MAX})
""")  # noqa: S608 - a number of our own
SESSION_ENDED = Statement("DELETE FROM sessions WHERE digest = :digest")
AUDIT = Statement(insert("audit", "at event actor job_id fields"))
HALT = Statement(insert("pauses", "scope name by at reason"), taken="exists")
UNHALT = Statement("DELETE FROM pauses WHERE scope = :scope AND name = :name", missed="missing")
BULK = Statement("""
    INSERT INTO bulks (uid, orders, actor, status, created_at)
    VALUES (:uid, :orders, :actor, 'gathering', :created_at)
""")
BULK_OLD = Statement("DELETE FROM bulks WHERE ended_at < :before")
BULK_ITEM = Statement("""
    INSERT INTO bulk_items (bulk, place, job_id)
    SELECT id, :place, :job_id FROM bulks WHERE uid = :bulk
""")
BULK_TURNED = Statement(
    """
    UPDATE bulks SET status = :status, ended_at = :ended_at
    WHERE uid = :bulk AND status IN ('gathering', 'running') AND status <> :status
    """,
    missed="missing",
)
# An owner who is a user has at most so many notifications waiting; what is more is kept, not sent.
WAITING_MAX = 1000
ENDPOINT = Statement(insert("endpoints", "owner url", "ON CONFLICT (owner, url) DO NOTHING"))
DELIVERY = Statement(f"""
    INSERT INTO deliveries (uid, job, endpoint, owner, lane, type, body, created_at, status,
        due_at, note)
    SELECT :id, :job, id, :owner, :lane, :type, :body, :at, s, iif(s = 'due', :at, NULL), CASE s
        WHEN 'disabled' THEN 'the endpoint is disabled'
        WHEN 'failed' THEN '{WAITING_MAX} notifications of this owner wait already' ELSE '' END
    FROM (SELECT id, CASE WHEN disabled_at IS NOT NULL THEN 'disabled'
        WHEN instr(:owner, ':') = 0 AND (SELECT count(*) FROM (SELECT 1 FROM deliveries
            WHERE owner = :owner AND due_at IS NOT NULL LIMIT {WAITING_MAX})) = {WAITING_MAX}
        THEN 'failed' ELSE 'due' END AS s
        FROM endpoints WHERE owner = :owner AND url = :url LIMIT 1)
""")  # noqa: S608 - a number of our own
# While it was tried, its endpoint may have been disabled by another: then it is held back.
TRIED = Statement(
    """
    UPDATE deliveries SET tries = :number, spent = spent + 1,
        status = iif(:outcome = 'due' AND shut, 'disabled', :outcome),
        due_at = iif(:outcome = 'due' AND shut, NULL, :due_at),
        note = iif(:outcome = 'due' AND shut, 'the endpoint is disabled', :note)
    FROM (SELECT d.id AS which, e.disabled_at IS NOT NULL AS shut
        FROM deliveries d JOIN endpoints e ON e.id = d.endpoint WHERE d.id = :delivery)
    WHERE id = which AND tries = :number - 1
    """,
    missed="missing",
)
TRY = Statement(insert("delivery_tries", "delivery number at latency_ms http_status error"))
ENDPOINT_WELL = Statement("""
    UPDATE endpoints SET failing_since = NULL, failures = 0, last_error = ''
    WHERE id = (SELECT endpoint FROM deliveries WHERE id = :delivery) AND failing_since IS NOT NULL
""")
ENDPOINT_FAILS = Statement("""
    UPDATE endpoints SET failing_since = coalesce(failing_since, :at), failures = failures + 1,
        last_error = :error
    WHERE id = (SELECT endpoint FROM deliveries WHERE id = :delivery)
""")
ENDPOINT_DISABLED = Statement("""
    UPDATE endpoints SET disabled_at = coalesce(disabled_at, :at)
    WHERE id = (SELECT endpoint FROM deliveries WHERE id = :delivery)
""")
HELD_BACK = Statement("""
    UPDATE deliveries SET status = 'disabled', due_at = NULL, note = 'the endpoint is disabled'
    WHERE status = 'due' AND endpoint = (SELECT endpoint FROM deliveries WHERE id = :delivery)
""")
REDELIVERED = Statement(
    """
    UPDATE deliveries SET status = 'due', due_at = :at, spent = 0, note = ''
    WHERE uid = :delivery AND EXISTS
        (SELECT 1 FROM endpoints WHERE id = deliveries.endpoint AND disabled_at IS NULL)
    """,
    missed="missing",
)
ENDPOINT_ENABLED = Statement(
    """
    UPDATE endpoints SET disabled_at = NULL, failing_since = NULL, failures = 0, last_error = ''
    WHERE id = :endpoint AND disabled_at IS NOT NULL
    """,
    missed="missing",
)
LET_GO = Statement("""
    UPDATE deliveries SET status = 'due', due_at = :at, spent = 0, note = ''
    WHERE endpoint = :endpoint AND status = 'disabled'
""")
BACKUP = "folder name as_of ended_at bytes new_bytes files failed_at failure"
BACKED_UP = Statement(upsert("backups", BACKUP, "folder"))
BACKUP_FAILED = Statement(upsert("backups", "folder failed_at failure", "folder"))
RESTORATION_TOLD = Statement("UPDATE restorations SET told_at = :told_at WHERE id <= :id")
# Of two that are written, the later instant holds: nothing is ever given back by a late write.
RATE = Statement("""
    INSERT INTO rates (name, full_at, held_until, held_by)
    VALUES (:name, :full_at, :held_until, :held_by)
    ON CONFLICT (name) DO UPDATE SET full_at = max(full_at, excluded.full_at),
        held_by = iif(excluded.held_until > held_until, excluded.held_by, held_by),
        held_until = max(held_until, excluded.held_until)
""")
_NEWS = ", ".join(f"{name} = :{name}" for name in (*PLACE, *MOVING))
_PINNED = "definition = (SELECT id FROM definitions WHERE digest = :digest)"
_UNCHANGED = "id = :id AND version = :was_at AND beat = :was_beat"
JOB_REPINNED = Statement(
    f"UPDATE jobs SET {_PINNED}, {_NEWS} WHERE {_UNCHANGED}",  # noqa: S608 - names of our own
    missed="version",
)
REPINNED = Statement(insert("repinnings", "job version was became"))
UPGRADES_OLD = Statement("DELETE FROM upgrades WHERE ended_at < :before")
UPGRADE = Statement(
    insert(
        "upgrades",
        "uid workflow digest version actor at reason dry status looked_at moved stays ended_at",
    )
)
UPGRADE_LOOKED = Statement(
    """
    UPDATE upgrades SET looked_at = :looked_at, moved = moved + :moved, stays = :stays
    WHERE uid = :id AND status = 'running'
    """,
    missed="missing",
)
# Nobody is moved on behalf of an order that is over.
UPGRADE_MOVED = Statement(
    "UPDATE upgrades SET moved = moved + 1 WHERE uid = :upgrade AND status = 'running'",
    missed="tick",
)
UPGRADE_TURNED = Statement(
    """
    UPDATE upgrades SET status = :status, ended_at = :at WHERE uid = :id AND status = 'running'
    """,
    missed="missing",
)
TURN = Statement(upsert("turns", "job key has", "job"))
TURN_OVER = Statement("DELETE FROM turns WHERE job = :job")
_NEEDLESS = """
    (SELECT d.id FROM definitions d WHERE d.digest = :digest
        AND NOT EXISTS (SELECT 1 FROM jobs WHERE definition = d.id)
        AND NOT EXISTS (SELECT 1 FROM decisions WHERE definition = d.id))
"""
DECLARATION_FORGOTTEN = tuple(
    Statement(f"DELETE FROM {table} WHERE {key} IN {_NEEDLESS}")  # noqa: S608 - names of our own
    for table, key in (("bindings", "definition"), ("states", "definition"), ("definitions", "id"))
)
DECISION = Statement("""
    INSERT INTO decisions (job, version, beat, definition, data)
    SELECT :job, :version, :beat, id, :data FROM definitions WHERE digest = :digest
""")
LIMIT = Statement(upsert("limits", "key value by at reason", "key"))
LIMIT_GONE = Statement("DELETE FROM limits WHERE key = :key", missed="missing")

BESIDE_IN_ORDER = (
    GRANT_KEY, BINDING, WEBHOOK_TOLD, WEBHOOK_STORED, WEBHOOK_HANDED, WEBHOOKS_LEFT, AWAIT_OVER,
    AWAIT, AWAIT_PAST, WEBHOOKS_EXPIRED, WEBHOOKS_FORGOTTEN, AWAITS_FORGOTTEN, TOKEN,
    TOKEN_REVOKED, TOKEN_ENDS, SUCCESSION, SESSIONS_OVER, SESSION, SESSIONS_TOO_MANY, SESSION_ENDED,
    AUDIT, HALT, UNHALT, BULK_OLD, BULK, BULK_ITEM, BULK_TURNED,
    ENDPOINT, DELIVERY, TRIED, TRY, ENDPOINT_WELL, ENDPOINT_FAILS, ENDPOINT_DISABLED,
    HELD_BACK, REDELIVERED, ENDPOINT_ENABLED, LET_GO, BACKED_UP, BACKUP_FAILED,
    RESTORATION_TOLD, RATE, TURN, TURN_OVER, LIMIT, LIMIT_GONE, *SCHEDULES_IN_ORDER, QUESTION,
    JOB_REPINNED, REPINNED, UPGRADES_OLD, UPGRADE, UPGRADE_LOOKED, UPGRADE_MOVED, UPGRADE_TURNED,
    DECISION, *DECLARATION_FORGOTTEN, *OBJECTS_IN_ORDER,
)  # fmt: skip
