"""Singletons: one job of a key is open, or one is yet to begin, through races and crashes."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from jobrunner import Ask, Call, Command, Context, Definition, Done, SingletonBy, Stage
from jobrunner.config import settings
from jobrunner.core.features.families.parentage import ParentLink
from jobrunner.core.features.turns.singletons import by_declaration
from jobrunner.core.job import Actor
from jobrunner.core.messages import Singleton, Submit
from jobrunner.errors import JobrunnerError, PluginFault, Refused
from jobrunner.stages import Registry
from jobrunner.testing import Faults
from jobrunner.testing.simulation.loop import SimLoop, simulated
from jobrunner.testing.simulation.process import Gone, Process
from jobrunner.testing.simulation.world import Fate, SimClock, empty_database, folder
from tests.actors.test_slots import Stand
from tests.driving import varied
from tests.stages.house import until
from tests.stages.unruly import definition_of
from tests.whole.living import Living, living

pytestmark = pytest.mark.anyio
ADA = Actor("ada", "user")
TRIES = 5


def cancellable(singleton: SingletonBy | None = None) -> Definition:
    definition = definition_of("plain", "s.plain", limit_s=60)
    walks: dict[str, tuple[str, ...]] = {"queued": ("canceled",), "working": ("canceled",)}
    return varied(definition, commands=(Command("cancel", walks=walks),), singleton=singleton)


@asynccontextmanager
async def standing(
    folder: Path, singleton: SingletonBy | None = None
) -> AsyncIterator[tuple[Living, Stand]]:
    stand, registry = Stand(), Registry()
    registry.add(Stage("s.plain", stand.work, concurrency=1))
    registry.add(cancellable(singleton))
    assert not registry.refused["workflows"], registry.refused["workflows"]
    async with living(folder, registry) as here:
        stand.service = here.service
        yield here, stand


async def submitted(here: Living, mode: str, status: int = 201, **more: Any) -> Any:
    wish = {"key": "one", "mode": mode, **more}
    said = await here.ada.post("/jobs", {"workflow": "plain", "singleton": wish})
    assert said.status == status, said
    return said.json


async def test_the_first_one_stays(tmp_path: Path) -> None:
    async with standing(tmp_path) as (here, stand):
        first = await submitted(here, "first")
        await until(lambda: first["id"] in stand.going)
        again = await submitted(here, "first", 200)
        assert (again["id"], again["replayed"]) == (first["id"], True)
        other = await here.eve.post("/jobs", {"workflow": "plain", "singleton": {"key": "one"}})
        assert other.status == 201, "a key is its user's"
        await stand.end(first["id"])
        await here.at(first["id"], "done")
        assert (await submitted(here, "first"))["id"] != first["id"]


async def test_the_last_one_takes_the_place_of_one_that_has_not_begun(tmp_path: Path) -> None:
    """One that works goes on; of those that wait there is one."""
    async with standing(tmp_path) as (here, stand):
        first = await submitted(here, "last")
        await until(lambda: first["id"] in stand.going)
        second, third = await submitted(here, "last"), await submitted(here, "last")
        assert (await here.at(second["id"], "canceled"))["status"] == "canceled"
        assert first["id"] in stand.going
        await stand.end(first["id"])
        await until(lambda: third["id"] in stand.going)
        assert stand.began == [first["id"], third["id"]]


async def test_a_newer_one_replaces_any(tmp_path: Path) -> None:
    async with standing(tmp_path) as (here, stand):
        first = await submitted(here, "replace")
        await until(lambda: first["id"] in stand.going)
        second = await submitted(here, "replace")
        await here.at(first["id"], "canceled")
        await until(lambda: second["id"] in stand.going)
        history = (await here.ada.get(f"/jobs/{first['id']}/history")).json["history"]
        assert history[-1]["reason"] == "superseded"


async def test_it_begins_when_it_has_been_quiet(tmp_path: Path) -> None:
    """Each newer one puts off the start; nothing of those before it is done."""
    async with standing(tmp_path) as (here, stand):
        jobs = [await submitted(here, "last", quiet_s=3) for _ in range(4)]
        await until(lambda: bool(stand.going))
        assert stand.began == [jobs[-1]["id"]]
        for job in jobs[:-1]:
            assert (await here.at(job["id"], "canceled"))["run_at"] is None
        assert jobs[-1]["run_at"] > jobs[0]["run_at"]


async def test_a_repeat_of_a_submission_gets_its_own_job(tmp_path: Path) -> None:
    """Also when that has given way since: its key is looked at before all."""
    async with standing(tmp_path) as (here, _):
        body = {"workflow": "plain", "singleton": {"key": "one", "mode": "replace"}}
        keyed = body | {"idempotency_key": "k"}
        first = (await here.ada.post("/jobs", keyed)).json
        await here.ada.post("/jobs", body)
        said = await here.ada.post("/jobs", keyed)
        assert (said.status, said.json["id"]) == (200, first["id"])


async def test_a_workflow_says_so_for_each_submission(tmp_path: Path) -> None:
    """And nobody may say otherwise than the workflow does."""
    rule = SingletonBy(Call("by_param", {"name": "mark"}), "replace", quiet_s=0.1)
    async with standing(tmp_path, rule) as (here, stand):
        submit = {"workflow": "plain", "params": {"mark": "ann"}}
        first, second = [(await here.ada.post("/jobs", submit)).json for _ in range(2)]
        other = (await here.ada.post("/jobs", submit | {"params": {"mark": "bob"}})).json
        await here.at(first["id"], "canceled")
        await until(lambda: second["id"] in stand.going)
        assert (await here.ada.get(f"/jobs/{other['id']}")).json["status"] != "canceled"
        said = await here.ada.post("/jobs", submit | {"singleton": {"key": "mine"}})
        assert (said.status, said.json["errors"][0]["path"]) == (400, "$.singleton")


def test_neither_an_empty_key_nor_a_child_is_of_a_kind() -> None:
    tie = ParentLink("parent", "run", "key", 1)
    for name, parent, key in (("mark", None, '"x"'), ("absent", None, ""), ("mark", tie, "")):
        rule = SingletonBy(Call("by_param", {"name": name}))
        submit = Submit(ADA, "plain", "any", {"mark": "x"}, "job", parent=parent)
        wish = by_declaration(cancellable(rule), submit, 0).singleton
        assert (wish.key if wish else "") == key


def test_a_key_that_is_none_is_the_plugins_fault() -> None:
    for answer in (7, "x" * 201, Refused("PROMPT_BLOCKED", "no")):
        definition = cancellable(SingletonBy(Call("key")))
        definition.functions["key"] = partial(_said, answer)
        with pytest.raises(PluginFault):
            by_declaration(definition, Submit(ADA, "plain", "any", {}, "job"), 0)


def _said(answer: object, ask: Ask) -> object:
    if isinstance(answer, Refused):
        raise answer
    return answer


async def test_those_of_one_key_in_a_batch_come_in_its_order(tmp_path: Path) -> None:
    """Each takes the place of the one before it, and the batch knows what became of them all."""
    async with standing(tmp_path) as (here, stand):
        one = {"workflow": "plain", "singleton": {"key": "one", "mode": "last", "quiet_s": 60}}
        said = await here.ada.post("/batches", {"jobs": [one] * 30 + [{"workflow": "plain"}]})
        assert [result["error_code"] for result in said.json["results"]] == [None] * 31
        counts = said.json["counts"]
        assert (counts["canceled"], said.json["left"], said.json["ill"]) == (29, 2, 29)
        last = await here.ada.get(f"/jobs/{said.json['results'][29]['job_id']}")
        assert last.json["status"] == "queued"
        await until(lambda: said.json["results"][30]["job_id"] in stand.going)


async def test_an_item_that_stands_behind_an_open_job_is_answered_with_that(tmp_path: Path) -> None:
    async with standing(tmp_path, SingletonBy(Call("by_user"))) as (here, _):
        first = (await here.ada.post("/jobs", {"workflow": "plain"})).json
        said = await here.ada.post("/batches", {"jobs": [{"workflow": "plain"}] * 3})
        told = {(one["job_id"], one["replayed"]) for one in said.json["results"]}
        assert (told, said.json["status"]) == ({(first["id"], True)}, "ended")
        refused = {"workflow": "plain", "singleton": {"key": "mine"}}
        said = await here.ada.post("/batches", {"jobs": [refused]})
        assert said.json["results"][0]["errors"][0]["path"] == "$.singleton"


@pytest.mark.parametrize("mode", ["first", "last", "replace"])
@pytest.mark.parametrize("seed", range(4))
def test_races_leave_one(seed: int, mode: str) -> None:
    leaves_one(seed, mode)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["first", "last", "replace"])
@pytest.mark.parametrize("seed", range(3000, 3100))
def test_long_races_leave_one(seed: int, mode: str) -> None:
    leaves_one(seed, mode)


def leaves_one(seed: int, mode: Any) -> None:
    """Many submit at once, while the service dies at every step: never are two open that have not
    begun, and never two at all where one stays or is replaced."""
    with folder() as place:
        empty_database(place / "jobs.db")
        most = simulated(lambda loop: _race(loop, place, seed, Singleton("one", mode)), seed)
    assert most == 1


async def _race(loop: SimLoop, place: Path, seed: int, wish: Singleton) -> int:
    async def work(ctx: Context[Any]) -> Done:
        await anyio.sleep(0.05)
        return Done()

    registry, counts = Registry(), [0]
    registry.add(Stage("s.plain", work, concurrency=1))
    registry.add(cancellable())
    config = settings.Config(
        store=settings.StoreSection(str(place / "jobs.db"), str(place / "assets")),
        server=settings.ServerSection(drain_seconds=1),
    )
    fate = Fate(seed, Faults(crashes=8, restarts=0, jumps=False))
    process = Process(
        loop, place, config, lambda: registry, seed, fate, lambda *_, **__: None,
        lambda *_, **__: None,
    )  # fmt: skip
    process.on_end = lambda: counts.append(_standing(place, wish.mode))
    draw, clock = Random(seed), SimClock(loop)

    async def submit(number: int) -> None:
        await clock.sleep(draw.random())
        order = Submit(ADA, "plain", "any", {}, f"job-{number}", singleton=wish)
        for _ in range(TRIES):
            await process.up.wait()
            with suppress(Gone, JobrunnerError):
                await process.call(lambda facade: facade.submit(order))
                break
        counts.append(_standing(place, wish.mode))

    async with anyio.create_task_group() as group:
        group.start_soon(process.run)
        async with anyio.create_task_group() as crowd:
            for number in range(30):
                crowd.start_soon(submit, number)
        await process.up.wait()
        await process.close()
    return max(counts)


def _standing(place: Path, mode: str) -> int:
    """Jobs that are open; those alone that have not begun, where one that has goes on."""
    kinds = "'queued'" if mode == "last" else "'queued', 'active', 'waiting'"
    with closing(sqlite3.connect(place / "jobs.db")) as file:
        found = file.execute(f"SELECT count(*) FROM jobs WHERE kind IN ({kinds})")
        return int(found.fetchone()[0])
