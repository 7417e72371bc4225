"""Jobs on a timetable, as data, and what is due of them.

A schedule fires at moments. Each moment has a mark, and what came of it is a firing: a job, or the
reason why there is none. A job and the word that its moment has fired are in one transaction
(``MomentDone`` in the decision), and a mark makes one job; so what was cut off is tried again.

How far a schedule has come is stored with it, and what is due follows from that and from the time,
never from a count of rounds. Between two looks the clock may have been set, or the service may not
have been there: then what is late is fired within the window of its schedule, and what is too late
is written down as missed.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Literal

import msgspec
from msgspec import Struct

from jobrunner.core.declaration.spelling import USER
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.schedules.timetable import (
    EVERY_MIN_S,
    Timetable,
    counted,
    cron_fault,
    last_until,
    moments,
    next_after,
    zone_fault,
)
from jobrunner.core.job import Paused

Overlap = Literal["skip", "queue", "replace", "allow"]
CatchUp = Literal["latest", "each"]
Owner = Literal["file", "http"]
How = Literal["due", "trigger", "backfill"]
Outcome = Literal["fired", "same", "skipped", "refused", "missed"]
FaultAt = tuple[str, str]

CATCH_UP_MIN_S = 10
YEAR_S = 366 * 86_400
JITTER_MAX_S = 3600
REPLACES = "cancel"
LATER = "a later one was due as well, and of late ones only the latest fires"
TOO_LATE = "nobody was there to fire it within its window"


class Schedule(Struct, frozen=True, omit_defaults=True):
    """A submission, for whom it is made, and when. ``catch_up_s`` is for how long a moment may be
    late; of several late ones fires the latest, or each. It fires up to ``jitter_s`` later."""

    name: str
    workflow: str
    user: str
    job_type: str | None = None
    params: dict[str, Any] = {}
    labels: dict[str, str] = {}
    priority: int = 0
    notify_url: str | None = None
    notify_on: tuple[str, ...] = ()
    cron: str = ""
    every_s: float = 0
    zone: str = "UTC"
    overlap: Overlap = "skip"
    catch_up_s: float = 3600
    catch_up_policy: CatchUp = "latest"
    jitter_s: float = 0

    @property
    def timetable(self) -> Timetable:
        return Timetable(self.cron, self.every_s, self.zone)


def schedule_of(name: str, said: Any) -> Schedule:
    """Take over what the settings or a client said, by the same names: there durations have no unit
    in theirs, and what is not said may be None or empty."""
    names = Schedule.__struct_fields__[1:]
    fields = {one: getattr(said, one.removesuffix("_s")) for one in names}
    fields |= {"job_type": said.job_type or None, "notify_url": said.notify_url or None}
    fields |= {"cron": said.cron or "", "every_s": said.every or 0}
    return Schedule(name, **fields | {"notify_on": tuple(said.notify_on or ())})


class StoredSchedule(Struct, frozen=True):
    """A schedule, and how far it has come: what was due up to ``up_to`` has been dealt with.
    ``last_job`` is the one that it made last, ``failed_at`` when a moment last made none."""

    schedule: Schedule
    owner: Owner
    up_to: int
    paused: Paused | None
    last_job: str | None
    failed_at: int | None
    made_by: str
    made_at: int
    changed_at: int


class KeepSchedule(Struct, frozen=True, tag=True):
    """Store a schedule; where ``fresh``, only if there is none of this name. With ``up_to`` it goes
    on from there."""

    schedule: Schedule
    owner: Owner
    by: str
    at: int
    up_to: int | None = None
    fresh: bool = False


class DropSchedule(Struct, frozen=True, tag=True):
    """Forget a schedule and its firings; refused with ``missing`` when there is none."""

    name: str
    by: str
    at: int


class HoldSchedule(Struct, frozen=True, tag=True):
    """Pause a schedule, or let it go on from now (``paused`` None)."""

    name: str
    paused: Paused | None
    by: str
    at: int
    reason: str | None = None


class MomentDone(Struct, frozen=True, tag=True):
    """The result of a moment: of one that made a job, in the transaction of its birth. ``mark`` is
    the moment's identity, ``by`` who triggered it. With ``up_to`` the schedule has come so far. Of
    several that were missed together, ``moment`` is the first and ``last`` the last."""

    schedule: str
    mark: str
    moment: int
    at: int
    how: How = "due"
    outcome: Outcome = "fired"
    up_to: int = 0
    job_id: str | None = None
    code: str = ""
    detail: str = ""
    last: int | None = None
    count: int = 1
    by: str = ""


class Reached(Struct, frozen=True, tag=True):
    """A schedule stands at this moment: on, or back where the clock was set back."""

    schedule: str
    up_to: int


ScheduleUnit = KeepSchedule | DropSchedule | HoldSchedule | MomentDone | Reached
SCHEDULE_UNITS = (KeepSchedule, DropSchedule, HoldSchedule, MomentDone, Reached)


class Firing(Struct, frozen=True):
    """A row of what a schedule did."""

    id: int
    schedule: str
    mark: str
    moment: int
    last: int | None
    count: int
    how: How
    outcome: Outcome
    job_id: str | None
    code: str
    detail: str
    at: int


class MissedMoments(Struct, frozen=True):
    """Moments that will not fire any more, from the first to the last."""

    first: int
    last: int
    count: int
    why: str


class SchedulePlan(Struct, frozen=True):
    """The next thing to do: write down what was missed, or fire a moment; or nothing until
    ``wake_at`` (None: for good)."""

    missed: MissedMoments | None = None
    due: int | None = None
    wake_at: int | None = None


def plan(schedule: Schedule, up_to: int, now: int) -> SchedulePlan:
    """Decide what follows at ``now`` for a schedule that has come to ``up_to``."""
    table = schedule.timetable
    first = next_after(table, up_to)
    if first is None:
        return SchedulePlan()
    if (at := fires_at(schedule, first)) > now:
        return SchedulePlan(wake_at=at)
    horizon = now - int(schedule.catch_up_s * 1000)
    if at < horizon:
        last = _last_before(schedule, first, horizon)
        return SchedulePlan(missed=_missed(table, first, last, TOO_LATE))
    if schedule.catch_up_policy == "latest":
        last = _last_before(schedule, first, now + 1)
        if last != first:
            before = last_until(table, first - 1, last - 1)
            assert before is not None, "the first one is before the last one"
            return SchedulePlan(missed=_missed(table, first, before, LATER))
    return SchedulePlan(due=first)


def fires_at(schedule: Schedule, moment: int) -> int:
    """Add the moment's own part of the jitter: the same in every life of the service."""
    if not schedule.jitter_s:
        return moment
    drawn = blake2b(f"{schedule.name} {moment}".encode(), digest_size=8).digest()
    share = int.from_bytes(drawn, "big") / 2**64
    return moment + int(schedule.jitter_s * 1000 * share)


def ahead(schedule: Schedule, up_to: int, many: int) -> list[int]:
    """List the next moments."""
    found: list[int] = []
    following = next_after(schedule.timetable, up_to)
    while following is not None and len(found) < many:
        found.append(following)
        following = next_after(schedule.timetable, following)
    return found


def between(schedule: Schedule, from_at: int, to_at: int, most: int) -> list[int]:
    """List the moments of a span, its begin included and its end not: one more than ``most`` where
    there are more."""
    found: list[int] = []
    for moment in moments(schedule.timetable, from_at - 1, to_at - 1):
        found.append(moment)
        if len(found) > most:
            break
    return found


def mark_of(moment: int) -> str:
    return str(moment)


def missed_mark(moment: int) -> str:
    """A moment that was missed may still be fired by hand: its word has a mark of its own."""
    return f"missed:{moment}"


def faults(schedule: Schedule) -> Iterator[FaultAt]:
    """Say what no workflow could make right: the path, and the fault with its cure."""
    if not USER.fullmatch(schedule.name):
        yield "name", "must be 1 to 64 of a-z, 0-9, _ and -, starting with a letter or digit"
    if not schedule.workflow:
        yield "workflow", "must be the name of a workflow"
    if not USER.fullmatch(schedule.user):
        yield "user", "must be whose jobs these are and who pays for them, like a token's name"
    yield from _of_times(schedule)
    if schedule.notify_on and not schedule.notify_url:
        yield "notify_on", "says what notify_url is told; say both"


def _of_times(schedule: Schedule) -> Iterator[FaultAt]:
    if bool(schedule.cron) == bool(schedule.every_s):
        yield "cron", "say when: either cron or every"
    elif schedule.cron and (fault := cron_fault(schedule.cron)):
        yield "cron", fault
    elif schedule.every_s and schedule.every_s < EVERY_MIN_S:
        yield "every", f"must be at least {EVERY_MIN_S} s"
    if fault := zone_fault(schedule.zone):
        yield "zone", fault
    if schedule.catch_up_s < CATCH_UP_MIN_S:
        text = "a firing that a busy moment delays would be missed"
        yield "catch_up", f"must be at least {CATCH_UP_MIN_S} s: {text}"
    for path, span_s in (("every", schedule.every_s), ("catch_up", schedule.catch_up_s)):
        if span_s > YEAR_S:
            yield path, "must be at most a year (366 days)"
    if schedule.jitter_s > JITTER_MAX_S:
        yield "jitter", "must be at most an hour"


def misfits(schedule: Schedule, definition: Definition) -> Iterator[FaultAt]:
    """Say what does not fit the workflow as it is loaded today."""
    job_type = job_type_of(schedule, definition)
    if job_type not in definition.job_types:
        known = ", ".join(definition.job_types)
        yield "job_type", f"{schedule.workflow} has no job type {job_type!r}; it has: {known}"
        return
    try:
        filled(schedule, definition)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        yield f"params{place.rstrip('`')}", text
    if schedule.overlap == "replace" and REPLACES not in definition.commands:
        text = f"{schedule.workflow} declares no command {REPLACES!r} to end a job with"
        yield "overlap", f"{text}; use skip, queue or allow"


def job_type_of(schedule: Schedule, definition: Definition) -> str:
    return schedule.job_type or definition.workflow.job_types[0].name


def filled(schedule: Schedule, definition: Definition) -> dict[str, Any]:
    """The params with their defaults.

    Raises: msgspec.ValidationError, for those that the job type does not take.
    """
    struct = definition.structs[definition.job_types[job_type_of(schedule, definition)].params]
    value = msgspec.json.decode(msgspec.json.encode(schedule.params), type=struct)
    found: dict[str, Any] = msgspec.to_builtins(value)
    return found


def _last_before(schedule: Schedule, first: int, limit: int) -> int:
    """Find the last of the moments from the first on that fire before the limit, in their order."""
    sure = limit - 1 - int(schedule.jitter_s * 1000)
    last = last_until(schedule.timetable, first - 1, sure) or first
    following = next_after(schedule.timetable, last)
    while following is not None and fires_at(schedule, following) < limit:
        last, following = following, next_after(schedule.timetable, following)
    return last


def _missed(table: Timetable, first: int, last: int, why: str) -> MissedMoments:
    return MissedMoments(first, last, counted(table, first - 1, last), why)
