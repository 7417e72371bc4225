-- Seen from outside. Jobs that rest in a waiting state by their last change, so that how many there
-- are, and how long the one that rests longest has, is a look into what waits and not at all jobs;
-- and the dead letters that somebody is to look at.
CREATE INDEX jobs_waiting ON jobs (workflow, updated_at) WHERE kind = 'waiting';

CREATE INDEX dead_letters_shown ON dead_letters (at) WHERE hidden = 0;
