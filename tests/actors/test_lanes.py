"""How many tries may be under way, for one owner at one host and for all."""

import pytest

from jobrunner.actors.features.notifications.lanes import (
    ALL_AT_ONCE,
    AT_ONCE,
    AT_ONCE_HURT,
    BURST_S,
    LANES_MAX,
    PER_SECOND,
    REST_S_MAX,
    Lanes,
)

ADA, OPS = "ada https://a.example", "workflow:toy https://a.example"


def started(lanes: Lanes, name: str, now: float) -> int:
    count = 0
    while lanes.enter(name, now):
        count += 1
    return count


def passed(lanes: Lanes, name: str, seconds: int) -> int:
    """How many tries that take no time fit into these seconds."""
    count = 0
    for tick in range(seconds * 1000):
        now = tick / 1000
        while count < 10_000 and lanes.enter(name, now):
            lanes.leave(name, now, hurt=False)
            count += 1
    return count


def test_a_lane_has_a_few_at_a_time_and_all_have_a_bound() -> None:
    lanes = Lanes()
    assert started(lanes, ADA, 0) == AT_ONCE
    assert lanes.closed(0) == (ADA,)
    others = sum(started(lanes, f"user{number} https://a.example", 0) for number in range(100))
    assert others + AT_ONCE == ALL_AT_ONCE == lanes.under_way
    assert lanes.room == 0


def test_one_that_failed_has_one_until_it_is_well() -> None:
    lanes = Lanes()
    assert lanes.enter(ADA, 0)
    lanes.leave(ADA, 0, hurt=True)
    assert started(lanes, ADA, 0) == AT_ONCE_HURT
    lanes.leave(ADA, 0, hurt=False)
    assert started(lanes, ADA, 0) == AT_ONCE


def test_nobody_is_stormed_in_the_name_of_a_user() -> None:
    """R12: whoever answers there may not have asked for it; an operator's own endpoint has."""
    most = (10 + BURST_S) * PER_SECOND
    assert most - 2 <= passed(Lanes(), ADA, 10) <= most + 2
    assert passed(Lanes(), OPS, 1) == 10_000


@pytest.mark.parametrize(("asked_s", "rests_s"), [(30, 30), (10**6, REST_S_MAX)])
def test_one_that_asks_for_patience_rests_and_is_woken(asked_s: float, rests_s: float) -> None:
    lanes = Lanes()
    assert lanes.enter(ADA, 100)
    lanes.leave(ADA, 100, hurt=True, rest_s=asked_s)
    assert not lanes.enter(ADA, 100 + rests_s - 1)
    assert lanes.next_open(101) == 100 + rests_s
    assert lanes.enter(ADA, 100 + rests_s)
    lanes.leave(ADA, 200 + rests_s, hurt=True, rest_s=asked_s)
    lanes.wake(ADA)
    assert lanes.enter(ADA, 201 + rests_s)


def test_not_all_that_ever_was_is_remembered() -> None:
    """R11"""
    lanes = Lanes()
    for number in range(LANES_MAX + 500):
        name = f"ada https://h{number}.example"
        assert lanes.enter(name, float(number))
        lanes.leave(name, float(number), hurt=True)
    assert len(lanes._lanes) <= LANES_MAX
