"""Which worker is given work while it is still asked what it has, and what runs there."""

from typing import Any

import anyio
import pytest

from jobrunner.cluster.engine import Cluster
from jobrunner.config.settings import ClusterSection
from jobrunner.ports import system_ports
from tests.cluster.test_seats import Hanging, until

pytestmark = pytest.mark.anyio


class Busy(Hanging):
    """Both answer, and something runs on each; ``free`` is what could be given just then."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self.hangs.set()
        self.free: list[int] = []
        self._cluster = cluster

    async def under_way(self, address: str) -> list[str]:
        self.free.append(self._cluster.seats()["free"])
        return ["left by a service that was killed"]


async def test_a_worker_has_no_seat_before_it_is_known_what_runs_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody would be given it in between, beside what an earlier life of the service left."""
    pytest.importorskip("distributed")
    cleared: list[str] = []
    section = ClusterSection(scheduler="tcp://127.0.0.1:1")
    cluster = Cluster(section, {}, system_ports(), 0, lambda event, **told: None)
    monkeypatch.setattr(cluster, "_clear_later", lambda seat, key: cleared.append(seat.name))
    connection: Any = Busy(cluster)
    cluster._connection, cluster._seats.trouble = connection, ""
    async with anyio.create_task_group() as group:
        cluster._group = group
        await cluster._look(connection)
        await until(lambda: len(cleared) == 2)
    assert (connection.free[0], sorted(cleared)) == (0, ["hangs", "works"])
