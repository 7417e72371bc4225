"""Rates, and work that is done one at a time, in a service that is killed in the middle."""

from collections.abc import AsyncIterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

import anyio
import pytest

from jobrunner.core.features.turns.rates import rate_of
from tests.actors.test_rates import passed
from tests.whole.process import Place, place, until

pytestmark = pytest.mark.anyio
RATED = Path(__file__).parent / "rated"
JOBS = 120
# Fifty kills in the long form, ten in each of five runs.
RUNS = [(3, 0), *(pytest.param(10, run, marks=pytest.mark.long) for run in range(1, 6))]


def has(diary: Path, least: int) -> bool:
    return len(lines(diary)) >= least


@pytest.fixture
async def home(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Place]:
    async with place(tmp_path, plugins=RATED, active=8, outside=True) as here:
        yield here


def lines(diary: Path) -> list[list[str]]:
    return [line.split() for line in diary.read_text().splitlines()] if diary.exists() else []


@pytest.mark.parametrize(("kills", "run"), RUNS)
async def test_killed_again_and_again_it_takes_no_more_than_its_rate(
    home: Place, kills: int, run: int
) -> None:
    """A life that had forgotten what was taken would begin with a burst of its own."""
    random, diary = Random(run), home.folder / "diary"
    limit = rate_of("1/2s burst 8")
    assert limit is not None
    await home.start()
    for _ in range(JOBS):
        await home.submit("rated", params={"diary": str(diary)})
    await until(lambda: len(lines(diary)) >= limit.burst)
    for _ in range(kills):
        await home.kill()
        assert home.faults() == ()
        await home.start()
        for _ in range(random.randrange(40)):
            await anyio.sleep(0.01)
    before = len(lines(diary))
    await until(lambda: len(lines(diary)) > before)
    calls = [float(at) for what, at, *_ in lines(diary) if what == "called"]
    assert passed(calls, limit) == []


@pytest.mark.parametrize(("kills", "run"), RUNS)
async def test_killed_again_and_again_it_takes_one_at_a_time(
    home: Place, kills: int, run: int
) -> None:
    """In each life the next begins when the one before has ended; all of them come to their end."""
    random, diary = Random(run), home.folder / "diary"
    await home.start()
    jobs = [
        (await home.submit("single", params={"diary": str(diary)}))["id"] for _ in range(10 * kills)
    ]
    for _ in range(kills):
        wanted = len(lines(diary)) + 1 + random.randrange(6)
        await until(partial(has, diary, wanted))
        await home.kill()
        assert home.faults() == ()
        await home.start()
    for job_id in jobs:
        await home.at(job_id, "done")
    for pid in {line[3] for line in lines(diary)}:
        words = [line[0] for line in lines(diary) if line[3] == pid]
        assert all(before != after for before, after in pairwise(words))
