"""Schedules in the file: what they say, how far they have come, and what came of their moments."""

import sqlite3
from collections.abc import Iterator

import msgspec
from msgspec import structs

from jobrunner.core.features.bulk import Tick
from jobrunner.core.features.schedules.schedules import (
    DropSchedule,
    Firing,
    HoldSchedule,
    KeepSchedule,
    MomentDone,
    Reached,
    Schedule,
    ScheduleUnit,
    StoredSchedule,
)
from jobrunner.core.job import Paused, Snapshot
from jobrunner.core.units import AuditRecord
from jobrunner.store.columns import Columns
from jobrunner.store.features.audit import audit_row
from jobrunner.store.features.bulk import tick_row
from jobrunner.store.features.schedules import schedule_statements as sql
from jobrunner.store.rows import text
from jobrunner.store.statements import Row

Db = sqlite3.Connection


def tick_rows(tick: Tick | MomentDone, job: Snapshot) -> Iterator[Row]:
    """The word that something of which this job is a part is done: in its own transaction."""
    if isinstance(tick, Tick):
        yield tick_row(tick)
    else:
        yield sql.SCHEDULED.row(job=job.row, schedule=tick.schedule, mark=tick.mark)
        yield from _done(structs.replace(tick, job_id=job.id))


def schedule_rows(unit: ScheduleUnit) -> Iterator[Row]:
    match unit:
        case KeepSchedule():
            yield from _kept(unit)
        case DropSchedule():
            yield sql.SCHEDULE_GONE.row(name=unit.name)
            yield audit_row(AuditRecord("schedule.removed", unit.by, {"name": unit.name}), unit.at)
        case HoldSchedule():
            yield from _held(unit)
        case MomentDone():
            yield from _done(unit)
        case Reached():
            yield sql.REACHED.row(schedule=unit.schedule, up_to=unit.up_to)


def _kept(unit: KeepSchedule) -> Iterator[Row]:
    said, name = text(unit.schedule), unit.schedule.name
    if unit.fresh:
        yield sql.SCHEDULE.row(
            name=name, schedule=said, owner=unit.owner, up_to=unit.up_to or unit.at,
            made_by=unit.by, made_at=unit.at, changed_at=unit.at,
        )  # fmt: skip
    else:
        yield sql.SCHEDULE_KEPT.row(
            name=name, schedule=said, owner=unit.owner, at=unit.at, up_to=unit.up_to
        )
    event = "schedule.made" if unit.fresh else "schedule.changed"
    yield audit_row(AuditRecord(event, unit.by, {"name": name, "owner": unit.owner}), unit.at)


def _held(unit: HoldSchedule) -> Iterator[Row]:
    if unit.paused is not None:
        yield sql.SCHEDULE_PAUSED.row(name=unit.name, paused=text(unit.paused))
    else:
        yield sql.SCHEDULE_RESUMED.row(name=unit.name, at=unit.at)
    event = "schedule.paused" if unit.paused else "schedule.resumed"
    fields = {"name": unit.name, "reason": unit.reason}
    yield audit_row(AuditRecord(event, unit.by, fields), unit.at)


def _done(done: MomentDone) -> Iterator[Row]:
    said = structs.asdict(done)
    up_to, by = said.pop("up_to"), said.pop("by")
    yield sql.FIRING.row(**said)
    keeps = done.how != "backfill" and done.outcome == "fired"
    yield sql.ADVANCED.row(
        schedule=done.schedule, up_to=up_to, job_id=done.job_id if keeps else None, at=done.at,
        failed=done.how == "due" and done.outcome in ("refused", "missed"),
    )  # fmt: skip
    if by and done.outcome == "fired":
        fields = {"name": done.schedule, "job_id": done.job_id}
        yield audit_row(AuditRecord("schedule.triggered", by, fields), done.at, done.job_id)


# ---------------------------------------------------------------- questions


_schedule = msgspec.json.Decoder(Schedule)
_paused = msgspec.json.Decoder(Paused)
STORED = Columns(
    StoredSchedule,
    "schedules t",
    read={
        "schedule": _schedule.decode,
        "paused": lambda said: None if said is None else _paused.decode(said),
    },
)
FIRING = Columns(Firing, "firings t")


def schedules(db: Db) -> tuple[StoredSchedule, ...]:
    """List all schedules by name."""
    return STORED.all(db, "ORDER BY t.name")


def firing(db: Db, schedule: str, mark: str) -> Firing | None:
    where = "WHERE t.schedule = :schedule AND t.mark = :mark"
    return FIRING.one(db, where, schedule=schedule, mark=mark)


def firings(db: Db, schedule: str, limit: int, after: int | None) -> tuple[Firing, ...]:
    """Newest first, a page of them."""
    before = 2**63 - 1 if after is None else after
    where = "WHERE t.schedule = :schedule AND t.id < :before ORDER BY t.id DESC LIMIT :limit"
    return FIRING.all(db, where, schedule=schedule, before=before, limit=limit)


def has_schedules(db: Db) -> bool:
    return db.execute("SELECT 1 FROM schedules LIMIT 1").fetchone() is not None
