"""Which declarations jobs under way are under, and orders to move them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from jobrunner.core.decision import Decision
from jobrunner.core.features.upgrades.upgrades import (
    ForgetDeclarations,
    NewUpgrade,
    Older,
    Stay,
    UnderWay,
    Upgrade,
    UpgradeLooked,
    UpgradeTurned,
    UpgradeUnit,
)
from jobrunner.core.job import Snapshot
from jobrunner.core.units import AuditRecord
from jobrunner.errors import Misconfigured
from jobrunner.store.columns import Columns
from jobrunner.store.features import statements as beside
from jobrunner.store.features.audit import audit_row
from jobrunner.store.jobs import declarations
from jobrunner.store.rows import moving_of, place_of, text
from jobrunner.store.statements import Row

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


OLDER = f"""
    SELECT j.id, j.uid FROM ({UNDER_WAY}) AS found CROSS JOIN jobs j ON j.id = found.row
    JOIN definitions d ON d.id = j.definition
    WHERE j.id > :after AND j.workflow = :workflow AND d.digest <> :digest
        AND j.kind IN ('waiting', 'queued', 'active')
    ORDER BY j.id LIMIT :limit
"""  # noqa: S608 - a text of our own
KEPT_MS = 30 * 86_400_000


def upgrade_rows(unit: UpgradeUnit) -> Iterator[Row]:
    match unit:
        case NewUpgrade(upgrade):
            yield beside.UPGRADES_OLD.row(before=upgrade.at - KEPT_MS)
            said = structs.asdict(upgrade) | {"stays": text(upgrade.stays)}
            del said["row"]
            yield beside.UPGRADE.row(uid=said.pop("id"), **said)
            about = {"upgrade": upgrade.id, "workflow": upgrade.workflow, "dry": upgrade.dry}
            yield audit_row(AuditRecord("upgrade.ordered", upgrade.actor, about), upgrade.at)
        case UpgradeLooked(stays=stays):
            yield beside.UPGRADE_LOOKED.row(**structs.asdict(unit) | {"stays": text(stays)})
        case UpgradeTurned(id=id_, status=status, actor=actor, at=at):
            yield beside.UPGRADE_TURNED.row(id=id_, status=status, at=at)
            told = {"upgrade": id_, "workflow": unit.workflow, "moved": unit.moved}
            yield audit_row(AuditRecord(f"upgrade.{status}", actor, told), at)
        case ForgetDeclarations(digests):
            for statement in beside.DECLARATION_FORGOTTEN:
                yield from (statement.row(digest=digest) for digest in digests)


def repinned_rows(decision: Decision, after: Snapshot) -> Iterator[Row]:
    """Write the job under its new declaration, and under which one it was."""
    before, repinned = decision.before, decision.repinned
    assert before is not None and repinned is not None, "a job is moved that is there"  # noqa: PT018
    known = (before.row, before.version, before.beat)
    place = (repinned.became, *place_of(after), *moving_of(after))
    yield beside.JOB_REPINNED, (*place, *known)
    yield beside.UPGRADE_MOVED.row(upgrade=repinned.upgrade)
    yield beside.REPINNED.row(
        job=after.row, version=after.version, was=repinned.was, became=repinned.became
    )


UPGRADE = Columns(
    Upgrade,
    "upgrades t",
    elsewhere={"id": "t.uid", "row": "t.id"},
    read={
        "dry": bool,
        "stays": msgspec.json.Decoder(tuple[Stay, ...]).decode,
    },
)


def needless(db: Db, digests: tuple[str, ...]) -> tuple[str, ...]:
    """Pick the declarations to which nothing refers."""
    found = db.execute(
        "SELECT digest FROM definitions d WHERE digest IN (SELECT value FROM json_each(:digests)) "
        "AND NOT EXISTS (SELECT 1 FROM jobs WHERE definition = d.id) "
        "AND NOT EXISTS (SELECT 1 FROM decisions WHERE definition = d.id) ORDER BY id",
        {"digests": text(digests)},
    )
    return tuple(digest for (digest,) in found)


def upgrades(
    db: Db,
    limit: int,
    upgrade_id: str | None = None,
    running: bool = False,
    after: int | None = None,
) -> tuple[Upgrade, ...]:
    """Newest first; only this one, or only those that are not over, or from behind this row."""
    which = "WHERE t.uid = :upgrade_id" if upgrade_id is not None else ""
    which = "WHERE t.status = 'running'" if running else which
    which = "WHERE t.id < :after" if after is not None else which
    newest = f"{which} ORDER BY t.id DESC LIMIT :limit"
    return UPGRADE.all(db, newest, limit=limit, upgrade_id=upgrade_id, after=after)


def older(db: Db, workflow: str, digest: str, after: int, limit: int) -> tuple[Older, ...]:
    """Jobs under way that are not under this declaration, by their key."""
    asked = {"workflow": workflow, "digest": digest, "after": after, "limit": limit}
    return tuple(Older(*row) for row in db.execute(OLDER, asked))


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
