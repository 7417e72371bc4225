"""Who is suspected of having killed the service."""

from typing import Any

import pytest

from jobrunner import Done, Stage
from jobrunner.actors.recovery import recover
from jobrunner.actors.suspects import suspected
from jobrunner.core.messages import Recovered
from jobrunner.core.questions import LastLife, OpenAttempt

pytestmark = pytest.mark.anyio
MINUTE = 60_000
START = 1_000_000


def died(after_ms: int, *begun_ms: int, goodbye: int | None = None) -> list[str]:
    """A life that lasted so long, and attempts that had begun so long after its start."""
    attempts = tuple(OpenAttempt(f"job-{ms}", 1, START + ms) for ms in begun_ms)
    life = LastLife(START, START + after_ms, goodbye)
    return [one.job_id for one in suspected(attempts, life)]


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
    assert suspected((), None) == []


@pytest.mark.parametrize(("runs", "alone"), [("process", False), ("loop", True), ("thread", True)])
async def test_a_stage_in_a_process_of_its_own_is_not_to_blame(runs: str, alone: bool) -> None:
    """R15: it starts one at a time all the same, and nothing is counted against it."""
    told = list[tuple[str, Recovered]]()
    stage = Stage("toy.work", lambda ctx: Done(), how=runs)  # type: ignore[arg-type]

    async def deliver(job_id: str, message: Recovered) -> None:
        told.append((job_id, message))

    world = Remains((OpenAttempt("job-1", 1, START + 10, "toy.work"),), stage)
    assert await recover(world, deliver) == ["job-1"]  # type: ignore[arg-type]
    assert told == [("job-1", Recovered(alone))]


class Remains:
    """What a start finds of the life before it."""

    def __init__(self, died: tuple[OpenAttempt, ...], stage: Stage) -> None:
        self.store = self.reader = self.registry = self
        self.epoch = 2
        self._died, self._stage = died, stage

    async def open_attempts(self, epoch: int) -> tuple[OpenAttempt, ...]:
        return self._died

    async def last_life(self, epoch: int) -> LastLife:
        return LastLife(START, START + 1000, None)

    def stage(self, name: str) -> Stage | None:
        return self._stage if name == self._stage.name else None

    def say(self, event: str, **fields: Any) -> None: ...
