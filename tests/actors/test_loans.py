"""Work begins in the commit that calls for it, where a slot is free, and takes nobody's place."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from jobrunner import Ask, Call, Context, Definition, Done, Guard, JobType, Stage, app
from jobrunner.actors.features.webhooks import Hearing
from jobrunner.config.settings import Config, ServerSection, StoreSection
from jobrunner.core.job import Actor
from jobrunner.core.messages import Submit, Told
from jobrunner.errors import StorageFull
from jobrunner.stages import Registry
from tests.actors.test_one_at_a_time import keyed
from tests.actors.test_one_at_a_time import standing as standing_with
from tests.actors.test_slots import Stand, standing
from tests.driving import varied
from tests.stages.house import until
from tests.stages.unruly import definition_of

pytestmark = pytest.mark.anyio
ADMIN = Actor("root", "admin")


async def hops(stand: Stand, job_id: str) -> list[tuple[int, int, str]]:
    """Version, hop and target of each step."""
    rows = await stand.service.store.reader.history(job_id)
    return [(row.version, row.hop, row.to_status) for row in rows]


async def test_it_begins_in_the_commit_that_makes_it(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        asked = await stand.submit("plain", "ada", 0)
        await until(lambda: asked in stand.going)
        waited_for = await stand.submit("plain", "ada", 1, at_once=True)
        await until(lambda: waited_for in stand.going)
        assert await hops(stand, asked) == [(1, 1, "queued"), (2, 1, "working")]
        assert await hops(stand, waited_for) == [(1, 1, "queued"), (1, 2, "working")]
        stored = await stand.service.store.reader.attempts(waited_for)
        assert [(one.number, one.status) for one in stored] == [(1, "running")]
        assert stand.service.facade.dispatcher.running == {asked: "ada", waited_for: "ada"}
        await stand.end(waited_for)
        await until(lambda: stand.service.facade.dispatcher.running == {asked: "ada"})


async def test_its_later_stages_keep_the_slot(tmp_path: Path) -> None:
    async with standing(tmp_path, active_jobs=1) as stand:
        job_id = await stand.submit("relay", "ada", 0, at_once=True)
        for _ in range(3):
            await until(lambda: job_id in stand.going)
            await stand.end_stage(job_id)
        await until(lambda: not stand.service.facade.dispatcher.running)
        assert [version for version, _, _ in await hops(stand, job_id)] == [1, 1, 2, 3, 4]


async def test_it_takes_no_slot_from_those_who_wait(tmp_path: Path) -> None:
    """Of two slots ada has two; who comes now waits behind those who came before."""
    async with standing(tmp_path, active_jobs=2, per_user_active=2) as stand:
        first, second = [await stand.submit("plain", "ada", n, at_once=True) for n in range(2)]
        await until(lambda: {first, second} <= stand.going.keys())
        third = await stand.submit("plain", "eve", 0, at_once=True)
        fourth = await stand.submit("plain", "bob", 0, at_once=True)
        assert await hops(stand, third) == [(1, 1, "queued")]
        await stand.end(first)
        await until(lambda: third in stand.going)
        await stand.end(second)
        await until(lambda: fourth in stand.going)
        assert stand.began == [first, second, third, fourth]


async def test_who_waits_is_looked_at_first(tmp_path: Path) -> None:
    """A slot is free, but not what eve's job needs: whoever comes now gets in line behind her."""
    async with standing(tmp_path) as stand:
        first = await stand.submit("gpu", "ada", 0)
        await until(lambda: first in stand.going)
        await stand.submit("gpu", "eve", 0)
        job_id = await stand.submit("plain", "bob", 0, at_once=True)
        await until(lambda: job_id in stand.going)
        assert await hops(stand, job_id) == [(1, 1, "queued"), (2, 1, "working")]


async def test_a_users_share_holds_for_it(tmp_path: Path) -> None:
    """Whoever has all that one user may have is in nobody's way, and gets no more."""
    async with standing(tmp_path, active_jobs=4, per_user_active=1) as stand:
        first = await stand.submit("plain", "ada", 0, at_once=True)
        second = await stand.submit("plain", "ada", 1, at_once=True)
        other = await stand.submit("plain", "eve", 0, at_once=True)
        await until(lambda: {first, other} <= stand.going.keys())
        assert await hops(stand, second) == [(1, 1, "queued")]
        assert await hops(stand, other) == [(1, 1, "queued"), (1, 2, "working")]


async def test_a_resource_holds_for_it(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        first = await stand.submit("gpu", "ada", 0, at_once=True)
        second = await stand.submit("gpu", "eve", 0, at_once=True)
        plain = await stand.submit("plain", "bob", 0)
        await until(lambda: {first, plain} <= stand.going.keys())
        assert second not in stand.going
        assert stand.service.facade.dispatcher.resources["gpu"] == (1, 1)


async def test_a_pause_holds_for_it(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        pausing = stand.service.facade.pausing
        for scope, name in (("workflow", "plain"), ("stage", "s.plain")):
            await pausing.pause(scope, name, ADMIN, None)
            job_id = await stand.submit("plain", scope, 0, at_once=True)
            assert await hops(stand, job_id) == [(1, 1, "queued")]
            await pausing.resume(scope, name, ADMIN, None)
            await until(partial(stand.going.__contains__, job_id))


async def test_a_rate_holds_for_it(tmp_path: Path) -> None:
    """What it takes from a rate is stored with it, as with every start."""
    registry, stand = Registry(), Stand()
    registry.add(Stage("s.rated", stand.work, rates={"there": 1}, pace={"there": "2/day burst 2"}))
    registry.add(definition_of("rated", "s.rated", limit_s=60))
    config = Config(
        server=ServerSection(port=0, drain_seconds=0),
        store=StoreSection(path=str(tmp_path / "jobs.db"), assets=str(tmp_path / "assets")),
    )
    stored = []
    async with app.running(config, lambda *_, **__: None, registry=registry) as service:
        stand.service = service
        for number in range(3):
            await stand.submit("rated", "ada", number, at_once=True)
            stored.append([row.full_at for row in await service.store.reader.rates()])
        await until(lambda: len(stand.going) == 2)
    assert stored[0] < stored[1] == stored[2]


async def test_a_later_start_holds_for_it(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        later = stand.service.facade.world.clock.now() + 60_000
        order = Submit(Actor("ada", "user"), "plain", "any", {}, "plain-later", run_at=later)
        await stand.service.facade.submit(order, at_once=True)
        assert await hops(stand, "plain-later") == [(1, 1, "queued")]
        assert not stand.service.facade.dispatcher.running


async def test_whose_turn_is_counted_by_a_key_waits_for_it(tmp_path: Path) -> None:
    async with standing_with(tmp_path, keyed("keyed", Call("by_user"))) as stand:
        first = await stand.submit("keyed", "ada", 0, at_once=True)
        await until(lambda: first in stand.going)
        second = await stand.submit("keyed", "ada", 1, at_once=True)
        assert [status for _, _, status in await hops(stand, second)] == ["queued"]


def charging() -> Definition:
    """A workflow that is paid for where its work begins."""
    plain = definition_of("paid", "s.paid", limit_s=60)
    edges = tuple(
        replace(edge, money="charge") if edge.target == "working" else edge
        for edge in plain.workflow.edges
    )
    return varied(plain, edges=edges, job_types=(JobType("any", params="params", price=20),))


async def test_what_costs_on_its_way_is_decided_on_its_own(tmp_path: Path) -> None:
    async with standing_with(tmp_path, charging()) as stand:
        job_id = await stand.submit("paid", "ada", 0, at_once=True)
        await until(lambda: job_id in stand.going)
        assert await hops(stand, job_id) == [(1, 1, "queued"), (2, 1, "working")]


def faulty(asked: Ask) -> None:
    raise LookupError("the plan is not there")


def guarded(guard: Callable[[Ask], None] = faulty) -> Definition:
    """A workflow with a guard where its work begins."""
    guards = (Guard(Call("guard"), otherwise=("canceled",)),)
    plain = definition_of("guarded", "s.guarded", limit_s=60)
    edges = tuple(
        replace(edge, by=("engine", "user"), guards=guards if edge.target == "working" else ())
        if edge.source == "queued"
        else edge
        for edge in plain.workflow.edges
    )
    workflow = replace(plain.workflow, edges=edges)
    return Definition(workflow, {"guard": guard}, plain.structs)


async def test_a_fault_on_its_way_keeps_no_job_from_being_made(tmp_path: Path) -> None:
    """It is made, and stuck there, as if nobody had waited for it; the slot is free again."""
    async with standing_with(tmp_path, guarded()) as stand:
        job_id = await stand.submit("guarded", "ada", 0, at_once=True)
        assert await hops(stand, job_id) == [(1, 1, "queued")]
        await until(lambda: stand.service.facade.supervisor.kept(job_id).stuck is not None)
        await until(lambda: not stand.service.facade.dispatcher.running)
        assert stand.began == []


async def test_a_guard_before_the_work_is_asked_the_same(tmp_path: Path) -> None:
    """About a start by the engine, whether somebody waits for the job or not."""
    seen = list[tuple[str, str]]()

    def watch(asked: Ask) -> None:
        seen.append((type(asked.message).__name__, asked.actor.name))

    async with standing_with(tmp_path, guarded(watch)) as stand:
        for number in range(2):
            job_id = await stand.submit("guarded", "ada", number, at_once=bool(number))
            await until(partial(stand.going.__contains__, job_id))
    assert seen == [("Start", "engine")] * 2


async def test_a_slot_is_free_again_after_a_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever befalls the decision about a birth."""

    def broken(*_: Any) -> None:
        raise LookupError("a bug")

    async with standing(tmp_path, active_jobs=1) as stand:
        with monkeypatch.context() as patched:
            patched.setattr("jobrunner.actors.features.submissions.born", broken)
            with pytest.raises(LookupError):
                await stand.submit("plain", "ada", 0, at_once=True)
        assert not stand.service.facade.dispatcher.running


async def test_a_slot_is_free_again_when_nothing_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full: no job, no stage, and no slot lost; also when the caller has gone."""
    async with standing(tmp_path, active_jobs=1) as stand:
        writer, asked = stand.service.store._writer, asyncio.Event()
        write, full = writer._written, [True]

        async def written(batch: list[Any]) -> list[Any]:
            if full and any(work.snapshot is not None for work in batch):
                asked.set()
                await asyncio.sleep(0)
                return [StorageFull("the disk is full") for _ in batch]
            return list(await write(batch))

        monkeypatch.setattr(writer, "_written", written)
        with pytest.raises(StorageFull):
            await stand.submit("plain", "ada", 0, at_once=True)
        asked.clear()
        gone = asyncio.create_task(stand.submit("plain", "ada", 1, at_once=True))
        await asked.wait()
        gone.cancel()
        await asyncio.wait({gone})
        await until(lambda: not stand.service.facade.dispatcher.running)
        full.clear()
        third = await stand.submit("plain", "ada", 2, at_once=True)
        await until(lambda: third in stand.going)
        assert await hops(stand, third) == [(1, 1, "queued"), (1, 2, "working")]


async def test_a_replay_takes_no_slot(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        ada = Actor("ada", "user")
        for number in range(3):
            order = Submit(ada, "plain", "any", {}, f"plain-{number}", "the-key", "digest")
            found = await stand.service.facade.submit(order, at_once=True)
            assert found.job.id == "plain-0"
        assert stand.service.facade.dispatcher.running == {"plain-0": "ada"}


async def listen(ctx: Context[Any]) -> Done:
    return Done(result=await ctx.await_callback(ctx.job_id, 60, source="bell"))


async def parked(stand: Stand, user: str, number: int) -> str:
    job_id = await stand.submit("bells", user, number)
    kept = stand.service.facade.supervisor.kept
    await until(lambda: (job := kept(job_id)).attempt and job.attempt.status == "parked")
    await until(lambda: job_id not in stand.service.facade.dispatcher.running)
    return job_id


async def rung(stand: Stand, job_id: str, number: int = 1) -> Hearing:
    heard: Hearing = await stand.service.facade.hear(Told("bell", f"ring-{number}", job_id, "ding"))
    return heard


async def ended(stand: Stand, job_id: str) -> Any:
    job = await stand.service.store.reader.job(job_id)
    return await stand.service.facade.ended(job, 120)


def bells() -> Definition:
    return definition_of("bells", "s.bells", limit_s=60)


async def test_a_parked_attempt_goes_on_in_the_commit_that_tells_it(tmp_path: Path) -> None:
    async with standing_with(tmp_path, bells(), bells=listen) as stand:
        job_id = await parked(stand, "ada", 0)
        heard = await asyncio.gather(*(rung(stand, job_id) for _ in range(3)))
        assert sorted((one.applied, one.reason) for one in heard) == [
            (False, "replayed"),
            (False, "replayed"),
            (True, ""),
        ]
        job = await ended(stand, job_id)
        await until(lambda: not stand.service.facade.dispatcher.running)
        # Born, begun, parked; told and begun again; done.
        assert (job.version, job.result) == (5, "ding")


async def test_under_an_older_declaration_it_gets_in_line(tmp_path: Path) -> None:
    """What is absent today is looked for when it is told to start, and not before."""
    newer = definition_of("bells", "s.bells", limit_s=90)
    async with standing_with(tmp_path, bells(), bells=listen) as stand:
        job_id = await parked(stand, "ada", 0)
    async with standing_with(tmp_path, newer, bells=listen) as stand:
        assert (await rung(stand, job_id)).applied
        job = await ended(stand, job_id)
        assert (job.version, job.status) == (6, "done")


async def test_it_waits_in_line_where_others_do(tmp_path: Path) -> None:
    plain = definition_of("plain", "s.plain", limit_s=60)
    async with standing_with(tmp_path, bells(), plain, bells=listen) as stand:
        job_id = await parked(stand, "ada", 0)
        pausing = stand.service.facade.pausing
        await pausing.pause("stage", "s.bells", ADMIN, None)
        assert (await rung(stand, job_id)).applied
        job = await stand.service.store.reader.job(job_id)
        assert (job.version, job.attempt.status) == (4, "due")
        assert not stand.service.facade.dispatcher.running
        await pausing.resume("stage", "s.bells", ADMIN, None)
        assert (await ended(stand, job_id)).status == "done"


async def test_what_goes_on_no_more_gives_the_slot_back(tmp_path: Path) -> None:
    async with standing_with(tmp_path, bells(), bells=listen) as stand:
        job_id = await parked(stand, "ada", 0)
        late = Told("bell", "ring-1", "another key", "ding")
        answer = await stand.service.facade.ask(job_id, late)
        assert answer.job.attempt.status == "parked"
        assert not stand.service.facade.dispatcher.running


async def test_what_is_only_foreseen_takes_no_slot(tmp_path: Path) -> None:
    async with standing_with(tmp_path, bells(), bells=listen) as stand:
        job_id = await parked(stand, "ada", 0)
        message = Told("bell", "ring-1", job_id, "ding")
        await stand.service.facade.supervisor.foresee(job_id, message)
        assert not stand.service.facade.dispatcher.running


class Strict(Struct, frozen=True):
    """What the plugin of today wants of parameters."""

    name: str


async def test_what_began_in_an_earlier_life_is_looked_at_before_it_goes_on(tmp_path: Path) -> None:
    """Its plugin has changed since: it is put aside for an operator, and no attempt is spent."""
    async with standing_with(tmp_path, bells(), bells=listen) as stand:
        job_id = await parked(stand, "ada", 0)
    today = Definition(bells().workflow, structs={"params": Strict})
    async with standing_with(tmp_path, today, bells=listen) as stand:
        assert (await rung(stand, job_id)).applied
        kept = stand.service.facade.supervisor.kept
        await until(lambda: not (job := kept(job_id)) or bool(job.stuck))
        job = await stand.service.store.reader.job(job_id)
        assert (job.status, str(job.stuck).partition(":")[0]) == ("working", "PARAMS_STALE")
        assert job.attempt.status == "due"
        await until(lambda: not stand.service.facade.dispatcher.running)
