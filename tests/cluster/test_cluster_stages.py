"""Stages on a cluster of two workers: a job comes to the end that it has when they run in the
service, with the same values and the same files."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed")

from tests.cluster.dask_at_work import dask_cluster, joined, served_by
from tests.cluster.test_cluster_losses import cancelled, killed
from tests.http.serving import House
from tests.work.living import AT_HOME, ended, serving
from tests.work.test_remote_stages import attempts_of, files_of, history_of, seen

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = tmp_path_factory.mktemp("cluster")
    async with dask_cluster(folder / "dask") as cluster, served_by(cluster, folder / "it") as house:
        await joined(house, 2)
        yield house


@pytest.fixture(scope="module")
async def home(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with serving(tmp_path_factory.mktemp("home"), AT_HOME) as house:
        yield house


def without_place(rows: list[Any]) -> list[Any]:
    """The first line of an attempt on a cluster says where it runs."""
    for row in rows:
        assert row["log"][0].startswith("runs on "), row
        row["log"] = row["log"][1:]
    return rows


@pytest.mark.parametrize("does", ["work", "checkpoint", "never", "no", "crash", "long"])
async def test_a_job_ends_as_it_ends_at_home(house: House, home: House, does: str) -> None:
    there = await home.ada.submit("far", params={"does": does})
    expected = await ended(home, there["id"])
    job = await house.ada.submit("far", params={"does": does})
    found = await ended(house, job["id"])
    assert seen(found) == seen(expected), house.logged
    for facts in (history_of, files_of):
        assert await facts(house, job["id"]) == await facts(home, there["id"]), facts.__name__
    told = without_place(await attempts_of(house, job["id"]))
    assert told == await attempts_of(home, there["id"])


async def test_figures_and_the_overview_count_workers(house: House) -> None:
    told = (await house.admin.get("/metrics")).raw.decode()
    assert 'jobrunner_cluster_workers{state="free"} 2.0' in told
    work = (await house.admin.get("/overview")).json["work"]
    cluster = next(one for one in work["resources"] if one["name"] == "cluster")
    assert (cluster["taken"], cluster["there"]) == (0, 2)


async def test_a_cancelled_job_stops_its_stage(house: House, tmp_path: Path) -> None:
    await cancelled(house, tmp_path, (("wait", 1), ("hang", 2)))


async def test_a_worker_that_is_killed_costs_no_retry(house: House, tmp_path: Path) -> None:
    await killed(house, tmp_path, (("keep_file", 1),))
