"""Who runs next, and why a job waits: slots, a user's share, turns at a stage, resources."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from jobrunner import (
    Context,
    Definition,
    Done,
    Edge,
    JobType,
    Lock,
    Retry,
    Stage,
    State,
    Workflow,
    app,
)
from jobrunner.actors.features.turns import known_line
from jobrunner.actors.features.turns.known_line import InLine
from jobrunner.actors.features.turns.rates import Rates
from jobrunner.actors.slots import Slots, WorkLimits
from jobrunner.config.settings import Config, ServerSection, StoreSection
from jobrunner.config.settings import LimitsSection as LimitSettings
from jobrunner.core.decision import Decision
from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.messages import Submit
from jobrunner.ports import SystemClock
from jobrunner.stages import Registry
from jobrunner.store.writer import StoreWriter
from tests.stages.house import until
from tests.stages.unruly import definition_of

pytestmark = pytest.mark.anyio


class NoParams(Struct, frozen=True):
    pass


WORKFLOWS = {
    "plain": Stage("s.plain", lambda ctx: None, "loop"),
    "bench": Stage(
        "s.bench", lambda ctx: None, "loop", resources={"bench": 1}, supply={"bench": 2}
    ),
    "gpu": Stage("s.gpu", lambda ctx: None, "loop", resources={"gpu": 1}),
    "single": Stage("s.single", lambda ctx: None, "loop", concurrency=1),
}


def relay() -> Definition:
    """Three stages, one after the other."""
    legs = (("one", "two"), ("two", "three"), ("three", "done"))
    retry = Retry("inside", failed=("failed",))
    return Definition(
        Workflow(
            name="relay",
            version="1",
            initial="queued",
            states=(
                State("queued", "queued", onward={"*": "one"}),
                *(
                    State(
                        name, "active", stage={"*": "s.plain"}, done=done, limit_s=60, retry=retry
                    )
                    for name, done in legs
                ),
                State("done", "final", ends="completed"),
                State("failed", "final", ends="failed"),
            ),
            edges=(
                Edge("queued", "one", by=("engine",)),
                *(Edge(name, done, by=("stage",)) for name, done in legs),
                *(Edge(name, "failed", by=("stage", "timer", "engine")) for name, _ in legs),
            ),
            job_types=(JobType("any", params="params"),),
            locks=(Lock("job", guarded=("one", "two", "three")),),
        ),
        structs={"params": NoParams},
    )


@pytest.fixture(autouse=True, params=[known_line.KNOWN_MAX, 0], ids=["memory", "table"])
def known_max(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits is known by heart, or the table is asked for it: nobody sees a difference."""
    monkeypatch.setattr(known_line, "KNOWN_MAX", request.param)


class Stand:
    """A service whose stages run until they are told to end, and who ran in which order."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.going: dict[str, asyncio.Event] = {}
        self.most: dict[str, int] = {}
        self.service: Any = None

    async def work(self, ctx: Context) -> Done:
        self.began.append(ctx.job_id)
        self.going[ctx.job_id] = asyncio.Event()
        count = sum(one.startswith(ctx.workflow) for one in self.going)
        self.most[ctx.workflow] = max(self.most.get(ctx.workflow, 0), count)
        try:
            await self.going[ctx.job_id].wait()
        finally:
            del self.going[ctx.job_id]
        return Done()

    async def submit(
        self, workflow: str, user: str, number: int, priority: int = 0, *, at_once: bool = False
    ) -> str:
        job_id = f"{workflow}-{user}-{number}"
        actor = Actor(user, "user")
        asked = Submit(actor, workflow, "any", {}, job_id, priority=priority)
        made = await self.service.facade.submit(asked, at_once=at_once)
        await until(lambda: SystemClock().now() > made.job.created_at)  # the next one is younger
        return job_id

    async def end(self, job_id: str) -> None:
        self.going[job_id].set()
        await until(lambda: job_id not in self.going)

    async def end_stage(self, job_id: str) -> None:
        """The next one may begin at once."""
        going = self.going[job_id]
        going.set()
        await until(lambda: self.going.get(job_id) is not going)

    async def waits_for(self, job_id: str) -> str:
        job = await self.service.store.reader.job(job_id)
        return str((await self.service.facade.explain(job))["waits_for"])


@asynccontextmanager
async def standing(folder: Path, benches: int | None = None, **limits: int) -> AsyncIterator[Stand]:
    stand, registry = Stand(), Registry(resources={"gpu": 1})
    for name, stage in WORKFLOWS.items():
        registry.add(replace(stage, run=stand.work))
        registry.add(definition_of(name, stage.name, limit_s=60))
    registry.add(relay())
    assert not registry.refused["workflows"], registry.refused["workflows"]
    config = Config(
        server=ServerSection(port=0, drain_seconds=0),
        store=StoreSection(path=str(folder / "jobs.db"), assets=str(folder / "assets")),
        limits=LimitSettings(**limits),
        resources={"gpu": 1} | ({} if benches is None else {"bench": benches}),
    )
    async with app.running(config, lambda *_, **__: None, registry=registry) as service:
        stand.service = service
        yield stand


async def test_a_resource_is_held_by_one(tmp_path: Path) -> None:
    """One gpu: one attempt that asks for it, whoever else waits; the others run past it."""
    async with standing(tmp_path) as stand:
        for number in range(20):
            await stand.submit("gpu", "ada", number)
            await stand.submit("gpu", "eve", number)
        await until(lambda: "gpu-ada-0" in stand.going)
        plain = await stand.submit("plain", "bob", 1)
        await until(lambda: plain in stand.going)
        assert len(stand.going) == 2
        why = await stand.waits_for("gpu-ada-1")
        assert why == "1 of resource gpu (1 in all, held by job gpu-ada-0)"
        await stand.end("gpu-ada-0")
        await until(lambda: len(stand.going) == 2)
        assert stand.began[-1] == "gpu-eve-0"
        assert stand.most["gpu"] == 1


@pytest.mark.parametrize(("benches", "there"), [(None, 2), (3, 3), (1, 1)])
async def test_a_stage_says_how_much_there_is_unless_the_operator_does(
    tmp_path: Path, benches: int | None, there: int
) -> None:
    async with standing(tmp_path, benches) as stand:
        for number in range(5):
            await stand.submit("bench", "ada", number)
        await until(lambda: len(stand.going) == there)
        why = await stand.waits_for(f"bench-ada-{there}")
        assert f"resource bench ({there} in all" in why
        await stand.end("bench-ada-0")
        await until(lambda: len(stand.going) == there)
        assert stand.most["bench"] == there


async def test_jobs_without_a_turn_do_not_stand_in_the_way(tmp_path: Path) -> None:
    """More of them than the service has slots, and older; what can run is found behind them."""
    async with standing(tmp_path, active_jobs=4) as stand:
        for number in range(10):
            await stand.submit("single", "ada", number)
        plain = await stand.submit("plain", "ada", 1)
        await until(lambda: plain in stand.going)
        assert sorted(stand.going) == [plain, "single-ada-0"]
        why = await stand.waits_for("single-ada-1")
        assert why == "stage s.single, of which 1 may run at a time"
        await stand.end("single-ada-0")
        await until(lambda: "single-ada-1" in stand.going)
        assert stand.most["single"] == 1


async def test_users_share(tmp_path: Path) -> None:
    """A hundred jobs of one do not hold up the first of another."""
    async with standing(tmp_path, active_jobs=2, per_user_active=2) as stand:
        for number in range(100):
            await stand.submit("plain", "ada", number)
        await until(lambda: len(stand.going) == 2)
        eve = await stand.submit("plain", "eve", 1)
        assert await stand.waits_for(eve) == "a free slot in this service (2 in all)"
        await stand.end("plain-ada-0")
        await until(lambda: len(stand.going) == 2)
        assert stand.began == ["plain-ada-0", "plain-ada-1", eve]


async def test_priority_comes_before_a_fair_share(tmp_path: Path) -> None:
    async with standing(tmp_path, active_jobs=1) as stand:
        first = await stand.submit("plain", "ada", 0)
        await until(lambda: first in stand.going)
        await stand.submit("plain", "eve", 1)
        urgent = await stand.submit("plain", "ada", 1, priority=5)
        await stand.end(first)
        await until(lambda: len(stand.going) == 1)
        assert stand.began == [first, urgent]


async def test_a_users_share_is_explained(tmp_path: Path) -> None:
    async with standing(tmp_path, per_user_active=1) as stand:
        first = await stand.submit("plain", "ada", 0)
        await until(lambda: first in stand.going)
        second = await stand.submit("plain", "ada", 1)
        assert await stand.waits_for(second) == "one of the 1 slots that its owner may have"


def test_what_is_given_back_is_there_again() -> None:
    slots = Slots(WorkLimits(active_jobs=2, per_user_active=1), {"gpu": 1}, Rates(SystemClock()))
    stage = WORKFLOWS["gpu"]
    slots.take("a", "ada", stage)
    assert (slots.free, slots.crowded()) == (1, ("ada",))
    assert "its last attempt" in slots.lack("a", "ada", stage)
    slots.give_back("a")
    slots.give_back("a")
    assert (slots.free, slots.crowded(), len(slots)) == (2, (), 0)
    assert slots.lack("a", "ada", stage) == ""


def test_a_slot_goes_over_to_the_next_stage() -> None:
    """Its turn and its resources are free for others as soon as the next stage has begun."""
    slots = Slots(WorkLimits(active_jobs=2), {"gpu": 1}, Rates(SystemClock()))
    gpu, single, plain = (WORKFLOWS[name] for name in ("gpu", "single", "plain"))
    slots.take("a", "ada", gpu)
    assert slots.lend("a", (gpu, single, plain)) == {"s.gpu", "s.single", "s.plain"}
    assert "gpu" in slots.short_of(gpu), "it is still at work"
    assert "s.single" in slots.short_of(single), "it is promised"
    assert slots.begin("a", single)
    assert (slots.short_of(gpu), slots.free) == ("", 1)
    assert "s.single" in slots.short_of(single)
    slots.give_back("a")
    assert (slots.short_of(single), slots.free) == ("", 2)


def test_a_promise_that_is_not_taken_goes_with_the_slot() -> None:
    slots = Slots(WorkLimits(), {"gpu": 1}, Rates(SystemClock()))
    gpu, single, plain = (WORKFLOWS[name] for name in ("gpu", "single", "plain"))
    slots.take("a", "ada", plain)
    for _ in range(3):
        assert slots.lend("a", (single, gpu)) == {"s.single", "s.gpu"}
    assert slots.short_of(single)
    assert slots.begin("a", plain), "what was promised came free"
    assert not slots.short_of(single)
    assert not slots.begin("a", plain)
    slots.lend("a", (gpu,))
    slots.give_back("a")
    assert not slots.short_of(gpu)


def test_nothing_is_lent_that_others_have() -> None:
    slots = Slots(WorkLimits(), {"gpu": 1}, Rates(SystemClock()))
    gpu, single, plain = (WORKFLOWS[name] for name in ("gpu", "single", "plain"))
    slots.take("a", "ada", plain)
    slots.take("b", "ada", single)
    assert slots.lend("a", (single, gpu, plain)) == {"s.gpu", "s.plain"}
    slots.take("c", "ada", plain)
    assert slots.lend("c", (gpu, plain)) == {"s.plain"}, "the only one is promised to another"
    assert slots.lend("nobody", (plain,)) == frozenset()


def waiting(user: str, job_id: str = "", priority: int = 0, line_at: int = 1) -> Snapshot:
    return Snapshot(
        id=job_id or user, workflow="plain", digest="", job_type="any", user_id=user,
        status="queued", kind="queued", created_at=0, updated_at=0, priority=priority,
        line_at=line_at,
    )  # fmt: skip


def test_a_better_claim_is_one_of_priority_or_of_a_user_with_less() -> None:
    line = InLine([(0, "ada", 3), (0, "eve", 1), (-5, "bob", 1)])
    running = {"ada": 2, "eve": 2}
    assert line.count == 5
    assert not line.somebody_before(0, "ada", running)
    assert not line.somebody_before(0, "eve", running)
    assert line.somebody_before(-5, "bob", {"bob": 1})
    assert line.somebody_before(0, "ada", {"ada": 2, "eve": 1})
    line.came(waiting("kim"))
    assert line.somebody_before(0, "ada", running), "kim has none yet"
    line.left(waiting("kim"))
    assert not line.somebody_before(0, "ada", running)
    line.came(waiting("ada", priority=7))
    assert line.somebody_before(0, "ada", running), "her own, and more urgent"
    assert line.users() == {"ada", "eve", "bob"}


async def test_whoever_was_called_longest_ago_is_next_among_equals(tmp_path: Path) -> None:
    """As many users flood as there are slots, so whoever has just lost one has as few as eve: her
    job does not wait until all of theirs that are older have ended."""
    async with standing(tmp_path, active_jobs=2) as stand:
        for number in range(4):
            for user in ("ada", "bob"):
                await stand.submit("plain", user, number)
        await until(lambda: {"plain-ada-0", "plain-bob-0"} <= stand.going.keys())
        await stand.submit("plain", "eve", 0)
        await stand.end("plain-ada-0")
        await until(lambda: "plain-ada-1" in stand.going)
        await stand.end("plain-ada-1")
        await until(lambda: len(stand.began) == 4)
        assert stand.began[3] == "plain-eve-0"


def test_nobody_who_comes_later_was_called_longer_ago() -> None:
    line = InLine([(0, "ada", 3), (0, "eve", 1)])
    assert line.called("ada") < line.called("eve")
    line.call("ada")
    line.came(waiting("kim"))
    assert line.called("eve") < line.called("ada") < line.called("kim")
    line.left(waiting("kim"))
    line.came(waiting("bob"))
    line.came(waiting("kim"))
    assert line.called("ada") < line.called("bob") < line.called("kim")
    line.call("ada")
    assert line.called("kim") < line.called("ada")


def test_of_whom_little_ran_lately_passes_the_others_and_keeps_a_slot_against_equals() -> None:
    line = flooded("eve")
    line.came(waiting("bob"))
    line.came(waiting("eve"))
    line.came(waiting("ada"))
    assert line.called("bob") < line.called("ada") < line.called("eve")
    assert line.somebody_before(0, "kim", {"kim": 2}), "of ada little ran either"
    line.left(waiting("ada"))
    line.left(waiting("bob"))
    assert not line.somebody_before(0, "kim", {"kim": 2}), "only eve waits"
    line.came(waiting("ada"))
    assert line.somebody_before(0, "eve", {"eve": 2})
    line.came(waiting("bob", priority=1))
    assert line.somebody_before(0, "kim", {"kim": 1})


def test_a_stream_of_users_who_have_never_been_here_passes_nobody_for_good() -> None:
    line = flooded("eve")
    line.came(waiting("eve"))
    for _ in range(1_000):
        line.call("eve")
    for number in range(100):
        user_id = f"user-{number}"
        line.came(waiting(user_id))
        if line.called("eve") < line.called(user_id):
            return
        line.call(user_id)
        line.left(waiting(user_id))
    raise AssertionError("all of them were next")


def flooded(user_id: str) -> InLine:
    """A line of slots that nearly all were one user's lately."""
    line = InLine()
    for _ in range(1_000):
        line.began(user_id)
    for name in ("ada", "bob", "kim"):
        line.began(name)
    return line


async def test_an_attempt_in_a_slot_that_was_kept_counts_as_one_that_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = list[str]()
    monkeypatch.setattr(InLine, "began", lambda line, user_id: begun.append(user_id))
    async with standing(tmp_path, active_jobs=1) as stand:
        first = await stand.submit("relay", "ada", 0)
        await until(lambda: first in stand.going)
        await stand.end_stage(first)
        await until(lambda: stand.began == [first, first] and first in stand.going)
        assert begun == ["ada", "ada"]


async def test_somebody_with_a_better_claim_is_next_between_two_stages(tmp_path: Path) -> None:
    """One slot, and jobs of three stages: one keeps it from ada's others, until eve waits too. Then
    everybody gets in line, and the oldest is next."""
    async with standing(tmp_path, active_jobs=1) as stand:
        first = await stand.submit("relay", "ada", 0)
        await until(lambda: first in stand.going)
        second = await stand.submit("relay", "ada", 1)
        await stand.end_stage(first)
        await until(lambda: stand.began == [first, first] and first in stand.going)
        await stand.submit("relay", "eve", 0)
        await stand.end_stage(first)
        await until(lambda: second in stand.going)
        assert stand.began == [first, first, second]
        history = await stand.service.store.reader.history(first, 100, (0, 0))
        versions = {row.to_status: row.version for row in history}
        assert versions["two"] == versions["one"] + 1, "ended and begun in one commit"


async def test_one_whose_slot_is_wanted_nowhere_keeps_it_to_its_end(tmp_path: Path) -> None:
    async with standing(tmp_path, active_jobs=2) as stand:
        job = await stand.submit("relay", "ada", 0)
        for _ in range(3):
            await until(lambda: job in stand.going)
            await stand.end_stage(job)
        facade = stand.service.facade
        await until(lambda: not facade.dispatcher.running)
        await until(lambda: facade.supervisor.kept(job) is None)
        history = await stand.service.store.reader.history(job, 100, (0, 0))
        assert [row.to_status for row in history] == ["queued", "one", "two", "three", "done"]
        assert [row.version for row in history] == [1, 2, 3, 4, 5]


async def test_the_next_in_line_does_not_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slot is free when the end before it is decided, also while that is not yet written."""
    gate, commit = asyncio.Event(), StoreWriter.commit

    async def held(writer: StoreWriter, unit: Any, *more: Any) -> Any:
        if isinstance(unit, Decision) and unit.after.id == "plain-ada-0" and unit.after.ended:
            await gate.wait()
        return await commit(writer, unit, *more)

    monkeypatch.setattr(StoreWriter, "commit", held)
    async with standing(tmp_path, active_jobs=1) as stand:
        for number in range(2):
            await stand.submit("plain", "ada", number)
        await until(lambda: "plain-ada-0" in stand.going)
        await stand.end("plain-ada-0")
        await until(lambda: "plain-ada-1" in stand.going)
        gate.set()
