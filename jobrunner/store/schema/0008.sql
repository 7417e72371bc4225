-- Rates. A row for each name that was ever taken from: when its bucket would be full again, and until
-- when a provider holds it back, and whose word that was. It is written in the commit of the start that
-- takes from it, so no start is forgotten by a crash.
CREATE TABLE rates (
    name       TEXT PRIMARY KEY CHECK (name <> ''),
    full_at    INTEGER NOT NULL,
    held_until INTEGER NOT NULL DEFAULT 0 CHECK (held_until >= 0),
    held_by    TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
