"""Rates: starts by name over all jobs, a provider's word that holds for all, and crashes."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner import Context, Definition, Done, RetryableFailure, Stage, app
from jobrunner.actors.features.turns import known_line
from jobrunner.config.settings import Config, RateSettings, ServerSection, StoreSection
from jobrunner.core.features.turns.rates import (
    RateLimit,
    emptied,
    hold_s,
    level,
    rate_of,
    room_at,
    taken,
)
from jobrunner.stages import Registry
from jobrunner.stages.fitting import misfit
from jobrunner.testing import CALM, Faults, simulate
from jobrunner.testing.simulation.simulation import Kit
from tests.actors.test_slots import Stand, relay
from tests.stages.house import until
from tests.stages.unruly import definition_of

pytestmark = pytest.mark.anyio
# Between a turn that is given and the stage that begins lie some writes and reads.
LATE_S = 0.5
CRASHES = Faults(crashes=12, restarts=2, slow=0, jumps=False)
# Seeds in which no life dies between a provider's word and the commit that stores it: such a word
# was heard by nobody.
HEARD = (0, 1, 2, 3, 4, 7)


class Provider:
    """Counts who calls when, by the clock of the loop; of ``refuses`` calls it wants patience."""

    def __init__(self, refuses: Mapping[int, float] = {}) -> None:
        self.calls: list[float] = []
        self.refused: list[tuple[float, float]] = []
        self.again: list[str] = []
        self._refuses = dict(refuses)
        self._sent_back: set[str] = set()

    async def work(self, ctx: Context[Any]) -> Done:
        self.calls.append(anyio.current_time())
        self.again += [ctx.job_id] if ctx.job_id in self._sent_back else []
        if after_s := self._refuses.pop(len(self.calls), 0.0):
            self.refused.append((self.calls[-1], after_s))
            self._sent_back.add(ctx.job_id)
            raise RetryableFailure("RATE_LIMITED", "too many", after_s)
        await anyio.sleep(0.01)
        return Done()

    def stage(self, pace: str, **more: Any) -> Stage:
        return Stage("s.rated", self.work, rates={"there": 1}, pace={"there": pace}, **more)


def rated(name: str = "rated", tries: int = 1) -> Definition:
    return definition_of(name, "s.rated", limit_s=600, tries=tries)


def passed(calls: list[float], limit: RateLimit, burst: int = 0) -> list[tuple[float, int]]:
    """Every window in which more began than the rate and one burst allow."""
    most = burst or limit.burst
    return [
        (end - start, count)
        for first, start in enumerate(calls)
        for count, end in enumerate(calls[first:], 1)
        if count > most + (end - start + LATE_S) / limit.gap_s
    ]


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("60/min", RateLimit(60, 60, 6)),
        ("5/s", RateLimit(5, 1, 1)),
        ("1000/day burst 50", RateLimit(1000, 86400, 50)),
        ("1 / 10s", RateLimit(1, 10, 1)),
        ("7/Hour", RateLimit(7, 3600, 1)),
        ("0/s", None),
        ("1/0s", None),
        ("60", None),
        ("60/fortnight", None),
        ("-1/s", None),
    ],
)
def test_a_rate_is_read(text: str, limit: RateLimit | None) -> None:
    assert rate_of(text) == limit
    if limit is not None:
        assert rate_of(limit.text) == limit


def test_a_bucket_gives_its_burst_and_then_evenly() -> None:
    limit, full_at, began = RateLimit(60, 60, 3), 0.0, list[float]()
    for _ in range(6):
        now = max(began[-1] if began else 100.0, room_at(limit, full_at, 1))
        began.append(now)
        full_at = taken(limit, full_at, now, 1)
    assert began == [100, 100, 100, 101, 102, 103]
    assert level(limit, full_at, 103) == 0
    assert level(limit, full_at, 104.5) == 1.5
    held = emptied(limit, full_at, 200, 1)
    assert room_at(limit, held, 1) == 200
    assert room_at(limit, taken(limit, held, 200, 1), 1) == 201


def test_a_hold_is_as_long_as_asked_and_never_for_ever() -> None:
    assert [hold_s(0, times, 3600) for times in (1, 2, 3, 20)] == [2, 4, 8, 64]
    assert hold_s(30, 1, 3600) == 30
    assert hold_s(10**6, 1, 3600) == 3600


def test_a_stage_says_what_a_rate_is() -> None:
    async def work(ctx: Context[Any]) -> Done:
        return Done()

    assert not misfit(Stage("s", work, rates={"there": 2}, pace={"there": "5/s"}))
    assert "from 1" in misfit(Stage("s", work, rates={"there": 0}))
    assert "it must be a rate" in misfit(Stage("s", work, rates={"x": 1}, pace={"x": "often"}))


@pytest.mark.parametrize("seed", range(6))
def test_no_more_start_than_the_rate_and_one_burst(seed: int) -> None:
    """Through crashes at every step: what a life before has taken is not there again."""
    starts_bounded(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_long_no_more_start_than_the_rate_and_one_burst(seed: int) -> None:
    starts_bounded(seed)


def starts_bounded(seed: int) -> None:
    provider = Provider()
    limit = rate_of("1/5s burst 3")
    assert limit is not None
    kit = Kit(rated(tries=3), [provider.stage("1/5s burst 3")])
    trace = simulate(kit, seed=seed, steps=80, faults=CRASHES)
    assert provider.calls
    assert not trace.aside
    assert passed(provider.calls, limit) == []


@pytest.mark.parametrize("seed", HEARD)
def test_a_provider_that_wants_patience_is_given_it_by_all(seed: int) -> None:
    """Nobody calls before the moment it named, whichever life heard it."""
    provider = impatient(seed)
    assert provider.refused
    for at, after_s in provider.refused:
        early = [call for call in provider.calls if at + LATE_S < call < at + after_s]
        assert early == [], (at, after_s)


def test_patience_costs_no_attempt() -> None:
    """One try is all that a job has here, and whoever was refused calls again; but for those that
    somebody stopped or cancelled meanwhile."""
    seen = [impatient(seed) for seed in HEARD]
    assert sum(len(one.again) for one in seen) > sum(len(one.refused) for one in seen) / 2


def impatient(seed: int) -> Provider:
    provider = Provider({2: 120.0, 4: 40.0})
    kit = Kit(rated(), [provider.stage("2/s burst 10")])
    simulate(kit, seed=seed, steps=80, faults=CRASHES if seed % 2 else CALM)
    return provider


@pytest.fixture(params=[known_line.KNOWN_MAX, 0], ids=["memory", "table"])
def known_max(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits is known by heart, or the table is asked for it: nobody sees a difference."""
    monkeypatch.setattr(known_line, "KNOWN_MAX", request.param)


@asynccontextmanager
async def standing(folder: Path, *stages: Stage, **rates: str) -> AsyncIterator[Stand]:
    """A service with a workflow of one stage for each of these; ``rates`` are the operator's."""
    stand, registry = Stand(), Registry()
    for stage in stages:
        registry.add(Stage(stage.name, stand.work, rates=stage.rates, pace=stage.pace))
        registry.add(definition_of(stage.name.removeprefix("s."), stage.name, limit_s=60))
    if any(stage.name == "s.plain" for stage in stages):
        registry.add(relay())
    assert not registry.refused["workflows"], registry.refused["workflows"]
    config = Config(
        server=ServerSection(port=0, drain_seconds=0),
        store=StoreSection(path=str(folder / "jobs.db"), assets=str(folder / "assets")),
        rates={name: RateSettings(text) for name, text in rates.items()},
    )
    async with app.running(config, lambda *_, **__: None, registry=registry) as service:
        stand.service = service
        yield stand


def taking(name: str, count: int = 1, pace: str = "") -> Stage:
    return Stage(name, print, rates={"there": count}, pace={"there": pace} if pace else {})


@pytest.mark.usefixtures("known_max")
async def test_a_job_without_a_turn_waits_without_a_slot_and_delays_nobody(tmp_path: Path) -> None:
    rated, plain = taking("s.rated", pace="1/h burst 2"), Stage("s.plain", print)
    async with standing(tmp_path, rated, plain) as stand:
        for number in range(5):
            await stand.submit("rated", "ada", number)
        await until(lambda: len(stand.going) == 2)
        other = await stand.submit("plain", "ada", 1)
        await until(lambda: other in stand.going)
        assert stand.service.facade.stats()["running"] == 3
        await stand.end("rated-ada-0")
        job = await stand.service.store.reader.job("rated-ada-3")
        why = await stand.service.facade.explain(job)
        assert why["waits_for"].startswith("rate there (1/h burst 2), which has room again at 20")
        now = stand.service.facade.world.clock.now()
        (rate,) = why["rates"]
        assert rate["limit"] == "1/h burst 2"
        assert 3_500_000 < rate["room_at"] - now <= 3_600_000
        assert 7_100_000 < why["turn_about_at"] - now <= 7_200_000, "one is before it"


async def test_an_operators_limit_comes_before_the_authors(tmp_path: Path) -> None:
    async with standing(tmp_path, taking("s.rated", pace="1/h"), there="1/h burst 3") as stand:
        for number in range(5):
            await stand.submit("rated", "ada", number)
        await until(lambda: len(stand.going) == 3)


async def test_a_rate_without_a_limit_holds_up_nobody(tmp_path: Path) -> None:
    async with standing(tmp_path, taking("s.rated")) as stand:
        for number in range(5):
            await stand.submit("rated", "ada", number)
        await until(lambda: len(stand.going) == 5)


@pytest.mark.usefixtures("known_max")
async def test_who_takes_much_is_not_overtaken_for_ever(tmp_path: Path) -> None:
    """There is no room for anybody where there is none for the one who takes most, so the turns of
    all come in the order of the line."""
    much, little = taking("s.much", 3), taking("s.little")
    async with standing(tmp_path, much, little, there="1/h burst 4") as stand:
        first = await stand.submit("little", "ada", 0)
        await until(lambda: first in stand.going)
        second = await stand.submit("much", "ada", 1)
        await until(lambda: second in stand.going)
        third = await stand.submit("little", "ada", 2)
        assert (await stand.waits_for(third)).startswith("rate there")


async def test_every_stage_of_a_job_takes_its_turn(tmp_path: Path) -> None:
    """Also one that would begin in the slot of the stage before it."""
    async with standing(tmp_path, taking("s.plain", pace="1/h burst 2")) as stand:
        job = await stand.submit("relay", "ada", 0)
        await until(lambda: job in stand.going)
        await stand.end_stage(job)
        await until(lambda: job in stand.going)
        await stand.end(job)
        assert stand.began == [job, job]
        assert (await stand.waits_for(job)).startswith("rate there")


async def test_what_a_rate_has_taken_is_known_to_the_next_life(tmp_path: Path) -> None:
    for life in range(2):
        async with standing(tmp_path, taking("s.rated", pace="1/h burst 2")) as stand:
            for number in range(3):
                await stand.submit("rated", f"ada{life}", number)
            if not life:
                await until(partial(stand.going.__contains__, "rated-ada0-1"))
            else:
                assert (await stand.waits_for("rated-ada1-0")).startswith("rate there")
                assert not stand.going
