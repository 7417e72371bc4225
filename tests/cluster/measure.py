"""Measures a stage that does nothing in the service, on two workers of a cluster, and on two
processes of ``jobrunner work``: how long one attempt takes, and how many end in a second.

``python -m tests.cluster.measure [JOBS]`` runs all three one after the other, and prints them.
"""

import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.cluster.dask_at_work import dask_cluster, joined, served_by
from tests.http.serving import Caller, House
from tests.work.living import AT_HOME, ended, serving, work_process

NOTHING = {"does": "never"}
ALONE = 60


async def seconds_of(house: House, job_id: str) -> float:
    said = await house.admin.get(f"/jobs/{job_id}/attempts")
    (row,) = said.json["attempts"]
    began, over = (datetime.fromisoformat(row[name]) for name in ("started_at", "ended_at"))
    return (over - began).total_seconds()


async def measured(house: House, jobs: int) -> tuple[float, float, float]:
    """Seconds of one attempt at the median and the 99th of 100, and jobs in a second."""
    await ended(house, (await house.ada.submit("far", params=NOTHING))["id"])
    alone = []
    for _ in range(ALONE):
        job = await house.ada.submit("far", params=NOTHING)
        await ended(house, job["id"])
        alone.append(await seconds_of(house, job["id"]))
    alone.sort()
    ada = Caller(house.session, house.service.url, None, house.ada.token)
    loop = asyncio.get_running_loop()
    began = loop.time()
    made = [await ada.submit("far", params=NOTHING) for _ in range(jobs)]
    await asyncio.gather(*(ada.get(f"/jobs/{one['id']}?wait=30&until=ended") for one in made))
    return alone[len(alone) // 2], alone[len(alone) * 99 // 100], jobs / (loop.time() - began)


async def all_ways(folder: Path, jobs: int) -> dict[str, tuple[float, float, float]]:
    found: dict[str, tuple[float, float, float]] = {}
    async with serving(folder / "home", AT_HOME) as house:
        found["in the service"] = await measured(house, jobs)
    async with (
        dask_cluster(folder / "dask") as cluster,
        served_by(cluster, folder / "it") as house,
    ):
        await joined(house, 2)
        found["on a cluster of two"] = await measured(house, jobs)
    async with serving(folder / "service") as house, AsyncExitStack() as stack:
        for number in range(2):
            place, token = folder / f"work-{number}", house.worker.token or ""
            stack.enter_context(work_process(place, house.service.url, token))
        found["by two of jobrunner work"] = await measured(house, jobs)
    return found


def main(*words: str) -> None:
    jobs = int(words[0]) if words else 200
    with tempfile.TemporaryDirectory() as folder:
        found: Any = asyncio.run(all_ways(Path(folder), jobs))
    for name, (half, most, rate) in found.items():
        print(f"{name:26} p50 {half * 1000:6.1f} ms  p99 {most * 1000:6.1f} ms  {rate:6.1f} jobs/s")


if __name__ == "__main__":
    main(*sys.argv[1:])
