-- Retention. Jobs that have ended by the moment of their last change, so that finding out that none is
-- due costs a look at one end of the index, however many there are; the same for what stays of deleted
-- jobs, for records, and for files that are no job's.
CREATE INDEX jobs_ended ON jobs (workflow, status, updated_at) WHERE kind IN ('settled', 'final');

CREATE INDEX tombstones_by_age ON tombstones (deleted_at);
CREATE INDEX audit_by_age ON audit (at);
CREATE INDEX dead_letters_by_age ON dead_letters (at);

-- When a file that is no job's was last found to be named by a job: only after as long again is it
-- looked for once more.
ALTER TABLE assets ADD COLUMN used_at INTEGER;

CREATE INDEX assets_idle ON assets (coalesce(used_at, created_at)) WHERE job IS NULL;
