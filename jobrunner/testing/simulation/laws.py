"""The laws that hold of the file, whatever happened: asked of the file itself, from beside the
service, with selects of its own."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from jobrunner.core.declaration.states import ENDED
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.upgrades.replays import Recorded, replayed
from jobrunner.core.job import Snapshot
from jobrunner.stages import Registry
from jobrunner.store import rows
from jobrunner.store.features.upgrades.replays import decisions
from jobrunner.store.fsck import check
from jobrunner.testing.simulation.declared import declared
from jobrunner.testing.simulation.witness import Witness

HISTORY = """
    SELECT j.uid, h.version, h.hop, h.from_status, h.to_status, h.event_id
    FROM history h JOIN jobs j ON j.id = h.job
    WHERE (h.job, h.version, h.hop) NOT IN (SELECT job, version, 1 FROM repinnings)
    ORDER BY h.job, h.version, h.hop
"""
MONEY = """
    SELECT j.uid, j.cost, coalesce(sum(l.amount), 0), coalesce(sum(l.held_change), 0), j.kind
    FROM jobs j LEFT JOIN ledger l ON l.job_id = j.uid GROUP BY j.id
"""
FORGOTTEN = """
    SELECT j.uid, h.event_id FROM history h JOIN jobs j ON j.id = h.job
    WHERE h.event_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM events e WHERE e.job = h.job AND e.event_id = h.event_id)
"""
REPEATED = """
    SELECT j.uid, h.event_id, count(DISTINCT h.version) n FROM history h JOIN jobs j ON j.id = h.job
    WHERE h.event_id IS NOT NULL GROUP BY h.job, h.event_id HAVING n > 1
"""
WALKED = """
    SELECT DISTINCT from_status, to_status FROM history WHERE from_status IS NOT NULL
        AND (job, version, hop) NOT IN (SELECT job, version, 1 FROM repinnings) ORDER BY 1, 2
"""
WAITING = "SELECT uid FROM jobs WHERE kind IN ('waiting', 'queued', 'active') AND stuck IS NULL"

EVERY = 1_000_000
Hop = tuple[int, str | None, str]


def faults(path: Path, definition: Definition, witness: Witness) -> list[str]:
    """Between two lives as at the end; none is good."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return [
            *check(connection),
            *_edges(connection, definition),
            *_money(connection),
            *_events(connection),
            *_promises(connection, witness),
            *_keys(connection, definition, witness),
        ]
    finally:
        connection.close()


def unrepeatable(path: Path, registries: Iterable[Registry]) -> Iterator[str]:
    """Decisions on record that come out otherwise when they are made again."""
    pinned = {one.digest: one for registry in registries for one in registry.declared()}
    if not pinned:
        return
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for (uid,) in connection.execute("SELECT uid FROM jobs").fetchall():
            found = decisions(connection, uid, limit=EVERY, bytes_max=EVERY)
            records = [msgspec.json.decode(one.data, type=Recorded) for one in found]
            if not records:
                yield f"job {uid}: no decision about it is on record"
            for told in replayed(records, pinned):
                if told.differs:
                    yield f"job {uid}: version {told.version} is decided otherwise now: {told}"


def restless(path: Path) -> list[Snapshot]:
    """Jobs that have not ended, wait for no person, and are neither paused nor stuck."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        open_jobs = {job_id for (job_id,) in connection.execute(WAITING)}
        if not open_jobs:
            return []
        found = connection.execute(rows.SELECT_WHOLE).fetchall()
        jobs = [rows.whole_job(row, {}) for row in found]
        return [job for job in jobs if job.id in open_jobs and not rests(job)]
    finally:
        connection.close()


def statuses(path: Path) -> tuple[dict[str, int], dict[str, str]]:
    """Count the jobs at each place, and tell which are stuck, and why."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        where = "SELECT status, count(*) FROM jobs GROUP BY status ORDER BY status"
        aside = "SELECT uid, stuck FROM jobs WHERE stuck IS NOT NULL ORDER BY id"
        return dict(connection.execute(where)), dict(connection.execute(aside))
    finally:
        connection.close()


def walked(path: Path) -> tuple[tuple[str, str], ...]:
    """The edges that jobs took, each once."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return tuple(connection.execute(WALKED))
    finally:
        connection.close()


def rests(job: Snapshot) -> bool:
    if job.stuck or job.paused or job.ended:
        return True
    return job.kind == "waiting" and not job.live and job.attempt is None


def _edges(connection: sqlite3.Connection, definition: Definition) -> Iterator[str]:
    for job_id, version, hop, source, target, _ in connection.execute(HISTORY):
        if not declared(definition, source, target):
            yield f"job {job_id}: went from {source} to {target} (version {version}, hop {hop}), \
which is not declared"


def _money(connection: sqlite3.Connection) -> Iterator[str]:
    for job_id, cost, spent, held, kind in connection.execute(MONEY):
        if spent not in (0, -cost):
            yield f"job {job_id}: costs {cost}, and its ledger sums up to {spent}"
        if held and kind in ENDED:
            yield f"job {job_id}: has ended, and {held} credits are still held for it"
    for user_id, balance in connection.execute("SELECT user_id, balance FROM accounts"):
        if balance < 0:
            yield f"account {user_id} owes {-balance} credits"


def _events(connection: sqlite3.Connection) -> Iterator[str]:
    for job_id, event_id in connection.execute(FORGOTTEN):
        yield f"job {job_id}: event {event_id} had its effect, and would be taken again"
    for job_id, event_id, count in connection.execute(REPEATED):
        yield f"job {job_id}: event {event_id} had {count} effects"


def _promises(connection: sqlite3.Connection, witness: Witness) -> Iterator[str]:
    """Check that what somebody was shown was so."""
    paths: dict[str, list[Hop]] = {}
    for job_id, version, _, source, target, _ in connection.execute(HISTORY):
        paths.setdefault(job_id, []).append((version, source, target))
    versions = dict(connection.execute("SELECT uid, version FROM jobs"))
    for job_id, shown in witness.shown.items():
        if job_id in witness.deleted:
            continue
        if job_id not in versions:
            yield f"job {job_id}: was acknowledged, and is not there"
            continue
        for seen in sorted(shown, key=lambda seen: (seen.version, seen.status)):
            past = [target for version, _, target in paths[job_id] if version <= seen.version]
            if versions[job_id] < seen.version or not past or past[-1] != seen.status:
                yield f"job {job_id}: was shown as {seen.status} at version {seen.version}, and \
its history does not say so"


def _keys(
    connection: sqlite3.Connection, definition: Definition, witness: Witness
) -> Iterator[str]:
    """One key, one job; where keys become free again, all but one were superseded. Where a key is
    additional to a derived one, a submission may be answered by the derived one alone: then only
    the keys that jobs were made under are looked at."""
    recipe = definition.workflow.recipe
    freed = bool(recipe.freed)
    told = "SELECT DISTINCT j.uid FROM history h JOIN jobs j ON j.id = h.job WHERE h.reason = ?"
    superseded = {job_id for (job_id,) in connection.execute(told, ("superseded",))}
    for sent, job_ids in witness.keyed.items():
        if sent.body and recipe.client == "additional":
            continue
        living = [one for one in job_ids if not (freed and one in superseded)]
        kept = [one for one in living if one not in witness.deleted]
        if len(kept if freed else living) > 1:
            made = ", ".join(f"job {one}" for one in living)
            yield f"key {sent.key} of {sent.user_id} made {len(living)} jobs: {made}"
