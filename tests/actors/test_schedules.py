"""Schedules through hours of made-up time: what fires when, what is late and what is missed."""

import random
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from jobrunner.actors import Facade
from jobrunner.config import settings
from jobrunner.config.schedules import schedules_of
from jobrunner.core.features.schedules.schedules import fires_at
from jobrunner.core.job import Actor
from jobrunner.errors import Refused, StorageError
from jobrunner.testing.simulation.process import Gone
from jobrunner.testing.simulation.world import DAWN_MS, Faults
from tests.actors.timetabled import DAY_S, HOUR_S, JOBS, MINUTE_S, Timed, every, played

ROOT = Actor("root", "admin")
FIRST, GONE, LAST = "01 01:00", "01 02:00", "01 06:00"


def hours(*times: int) -> list[str]:
    return [f"01 {hour:02d}:00" for hour in times]


def test_each_moment_makes_a_job() -> None:
    async def play(scene: Timed, group: Any) -> None:
        await scene.until("01 03:30")
        assert scene.jobs() == [(at, "awake") for at in hours(1, 2, 3)]
        assert scene.born() == hours(1, 2, 3)
        assert scene.outcomes() == [(at, "fired") for at in hours(1, 2, 3)]

    played(play, a=every(HOUR_S))


def test_without_schedules_there_is_no_task() -> None:
    async def play(scene: Timed, group: Any) -> None:
        tasks: list[str] = []
        await scene.ask(lambda facade: _named(tasks))
        assert not [name for name in tasks if "Timekeeper" in name]

    played(play)


async def _named(found: list[str]) -> None:
    from asyncio import all_tasks

    found += [task.get_name() for task in all_tasks()]


@pytest.mark.parametrize(
    ("overlap", "born", "outcomes"),
    [
        ("allow", hours(1, 2, 3, 4), ["fired"] * 4),
        ("skip", hours(1, 4), ["fired", "skipped", "skipped", "fired"]),
        # The job of 1:00 ends at 3:30; of those that wait then, the latest fires.
        ("queue", ["01 01:00", "01 03:30"], ["fired", "missed", "fired"]),
        ("replace", hours(1, 2, 3, 4), ["fired"] * 4),
    ],
)
def test_while_the_job_before_goes_on(overlap: Any, born: list[str], outcomes: list[str]) -> None:
    async def play(scene: Timed, group: Any) -> None:
        await scene.until("01 04:30" if overlap != "queue" else "01 03:45")
        assert scene.born() == born
        assert [outcome for _, outcome in scene.outcomes()] == outcomes
        if overlap == "replace":
            statuses = [status for _, status in scene.jobs()]
            assert statuses == ["canceled", "canceled", "canceled", "asleep"]

    played(play, a=every(HOUR_S, overlap=overlap, params={"seconds": 2.5 * HOUR_S},
                         catch_up=5 * HOUR_S))  # fmt: skip


def test_each_one_that_waits_fires_in_its_turn() -> None:
    async def play(scene: Timed, group: Any) -> None:
        await scene.until("01 08:45")
        assert scene.jobs()[:4] == [(at, "awake") for at in hours(1, 2, 3)] + [
            ("01 04:00", "asleep")
        ]
        assert scene.born() == ["01 01:00", "01 03:30", "01 06:00", "01 08:30"]

    played(play, a=every(HOUR_S, overlap="queue", catch_up_policy="each", catch_up=9 * HOUR_S,
                         params={"seconds": 2.5 * HOUR_S}))  # fmt: skip


def test_one_that_waits_longer_than_its_window_is_missed() -> None:
    async def play(scene: Timed, group: Any) -> None:
        await scene.until("01 03:45")
        assert scene.outcomes() == [
            ("01 01:00", "fired"), ("01 02:00", "missed"), ("01 03:00", "fired"),
        ]  # fmt: skip
        missed = scene.firings()[1]
        assert missed.code == "JOB_ALREADY_RUNNING"

    played(play, a=every(HOUR_S, overlap="queue", catch_up_policy="each", catch_up=HOUR_S,
                         params={"seconds": 2.5 * HOUR_S}))  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "window_s", "outcomes"),
    [
        ("latest", 24 * HOUR_S, [(FIRST, "fired"), (GONE, "missed"), (LAST, "fired")]),
        ("each", 24 * HOUR_S, [(at, "fired") for at in hours(1, 2, 3, 4, 5, 6)]),
        ("each", 2 * HOUR_S,
         [(FIRST, "fired"), (GONE, "missed"), ("01 05:00", "fired"), (LAST, "fired")]),
        ("latest", 10 * MINUTE_S, [(FIRST, "fired"), (GONE, "missed")]),
    ],
)  # fmt: skip
def test_after_a_time_without_a_service(
    policy: Any, window_s: float, outcomes: list[tuple[str, str]]
) -> None:
    async def play(scene: Timed, group: Any) -> None:
        await scene.until("01 01:30")
        await scene.stop()
        await scene.until("01 06:30")
        await scene.start(group)
        await scene.pass_s(10)
        assert scene.outcomes() == outcomes
        missed = sum(one.count for one in scene.firings() if one.outcome == "missed")
        assert missed == 6 - sum(outcome == "fired" for _, outcome in outcomes)

    played(play, a=every(HOUR_S, catch_up_policy=policy, catch_up=window_s, overlap="allow"))


@pytest.mark.parametrize("set_s", [-1500, -3 * HOUR_S, 3 * HOUR_S, 90, -90])
def test_a_clock_that_is_set_fires_nothing_twice_and_forgets_nothing(set_s: float) -> None:
    """Back: what has fired has fired. Forward: what was leapt over fires late. And on it goes."""

    async def play(scene: Timed, group: Any) -> None:
        await scene.until("01 05:30")
        scene.set_clock(set_s)
        await scene.pass_s(10 * HOUR_S)
        last = int((15.5 * HOUR_S + set_s) // HOUR_S)
        assert sorted(at for at, _ in scene.jobs()) == hours(*range(1, last + 1))

    played(play, a=every(HOUR_S, catch_up_policy="each", catch_up=24 * HOUR_S, overlap="allow"))


def test_a_clock_that_was_wrong_for_a_while() -> None:
    """Set a day ahead and back again: moments that were taken for missed fire at their time."""

    async def play(scene: Timed, group: Any) -> None:
        await scene.until("01 02:30")
        scene.set_clock(24 * HOUR_S)
        await scene.pass_s(5 * MINUTE_S)
        scene.set_clock(-24 * HOUR_S)
        await scene.until("01 06:30")
        made = sorted(at for at, _ in scene.jobs())
        assert made == [*hours(1, 2, 3, 4, 5, 6), "02 02:00"]

    played(play, a=every(HOUR_S, overlap="allow"))


def test_whoever_dies_at_a_moment_fires_it_by_its_own_jitter() -> None:
    async def play(scene: Timed, group: Any) -> None:
        for quarter in range(1, 16):
            await scene.until(f"01 {quarter // 4:02d}:{quarter % 4 * 15:02d}")
            scene.process.die("a test")
            await scene.process.up.wait()
        await scene.until("01 04:00")
        (schedule,) = schedules_of(settings.Config(schedules=scene.named))
        moments = [DAWN_MS + hour * HOUR_S * 1000 for hour in (1, 2, 3)]
        due = [fires_at(schedule, moment) for moment in moments]
        born = [at for _, _, at, _, _ in scene.rows(JOBS)]
        assert [at for at, _ in scene.jobs()] == hours(1, 2, 3)
        late_s = [(at - ought) / 1000 for at, ought in zip(born, due, strict=True)]
        assert all(0 <= late < 2 * MINUTE_S for late in late_s), late_s

    played(play, a=every(HOUR_S, jitter=50 * MINUTE_S))


@pytest.mark.parametrize("policy", ["latest", "each"])
def test_what_is_refused_for_now_is_tried_again_within_its_window(policy: Any) -> None:
    """Its workflow is gone for two starts; of what came meanwhile the window decides."""

    async def play(scene: Timed, group: Any) -> None:
        await scene.until("01 01:30")
        await scene.stop()
        scene.workflows = False
        await scene.start(group)
        await scene.until("01 04:30")
        waits = [fields for event, fields in scene.logged if event == "schedule.waits"]
        assert {one["error_code"] for one in waits} == {"WORKFLOW_UNAVAILABLE"}
        assert len(waits) < 5, "that it waits is said once"
        await scene.stop()
        scene.workflows = True
        await scene.start(group)
        await scene.until("01 05:30")
        made = [at for at, _ in scene.jobs()]
        assert made == (hours(1, 3, 4, 5) if policy == "each" else hours(1, 4, 5))
        missed = [one for one in scene.firings() if one.outcome == "missed"]
        assert {one.code for one in missed} == {"WORKFLOW_UNAVAILABLE"}

    played(play, a=every(HOUR_S, catch_up_policy=policy, catch_up=2 * HOUR_S, overlap="allow"))


def test_what_is_refused_for_good_is_not_tried_again() -> None:
    async def play(scene: Timed, group: Any) -> None:
        await scene.until("01 02:30")
        rows = [(one.outcome, one.code) for one in scene.firings()]
        assert rows == [("refused", "INVALID_PARAMS")] * 2

    played(play, a=every(HOUR_S, params={"colour": 1}))


def test_a_pause_is_not_made_up_for() -> None:
    async def play(scene: Timed, group: Any) -> None:
        await scene.until("01 01:30")
        await scene.ask(lambda facade: facade.schedules.pause("a", ROOT, "tea"))
        await scene.until("01 03:30")
        await scene.stop()
        await scene.start(group)
        await scene.until("01 04:30")
        await scene.ask(lambda facade: facade.schedules.resume("a", ROOT, None))
        await scene.until("01 06:30")
        assert scene.outcomes() == [(at, "fired") for at in hours(1, 5, 6)]

    played(play, a=every(HOUR_S, catch_up=24 * HOUR_S, catch_up_policy="each"))


def test_times_that_are_changed_begin_anew() -> None:
    async def play(scene: Timed, group: Any) -> None:
        await scene.until("01 01:30")
        await scene.stop()
        await scene.until("01 04:30")
        scene.named = {"a": every(HOUR_S / 2)}
        await scene.start(group)
        await scene.until("01 05:15")
        assert scene.jobs() == [("01 01:00", "awake"), ("01 05:00", "awake")]

    played(play, a=every(HOUR_S, catch_up=24 * HOUR_S, catch_up_policy="each"))


def test_one_made_at_run_time_begins_and_is_there_after_a_crash() -> None:
    async def play(scene: Timed, group: Any) -> None:
        (schedule,) = schedules_of(settings.Config(schedules={"b": every(HOUR_S)}))
        await scene.until("01 00:30")
        await scene.ask(lambda facade: facade.schedules.keep(schedule, ROOT, fresh=True))
        await scene.until("01 01:30")
        scene.process.die("a test")
        await scene.until("01 02:30")
        assert [at for at, _ in scene.jobs("b")] == hours(1, 2)
        await scene.ask(lambda facade: facade.schedules.drop("b", ROOT))
        await scene.until("01 04:30")
        assert [at for at, _ in scene.jobs("b")] == hours(1, 2)
        assert scene.firings("b") == []

    played(play)


def test_a_second_trigger_under_a_key_makes_no_second_job() -> None:
    async def play(scene: Timed, group: Any) -> None:
        await scene.until("01 00:10")
        first = await scene.ask(lambda facade: facade.schedules.trigger("a", "k", None))
        scene.process.die("a test")
        await scene.process.up.wait()
        again = await scene.ask(lambda facade: facade.schedules.trigger("a", "k", None))
        assert (first[1], again) == (False, (first[0], True))

    played(play, a=every(HOUR_S))


# ---------------------------------------------------------------- seeds

BAD = Faults(crashes=12, restarts=2, full=0.03, unknown=0.01, slow=0.02)
TEN_S = 10 * MINUTE_S
NAMED = {
    "each": every(TEN_S, catch_up_policy="each", catch_up=30 * DAY_S, overlap="allow"),
    "latest": every(TEN_S, overlap="allow", jitter=300),
    "skip": every(TEN_S, params={"seconds": 1500}),
    "queue": every(TEN_S, params={"seconds": 700}, overlap="queue", catch_up=30 * DAY_S,
                   catch_up_policy="each"),
    "replace": every(TEN_S, params={"seconds": 900}, overlap="replace"),
}  # fmt: skip
ONE_BY_ONE = ("skip", "queue", "replace")
LIVES = """
    SELECT s.schedule, j.uid, min(h.at), max(CASE WHEN j.kind = 'final' THEN h.at END)
    FROM scheduled s JOIN jobs j ON j.id = s.job JOIN history h ON h.job = j.id
    WHERE s.mark NOT LIKE 'trigger:%' GROUP BY j.id ORDER BY j.id
"""
UNTOLD = """
    SELECT s.schedule, s.mark FROM scheduled s JOIN jobs j ON j.id = s.job
    LEFT JOIN firings f ON (f.schedule, f.mark, f.job_id) = (s.schedule, s.mark, j.uid)
    WHERE f.outcome IS NOT 'fired'
"""
UNBORN = """
    SELECT f.schedule, f.mark FROM firings f WHERE f.outcome = 'fired'
        AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.uid = f.job_id)
"""


def survive(seed: int, *, jumps: bool) -> None:
    """Hours in which everything goes wrong, then some in which nothing does."""

    async def play(scene: Timed, group: Any) -> None:
        draw = random.Random(f"play {seed}")
        for _ in range(40):
            await scene.pass_s(draw.choice((1, 60, 300, 900)))
            with suppress(Gone, StorageError, Refused):
                await _meddle(scene, draw, jumps=jumps)
        scene.fate.calm()
        await scene.process.up.wait()
        await scene.pass_s(6 * HOUR_S)
        check_survivor(scene, jumps=jumps)

    played(play, seed, BAD, **NAMED)


async def _meddle(scene: Timed, draw: random.Random, *, jumps: bool) -> None:
    match draw.randrange(6):
        case 0:
            key = draw.choice("xyz")
            await scene.ask(lambda facade: facade.schedules.trigger("each", key, None))
        case 1 if jumps:
            scene.set_clock(draw.choice((-3600, -60, 60, 5400)))
        case 2 if scene.fate.may_restart():
            scene.process.restart()
        case 3:
            now = scene.now()
            await scene.ask(lambda facade: _backfilled(facade, now))


async def _backfilled(facade: Facade, now: int) -> None:
    span = facade.schedules.span("latest", now - 3600_000, now)
    await facade.schedules.backfill("latest", span)


def check_survivor(scene: Timed, *, jumps: bool) -> None:
    assert scene.rows(UNTOLD) == [], "a job was made, and nobody wrote that down"
    assert scene.rows(UNBORN) == [], "a job was written down that is not there"
    marks = scene.rows("SELECT schedule, mark FROM scheduled")
    assert len(marks) == len(set(marks)), "a moment fired twice"
    ((made_at, up_to),) = scene.rows("SELECT made_at, up_to FROM schedules WHERE name = 'each'")
    span = range(made_at // (TEN_S * 1000) + 1, up_to // (TEN_S * 1000) + 1)
    made = {mark for name, mark in marks if name == "each"}
    lost = [number for number in span if str(number * TEN_S * 1000) not in made]
    assert not lost, f"moments were lost: {lost}"
    assert jumps or len(span) > 36
    if not jumps:
        for name in ONE_BY_ONE:
            lives = [(began, ended) for of, _, began, ended in scene.rows(LIVES) if of == name]
            pairs = pairwise(lives)
            assert all(old[1] and old[1] <= new[0] for old, new in pairs), f"{name} overlaps"
        assert {name for name, _ in marks} == set(NAMED)


@pytest.mark.parametrize("jumps", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_crashes_each_moment_fires_once(seed: int, *, jumps: bool) -> None:
    survive(seed, jumps=jumps)


@pytest.mark.long
@pytest.mark.parametrize("jumps", [False, True])
def test_long(*, jumps: bool) -> None:
    for seed in range(1000):
        survive(seed, jumps=jumps)
