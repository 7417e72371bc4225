"""Who is suspected of having killed the service."""

import pytest

from jobrunner.actors.recovery import suspects
from jobrunner.core.queries import LastLife, OpenAttempt

MINUTE = 60_000
START = 1_000_000


def died(after_ms: int, *begun_ms: int, goodbye: int | None = None) -> list[str]:
    """A life that lasted so long, and attempts that had begun so long after its start."""
    attempts = tuple(OpenAttempt(f"job-{ms}", 1, START + ms) for ms in begun_ms)
    life = LastLife(START, START + after_ms, goodbye)
    return [one.job_id for one in suspects(attempts, life)]


def test_the_youngest_comes_first() -> None:
    assert died(30_000, 1, 20_000, 300) == ["job-20000", "job-300", "job-1"]


def test_who_had_run_for_a_minute_is_cleared() -> None:
    """R15: so who kills it whenever it begins is found beside work that takes hours."""
    assert died(5 * MINUTE, 1, 2, 5 * MINUTE - 10) == [f"job-{5 * MINUTE - 10}"]


def test_somebody_must_have_done_it() -> None:
    assert died(5 * MINUTE, 1, 2) == ["job-2", "job-1"]


@pytest.mark.parametrize(("after_ms", "goodbye"), [(11 * MINUTE, None), (1000, 2000)])
def test_nobody_is_suspected_of_an_end_that_was_none(after_ms: int, goodbye: int | None) -> None:
    """A service that had been up for long, and one that was stopped."""
    assert died(after_ms, 1, goodbye=goodbye) == []
    assert suspects((), None) == []
