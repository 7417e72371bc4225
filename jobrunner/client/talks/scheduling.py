"""The conversations about schedules, for admins."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from jobrunner.client.records import BackfillRecord, FiringRecord, ScheduleRecord, TriggerRecord
from jobrunner.client.talk import FreshKey, Talk
from jobrunner.client.talks.asking import PagedList, at, read_of, record_in, value_in, written


def schedules() -> Talk[list[ScheduleRecord]]:
    """List the jobs on a timetable, by name."""
    found = value_in((yield read_of(at("admin", "schedules"))))
    return msgspec.convert(found["schedules"], list[ScheduleRecord])


def schedule(name: str, *, next_times: int = 5) -> Talk[ScheduleRecord]:
    """Read a schedule, with so many of its next times."""
    answer = yield read_of(_path(name), {"next": next_times})
    return record_in(answer, ScheduleRecord)


def keep_schedule(
    name: str,
    workflow: str,
    user: str,
    *,
    cron: str | None = None,
    every_s: float | None = None,
    zone: str | None = None,
    params: Mapping[str, Any] | None = None,
    **more: Any,
) -> Talk[ScheduleRecord]:
    """Make a schedule, or put this in the place of the one of this name. ``more`` are its other
    fields by their names: ``overlap``, ``catch_up``, ``jitter``, ``labels``, …"""
    said = {"cron": cron, "every": every_s, "zone": zone, "params": params, **more}
    body = {key: value for key, value in said.items() if value is not None}
    body |= {"workflow": workflow, "user": user}
    return record_in((yield written("PUT", _path(name), body, repeatable=True)), ScheduleRecord)


def remove_schedule(name: str) -> Talk[None]:
    """Forget a schedule that was made at run time; its jobs stay."""
    yield written("DELETE", _path(name), {})


def pause_schedule(name: str, *, reason: str | None = None) -> Talk[ScheduleRecord]:
    """Let nothing of it fire until it is resumed."""
    return _told(name, "pause", reason)


def resume_schedule(name: str, *, reason: str | None = None) -> Talk[ScheduleRecord]:
    """Let it go on from now."""
    return _told(name, "resume", reason)


def trigger_schedule(
    name: str, *, key: str | None = None, overlap: str | None = None
) -> Talk[TriggerRecord]:
    """Make a job of it now, once under one key. Without one it has a key of its own."""
    body = {"overlap": overlap} if overlap else {}
    headers = {"Idempotency-Key": key or (yield FreshKey())}
    answer = yield written("POST", _path(name, "trigger"), body, headers=headers, repeatable=True)
    return record_in(answer, TriggerRecord)


def backfill_schedule(
    name: str, since: datetime, until: datetime, *, dry_run: bool = False
) -> Talk[BackfillRecord]:
    """Make the jobs of moments that are over and made none; again changes nothing."""
    body = {"from": since, "to": until, "dry_run": dry_run}
    answer = yield written("POST", _path(name, "backfill"), body, repeatable=True)
    return record_in(answer, BackfillRecord)


def firings(name: str) -> PagedList[FiringRecord]:
    """List what came of its moments, newest first."""
    return PagedList(_path(name, "firings"), FiringRecord, "firings")


def _told(name: str, verb: str, reason: str | None) -> Talk[ScheduleRecord]:
    body = {"reason": reason} if reason else {}
    answer = yield written("POST", _path(name, verb), body, repeatable=True)
    return record_in(answer, ScheduleRecord)


def _path(name: str, *more: str) -> str:
    return at("admin", "schedules", name, *more)
