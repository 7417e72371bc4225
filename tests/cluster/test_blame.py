"""Whose fault it is that an attempt on a cluster was lost: a worker that dies is counted, and a
scheduler that dies takes its workers with it, some of them after a while."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

pytest.importorskip("distributed")

from jobrunner.cluster.away_attempt import AwayLost
from jobrunner.cluster.connection import DaskConnection, SchedulerLost
from jobrunner.cluster.engine import Cluster
from jobrunner.cluster.seats import Seat
from jobrunner.config.settings import ClusterSection
from jobrunner.ports import system_ports

pytestmark = pytest.mark.anyio
SECTION = ClusterSection(scheduler="tcp://127.0.0.1:1")


class Scheduled:
    """A connection to a scheduler of this id."""

    def __init__(self, scheduler_id: str) -> None:
        self.scheduler_id = scheduler_id

    async def present(self) -> list[Any]:
        return []


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        (Scheduled("one"), Scheduled("one"), "WORKER_LOST"),
        (Scheduled("one"), Scheduled("two"), "CLUSTER_LOST"),
        (Scheduled("one"), DaskConnection(SECTION), "CLUSTER_LOST"),
        (Scheduled("one"), None, "CLUSTER_LOST"),
    ],
    ids=["same", "another", "not-reached-yet", "none"],
)
async def test_a_worker_is_blamed_where_its_scheduler_is_the_same(
    before: Any, after: Any, code: str
) -> None:
    cluster = Cluster(SECTION, {}, system_ports(), 0, lambda event, **told: None)
    cluster._connection = after
    lost = AwayLost("WORKER_LOST", "the line was closed")
    assert (await cluster._judged(Seat("a"), lost, before)).code == code


async def test_a_scheduler_that_is_not_reached_yet_is_not_there() -> None:
    """Who is cleared away or judged meanwhile waits for it, and nothing breaks."""
    connection = DaskConnection(SECTION)
    asks: list[Callable[[], Awaitable[object]]] = [
        connection.present,
        partial(connection.skills, "a"),
        partial(connection.under_way, "a"),
        partial(connection.restart, "a"),
    ]
    for ask in asks:
        with pytest.raises(SchedulerLost):
            await ask()


async def test_a_seat_that_is_cleared_while_the_scheduler_is_away_waits_for_it() -> None:
    cluster = Cluster(SECTION, {}, system_ports(), 0, lambda event, **told: None)
    seat = Seat("a")
    cluster._seats.meet(seat)
    cluster._connection = DaskConnection(SECTION)
    async with anyio.create_task_group() as group:
        cluster._group = group
        cluster._clear_later(seat, "key")
        await anyio.wait_all_tasks_blocked()
        assert seat.is_clearing
        cluster._seats.keep([])
    assert not seat.is_clearing
