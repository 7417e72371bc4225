"""The simulated cluster is kept busy by the dispatcher, and only as busy as it can be."""

from pathlib import Path

import pytest

from tests.cluster.simulated import Demand, measure

pytestmark = pytest.mark.anyio


async def test_workers_are_given_stages(tmp_path: Path) -> None:
    found = await measure(tmp_path, Demand(20, 0.02), seconds=0.5, warm=0.5)
    assert found.stages_s > 0
    assert 0 < found.busy_workers <= 20
    assert found.units_a_commit > 1


@pytest.mark.long
async def test_a_thousand_workers_are_busy_with_long_stages(tmp_path: Path) -> None:
    found = await measure(tmp_path, Demand(1000, 30), seconds=5, warm=30)
    assert found.busy_workers > 900
