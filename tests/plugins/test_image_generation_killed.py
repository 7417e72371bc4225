"""image-generation in a process that is killed: at each step of its stage, and at moments that
nobody chose. After the restart the job ends, the provider was asked under one key only, and there
is one picture, paid once.

A job that is alone at work in three deaths of the service is given up as their cause; where the
deaths are ours, that is bad luck, and costs it nothing either.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from jobrunner.testing.providers import Fault, Hang, OpenAILike, Plan, Provider, ReplicateLike, Slow
from tests.whole.process import Place, place

pytestmark = pytest.mark.anyio

MORE = """
[workflows.image-generation.settings]
provider = "{provider}"
base_url = "{url}/v1"
model = "a/b"
timeout_s = 20
[workflows.image-generation.retry.running]
base = "50ms"
"""
PARAMS = {"prompt": "a hill", "options": {"response_format": "url"}}
INSIDE = {"prompt": "a hill"}
CREDITS = 1000
UNLUCKY = "STAGE_KILLED_SERVICE"
ASKS = {"openai": "images", "replicate": "create"}


@asynccontextmanager
async def home(folder: Path, kind: str, provider: Provider) -> AsyncIterator[Place]:
    more = MORE.format(provider=kind, url=provider.url)
    async with place(folder, more=more, credits=CREDITS, active=4) as here:
        await here.start()
        await here.user("ada")
        yield here


def made(kind: str) -> Provider:
    return OpenAILike() if kind == "openai" else ReplicateLike()


async def ended_well(here: Place, kind: str, provider: Provider, jobs: list[str]) -> int:
    """I25-I28 I40: of each job one picture, one file, one payment; no wish under two keys. How
    many had bad luck."""
    unlucky = 0
    for job_id in jobs:
        job = await here.at(job_id, "completed", "dead_letter")
        unlucky += job["failure_code"] == UNLUCKY
        assets = (await here.get(f"/jobs/{job_id}/assets"))["assets"]
        if job["status"] == "completed":
            assert [one["url"] for one in assets] == [job["result_url"]]
            assert job["credits"] == {"cost": 1, "state": "captured"}
        else:
            assert (job["failure_code"], job["credits"]["state"]) == (UNLUCKY, "released")
        assert len(assets) <= 1
    calls = provider.calls.of(ASKS[kind])
    assert {call.key.split(":")[0] for call in calls} == set(jobs)
    assert len(provider.calls.keys(ASKS[kind])) == len(jobs)
    assert sum(call.worked for call in calls) == len(jobs)
    account = await here.get("/credits", who="ada")
    assert (account["balance"], account["held"]) == (CREDITS - len(jobs) + unlucky, 0)
    assert here.faults() == ()
    return unlucky


async def ordered(here: Place, number: int, params: dict[str, Any]) -> str:
    said = {**params, "prompt": f"{params['prompt']} {number}"}
    job = await here.submit("image-generation", "ada", params=said, idempotency_key=f"k{number}")
    return str(job["id"])


STEPS: list[tuple[str, str, str, dict[str, Any], Fault | None]] = [
    ("asked, not answered", "openai", "images", INSIDE, Hang()),
    ("drawn, not answered", "openai", "images", INSIDE, Hang(done=True)),
    ("answered in part", "openai", "images", INSIDE, Slow(piece=16, pause_s=0.2)),
    ("answered", "openai", "images", INSIDE, None),
    ("answered, not fetched", "openai", "files", PARAMS, Hang()),
    ("fetched in part", "openai", "files", PARAMS, Slow(piece=16, pause_s=0.2)),
    ("fetched", "openai", "files", PARAMS, None),
    ("ordered, not told", "replicate", "create", INSIDE, Hang(done=True)),
    ("ordered", "replicate", "create", INSIDE, None),
    ("looked after", "replicate", "get", INSIDE, Hang()),
    ("done, not fetched", "replicate", "files", INSIDE, Hang()),
]


EVERY = 3  # every so many steps are in the short form


@pytest.mark.parametrize(
    ("kind", "route", "params", "fault"),
    [
        pytest.param(*row, id=name, marks=[pytest.mark.long] * bool(place % EVERY))
        for place, (name, *row) in enumerate(STEPS)
    ],
)
async def test_killed_at_each_step(
    tmp_path: Path, kind: str, route: str, params: dict[str, Any], fault: Fault | None
) -> None:
    """I5 I25-I28 I40: the next life goes on behind what was done."""
    async with made(kind) as provider, home(tmp_path, kind, provider) as here:
        if fault is not None:
            provider.script(route, fault)
        job_id = await ordered(here, 0, params)
        await provider.called(route)
        await here.kill()
        await here.start()
        assert await ended_well(here, kind, provider, [job_id]) == 0


async def killed_at_random(folder: Path, kind: str, kills: int, in_a_row: int) -> None:
    """Always with something under way; the moment is what the machine makes of it. After so many
    kills in a row all jobs come to an end first: a job under which the service dies three times is
    given up."""
    random = Random(kills)
    async with made(kind) as provider, home(folder, kind, provider) as here:
        if isinstance(provider, ReplicateLike):
            provider.usually(Plan(takes_s=0.05))
        jobs: list[str] = []
        for number in range(kills):
            for job_id in jobs if number % in_a_row == 0 else ():
                await here.at(job_id, "completed", "dead_letter")
            for _ in range(2):
                params = random.choice((PARAMS, INSIDE))
                jobs.append(await ordered(here, len(jobs), params))
            with anyio.move_on_after(10):
                await provider.called(ASKS[kind], len(provider.calls.of(ASKS[kind])) + 1)
            with anyio.move_on_after(random.random() * 0.1):
                await provider.called("files", len(provider.calls.of("files")) + 1)
            await here.kill()
            await here.start()
        unlucky = await ended_well(here, kind, provider, jobs)
        asked = len(provider.calls.of(ASKS[kind]))
        print(f"\nkills {kills}, jobs {len(jobs)}, asked {asked} times, unlucky {unlucky}")
        assert unlucky * 10 <= len(jobs)


@pytest.mark.parametrize("kind", ["openai", "replicate"])
async def test_killed_now_and_then(tmp_path: Path, kind: str) -> None:
    """I40"""
    await killed_at_random(tmp_path, kind, 4, in_a_row=2)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["openai", "replicate"])
async def test_killed_again_and_again(tmp_path: Path, kind: str) -> None:
    """I40"""
    await killed_at_random(tmp_path, kind, 100, in_a_row=100)


async def test_the_sketcher_is_killed_with_the_service(tmp_path: Path) -> None:
    """I26: one sketch, whenever it was cut off."""
    async with place(tmp_path, credits=100) as here:
        await here.start()
        await here.user("ada")
        jobs = []
        for number in range(4):
            params = {"prompt": "a lighthouse by the sea", "size": "2048x2048"}
            jobs.append(await ordered(here, number, params))
            await here.at(jobs[-1], "running", "completed")
            await here.kill()
            await here.start()
        for job_id in jobs:
            await here.at(job_id, "completed")
            assert len((await here.get(f"/jobs/{job_id}/assets"))["assets"]) == 1
        assert (await here.get("/credits", who="ada"))["balance"] == 96
        assert here.faults() == ()
