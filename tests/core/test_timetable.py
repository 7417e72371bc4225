"""Moments of a timetable, held against every minute of the weeks in which clocks are set."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobrunner.core.features.schedules.timetable import (
    ALIASES,
    COUNTED_MAX,
    Timetable,
    counted,
    cron_fault,
    last_until,
    moments,
    next_after,
    zone_fault,
    zone_of,
)

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC")
# The days on which one of the zones is set, and one without.
DAYS = ("2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05", "2026-10-04")
MINUTES = st.sampled_from(["0", "30", "15,45", "*/20", "*", "5-10", "59"])
HOURS = st.sampled_from(["0", "1", "2", "3", "1,2,3", "*/2", "*", "23", "1-2"])
WEEKDAYS = st.sampled_from(["*", "0", "6,0", "1-5"])


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def shown(moment: int, zone: str) -> datetime:
    return datetime.fromtimestamp(moment / 1000, UTC).astimezone(zone_of(zone))


def walls(table: Timetable, after: int, many: int) -> list[str]:
    found = []
    for _ in range(many):
        following = next_after(table, after)
        assert following is not None
        after = following
        found.append(shown(after, table.zone).strftime("%d %H:%M%z"))
    return found


@pytest.mark.parametrize(
    ("cron", "zone", "after", "expected"),
    [
        # Leapt over: at the end of the leap. Shown twice: at the first.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", ["29 03:00+0200", "30 02:30+0200"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", ["25 02:30+0200", "26 02:30+0100"]),
        ("30 2 * * *", "America/New_York", "2026-03-08T00:00Z", ["08 03:00-0400"]),
        ("30 1 * * *", "America/New_York", "2026-11-01T00:00Z", ["01 01:30-0400", "02 01:30-0500"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T14:00Z", ["04 02:30+1100"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00Z", ["05 01:45+1100"]),
        ("15,45 2 * * *", "Australia/Lord_Howe", "2026-10-03T14:00Z",
         ["04 02:30+1100", "04 02:45+1100"]),
        # All the time: every hour that passes.
        ("30 * * * *", "Europe/Berlin", "2026-10-24T23:45Z",
         ["25 02:30+0200", "25 02:30+0100", "25 03:30+0100"]),
        ("0 * * * *", "Europe/Berlin", "2026-03-29T00:30Z", ["29 03:00+0200", "29 04:00+0200"]),
        ("*/15 3 * * *", "Australia/Lord_Howe", "2026-04-04T13:50Z",
         ["05 03:00+1030", "05 03:15+1030", "05 03:30+1030", "05 03:45+1030", "06 03:00+1030"]),
    ],
)  # fmt: skip
def test_days_on_which_clocks_are_set(
    cron: str, zone: str, after: str, expected: list[str]
) -> None:
    assert walls(Timetable(cron, zone=zone), at(after), len(expected)) == expected


def expected_moments(minute: str, hour: str, weekday: str, zone: str, day: int) -> list[int]:
    """Look at every minute of these days, as a person with a watch would."""
    fits = [set(field(minute, 60)), set(field(hour, 24)), {one % 7 for one in field(weekday, 8)}]
    daily = not minute.startswith("*") and not hour.startswith("*")
    found: list[int] = []
    latest = shown(day - DAY - MINUTE, zone).replace(tzinfo=None, fold=0)
    for moment in range(day - DAY, day + 2 * DAY, MINUTE):
        wall = shown(moment, zone).replace(tzinfo=None, fold=0)
        new = wall > latest
        leapt = daily and any(matches(one, fits) for one in missed(latest, wall))
        if leapt or (matches(wall, fits) and (new or not daily)):
            found.append(moment)
        latest = max(latest, wall)
    return found


def missed(last: datetime, wall: datetime) -> list[datetime]:
    minutes = int((wall - last).total_seconds() // 60)
    return [last + timedelta(minutes=one) for one in range(1, minutes)]


def matches(wall: datetime, fits: list[set[int]]) -> bool:
    told = (wall.minute, wall.hour, wall.isoweekday() % 7)
    return all(one in fit for one, fit in zip(told, fits, strict=True))


def field(text: str, width: int) -> Iterator[int]:
    for part in text.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            yield from range(0, width, int(step or 1))
        else:
            first, _, last = span.partition("-")
            yield from range(int(first), int(last or first) + 1)


@settings(max_examples=60, deadline=None)
@given(MINUTES, HOURS, WEEKDAYS, st.sampled_from(ZONES), st.sampled_from(DAYS))
def test_every_minute_of_a_week_agrees(
    minute: str, hour: str, weekday: str, zone: str, day: str
) -> None:
    begin = at(f"{day}T00:00Z")
    table = Timetable(f"{minute} {hour} * * {weekday}", zone=zone)
    found = list(moments(table, begin - DAY - 1, begin + 2 * DAY - 1))
    assert found == expected_moments(minute, hour, weekday, zone, begin)


@settings(max_examples=60, deadline=None)
@given(MINUTES, HOURS, st.sampled_from(ZONES), st.sampled_from(DAYS), st.integers(0, 2 * DAY))
@example("*", "*", "UTC", DAYS[0], 2 * DAY)
def test_it_is_the_same_wherever_one_begins(
    minute: str, hour: str, zone: str, day: str, later: int
) -> None:
    """No count is kept: what follows a moment hangs on that moment alone."""
    table, begin = Timetable(f"{minute} {hour} * * *", zone=zone), at(f"{day}T00:00Z") - DAY
    found = list(moments(table, begin, begin + 3 * DAY))
    behind = [one for one in found if one > begin + later]
    assert next_after(table, begin + later) == (
        behind[0] if behind else next_after(table, found[-1] if found else begin + 3 * DAY)
    )
    before = [one for one in found if one <= begin + later]
    assert last_until(table, begin, begin + later) == (before[-1] if before else None)
    assert counted(table, begin, begin + later) == min(len(before), COUNTED_MAX)


def test_spans_are_counted_from_one_begin() -> None:
    table = Timetable(every_s=3600)
    noon = at("2026-01-01T12:00Z")
    assert next_after(table, noon - 1) == noon
    assert next_after(table, noon) == noon + HOUR
    assert counted(table, noon, noon + 10 * HOUR) == 10
    assert last_until(table, noon, noon + 10 * HOUR + 5) == noon + 10 * HOUR


def test_many_are_counted_so_far() -> None:
    day = at("2026-01-01T00:00Z")
    assert counted(Timetable("* * * * *"), day, day + 30 * DAY) == COUNTED_MAX


@pytest.mark.parametrize("name", ALIASES)
def test_names_for_lines(name: str) -> None:
    assert cron_fault(name) == ""
    following = next_after(Timetable(name.upper()), at("2026-06-06T06:06Z"))
    assert following == next_after(Timetable(ALIASES[name]), at("2026-06-06T06:06Z"))


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("61 * * * *", "bad minute"),
        ("* * * *", "wrong number of fields"),
        ("@nightly", "there is no such name"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 31 4 *", "bad day-of-month"),
        ("", "wrong number of fields"),
        ("every day", "wrong number of fields"),
    ],
)
def test_lines_that_are_none(cron: str, said: str) -> None:
    assert cron_fault(cron).startswith(said)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "", "/etc/passwd", "Berlin"])
def test_zones_that_are_none(zone: str) -> None:
    assert "no such time zone" in zone_fault(zone)


def test_a_day_of_leap_years_comes() -> None:
    assert cron_fault("0 0 29 2 *") == ""
    table = Timetable("0 12 29 2 *", zone="Europe/Berlin")
    assert walls(table, at("2026-01-01T00:00Z"), 2) == ["29 12:00+0100", "29 12:00+0100"]
