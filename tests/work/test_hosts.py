"""``jobrunner work`` on two other hosts, for which network namespaces stand: the lifecycles of this
tree end as they do here, and a worker that is killed costs nothing. The short form of that is in
test_losses, on this host."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from jobrunner.config.settings import ServerSection
from jobrunner.ports import system_ports
from tests.cluster.hosts import HERE, hosts, may_make_hosts
from tests.work.living import AheadClock, serving
from tests.work.test_losses import killed
from tests.work.test_shipped import are_alike, shown

NO_HOSTS = "needs the right to make network namespaces"
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.long,
    pytest.mark.skipif(not may_make_hosts(), reason=NO_HOSTS),
]
# Twenty kills, in parts that end before the watchdog of the tests does.
PARTS = [pytest.param(1, id=f"part-{part}") for part in range(10)]


@pytest.mark.parametrize("workflow", ["image-generation", "ss", "howera"])
async def test_it_is_made_on_two_hosts_as_it_is_made_here(tmp_path: Path, workflow: str) -> None:
    here, made_here = await shown(tmp_path / "here", workflow, 0)
    with hosts(2) as others:
        names = tuple(name for name, _, _ in others)
        there, made_there = await shown(tmp_path / "there", workflow, 2, others=names)
    are_alike(here, made_here, there, made_there)


@pytest.mark.parametrize("rounds", PARTS)
async def test_a_worker_on_another_host_that_is_killed_costs_nothing(
    tmp_path: Path, rounds: int
) -> None:
    """In the middle of a stage in the loop, and of one in a process, each time."""
    clock = AheadClock()
    ports = replace(system_ports(), clock=clock)
    server = ServerSection(host=HERE, port=0, drain_seconds=1)
    with hosts(1) as ((name, _, _),):
        async with serving(tmp_path / "service", ports=ports, server=server) as house:
            await killed(house, clock, tmp_path, rounds, "ip", "netns", "exec", name)
