"""The binding of each place of a declaration at the last start, and the jobs that a changed binding
may concern."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from msgspec import Struct, structs

from jobrunner.core.features.bindings import Bind, Binding, Resting, Spot
from jobrunner.store.columns import Columns
from jobrunner.store.features import statements as beside
from jobrunner.store.jobs import declarations
from jobrunner.store.rows import text
from jobrunner.store.statements import Row

Db = sqlite3.Connection

# Whoever rests where a binding matters is in line, up for a claim, held by somebody, timed, or was
# stuck or paused: each of these is an index, and whatever has ended is in none of them.
RESTING = """
    WITH found (row) AS (
        SELECT id FROM jobs WHERE line_at IS NOT NULL AND stuck IS NULL AND paused = 0
        UNION SELECT id FROM jobs WHERE claim_at IS NOT NULL
        UNION SELECT id FROM jobs WHERE stuck IS NOT NULL
        UNION SELECT id FROM jobs WHERE paused = 1
        UNION SELECT job FROM attempts WHERE status = 'running'
        UNION SELECT job FROM timers)
    SELECT {what}
    FROM found CROSS JOIN jobs j ON j.id = found.row JOIN definitions d ON d.id = j.definition
    WHERE j.id > :after AND json_array(d.digest, j.status, j.job_type) IN
        (SELECT value FROM json_each(:places))
"""
ONE_BY_ONE = RESTING.format(what="j.id, j.uid, d.digest, j.status, j.job_type")
BY_SPOT = RESTING.format(what="d.digest, j.status, j.job_type, count(*)")


def binding_rows(unit: Bind) -> Iterator[Row]:
    for one in unit.bindings:
        yield beside.BINDING.row(**structs.asdict(one))


BINDING = Columns(
    Binding,
    "bindings t JOIN definitions d ON d.id = t.definition",
    elsewhere={"digest": "d.digest"},
    read={"settled": bool},
)


def bindings(db: Db) -> tuple[Binding, ...]:
    return BINDING.all(db)


def resting(db: Db, places: tuple[Spot, ...], after: int, limit: int) -> tuple[Resting, ...]:
    """Jobs in these places, by their key, the first after ``after``."""
    asked = {"after": after, "places": _listed(places), "limit": limit}
    found = db.execute(f"{ONE_BY_ONE} ORDER BY j.id LIMIT :limit", asked)
    return tuple(Resting(row, job_id, tuple(spot)) for row, job_id, *spot in found)


class Stored(Struct, frozen=True):
    """The declarations of a file (name, digest, data) and of their bindings; ``jobs`` counts
    those that rest where a binding matters."""

    declarations: tuple[tuple[str, str, bytes], ...] = ()
    bindings: tuple[Binding, ...] = ()
    jobs: dict[Spot, int] = {}


def stored_bindings(path: str) -> Stored:
    """Read beside a service or without one; nothing of a file that is not there, or is older."""
    if not Path(path).exists():
        return Stored()
    try:
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as db:
            db.execute("PRAGMA wal_autocheckpoint = 0")
            known = bindings(db)
            places = _listed(tuple(one.spot for one in known))
            asked = {"after": 0, "places": places}
            counted = db.execute(f"{BY_SPOT} GROUP BY 1, 2, 3", asked)
            jobs = {tuple(spot): count for *spot, count in counted}
            return Stored(declarations(db), known, jobs)
    except sqlite3.Error:
        return Stored()


def _listed(places: tuple[Spot, ...]) -> str:
    return text([text(place) for place in places])
