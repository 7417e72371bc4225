"""Sentences that must be true of the whole file, each with a select that finds where it is not."""

from msgspec import Struct


class Rule(Struct, frozen=True):
    sentence: str
    sql: str


# A job and what its place is bound to, with what tells how it rests there: whether its attempt was
# begun (then it ends as it was begun), and which timers it has.
BOUND = """
    WITH bound AS (
        SELECT j.id, j.uid, j.status, j.kind, j.line_at, b.stage,
            a.status AS attempt, a.holder, a.attempt ->> 'stage' AS works,
            a.attempt ->> 'started_at' AS began,
            j.stuck IS NULL AND j.paused = 0 AND j.rest ->> '$.run.id' IS NOT NULL
                AND coalesce(j.rest ->> '$.run.live', 1) AS goes
        FROM bindings b CROSS JOIN jobs j ON (j.definition, j.status, j.job_type)
            = (b.definition, b.status, b.job_type)
        LEFT JOIN attempts a ON a.job = j.id AND a.status <> 'ended'
        WHERE b.settled = 1),
    timed AS (SELECT job, group_concat(purpose) AS purposes FROM timers GROUP BY job)
    SELECT uid, status, stage FROM bound LEFT JOIN timed ON job = id WHERE """
RULES = (
    Rule(
        "account {0}: balance {1} and held {2}, but its ledger sums up to {3} and {4}",
        """
        SELECT a.user_id, balance, held, coalesce(sum(l.amount), 0) s,
            coalesce(sum(held_change), 0) h
        FROM accounts a LEFT JOIN ledger l ON l.user_id = a.user_id GROUP BY a.user_id
        HAVING balance <> s OR held <> h
        """,
    ),
    Rule(
        "ledger row {0} of {1} says that {2} and {3} remained, but it was {4} and {5}",
        """
        SELECT * FROM (
            SELECT id, user_id, balance_after b, held_after h,
                sum(amount) OVER mine AS spendable, sum(held_change) OVER mine AS held
            FROM ledger WINDOW mine AS (PARTITION BY user_id ORDER BY id))
        WHERE b <> spendable OR h <> held
        """,
    ),
    Rule(
        "job {0}: credits are {1} and the cost is {2}, but its ledger moved {3} and holds {4}",
        """
        SELECT j.uid, j.credits, j.cost, coalesce(sum(l.amount), 0) s,
            coalesce(sum(l.held_change), 0) h
        FROM jobs j LEFT JOIN ledger l ON l.job_id = j.uid GROUP BY j.id
        HAVING s <> CASE WHEN credits IN ('held', 'captured', 'charged') THEN -cost ELSE 0 END
            OR h <> CASE WHEN credits = 'held' THEN cost ELSE 0 END
        """,
    ),
    Rule(
        "job {0}, deleted: its ledger still holds {1} credits",
        """
        SELECT t.uid, sum(l.held_change) h FROM tombstones t JOIN ledger l ON l.job_id = t.uid
        GROUP BY t.uid HAVING h <> 0
        """,
    ),
    Rule(
        "job {0} has its turn under the key {1} and no attempt that is under way",
        """
        SELECT j.uid, w.key FROM turns w JOIN jobs j ON j.id = w.job
        WHERE w.has = 1 AND NOT EXISTS (SELECT 1 FROM attempts a
            WHERE a.job = w.job AND a.status IN ('running', 'parked', 'due'))
        """,
    ),
    Rule(
        "job {0} is final ({1}) and still has {2}",
        """
        SELECT j.uid, j.status, 'the timer ' || t.purpose FROM jobs j JOIN timers t ON t.job = j.id
        WHERE j.kind = 'final'
        UNION ALL
        SELECT j.uid, j.status, 'the lock ' || l.scope FROM jobs j JOIN locks l ON l.job = j.id
        WHERE j.kind = 'final'
        UNION ALL
        SELECT j.uid, j.status, 'a place in line' FROM jobs j
        WHERE j.kind = 'final' AND (line_at IS NOT NULL OR claim_at IS NOT NULL)
        UNION ALL
        SELECT j.uid, j.status, 'the open attempt ' || a.serial
        FROM jobs j JOIN attempts a ON a.job = j.id
        WHERE j.kind = 'final' AND a.status <> 'ended'
        UNION ALL
        SELECT j.uid, j.status, 'the key ' || w.key FROM jobs j JOIN turns w ON w.job = j.id
        WHERE j.kind = 'final'
        """,
    ),
    Rule(
        "job {0}: {1} attempts are open at once",
        """
        SELECT j.uid, count(*) n FROM attempts a JOIN jobs j ON j.id = a.job
        WHERE a.status <> 'ended' GROUP BY a.job HAVING n > 1
        """,
    ),
    Rule(
        "job {0}: its history goes from {2} to {3} at version {1}, but it stood at {4}",
        """
        SELECT uid, version, from_status, to_status, stood FROM (
            SELECT j.uid, h.version, h.from_status, h.to_status, h.job,
                lag(h.to_status) OVER (PARTITION BY h.job ORDER BY h.version, h.hop) AS stood
            FROM history h JOIN jobs j ON j.id = h.job)
        WHERE from_status IS NOT stood
        """,
    ),
    Rule(
        "job {0}: hop {2} of version {1} has no hop {2} - 1 before it",
        """
        SELECT j.uid, h.version, h.hop FROM history h JOIN jobs j ON j.id = h.job
        WHERE h.hop > 1 AND NOT EXISTS (SELECT 1 FROM history o
            WHERE o.job = h.job AND o.version = h.version AND o.hop = h.hop - 1)
        """,
    ),
    Rule(
        "job {0}: status {1} at version {2}, but its history ends with {3} at version {4}",
        """
        SELECT j.uid, j.status, j.version, h.to_status, h.version
        FROM jobs j LEFT JOIN history h ON h.seq = (SELECT seq FROM history WHERE job = j.id
            ORDER BY version DESC, hop DESC LIMIT 1)
        WHERE h.to_status IS NOT j.status OR h.version > j.version
        """,
    ),
    Rule(
        "job {0}: its history leaves the final state {1}",
        """
        SELECT j.uid, h.from_status FROM history h JOIN jobs j ON j.id = h.job
        JOIN states s ON s.definition = j.definition AND s.name = h.from_status
        WHERE s.kind = 'final' AND NOT EXISTS (SELECT 1 FROM repinnings r
            WHERE r.job = h.job AND r.version >= h.version)
        """,
    ),
    Rule(
        "job {0}: status {1} counts as {2}, but its declaration says {3}",
        """
        SELECT j.uid, j.status, j.kind, coalesce(s.kind, 'nothing of it') FROM jobs j
        LEFT JOIN states s ON s.definition = j.definition AND s.name = j.status
        WHERE s.kind IS NOT j.kind
        """,
    ),
    Rule(
        "job {0}: artifact {1} has {2} current versions",
        """
        SELECT j.uid, a.name, sum(a.current) n FROM artifacts a JOIN jobs j ON j.id = a.job
        GROUP BY a.job, a.name HAVING n > 1
        """,
    ),
    Rule(
        "key {0} of {1} leads to job {2}, which is neither there nor remembered",
        """
        SELECT k.digest, k.user_id, k.job_id FROM keys k
        WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE uid = k.job_id)
            AND NOT EXISTS (SELECT 1 FROM tombstones WHERE uid = k.job_id)
        """,
    ),
    Rule(
        "asset {0} belongs to no job and its row does not say where it lies",
        "SELECT uid FROM assets WHERE job IS NULL AND "
        "(storage_path = '' OR sha256 = '' OR file_size IS NULL)",
    ),
    Rule(
        "asset {0} lies in {1}, whose files are to be removed",
        "SELECT a.uid, c.folder FROM clearings c "
        "JOIN assets a ON a.storage_path LIKE c.folder || '/%'",
    ),
    Rule(
        "grant key {1} of {0} leads to ledger row {2}, which is no grant to them",
        """
        SELECT k.user_id, k.key, k.entry FROM grant_keys k JOIN ledger l ON l.id = k.entry
        WHERE l.kind <> 'grant' OR l.user_id <> k.user_id
        """,
    ),
    Rule(
        "job {0}: its attempt {1} awaits the webhook {2}, and the table of names does not say so",
        """
        SELECT j.uid, a.serial, json_extract(a.attempt, '$.awaits') n
        FROM attempts a JOIN jobs j ON j.id = a.job
        WHERE a.status = 'parked' AND json_extract(a.attempt, '$.source') IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM awaits w
                WHERE w.name = n AND w.job = a.job AND w.serial = a.serial AND w.open = 1)
        """,
    ),
    Rule(
        "the webhook {0} is said to be awaited by job {1}, whose attempt {2} does not",
        """
        SELECT w.name, j.uid, w.serial FROM awaits w JOIN jobs j ON j.id = w.job
        WHERE w.open = 1 AND NOT EXISTS (SELECT 1 FROM attempts a
            WHERE a.job = w.job AND a.serial = w.serial AND a.status = 'parked'
                AND json_extract(a.attempt, '$.awaits') = w.name)
        """,
    ),
    Rule(
        "the webhook {0} of {1} is kept, though job {2} awaits it",
        """
        SELECT k.webhook_id, k.source, j.uid FROM webhooks k JOIN awaits w ON w.name = k.name
        JOIN jobs j ON j.id = w.job WHERE w.open = 1 AND k.value IS NOT NULL
            AND k.at >= w.at - 3600000
        """,
    ),
    Rule(
        "question {0} of job {1} is open, and no attempt of it asks that",
        """
        SELECT q.name, j.uid FROM questions q JOIN jobs j ON j.id = q.job
        WHERE q.standing = 'open' AND NOT EXISTS (SELECT 1 FROM attempts a
            WHERE a.job = q.job AND a.status <> 'ended'
                AND json_extract(a.attempt, '$.questions.' || q.name || '.digest') = q.digest
                AND json_extract(a.attempt, '$.questions.' || q.name || '.standing') IS NULL)
        """,
    ),
    Rule(
        "job {0}: its attempt {1} asks {2}, and the table of questions does not say so",
        """
        SELECT j.uid, a.serial, e.key
        FROM attempts a JOIN jobs j ON j.id = a.job, json_each(a.attempt, '$.questions') e
        WHERE a.status <> 'ended' AND json_extract(e.value, '$.standing') IS NULL
            AND NOT EXISTS (SELECT 1 FROM questions q WHERE q.job = a.job
                AND q.digest = json_extract(e.value, '$.digest') AND q.standing = 'open')
        """,
    ),
    Rule(
        "job {0} is there and has a tombstone",
        "SELECT j.uid FROM jobs j JOIN tombstones t ON t.uid = j.uid",
    ),
    Rule(
        "job {0}: its column says paused {1}, its text {2}",
        """
        SELECT uid, paused, coalesce(json_extract(rest, '$.paused'), 'nothing of it') FROM jobs
        WHERE paused <> (json_extract(rest, '$.paused') IS NOT NULL)
        """,
    ),
    Rule(
        "job {0} is final ({1}) and still paused",
        "SELECT uid, status FROM jobs WHERE paused = 1 AND kind = 'final'",
    ),
    Rule(
        "job {0} is {1} and in line for a slot, but is bound to {2}",
        BOUND + """stage = 'external' AND line_at IS NOT NULL AND began IS NULL""",
    ),
    Rule(
        "job {0} is {1} and in no line, but is bound to {2}, which runs in-process",
        BOUND
        + """stage <> 'external' AND line_at IS NULL AND CASE
            WHEN attempt IS NULL
                THEN kind = 'queued' AND instr(coalesce(purposes, ''), 'run_at') = 0
            ELSE attempt = 'due' AND instr(coalesce(purposes, ''), 'backoff') = 0 END""",
    ),
    Rule(
        "job {0} is {1}: its attempt was not begun and is for another stage than {2}",
        BOUND + "attempt = 'due' AND began IS NULL AND works <> stage",
    ),
    Rule(
        "job {0} is {1}, which is bound to {2} in-process: somebody outside holds it unclaimed",
        BOUND
        + """stage <> 'external' AND attempt = 'running' AND holder <> 'stage'
            AND instr(coalesce(purposes, ''), 'lease') = 0""",
    ),
    Rule(
        "job {0} rests in {1}, though its run is live and {2} behind it runs in-process",
        BOUND
        + """stage <> 'external' AND kind = 'waiting' AND attempt IS NULL AND goes
            AND instr(coalesce(purposes, ''), 'run_at') = 0""",
    ),
    Rule(
        "job {0} is {1} ({2}), and its parent takes it for {3}",
        """
        SELECT c.uid, j.status, j.kind, c.ended FROM children c JOIN jobs j ON j.id = c.job
        WHERE (c.ended > 0) <> (j.kind IN ('settled', 'final'))
        """,
    ),
    Rule(
        "job {0} names job {1} as its parent, which does not know it",
        """
        SELECT j.uid, p.uid FROM jobs j JOIN jobs p ON p.uid = j.rest ->> '$.parent.job_id'
        WHERE NOT EXISTS (SELECT 1 FROM children c WHERE c.job = j.id AND c.parent = p.id)
        """,
    ),
    Rule(
        "job {0} waits for {1} children, and {2} waits of it are counted down",
        """
        SELECT j.uid, coalesce(a.attempt ->> 'jobs', 0) n,
            (SELECT count(*) FROM family_waits w WHERE w.job = j.id) m
        FROM jobs j LEFT JOIN attempts a ON a.job = j.id AND a.status = 'parked'
        WHERE (n > 0) <> m AND (a.job IS NOT NULL OR m > 0)
        """,
    ),
    Rule(
        "job {0} waits for {1} ends of children, of which {2} can still come",
        """
        SELECT j.uid, w.due, count(*) FILTER (WHERE c.ended = 0) n
        FROM family_waits w JOIN jobs j ON j.id = w.job
        LEFT JOIN children c ON c.parent = w.job AND c.awaited = 1
        GROUP BY w.job HAVING w.due > n AND coalesce(w.spare, 1) > 0
        """,
    ),
    Rule(
        "job {0} is {1} ({2}), and its batch {3} takes it for {4}",
        """
        SELECT i.uid, j.status, j.kind, b.uid, i.ended FROM batch_items i
        JOIN jobs j ON j.id = i.job JOIN batches b ON b.id = i.batch
        WHERE (i.ended > 0) <> (j.kind IN ('settled', 'final'))
        """,
    ),
    Rule(
        "job {0} names batch {1}, which does not know it",
        """
        SELECT j.uid, b.uid FROM jobs j JOIN batches b ON b.uid = j.rest ->> '$.batch.id'
        WHERE NOT EXISTS (SELECT 1 FROM batch_items i WHERE i.job = j.id AND i.batch = b.id)
        """,
    ),
    Rule(
        "batch {0} has {2} jobs that go on and counts {1}; closed: {3}, ended at {4}",
        """
        SELECT b.uid, b.unended, count(i.uid) n, NOT b.open, b.ended_at FROM batches b
        LEFT JOIN batch_items i ON i.batch = b.id AND i.uid <> '' AND i.ended = 0
        GROUP BY b.id HAVING n <> b.unended
            OR (b.open = 0 AND b.unended = 0 AND b.ended_at IS NULL)
        """,
    ),
    Rule(
        "bulk {0} is done, and {1} of its items are not",
        """
        SELECT b.uid, count(*) FROM bulks b JOIN bulk_items i ON i.bulk = b.id
        WHERE b.status = 'done' AND i.outcome IS NULL GROUP BY b.id
        """,
    ),
    Rule(
        "{0} jobs of {1} are {2}, {3} of them in line; the tally says {4} and {5}",
        """
        WITH seen AS (
            SELECT workflow, status, count(*) jobs,
                sum(line_at IS NOT NULL AND stuck IS NULL AND paused = 0) line
            FROM jobs GROUP BY workflow, status),
        places AS (SELECT workflow, status FROM seen UNION SELECT workflow, status FROM tally)
        SELECT coalesce(s.jobs, 0) a, p.workflow, p.status, coalesce(s.line, 0) b,
            coalesce(t.jobs, 0) c, coalesce(t.in_line, 0) d
        FROM places p LEFT JOIN seen s USING (workflow, status)
        LEFT JOIN tally t USING (workflow, status) WHERE a <> c OR b <> d
        """,
    ),
    Rule(
        "delivery {0} says that it was tried {1} times; {2} tries are written down",
        """
        SELECT d.uid, d.tries, count(t.number) n, max(coalesce(t.number, 0)) m FROM deliveries d
        LEFT JOIN delivery_tries t ON t.delivery = d.id GROUP BY d.id
        HAVING d.tries <> n OR d.tries <> m
        """,
    ),
    Rule(
        "delivery {0} counts as delivered, but no try of it was a success",
        """
        SELECT d.uid FROM deliveries d WHERE d.status = 'delivered' AND NOT EXISTS
            (SELECT 1 FROM delivery_tries t
             WHERE t.delivery = d.id AND t.http_status BETWEEN 200 AND 299)
        """,
    ),
    Rule(
        "delivery {0} is due at endpoint {1}, which is disabled",
        """
        SELECT d.uid, e.id FROM deliveries d JOIN endpoints e ON e.id = d.endpoint
        WHERE d.status = 'due' AND e.disabled_at IS NOT NULL
        """,
    ),
    Rule(
        "endpoint {0} of {1} has no delivery",
        """
        SELECT e.id, e.owner FROM endpoints e
        WHERE NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.endpoint = e.id)
        """,
    ),
    Rule(
        "job {0} was made by schedule {1} for {2}, but its row does not say so",
        """
        SELECT j.uid, s.schedule, s.mark FROM scheduled s JOIN jobs j ON j.id = s.job
        WHERE j.rest ->> '$.schedule.name' IS NOT s.schedule
            OR j.rest ->> '$.schedule.mark' IS NOT s.mark
        """,
    ),
    Rule(
        "schedule {0} fired {1} as job {2}, which was made for {3} of schedule {4}",
        """
        SELECT f.schedule, f.mark, f.job_id, s.mark, s.schedule FROM firings f
        JOIN jobs j ON j.uid = f.job_id LEFT JOIN scheduled s ON s.job = j.id
        WHERE f.outcome = 'fired' AND (s.schedule, s.mark) IS NOT (f.schedule, f.mark)
        """,
    ),
    Rule(
        "chart of {0!r} at {1} ({2} s): {3} jobs ended, but {4} say how long they took",
        """
        SELECT * FROM (SELECT workflow, at, step_s,
            CASE json_valid(counted) WHEN 1 THEN (SELECT coalesce(sum(value), 0)
                FROM json_each(counted, '$.ended')) ELSE 'unreadable' END AS ended,
            CASE json_valid(counted) WHEN 1 THEN (SELECT coalesce(sum(value), 0)
                FROM json_each(counted, '$.took')) ELSE 'unread' END AS took
            FROM charts)
        WHERE ended <> took
        """,
    ),
)
