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
        status, kind, line_at, claim_at, stuck,
        version, beat, progress, priority, updated_at, credits, cost, rest)
    VALUES (?, ?, ?, (SELECT id FROM definitions WHERE digest = ?), ?, ?, ?, ?,
        ?, ?, ?, ?, ?,
        ?, ?, ?, ?, ?, ?, ?, ?)
    """,
    taken="exists",
)
JOB_MOVED = Statement(
    """
    UPDATE jobs SET status = ?, kind = ?, line_at = ?, claim_at = ?, stuck = ?,
        version = ?, beat = ?, progress = ?, priority = ?, updated_at = ?, credits = ?, cost = ?,
        rest = ?
    WHERE id = ? AND version = ? AND beat = ?
    """,
    missed="version",
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
TOKEN = Statement(
    """
    INSERT INTO tokens (id, name, role, digest, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)
    """,
    taken="exists",
)
TOKEN_REVOKED = Statement(
    "UPDATE tokens SET revoked_at = ?1 WHERE (id = ?2 OR name = ?2) AND revoked_at IS NULL",
    missed="missing",
)
AUDIT = Statement("INSERT INTO audit (at, event, actor, job_id, fields) VALUES (?, ?, ?, ?, ?)")
DEAD_LETTER = Statement("""
    INSERT INTO dead_letters (at, job_id, workflow, user_id, reason, failure_code,
        failure_message, failed_stage, hidden)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
""")
TALLY = Statement("""
    INSERT INTO tally (workflow, status, jobs, in_line) VALUES (?1, ?2, max(?3, 0), max(?4, 0))
    ON CONFLICT (workflow, status) DO UPDATE SET jobs = jobs + ?3, in_line = in_line + ?4
""")

IN_ORDER = (
    SEEN, ENDED, DEFINITION, STATE, JOB_BORN, JOB_MOVED, JOB_TOUCHED, TOMBSTONE, JOB_GONE, KEY,
    KEY_MOVED, EVENT, ACCOUNT, ACCOUNT_NEW, LEDGER, HISTORY, PAYLOAD, LOCK_FREED, LOCK, TIMER_GONE,
    TIMER, ATTEMPT, ARTIFACT_RETIRED, ARTIFACT, ASSET, TOKEN, TOKEN_REVOKED, AUDIT, DEAD_LETTER,
    TALLY,
)  # fmt: skip
