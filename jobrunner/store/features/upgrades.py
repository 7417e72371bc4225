"""Which declarations jobs under way are under, and where."""

import sqlite3
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from jobrunner.core.features.upgrades import UnderWay
from jobrunner.errors import Misconfigured
from jobrunner.store.jobs import declarations

Db = sqlite3.Connection

# A job that has not ended waits, is in line, up for a claim, at work, parked or timed, or was stuck
# or paused: each of these is an index, and whatever has ended is in none of them.
UNDER_WAY = """
    SELECT id AS row FROM jobs WHERE line_at IS NOT NULL AND stuck IS NULL AND paused = 0
    UNION SELECT id FROM jobs WHERE kind = 'waiting'
    UNION SELECT id FROM jobs WHERE claim_at IS NOT NULL
    UNION SELECT id FROM jobs WHERE stuck IS NOT NULL
    UNION SELECT id FROM jobs WHERE paused = 1
    UNION SELECT job FROM attempts WHERE status = 'running'
    UNION SELECT job FROM attempts WHERE status = 'parked'
    UNION SELECT job FROM timers
"""
BY_PLACE = f"""
    SELECT d.name, d.version, d.digest, j.status, j.job_type, count(*)
    FROM ({UNDER_WAY}) AS found CROSS JOIN jobs j ON j.id = found.row
    JOIN definitions d ON d.id = j.definition
    WHERE j.kind IN ('waiting', 'queued', 'active')
    GROUP BY d.id, j.status, j.job_type ORDER BY d.name, d.id, j.status, j.job_type
"""  # noqa: S608 - a text of our own


def under_way(db: Db) -> tuple[UnderWay, ...]:
    """Count jobs that have not ended, by place. Looks at no other job."""
    return tuple(UnderWay(*row) for row in db.execute(BY_PLACE))


class StoredJobs(Struct, frozen=True):
    """The declarations of a file (name, digest, data), and where jobs under way are."""

    declarations: tuple[tuple[str, str, bytes], ...] = ()
    places: tuple[UnderWay, ...] = ()


def stored_places(path: str) -> StoredJobs:
    """Read beside a service or without one; nothing of a file that is not there.

    Raises: Misconfigured, for one that cannot be read, or is of an older schema.
    """
    if not Path(path).exists():
        return StoredJobs()
    address = f"{Path(path).absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as db:
            db.execute("PRAGMA wal_autocheckpoint = 0")
            return StoredJobs(declarations(db), under_way(db))
    except sqlite3.Error as error:
        text = f"{path}: jobs cannot be counted: {error}; `jobrunner db check` says more"
        raise Misconfigured(text) from error
