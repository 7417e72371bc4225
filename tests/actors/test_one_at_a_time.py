"""One at a time: attempts with the same key follow each other, others pass by, crashes included."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from jobrunner import Call, Context, Deadline, Definition, Done, RetryableFailure, Stage, app
from jobrunner.actors.features.claims import ClaimSearch
from jobrunner.actors.features.turns import known_line
from jobrunner.config.settings import Config, ServerSection, StoreSection
from jobrunner.core.messages import Answered, Claim, Move
from jobrunner.errors import Refused
from jobrunner.stages import Registry
from jobrunner.testing import Faults, simulate
from jobrunner.testing.simulation.loop import LIFE
from jobrunner.testing.simulation.simulation import Kit
from tests.actors.test_slots import Stand, relay
from tests.driving import varied
from tests.stages.house import WORKER, until
from tests.stages.unruly import definition_of

pytestmark = pytest.mark.anyio
CRASHES = Faults(crashes=12, restarts=2, jumps=False)


def keyed(name: str, call: Call, at_a_time: int = 1, tries: int = 3) -> Definition:
    definition = definition_of(name, f"s.{name}", limit_s=600, tries=tries)
    states = tuple(
        replace(state, one_at_a_time=call, at_a_time=at_a_time) if state.kind == "active" else state
        for state in definition.workflow.states
    )
    return varied(definition, states=states)


@pytest.fixture(params=[known_line.KNOWN_MAX, 0], ids=["memory", "table"], autouse=True)
def known_max(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits is known by heart, or the table is asked for it: nobody sees a difference."""
    monkeypatch.setattr(known_line, "KNOWN_MAX", request.param)


@asynccontextmanager
async def standing(folder: Path, *definitions: Definition, **stages: Any) -> AsyncIterator[Stand]:
    stand, registry = Stand(), Registry()
    for definition in definitions:
        name = definition.workflow.name
        if name != "relay":
            registry.add(Stage(f"s.{name}", stages.get(name, stand.work)))
        registry.add(definition)
    assert not registry.refused["workflows"], registry.refused["workflows"]
    config = Config(
        server=ServerSection(port=0, drain_seconds=0),
        store=StoreSection(path=str(folder / "jobs.db"), assets=str(folder / "assets")),
    )
    async with app.running(config, lambda *_, **__: None, registry=registry) as service:
        stand.service = service
        yield stand


async def test_the_jobs_of_a_user_follow_each_other(tmp_path: Path) -> None:
    """Without a slot while they wait, and without holding up anybody else."""
    plain = definition_of("plain", "s.plain", limit_s=60)
    async with standing(tmp_path, keyed("single", Call("by_user")), plain) as stand:
        for number in range(3):
            for user in ("ada", "eve"):
                await stand.submit("single", user, number)
        other = await stand.submit("plain", "ada", 9)
        await until(lambda: len(stand.going) == 3)
        assert sorted(stand.going) == [other, "single-ada-0", "single-eve-0"]
        assert stand.service.facade.stats()["running"] == 3
        why = await stand.waits_for("single-ada-1")
        assert why == "its turn among those with the key ada; job single-ada-0 has it"
        await stand.end("single-ada-0")
        await until(lambda: "single-ada-1" in stand.going)
        assert "single-ada-2" not in stand.going
        await stand.end(other)


async def test_so_many_at_a_time_as_the_state_says(tmp_path: Path) -> None:
    async with standing(tmp_path, keyed("single", Call("by_user"), at_a_time=2)) as stand:
        for number in range(4):
            await stand.submit("single", "ada", number)
        await until(lambda: len(stand.going) == 2)
        await stand.end("single-ada-1")
        await until(lambda: "single-ada-2" in stand.going)
        assert sorted(stand.going) == ["single-ada-0", "single-ada-2"]


async def test_whoever_waits_for_a_callback_keeps_its_turn(tmp_path: Path) -> None:
    """Also over a restart: its work goes on elsewhere."""
    began: list[str] = []

    async def parking(ctx: Context[Any]) -> Done:
        began.append(ctx.job_id)
        await ctx.await_callback("done")
        return Done()

    definition = keyed("single", Call("by_user"))
    async with standing(tmp_path, definition, single=parking) as stand:
        for number in range(2):
            await stand.submit("single", "ada", number)
        await until(lambda: stand.service.facade.stats()["running"] == 0 and bool(began))
    async with standing(tmp_path, definition, single=parking) as stand:
        assert "job single-ada-0 has it" in await stand.waits_for("single-ada-1")
        await stand.service.facade.ask("single-ada-0", Answered(WORKER, "done", 1))
        await until(lambda: "single-ada-1" in began)
        assert began == ["single-ada-0", "single-ada-0", "single-ada-1"]


async def test_a_key_that_is_empty_holds_nobody_up(tmp_path: Path) -> None:
    """A parameter that is not there makes none."""
    definition = keyed("single", Call("by_param", {"name": "model"}))
    async with standing(tmp_path, definition) as stand:
        for number in range(3):
            await stand.submit("single", "ada", number)
        await until(lambda: len(stand.going) == 3)


async def test_a_slot_is_not_lent_on_past_those_who_wait_for_their_turn(tmp_path: Path) -> None:
    """The second stage of a job is taken one at a time, and begins in no slot of the first."""
    line = relay()
    states = tuple(
        replace(state, one_at_a_time=Call("by_user")) if state.name == "two" else state
        for state in line.workflow.states
    )
    plain = definition_of("plain", "s.plain", limit_s=60)
    async with standing(tmp_path, plain, varied(line, states=states)) as stand:
        first, second = [await stand.submit("relay", "ada", number) for number in range(2)]
        await until(lambda: len(stand.going) == 2)
        await stand.end_stage(first)
        await until(lambda: stand.began == [first, second, first])
        await stand.end(second)
        await until(lambda: stand.service.facade.stats()["running"] == 1)
        assert await stand.waits_for(second) == (
            f"its turn among those with the key ada; job {first} has it"
        )
        await stand.end_stage(first)
        await until(lambda: stand.began.count(second) == 2)


def claimed_elsewhere(*, remote: bool) -> Definition:
    """The same, worked by whoever claims it; ``remote``: with the stage of its plugin."""
    there = keyed("single", Call("by_user"))
    far: dict[str, Any] = {"stage": {"*": "external"}, "remote": ("*",) if remote else ()}
    states = tuple(
        replace(state, deadline=Deadline(3600), **far) if state.kind == "active" else state
        for state in there.workflow.states
    )
    edges = tuple(replace(edge, by=(*edge.by, "workflow")) for edge in there.workflow.edges)
    return varied(there, states=states, edges=edges)


@pytest.mark.parametrize("remote", [False, True], ids=["external", "remote"])
async def test_claims_of_one_key_follow_each_other(tmp_path: Path, *, remote: bool) -> None:
    """Whoever waits for its turn delays nobody behind, is told so, and has it when it is over."""
    runs = (("working", "any", "s.single"),) if remote else ()
    async with standing(tmp_path, claimed_elsewhere(remote=remote)) as stand:
        for number in range(12):
            await stand.submit("single", "ada", number)
        await stand.submit("single", "eve", 0)
        facade = stand.service.facade
        (first,) = await facade.claims.take(ClaimSearch(WORKER, "single", 1, runs=runs))
        (second,) = await facade.claims.take(ClaimSearch(WORKER, "single", 1, runs=runs))
        assert (first.job.id, second.job.id) == ("single-ada-0", "single-eve-0")
        why = await stand.waits_for("single-ada-1")
        assert why == "its turn among those with the key ada; job single-ada-0 has it"
        with pytest.raises(Refused, match="job single-ada-0 has it"):
            await facade.claims.one("single-ada-1", Claim(WORKER, runs))
    async with standing(tmp_path, claimed_elsewhere(remote=remote)) as stand:
        facade = stand.service.facade
        assert not await facade.claims.take(ClaimSearch(WORKER, "single", 5, runs=runs))
        await facade.ask("single-ada-0", Move(WORKER, "done"))
        (following,) = await facade.claims.take(ClaimSearch(WORKER, "single", 5, runs=runs))
        assert following.job.id == "single-ada-1"


@pytest.mark.parametrize("seed", range(6))
def test_never_two_at_once_whatever_crashes(seed: int) -> None:
    never_two(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2000, 2200))
def test_long_never_two_at_once_whatever_crashes(seed: int) -> None:
    never_two(seed)


def never_two(seed: int) -> None:
    """Retries, callbacks, cancels and crashes: of one user one attempt is at work, or awaits."""
    going, most, begun = Counter[str](), Counter[str](), Counter[str]()

    async def work(ctx: Context[Any]) -> Done:
        here = f"{ctx.user_id} in {LIFE.get()}"
        going[here] += 1
        begun[ctx.user_id] += 1
        most[ctx.user_id] = max(most[ctx.user_id], going[here])
        try:
            with anyio.move_on_after(3):
                await anyio.sleep_forever()
            if begun[ctx.user_id] % 5 == 1:
                raise RetryableFailure("AGAIN", "it failed once")
        finally:
            going[here] -= 1
        return Done()

    kit = Kit(keyed("single", Call("by_user"), tries=30), [Stage("s.single", work)])
    trace = simulate(kit, seed=seed, steps=80, faults=CRASHES)
    assert begun
    assert not trace.aside
    assert set(most.values()) == {1}
