"""How long work took, in notches that can be added, and buckets of time laid out."""

import random

import pytest

from jobrunner.core.keeping.charts import (
    EVERYTHING,
    SPANS,
    ChartRow,
    ChartSpan,
    Counted,
    Counting,
    merged,
    percentile_ms,
    series,
)

NOON = 1_767_225_600_000
FIFTH = 2 ** (1 / 4)


def counted(*took_ms: int, outcome: str = "completed") -> Counted:
    found = Counted()
    for one in took_ms:
        found.end(outcome, one)
    return found


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_a_percentile_is_right_to_a_fifth(share: float) -> None:
    luck = random.Random(3)
    took_ms = sorted(int(luck.lognormvariate(8, 2)) + 1 for _ in range(5_000))
    exact = took_ms[int(share * len(took_ms))]
    found = percentile_ms(counted(*took_ms).took, share)
    assert found is not None
    assert exact / FIFTH <= found <= exact * FIFTH


def test_nobody_took_no_time() -> None:
    assert percentile_ms({}, 0.5) is None
    assert percentile_ms(counted(0, -5).took, 0.99) == pytest.approx(1.2, abs=0.1)


def test_added_buckets_are_as_if_counted_in_one() -> None:
    one, other = counted(5, 80), counted(80, 9_000, outcome="failed")
    one.add(other)
    whole = counted(5, 80)
    for took_ms in (80, 9_000):
        whole.end("failed", took_ms)
    assert one == whole


def test_of_the_line_the_worst_stays() -> None:
    one = Counted(waits_ms=5, in_line=9)
    one.add(Counted(waits_ms=7, in_line=2))
    assert (one.waits_ms, one.in_line) == (7, 9)


def test_what_could_not_be_written_counts_later() -> None:
    counting = Counting()
    counting.submitted("w")
    taken = counting.take()
    assert counting.take() == {}
    counting.submitted("w")
    counting.give_back(taken)
    assert counting.take() == {"w": Counted(made=2)}


def test_a_moment_is_in_one_bucket_of_each_span() -> None:
    moment = NOON + 65_432
    rows = list(merged((), {"w": Counted(made=1)}, moment))
    assert [row.step_s for row in rows] == [span.step_s for span in SPANS.values()]
    for row in rows:
        assert row.at <= moment < row.at + row.step_s * 1000


def test_what_is_stored_is_added_to_and_left_alone() -> None:
    step_s = SPANS["hour"].step_s
    stored = ChartRow(step_s, NOON, "w", Counted(made=2))
    first, *_ = merged((stored,), {"w": Counted(made=1)}, NOON + 5)
    assert first == ChartRow(step_s, NOON, "w", Counted(made=3))
    assert stored.counted.made == 2


def test_every_bucket_of_a_span_is_there_and_the_first_series_is_of_all() -> None:
    span = ChartSpan(10, 6)
    begins_at = span.begins_at(NOON + 59_999)
    assert begins_at == NOON
    rows = [
        ChartRow(10, NOON, "a", Counted(made=1)),
        ChartRow(10, NOON + 50_000, "b", Counted(made=2)),
        ChartRow(10, NOON + 50_000, EVERYTHING, Counted(waits_ms=4, in_line=1)),
    ]
    every, a, b = series(rows, span, begins_at)
    assert [one.made for one in every.buckets] == [1, 0, 0, 0, 0, 2]
    assert [one.made for one in a.buckets] == [1, 0, 0, 0, 0, 0]
    assert (every.whole.made, b.whole.made, every.whole.waits_ms) == (3, 2, 4)
    assert [one.workflow for one in series((), span, begins_at)] == [EVERYTHING]


def test_what_comes_from_behind_the_end_is_in_the_last_bucket() -> None:
    """Rows are read after the time was, and a clock may be set back."""
    span = ChartSpan(10, 6)
    rows = [ChartRow(10, NOON + late_ms, "a", Counted(made=1)) for late_ms in (60_000, 3_600_000)]
    every, _ = series(rows, span, NOON)
    assert [one.made for one in every.buckets] == [0, 0, 0, 0, 0, 2]
