"""The lifecycles of this tree, shown as ``make demo`` does: in the service, and on a cluster of two
workers. They come to the same end, with the same files."""

from pathlib import Path

import pytest

pytest.importorskip("distributed")

from tests.cluster.dask_at_work import dask_cluster
from tests.work.lifecycles import LIFECYCLES, are_alike, shown

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@pytest.mark.parametrize("workflow", LIFECYCLES)
async def test_it_is_made_on_a_cluster_as_it_is_made_here(tmp_path: Path, workflow: str) -> None:
    here = await shown(tmp_path / "here", workflow)
    bound = f'[workflows.{workflow}.stages]\n"*" = "dask"\n[cluster]\nscheduler = '
    async with dask_cluster(tmp_path / "dask") as cluster:
        more = f'{bound}"{cluster.address}"\n'
        there = await shown(tmp_path / "there", workflow, more=more)
    are_alike(here, there)
