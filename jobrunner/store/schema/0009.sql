-- Charts. A row for each bucket of time in which something happened to jobs of a workflow, of a span
-- whose buckets are ``step_s`` long; the row of the line, which is nobody's, names no workflow. Each
-- span has so many buckets and no more. ``counted`` is JSON.
CREATE TABLE charts (
    step_s   INTEGER NOT NULL CHECK (step_s > 0),
    at       INTEGER NOT NULL CHECK (at % (step_s * 1000) = 0),
    workflow TEXT NOT NULL,
    counted  TEXT NOT NULL CHECK (counted <> ''),
    PRIMARY KEY (step_s, at, workflow)
) STRICT, WITHOUT ROWID;
