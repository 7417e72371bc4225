"""Every statement that writes about schedules, in the order in which they are run."""

from jobrunner.store.statements import Statement, insert

SCHEDULE = Statement(
    insert("schedules", "name schedule owner up_to made_by made_at changed_at"), taken="exists"
)
SCHEDULE_KEPT = Statement(
    """
    UPDATE schedules SET schedule = :schedule, owner = :owner, changed_at = :at,
        up_to = coalesce(:up_to, up_to)
    WHERE name = :name
    """,
    missed="missing",
)
SCHEDULE_GONE = Statement("DELETE FROM schedules WHERE name = :name", missed="missing")
SCHEDULE_PAUSED = Statement(
    "UPDATE schedules SET paused = :paused WHERE name = :name AND paused IS NULL",
    missed="missing",
)
# What came while it was paused is not made up for.
SCHEDULE_RESUMED = Statement(
    """
    UPDATE schedules SET paused = NULL, up_to = max(up_to, :at)
    WHERE name = :name AND paused IS NOT NULL
    """,
    missed="missing",
)
REACHED = Statement("UPDATE schedules SET up_to = :up_to WHERE name = :schedule")
SCHEDULED = Statement(insert("scheduled", "job schedule mark"), taken="tick")
# A moment that made a job has fired for good; any other may still be fired by hand.
FIRING = Statement(
    """
    INSERT INTO firings (schedule, mark, moment, "last", "count", how, outcome, job_id, code,
        detail, at)
    SELECT name, :mark, :moment, :last, :count, :how, :outcome, :job_id, :code, :detail, :at
    FROM schedules WHERE name = :schedule
    ON CONFLICT (schedule, mark) DO UPDATE SET "last" = excluded."last",
        "count" = excluded."count", how = excluded.how, outcome = excluded.outcome,
        job_id = excluded.job_id, code = excluded.code, detail = excluded.detail, at = excluded.at
    WHERE firings.outcome NOT IN ('fired', 'same')
    """,
    missed="tick",
)
ADVANCED = Statement("""
    UPDATE schedules SET up_to = max(up_to, :up_to), last_job = coalesce(:job_id, last_job),
        failed_at = iif(:failed, :at, failed_at)
    WHERE name = :schedule
""")
FIRINGS_FORGOTTEN = Statement("""
    DELETE FROM firings WHERE id IN
        (SELECT id FROM firings WHERE at < :before ORDER BY at, id LIMIT :most)
""")

SCHEDULES_IN_ORDER = (
    SCHEDULE, SCHEDULE_KEPT, SCHEDULE_GONE, SCHEDULE_PAUSED, SCHEDULE_RESUMED, REACHED, SCHEDULED,
    FIRING, ADVANCED, FIRINGS_FORGOTTEN,
)  # fmt: skip
