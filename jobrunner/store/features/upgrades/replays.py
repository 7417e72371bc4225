"""Decisions on record, packed: they repeat the same names over and over."""

import sqlite3
import zlib
from contextlib import closing

from jobrunner.core.features.upgrades.upgrades import PAGE_BYTES, StoredDecision
from jobrunner.core.job import Snapshot
from jobrunner.store.features import statements as beside
from jobrunner.store.statements import Row

Db = sqlite3.Connection


def record_row(record: bytes, after: Snapshot) -> Row:
    place = {"job": after.row, "version": after.version, "beat": after.beat}
    return beside.DECISION.row(**place, digest=after.digest, data=zlib.compress(record))


def decisions(
    db: Db,
    job_id: str,
    limit: int,
    after: tuple[int, int] = (0, 0),
    bytes_max: int = PAGE_BYTES,
) -> tuple[StoredDecision, ...]:
    """Oldest first, from behind this version and beat. They lie here packed, and a few that repeat
    themselves may be a thousand times as large: the one that goes beyond ``bytes_max`` is the
    last."""
    rows = db.execute(
        "SELECT d.version, d.beat, d.data FROM decisions d JOIN jobs j ON j.id = d.job "
        "WHERE j.uid = :job_id AND (d.version, d.beat) > (:version, :beat) "
        "ORDER BY d.version, d.beat LIMIT :limit",
        {"job_id": job_id, "version": after[0], "beat": after[1], "limit": limit},
    )
    found: list[StoredDecision] = []
    with closing(rows):
        for version, beat, data in rows:
            found.append(StoredDecision(version, beat, zlib.decompress(data)))
            bytes_max -= len(found[-1].data)
            if bytes_max <= 0:
                break
    return tuple(found)


def declarations_of(db: Db, job_id: str) -> tuple[tuple[str, str, bytes], ...]:
    """Name, digest and data of all that the decisions about this job were made by."""
    return tuple(
        db.execute(
            "SELECT name, digest, data FROM definitions WHERE id IN (SELECT d.definition "
            "FROM decisions d JOIN jobs j ON j.id = d.job WHERE j.uid = :job_id) ORDER BY id",
            {"job_id": job_id},
        )
    )
