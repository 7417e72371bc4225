"""Workers, lines, schedulers and services that are lost while a stage runs on a cluster: each job
ends right, no file is there twice, nothing goes on that nobody wants, and nobody pays for the death
of another."""

import gc
import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

pytest.importorskip("distributed")

from jobrunner.cluster.engine import Cluster
from tests.cluster.dask_at_work import (
    ON_DASK,
    DaskCluster,
    dask_cluster,
    joined,
    seats_of,
    served_by,
)
from tests.http.serving import House
from tests.whole.process import Place, place
from tests.work.living import PLUGIN, ended, until
from tests.work.test_losses import has_lines, is_over, kept_in, names_of

# The short forms of two of them are in test_cluster_stages, for a cluster is long in starting.
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.long,
    # Dask's client leaves coroutines that nobody awaits when its scheduler is gone.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
# Twenty times and more, in parts that end before the watchdog of the tests does.
SEVERAL = [pytest.param(4, id=f"part-{part}") for part in range(5)]
KILLED = (("keep_file", 1), ("hang", 2))
CANCELLED = (("wait", 1), ("hang", 2), ("deaf", 1))
# Dask lets a worker whose scheduler is gone go on with what it does for half a minute, which is as
# long as this stage may take.
PATIENT = replace(ON_DASK, limit={"singing": 600})


@pytest.fixture(scope="module")
async def at_work(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[House, DaskCluster]]:
    folder = tmp_path_factory.mktemp("losses")
    async with (
        dask_cluster(folder / "dask") as cluster,
        served_by(cluster, folder / "it", PATIENT) as house,
    ):
        await joined(house, 2)
        yield house, cluster
    gc.collect()  # what Dask leaves is left here, and not at the end of all tests


Ways = tuple[tuple[str, int], ...]


def parent_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(status[1])


def engine_of(house: House) -> Cluster:
    found = house.service.facade.world.surroundings.elsewhere
    assert isinstance(found, Cluster)
    return found


async def begun(house: House, folder: Path, does: str, lines: int) -> tuple[str, int, Path]:
    """A job whose stage is at work: its id, the process of the stage, and the gate."""
    gate, notes = folder / f"gate-{os.urandom(4).hex()}", folder / f"notes-{os.urandom(4).hex()}"
    params = {"does": does, "gate": str(gate), "diary": str(notes)}
    job = await house.ada.submit("far", params=params)
    await until(partial(has_lines, notes, lines))
    while does == "keep_file" and not await kept_in(house, job["id"]):
        await anyio.sleep(0.01)
    return job["id"], int(notes.read_text().splitlines()[-1].split()[2]), gate


async def right(house: House, job_id: str) -> Any:
    found = await ended(house, job_id)
    assert (found["status"], found["retry_count"]) == ("done", 0), (found, house.logged[-20:])
    assert len(await names_of(house, job_id)) == 2
    return found


def left_there(house: House, job_id: str) -> set[str]:
    folder = next((Path(house.service.facade.world.assets)).rglob(job_id), None)
    return set(os.listdir(folder)) if folder else set()


@pytest.mark.parametrize("rounds", SEVERAL)
async def test_a_worker_that_is_killed_costs_no_retry(
    at_work: tuple[House, DaskCluster], tmp_path: Path, rounds: int
) -> None:
    """In the middle of a stage in the loop, which had kept a file, and of one in a process."""
    for _ in range(rounds):
        await killed(at_work[0], tmp_path)


async def killed(house: House, folder: Path, ways: Ways = KILLED) -> None:
    for does, lines in ways:
        await joined(house, 2)
        job_id, pid, gate = await begun(house, folder, does, lines)
        worker = pid if does == "keep_file" else parent_of(parent_of(pid))
        os.kill(worker, signal.SIGKILL)
        await until(partial(is_over, pid))
        gate.touch()
        await right(house, job_id)
        outcomes = [row["outcome"] for row in await attempts(house, job_id)]
        assert outcomes.count("interrupted") == 1, outcomes
        assert left_there(house, job_id) == set(await names_of(house, job_id))


async def attempts(house: House, job_id: str) -> list[Any]:
    found: list[Any] = (await house.admin.get(f"/jobs/{job_id}/attempts")).json["attempts"]
    return found


@pytest.mark.parametrize("rounds", SEVERAL)
async def test_a_cancelled_job_stops_its_stage(
    at_work: tuple[House, DaskCluster], tmp_path: Path, rounds: int
) -> None:
    """One in the loop, one in a process, and one that is deaf: its worker is restarted."""
    for _ in range(rounds):
        await cancelled(at_work[0], tmp_path)


async def cancelled(house: House, folder: Path, ways: Ways = CANCELLED) -> None:
    for does, lines in ways:
        await joined(house, 2)
        house.logged.clear()
        job_id, pid, _ = await begun(house, folder, does, lines)
        assert "of the cluster" in await waits_for(house, job_id)
        assert (await house.ada.post(f"/jobs/{job_id}/cancel")).status == 200
        assert (await house.admin.get(f"/jobs/{job_id}")).json["status"] == "canceled"
        if does != "wait":
            await until(partial(is_over, pid))
        await joined(house, 2)
        restarts = [one for one in house.logged if one["event"] == "cluster.restarts"]
        assert restarts or does != "deaf", house.logged[-9:]
    await right(house, (await house.ada.submit("far"))["id"])


async def taken_up_again(house: House, job_id: str, after: int = 1) -> None:
    """As soon as this attempt is over, and the next one is there."""
    while True:
        job = await house.service.facade.world.reader.job(job_id)
        assert job is not None
        assert job.kind not in ("settled", "final"), job
        if job.attempt is not None and job.attempt.number > after:
            return
        await anyio.sleep(0.01)


async def waits_for(house: House, job_id: str) -> str:
    return str((await house.admin.get(f"/jobs/{job_id}/explain")).json["waits_for"])


@pytest.mark.parametrize("rounds", [4, 6])
async def test_a_line_that_is_cut_or_silent_costs_no_retry(
    at_work: tuple[House, DaskCluster], tmp_path: Path, rounds: int
) -> None:
    """Closed under both, or so still that each believes the other one gone."""
    house, _ = at_work
    for _ in range(rounds):
        for how in ("cut", "still"):
            await joined(house, 2)
            job_id, pid, gate = await begun(house, tmp_path, "keep_file", 1)
            if how == "cut":
                for line in engine_of(house).lines():
                    await line.close()
            else:
                os.kill(pid, signal.SIGSTOP)
            await taken_up_again(house, job_id)
            gate.touch()
            await right(house, job_id)
            assert left_there(house, job_id) == set(await names_of(house, job_id))


async def test_what_nobody_there_has_is_waited_for_by_name(
    at_work: tuple[House, DaskCluster], tmp_path: Path
) -> None:
    house, cluster = at_work
    (tmp_path / "empty").mkdir()
    bare = f'[plugins]\npath = "{tmp_path / "empty"}"\nenabled = []\n'
    worker = cluster.start_worker("--name", "bare", config=bare)
    threads = cluster.start_worker("--name", "wide", "--nthreads", "2")
    await until(lambda: seats_of(house)["unfit"] == 1 and seats_of(house)["free"] == 3)
    named = [one["detail"] for one in house.logged if one["event"] == "cluster.unfit"]
    assert named == ["wide has 2 threads; start it with --nthreads 1"]
    for _ in range(3):
        await right(house, (await house.ada.submit("far"))["id"])
    for one in (worker, threads):
        one.kill()
    await joined(house, 2)


@pytest.mark.parametrize("rounds", [2, 3])
async def test_a_scheduler_that_is_lost_blames_nobody(
    at_work: tuple[House, DaskCluster], tmp_path: Path, rounds: int
) -> None:
    """Its workers go with it; the service goes on, and says what it waits for."""
    house, cluster = at_work
    job_id, _, gate = await begun(house, tmp_path, "keep_file", 1)
    for _ in range(rounds):
        cluster.kill_scheduler()
        await until(lambda: engine_of(house).free == 0 and not engine_of(house).lines())
        assert "the cluster" in await until_waits(house, job_id)
        await cluster.begin_anew()
        await until(lambda: len(engine_of(house).lines()) == 1)
    gate.touch()
    await right(house, job_id)
    await joined(house, 2)


@pytest.mark.parametrize("rounds", [3])
async def test_a_scheduler_that_is_back_at_once_blames_nobody(
    at_work: tuple[House, DaskCluster], tmp_path: Path, rounds: int
) -> None:
    """Its workers go on for a while, and are lost when there is another one."""
    house, cluster = at_work
    job_id, _, gate = await begun(house, tmp_path, "keep_file", 1)
    for number in range(rounds):
        cluster.kill_scheduler()
        await cluster.begin_anew()
        await taken_up_again(house, job_id, number + 1)
        await until(lambda: len(engine_of(house).lines()) == 1)
    gate.touch()
    await right(house, job_id)
    outcomes = [row["outcome"] for row in await attempts(house, job_id)]
    assert outcomes == ["interrupted"] * rounds + ["done"] * 3, outcomes
    await joined(house, 2)


async def until_waits(house: House, job_id: str) -> str:
    while not (told := await waits_for(house, job_id)).startswith("the cluster"):
        await anyio.sleep(0.01)
    return told


@pytest.mark.parametrize("rounds", SEVERAL)
async def test_a_service_that_is_killed_spends_no_attempt(tmp_path: Path, rounds: int) -> None:
    """Its stages stop on the cluster, and are done again, each time it comes back."""
    async with dask_cluster(tmp_path / "dask") as cluster:
        more = f'[workflows.far.stages]\n"*" = "dask"\n[cluster]\nscheduler = "{cluster.address}"\n'
        more += "silence = 4\npatience = 1\n"
        async with place(tmp_path / "home", plugins=PLUGIN, more=more) as home:
            await home.start()
            await home.user("ada")
            gate, notes = tmp_path / "gate", tmp_path / "notes"
            params = {"does": "keep_file", "gate": str(gate), "diary": str(notes)}
            job = await home.submit("far", "ada", params=params)
            for number in range(rounds):
                await until(partial(has_lines, notes, number + 1))
                await home.kill()
                await home.start()
            gate.touch()
            await home.at(job["id"], "done", "failed")
            found = await home.get(f"/jobs/{job['id']}")
            assert (found["status"], found["retry_count"]) == ("done", 0), found
            await no_orphans(home, job["id"])
            await home.stop()
            assert home.faults() == ()


async def no_orphans(home: Place, job_id: str) -> None:
    rows = (await home.get(f"/jobs/{job_id}/assets"))["assets"]
    assert len(rows) == 2, rows
    folder = home.folder / "data" / "assets" / Path(rows[0]["storage_path"]).parent
    assert {Path(row["storage_path"]).name for row in rows} <= set(os.listdir(folder))
