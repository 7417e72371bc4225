"""What is old enough goes, in a service that is killed in the middle; and so does the room."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from tests.whole.process import PATIENCE_S, Place, place, until

pytestmark = pytest.mark.anyio
JOBS_A_KILL = 40
SHORT = '[retention]\nended = "0.001s"\nkeys = 0\n'


@pytest.fixture
async def home(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Place]:
    async with place(tmp_path, outside=True) as here:
        yield here


async def ended(home: Place, number: int) -> str:
    """A job with money, a key, an event and a file, over."""
    job = await home.submit("image-generation", who="ada", idempotency_key=f"key-{number}",
                            params={"prompt": f"a cat, {number}"})  # fmt: skip
    job_id = str(job["id"])
    said = await home.post(f"/jobs/{job_id}/cancel", {}, who="ada")
    if said.status not in (200, 202):
        said = await home.post(f"/jobs/{job_id}/transitions", {"to": "running"})
        failed = {"to": "failed", "failure_code": "X", "failure_message": "x", "retryable": False}
        said = await home.post(f"/jobs/{job_id}/transitions", failed)
        assert said.status == 200, said
    folder = home.folder / "data" / "assets" / "originals" / "ada" / job_id
    folder.mkdir(parents=True)
    (folder / "picture.png").write_bytes(b"of no row")
    return job_id


async def furnished(home: Place, many: int) -> tuple[list[str], Any]:
    """Jobs that have ended, and where money stands."""
    await home.start()
    await home.user("ada", credits=1000)
    jobs = [await ended(home, number) for number in range(many)]
    return jobs, await home.get("/credits?user_id=ada")


@pytest.mark.parametrize(
    "kills", [2, pytest.param(20, marks=pytest.mark.long)], ids=["short", "long"]
)
async def test_killed_while_it_prunes_nothing_is_half_gone(home: Place, kills: int) -> None:
    """Each job is there or gone, whole, with its files; keys and money are what they were."""
    random, many = Random(kills), JOBS_A_KILL * kills
    left = [many]
    jobs, money = await furnished(home, many)
    await home.stop()
    home.configure(home.config + SHORT)
    for _ in range(kills):
        await home.start()
        await until(lambda: rows(home, "jobs") in range(left[-1]))
        for _ in range(random.randrange(4)):
            await anyio.sleep(0.01)
        await home.kill()
        assert home.faults() == ()
        left.append(rows(home, "jobs"))
        assert left[-1] + rows(home, "tombstones") == many
        if not left[-1]:
            break
    assert 0 < left[1] < many, "the first one struck in the middle"
    await home.start()
    await gone(home)
    for number, job_id in enumerate(jobs):
        assert (await home.ask("GET", f"/jobs/{job_id}", who="ada")).status == 404
        body = {"workflow": "image-generation", "idempotency_key": f"key-{number}",
                "params": {"prompt": f"a cat, {number}"}}  # fmt: skip
        again = await home.post("/jobs", body, who="ada")
        assert (again.status, again.code) == (410, "JOB_GONE"), again
    assert await home.get("/credits?user_id=ada") == money
    assert await home.stop() == 0
    assert home.faults() == ()


def rows(home: Place, table: str) -> int:
    with closing(sqlite3.connect(home.database)) as db:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


async def gone(home: Place) -> None:
    """Until nothing more is due, and all files have followed their rows."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            told = (await home.post("/admin/db/prune", {})).body
            files = pictures(home)
            jobs = (await home.get("/jobs?limit=1"))["jobs"]
            if told["done"] and not files and not jobs:
                return
            await anyio.sleep(0.02)


def pictures(home: Place) -> list[str]:
    """Of folders that may go while they are looked through."""
    assets = home.folder / "data" / "assets"
    return [one for _, _, names in os.walk(assets) for one in names if one.endswith(".png")]


@pytest.mark.parametrize(
    "kills", [2, pytest.param(20, marks=pytest.mark.long)], ids=["short", "long"]
)
async def test_killed_while_it_is_compacted_the_file_is_whole(home: Place, kills: int) -> None:
    """Offline, where it is written anew, and in the service, where pages go back one by one."""
    random = Random(kills)
    _, money = await furnished(home, JOBS_A_KILL)
    await home.stop()
    home.configure(home.config + SHORT)
    await home.start()
    await gone(home)
    await home.kill()
    for _ in range(kills):
        with subprocess.Popen(
            [sys.executable, "-m", "jobrunner", "db", "compact"], cwd=home.folder,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as command:  # fmt: skip
            for _ in range(random.randrange(150)):
                await anyio.sleep(0.01)
            command.kill()
        assert home.faults() == ()
        await home.start()
        async with anyio.create_task_group() as group:
            group.start_soon(home.try_to, "POST", "/admin/db/compact", {})
            for _ in range(random.randrange(4)):
                await home.try_to("GET", "/healthz")
            await home.kill()
        assert home.faults() == ()
    await home.start()
    assert (await home.post("/admin/db/compact", {})).body == {"done": True, "free_pages": 0}
    assert await home.get("/credits?user_id=ada") == money
    await home.stop()
    assert home.faults() == ()
