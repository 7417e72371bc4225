"""Moments of a timetable: when something is due that is to happen again and again.

A line of cron is read by the wall clock of a zone, and wall clocks are set twice a year. Where the
line names hours and minutes, it means something that happens once a day: a time that the clock
leaps over comes when the leap is over, and one that it shows twice comes at the first. Where hours
or minutes are left open (``*``), it means something that goes on all the time: what the clock
leaps over is not there, and what it shows twice comes twice. This is how Debian's cron has it.

The library reads the line and walks along a clock that is never set; all that is about zones is
here. The spans of ``every`` are counted from the begin of 1970 in UTC, so that no start of a
service and no clock that was set moves them.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError
from msgspec import Struct

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - of a clock that is never set
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
MILLISECOND = timedelta(milliseconds=1)
EVERY_MIN_S = 1
COUNTED_MAX = 1000
LOOK_BACK_MS = 60_000
LAST_MS = 253_370_764_800_000  # in the last year that the calendar has
# The library takes what has five fields or six; these are names for some of them.
ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class Timetable(Struct, frozen=True):
    """``cron`` by the wall clock of a zone, or ``every_s`` seconds."""

    cron: str = ""
    every_s: float = 0
    zone: str = "UTC"


def cron_fault(cron: str) -> str:
    """Say what is wrong with a line of cron; empty, if nothing is."""
    known = ", ".join(ALIASES)
    if cron.strip().startswith("@") and cron.strip().lower() not in ALIASES:
        return f"there is no such name; there are {known}"
    try:
        next(CronSim(_spelled(cron), datetime(2000, 1, 1)))  # noqa: DTZ001
    except CronSimError as error:
        fault = str(error).lower()
        return (
            f"{fault}; write minute, hour, day of month, month and day of week, "
            f'like "30 4 * * 1-5", or one of {known}'
        )
    except StopIteration:
        return "no such day ever comes"
    return ""


def zone_fault(zone: str) -> str:
    """Say why there is no such zone; empty, if there is."""
    try:
        zone_of(zone)
    except (LookupError, ValueError, OSError):
        if available_timezones():
            return 'there is no such time zone; names are like "Europe/Berlin", or "UTC"'
        return (
            "this machine knows no time zones; install the package tzdata, of the system or pip's"
        )
    return ""


@lru_cache(maxsize=512)
def zone_of(zone: str) -> tzinfo:
    """Raises: LookupError, ValueError, OSError, for a name that is none."""
    return UTC if zone == "UTC" else ZoneInfo(zone)


def next_after(table: Timetable, moment: int) -> int | None:
    """Find the first moment behind this one; None where none comes within fifty years."""
    if table.every_s:
        span = int(table.every_s * 1000)
        return (moment // span + 1) * span
    if moment >= LAST_MS:
        return None
    zone, cron = zone_of(table.zone), _spelled(table.cron)
    try:
        return _daily(cron, zone, moment) if _names_times(cron) else _open(cron, zone, moment)
    except (StopIteration, OverflowError):
        return None


def moments(table: Timetable, after: int, until: int) -> Iterator[int]:
    """List what is behind ``after``, up to and with ``until``."""
    following = next_after(table, after)
    while following is not None and following <= until:
        yield following
        following = next_after(table, following)


def last_until(table: Timetable, after: int, until: int) -> int | None:
    """Find the last moment behind ``after``, up to and with ``until``, however many there are."""
    back, found = LOOK_BACK_MS, None
    while found is None:
        begin = max(until - back, after)
        for found in moments(table, begin, until):  # noqa: B007 - the last one is wanted
            pass
        if begin == after:
            break
        back *= 2
    return found


def counted(table: Timetable, after: int, until: int) -> int:
    """Count the moments; of a line of cron up to so many."""
    if table.every_s:
        span = int(table.every_s * 1000)
        return max(until // span - after // span, 0)
    count = 0
    for _ in moments(table, after, until):
        count += 1
        if count == COUNTED_MAX:
            break
    return count


def shown_in(zone: str, moment: int) -> str:
    """Write a moment by the wall clock of a zone, with its offset."""
    there = (EPOCH + moment * MILLISECOND).replace(tzinfo=UTC).astimezone(zone_of(zone))
    return there.isoformat(timespec="seconds")


def _spelled(cron: str) -> str:
    said = " ".join(cron.split())
    return ALIASES.get(said.lower(), said)


def _names_times(cron: str) -> bool:
    """Say whether it names hours and minutes, rather than leave some open."""
    fields = cron.split()
    return len(fields) == 5 and not fields[0].startswith("*") and not fields[1].startswith("*")


def _daily(cron: str, zone: tzinfo, moment: int) -> int:
    """Find the next moment by wall-clock times: one that is shown twice counts the first time, one
    that is skipped at the end of the skip."""
    for wall in CronSim(cron, _wall(zone, moment)):
        found = _shown_first(zone, wall)
        if found > moment:
            return found
    raise StopIteration


def _open(cron: str, zone: tzinfo, moment: int) -> int:
    """Find the next moment by the wall clock as it runs, from one change of it to the next."""
    wall = _wall(zone, moment)
    while True:
        found = _instant(next(CronSim(cron, wall)), _offset(zone, moment))
        change = _next_change(zone, moment, found)
        if change is None or found < change:
            return found
        moment, wall = change, _wall(zone, change) - SECOND


def _shown_first(zone: tzinfo, wall: datetime) -> int:
    first = wall.replace(tzinfo=zone, fold=0)
    instant = _instant(wall, first.utcoffset() or timedelta())
    if _wall(zone, instant) == wall:
        return instant
    # It is not shown at all: the offset of before leads behind the leap, that of after before it.
    earlier = _instant(wall, first.replace(fold=1).utcoffset() or timedelta())
    change = _next_change(zone, min(earlier, instant), max(earlier, instant))
    assert change is not None, f"{wall} is not shown in {zone}, which is not set around then"
    return change


def _next_change(zone: tzinfo, after: int, until: int) -> int | None:
    """Find when the clock is set first behind ``after``, up to and with ``until``."""
    day = DAY // MILLISECOND
    low, offset = after, _offset(zone, after)
    while low < until:
        high = min(low + day, until)
        if _offset(zone, high) != offset:
            return _halved(zone, low, high, offset)
        low = high
    return None


def _halved(zone: tzinfo, low: int, high: int, offset: timedelta) -> int:
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _offset(zone, middle) == offset else (low, middle)
    return high


def _offset(zone: tzinfo, moment: int) -> timedelta:
    there = (EPOCH + moment * MILLISECOND).replace(tzinfo=UTC).astimezone(zone)
    return there.utcoffset() or timedelta()


def _wall(zone: tzinfo, moment: int) -> datetime:
    return EPOCH + moment * MILLISECOND + _offset(zone, moment)


def _instant(wall: datetime, offset: timedelta) -> int:
    return (wall - offset - EPOCH) // MILLISECOND
