-- Users take turns at work for outside workers: within a priority the jobs of each lie together, in the order
-- of their age, and with them the moment from which on they may be claimed: many may wait for theirs.
DROP INDEX jobs_to_claim;
CREATE INDEX jobs_to_claim ON jobs (workflow, status, priority DESC, user_id, id, claim_at)
    WHERE claim_at IS NOT NULL;
