"""howera in a process that is killed at moments that nobody chose: while ffmpeg runs, while speech
is recognised, while steps are drawn, renewed and typeset. After the restart each job goes on by
itself to its end; what was finished is not done again; nothing is there twice."""

import subprocess
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import anyio
import pytest
from jobrunner_howera import clip, film

from tests.stages.house import processes
from tests.whole.process import Place, place, until

pytestmark = pytest.mark.anyio

MORE = """
[workflows.howera.quota]
open_jobs = 0
per_minute = 0
"""
SPEECH_S = 8
PHASES: tuple[tuple[str, dict[str, str], str, float], ...] = (
    ("run", {}, "DRAFT_READY", 2.2),
    ("edit", {}, "EDITING", 0.02),
    ("regenerate", {"selection": "step-1", "instruction": "a list"}, "EDITING", 0.5),
    ("export", {"format": "PDF"}, "DONE", 0.8),
)
IN_A_ROW = (1, 1, 2)  # a stage under which the service dies three times is given up
ONCE = ("AUDIO_EXTRACTING", "TRANSCRIBING", "GENERATING", "REGENERATING", "EXPORTING")


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Some seconds of the demo's film."""
    folder = tmp_path_factory.mktemp("speech")
    whole, part = folder / "whole.mp4", folder / "part.mp4"
    clip.make(str(whole))
    command = (film.program(), "-nostdin", "-loglevel", "error", "-i", str(whole))
    subprocess.run((*command, "-t", str(SPEECH_S), "-c:a", "aac", str(part)), check=True)
    return part.read_bytes()


async def uploaded(here: Place, speech: bytes) -> str:
    job_id = str((await here.submit("howera"))["id"])
    headers = {
        "Authorization": f"Bearer {here.tokens['admin']}", "Content-Type": "video/mp4",
    }  # fmt: skip
    async with (
        aiohttp.ClientSession() as session,
        session.put(f"{here.url}/jobs/{job_id}/upload", data=speech, headers=headers) as answer,
    ):
        assert answer.status in (200, 201), await answer.text()
    assert (await here.post(f"/jobs/{job_id}/confirm-upload")).status == 200
    return job_id


async def killed(here: Place, after_s: float) -> None:
    """R3 H35: nothing that the stages started outlives the service."""
    for _ in range(int(after_s / 0.01)):
        await anyio.sleep(0.01)
    await here.kill()
    await until(lambda: not processes(here.folder.name))
    assert here.faults() == ()
    await here.start()


async def kill_and_count(folder: Path, speech: bytes, kills: int) -> None:
    """H25 H38-H40 H43: the phases of one job after the other, each interrupted where chance has
    it, some more than once."""
    random, left, jobs = Random(kills), kills, 0
    async with place(folder, more=MORE, active=4) as here:
        await here.start()
        while left > 0:
            job_id, jobs = await uploaded(here, speech), jobs + 1
            for command, fields, goal, span_s in PHASES:
                said = await here.post(f"/jobs/{job_id}/{command}", fields)
                assert said.status in (200, 202), said
                for _ in range(min(left, random.choice(IN_A_ROW))):
                    await killed(here, random.uniform(0, span_s))
                    left -= 1
                await here.at(job_id, goal)
            await ended_well(here, job_id)
        assert await here.stop() == 0
    print(f"\n{kills} kills over {jobs} jobs")


async def ended_well(here: Place, job_id: str) -> None:
    """Every file once, every stage finished once, and on the disk what the file says."""
    job = await here.get(f"/jobs/{job_id}")
    assert (job["status"], job["failure_code"]) == ("DONE", None)
    steps = job["artifacts"]["draft"]["steps"]
    assets = (await here.get(f"/jobs/{job_id}/assets?limit=100"))["assets"]
    kinds = Counter(asset["asset_type"] for asset in assets)
    singles = dict.fromkeys(("video", "audio", "transcript", "draft", "export"), 1)
    assert kinds == {**singles, "frame": len(steps)}
    kept = {asset["storage_path"] for asset in assets}
    root = here.folder / "data" / "assets"
    found = (path for path in (root / "admin" / job_id).rglob("*") if path.is_file())
    assert {path.relative_to(root).as_posix() for path in found} == kept
    attempts = (await here.get(f"/jobs/{job_id}/attempts?limit=100"))["attempts"]
    done = Counter(one["state"] for one in attempts if one["outcome"] == "done")
    assert done == dict.fromkeys(ONCE, 1), [trace(one) for one in attempts]
    assert (await here.post("/admin/db/check")).body == {"ok": True, "faults": []}


def trace(attempt: dict[str, Any]) -> tuple[Any, ...]:
    return attempt["state"], attempt["attempt"], attempt["status"], attempt["outcome"]


async def test_killed_at_any_moment_a_job_goes_on(tmp_path: Path, speech: bytes) -> None:
    await kill_and_count(tmp_path, speech, 5)


@pytest.mark.long
async def test_a_hundred_kills(tmp_path: Path, speech: bytes) -> None:
    await kill_and_count(tmp_path, speech, 100)
