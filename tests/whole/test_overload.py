"""A crowd that asks at a fixed rate, whatever it is answered: nobody's connection breaks, everybody
is answered, callbacks all come through, and what was acknowledged is there."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import msgspec
import pytest

from jobrunner.bench.crowd import Crowd, NoCompiler, built, crowd
from jobrunner.bench.load import MARK, LoadOrder, Measured, load, request
from tests.whole.process import Place, event, place

pytestmark = pytest.mark.anyio

BODY = msgspec.json.encode({"workflow": "howera"})
WAY = ("UPLOADED", "AUDIO_EXTRACTING", "AUDIO_READY", "TRANSCRIBING")
NARROW = '[limits]\nsubmissions = 2\npatience = "20ms"\n'
RATE = 4000
SECONDS = 2.0
CONNECTIONS = 300


@pytest.fixture
async def home(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Place]:
    async with place(tmp_path, outside=True) as home:
        home.configure(home.config.replace("[limits]\n", NARROW))
        await home.start()
        await home.user("ada")
        yield home


@pytest.fixture
async def program(tmp_path: Path, anyio_backend: str) -> Path:
    try:
        return await built(tmp_path)
    except NoCompiler as error:
        pytest.skip(str(error))


async def reports(home: Place, jobs: list[str]) -> Measured:
    body = msgspec.json.encode(event(f"again-{MARK.decode()}", WAY[-1], len(WAY)))
    paths = [f"/internal/jobs/{job_id}/status" for job_id in jobs]
    requests = [request("POST", path, home.tokens["admin"], body) for path in paths]
    return await load(LoadOrder(home.url, requests, len(jobs), SECONDS, rest_s=0.01))


async def test_a_crowd_that_does_not_listen(home: Place, program: Path) -> None:
    """R12 R1."""
    jobs = [await under_way(home) for _ in range(4)]
    crowds: list[Crowd] = []

    async def come() -> None:
        asked = home.url, home.tokens["ada"], RATE, SECONDS, CONNECTIONS, BODY
        crowds.append(await crowd(program, *asked))

    async with anyio.create_task_group() as group:
        group.start_soon(come)
        beside = await reports(home, jobs)
    (many,) = crowds
    assert (many.other, many.broken, many.unanswered) == (0, 0, 0), many
    assert many.made > 0, many
    assert many.refused > 0, "this was no crowd"
    assert many.made + many.refused == many.sent
    assert many.without_retry_after == 0
    assert set(beside.answers) <= {200, 204}, beside.answers
    assert sum(beside.answers.values()) >= len(jobs)
    await home.kill()
    await home.start()
    assert home.faults() == ()
    assert await stored(home) == many.made + len(jobs)


async def under_way(home: Place) -> str:
    """A job about which the same may be reported again and again."""
    job_id = str((await home.submit("howera", "ada"))["id"])
    for number, status in enumerate(WAY):
        assert (await home.event(job_id, status, number)).status == 204
    return job_id


async def stored(home: Place) -> int:
    count, cursor = 0, ""
    while True:
        page = await home.get(f"/jobs?limit=100{cursor}", "ada")
        count += len(page["jobs"])
        if page["next_cursor"] is None:
            return count
        cursor = f"&cursor={page['next_cursor']}"
