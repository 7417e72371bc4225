"""Families and batches in a service that is killed again and again: no child twice and none lost,
each parent woken, each hold settled, each batch whole and told of once."""

import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.whole.process import PATIENCE_S, Place, Said, place

pytestmark = pytest.mark.anyio
CLAN = Path(__file__).parent / "clan"
CREDITS = 1_000_000
PRICE = 2
LEAVES = 30
BATCH = 60
AT_ONCE = 2
NOWHERE = "https://told.invalid/"


@pytest.fixture
async def clan(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Place]:
    async with place(tmp_path, plugins=CLAN) as here:
        await here.start()
        await here.user("ada", credits=CREDITS)
        yield here


async def fan(service: Place, number: int) -> Said:
    """A stage in a process of its own, which no death of the service is blamed on."""
    params = {"leaves": LEAVES}
    body = {"workflow": "clan", "job_type": "plain", "params": params}
    return await service.try_to("POST", "/jobs", body | {"idempotency_key": f"fan-{number}"}, "ada")


async def batch(service: Place, number: int) -> Said:
    jobs = [{"workflow": "clan", "job_type": "leaf"}] * BATCH
    body = {"jobs": jobs, "key": f"batch-{number}", "notify_url": NOWHERE}
    return await service.try_to("POST", "/batches", body, "ada")


async def grown(service: Place, more: int) -> None:
    """As soon as there are so many more jobs in the file, or hardly any more come."""
    wanted = count(service) + more
    with anyio.move_on_after(1):
        while count(service) < wanted:
            await anyio.sleep(0.002)


def count(service: Place) -> int:
    with closing(sqlite3.connect(f"file:{service.database}?mode=ro", uri=True)) as db:
        return int(db.execute("SELECT count(*) FROM jobs").fetchone()[0])


async def killed_while_at_it(service: Place, kills: int, seed: int) -> int:
    """So many times; who was not answered asks again. Returns how many of each there are."""
    draw = random.Random(seed)
    made = 0
    for _ in range(kills):
        async with anyio.create_task_group() as group:
            for number in range(max(made - 1, 0), made + AT_ONCE):
                group.start_soon(fan, service, number)
                group.start_soon(batch, service, number)
            await grown(service, draw.choice((0, 1, 5, 20, 60, 150)))
            await service.kill()
        assert service.faults() == ()
        await service.start()
        made += draw.random() < 0.5
    return made + AT_ONCE


async def whole(service: Place, made: int) -> tuple[list[Any], list[Any]]:
    """All of them, asked for once more, as they ended."""
    fans, batches = [], []
    for number in range(made):
        job = (await fan(service, number)).body
        fans.append(await service.at(job["id"], "done", "failed", "canceled"))
        batches.append(await over(service, (await batch(service, number)).body["id"]))
    return fans, batches


async def over(service: Place, batch_id: str) -> Any:
    with anyio.fail_after(PATIENCE_S):
        while (told := await service.get(f"/batches/{batch_id}"))["status"] != "ended":
            await anyio.sleep(0.02)
    return told


async def holds(service: Place, kills: int, seed: int) -> None:
    made = await killed_while_at_it(service, kills, seed)
    fans, batches = await whole(service, made)
    assert [one["result"] for one in fans] == [{"completed": LEAVES}] * made
    for one in fans:
        children = await service.get(f"/jobs?parent={one['id']}&limit=100")
        assert len(children["jobs"]) == LEAVES
    assert {(one["well"], one["left"], one["refused"]) for one in batches} == {(BATCH, 0, 0)}
    jobs = made * (1 + LEAVES + BATCH)
    spent = (await service.ask("GET", "/credits", who="ada")).body
    assert (spent["balance"], spent["held"]) == (CREDITS + 25 - PRICE * jobs, 0)
    told = [one for one in await deliveries(service) if one["type"] == "batch.ended"]
    assert len(told) == made, "of each batch one notification, for good"
    assert await service.stop() == 0
    assert service.faults() == ()


async def deliveries(service: Place) -> list[Any]:
    return list((await service.get("/admin/deliveries?limit=100"))["deliveries"])


async def test_killed_a_few_times_nothing_is_lost_or_twice(clan: Place) -> None:
    await holds(clan, kills=4, seed=1)


@pytest.mark.long
async def test_killed_fifty_times_nothing_is_lost_or_twice(clan: Place) -> None:
    await holds(clan, kills=50, seed=2)
