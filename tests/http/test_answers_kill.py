"""A service that is killed around an answer: the address stays good, and one answer counts."""

import shutil
from pathlib import Path

import aiohttp
import anyio
import pytest

from tests.stages import asking
from tests.whole.process import Place, Said, place, until

pytestmark = pytest.mark.anyio

ENTRIES = """[jobrunner.workflows]
press = jobrunner_asker:press
plain-press = jobrunner_asker:plain_press

[jobrunner.stages]
press.ask = jobrunner_asker:ask
press.plain = jobrunner_asker:ask_in_process
"""
JOBS = 4


def install(folder: Path) -> Path:
    info = folder / "jobrunner_asker-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(asking.__file__, folder / "jobrunner_asker.py")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jobrunner-asker\nVersion: 1.0")
    (info / "entry_points.txt").write_text(ENTRIES)
    return folder


async def post(here: Place, token: str, approved: bool) -> Said:
    """Status 0 means that nobody answered."""
    async with aiohttp.ClientSession() as session:
        try:
            call = session.post(f"{here.url}/callbacks/{token}", json={"approved": approved})
            async with call as answer:
                return Said(answer.status, await answer.json())
        except (aiohttp.ClientError, OSError):
            return Said(0)


async def asked(here: Place, workflow: str) -> tuple[str, str]:
    """A job that has asked somebody and is parked, and the token that its stage was told."""
    job_id = (await here.submit(workflow, params={}))["id"]
    with anyio.fail_after(120):
        while True:
            (attempt,) = (await here.get(f"/jobs/{job_id}/attempts"))["attempts"] or [{}]
            lines = [line for line in attempt.get("log", ()) if line.startswith("token ")]
            if attempt.get("status") == "parked" and lines:
                return job_id, lines[0].removeprefix("token ").replace(" ", "")
            await anyio.sleep(0.02)


async def lives(tmp_path: Path, count: int, workflow: str) -> None:
    plugins = install(tmp_path / "plugins")
    async with place(tmp_path / "place", plugins=plugins) as here:
        await here.start()
        heard: dict[str, bool] = {}
        every: list[str] = []
        for life in range(count):
            open_ones = [await asked(here, workflow) for _ in range(JOBS)]
            every += [job_id for job_id, _ in open_ones]
            answers: list[Said] = []

            async def send(job_id: str, token: str, answers: list[Said] = answers) -> None:
                said = await post(here, token, True)
                if said.status == 200:
                    heard[job_id] = True
                answers.append(said)

            async with anyio.create_task_group() as group:
                for job_id, token in open_ones:
                    group.start_soon(send, job_id, token)
                await until(lambda seen=answers, most=life: len(seen) >= most % JOBS)  # type: ignore[misc]
                await here.kill()
            assert here.faults() == ()
            await here.start()
            for job_id, token in open_ones:
                again = await post(here, token, False)
                assert again.status in (200, 409), again
                assert (again.status == 409) >= heard.get(job_id, False), "an answer was lost"
                heard.setdefault(job_id, again.status == 409)
        for job_id in every:
            result = (await here.at(job_id, "done"))["result"]
            assert result["answer"]["approved"] is heard[job_id]
            assert result["same"]
        await here.stop()
        assert here.faults() == ()


async def test_killed_around_answers(tmp_path: Path) -> None:
    await lives(tmp_path, 4, "press")


@pytest.mark.long
async def test_killed_fifty_times_around_answers(tmp_path: Path) -> None:
    await lives(tmp_path, 50, "press")
