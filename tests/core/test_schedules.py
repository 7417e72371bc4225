"""What is due of a schedule, held against a walk along its moments one by one."""

from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from jobrunner.core.features.schedules.schedules import (
    LATER,
    TOO_LATE,
    Schedule,
    between,
    fires_at,
    misfits,
    plan,
)
from jobrunner.core.features.schedules.timetable import moments
from tests.core.workshop import WORKSHOP
from tests.driving import varied

DAWN, MINUTE = 1_767_225_600_000, 60_000
TABLES = st.sampled_from(
    [{"every_s": 60.0}, {"every_s": 420.0}, {"cron": "*/10 * * * *"}, {"cron": "7 * * * *"}]
)


def schedules() -> st.SearchStrategy[Schedule]:
    return st.builds(
        lambda table, name, catch_up_s, policy, jitter_s: Schedule(
            name, "toy", "ada", catch_up_s=catch_up_s, catch_up_policy=policy, jitter_s=jitter_s,
            **table,
        ),
        TABLES,
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from([10, 300, 3600, 36000]),
        st.sampled_from(["latest", "each"]),
        st.sampled_from([0, 30, 900]),
    )  # fmt: skip


Word = tuple[Literal["missed", "fired"], int]


def walked(schedule: Schedule, up_to: int, now: int) -> list[Word]:
    """Walk along the moments, as one who has all the time there is: until one is not due yet."""
    found: list[Word] = []
    due: list[int] = []
    for moment in moments(schedule.timetable, up_to, now):
        if fires_at(schedule, moment) > now:
            break
        due.append(moment)
    horizon = now - schedule.catch_up_s * 1000
    for moment in due:
        too_late = fires_at(schedule, moment) < horizon
        passed_over = schedule.catch_up_policy == "latest" and moment != due[-1]
        found.append(("missed" if too_late or passed_over else "fired", moment))
    return found


def planned(schedule: Schedule, up_to: int, now: int) -> list[Word]:
    """Do what is planned, again and again, until nothing is to be done."""
    found: list[Word] = []
    while True:
        todo = plan(schedule, up_to, now)
        if todo.missed is not None:
            span = list(moments(schedule.timetable, up_to, todo.missed.last))
            assert (span[0], len(span)) == (todo.missed.first, todo.missed.count)
            assert todo.missed.why in (LATER, TOO_LATE)
            found += [("missed", moment) for moment in span]
            up_to = todo.missed.last
        elif todo.due is not None:
            found.append(("fired", todo.due))
            up_to = todo.due
        else:
            assert todo.wake_at is not None
            assert todo.wake_at > now
            return found


@settings(max_examples=300, deadline=None)
@given(schedules(), st.integers(0, 600 * MINUTE), st.integers(0, 600 * MINUTE))
def test_what_is_planned_is_what_a_walk_finds(schedule: Schedule, begin: int, later: int) -> None:
    up_to = DAWN + begin
    assert planned(schedule, up_to, up_to + later) == walked(schedule, up_to, up_to + later)


@settings(max_examples=50, deadline=None)
@given(schedules(), st.integers(0, 10_000))
def test_jitter_is_drawn_from_name_and_moment(schedule: Schedule, number: int) -> None:
    moment = DAWN + number * MINUTE
    late_s = (fires_at(schedule, moment) - moment) / 1000
    assert 0 <= late_s <= schedule.jitter_s
    assert fires_at(schedule, moment) == fires_at(schedule, moment)


def test_jitter_spreads() -> None:
    schedule = Schedule("a", "toy", "ada", every_s=60, jitter_s=1000)
    late = [fires_at(schedule, number * MINUTE) - number * MINUTE for number in range(500)]
    assert len({one // 100_000 for one in late}) == 10


def test_a_span_holds_its_begin_and_not_its_end() -> None:
    schedule = Schedule("a", "toy", "ada", every_s=60)
    assert between(schedule, DAWN, DAWN + 2 * MINUTE, 9) == [DAWN, DAWN + MINUTE]
    assert len(between(schedule, DAWN, DAWN + 99 * MINUTE, 9)) == 10


def test_who_replaces_a_job_must_be_able_to_end_it() -> None:
    schedule = Schedule("a", "workshop", "ada", every_s=60, overlap="replace")
    assert list(misfits(schedule, WORKSHOP)) == []
    bare = varied(WORKSHOP, commands=())
    ((path, fault),) = misfits(schedule, bare)
    assert (path, "declares no command 'cancel'" in fault) == ("overlap", True)
