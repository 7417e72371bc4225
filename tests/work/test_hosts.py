"""``jobrunner work`` on two other hosts, for which network namespaces stand: the lifecycles of this
tree end as they do here, whatever befalls who runs them, and nothing that is lost costs anything.
The short forms of that are in test_losses, on this host."""

import os
import re
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from jobrunner.config.settings import ServerSection
from jobrunner.ports import system_ports
from tests.cluster.hosts import HERE, hosts, may_make_hosts, run
from tests.http.serving import House
from tests.whole.process import Place, place
from tests.work.lifecycles import LIFECYCLES, Elsewhere, are_alike, shown
from tests.work.living import (
    PLUGIN,
    REMOTE,
    AheadClock,
    WorkProcess,
    ended,
    serving,
    until,
    work_process,
)
from tests.work.test_losses import (
    MORE,
    has_lines,
    is_over,
    kept_in,
    killed,
    lease_over,
    names_of,
)

NO_HOSTS = "needs the right to make network namespaces"
SEED = int(os.environ.get("DRILL_SEED", "1"))
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.long,
    pytest.mark.skipif(not may_make_hosts(), reason=NO_HOSTS),
]
NUMBER = re.compile(r"-[0-9]+(?=[.])")
# A stage may wait for its gate for as long as that takes.
PATIENT = MORE + '[workflows.far.limit]\nsinging = "10m"\n'
# Twenty kills, in parts that end before the watchdog of the tests does.
PARTS = [pytest.param(1, id=f"part-{part}") for part in range(10)]


@dataclass
class Struck(Elsewhere):
    """Each attempt of the job is struck once while its stage is at work: the process that runs it
    is killed, or the line of its host is cut for some seconds."""

    how: str = ""
    times: int = 0

    async def befallen(self, home: Place) -> None:
        random, seen = Random(SEED), 0
        while self.how:
            job_id, number, one = await self._next(home, seen)
            self.times += 1
            if self.how == "kill":
                self.at_work[one].kill()
                self.at_work[one].begin()
                number += 1  # the attempt that comes in its place is spared
            else:
                await self._cut(home, job_id, self.hosts[one][2], random.uniform(1, 20))
            seen = number

    async def _next(self, home: Place, seen: int) -> tuple[str, int, int]:
        """The next attempt that somebody works on: its job, its number there, and who."""
        while True:
            for job in (await home.get("/jobs"))["jobs"]:
                rows = (await home.get(f"/jobs/{job['id']}/attempts"))["attempts"]
                at_work = rows and rows[-1]["outcome"] is None
                if at_work and len(rows) > seen:
                    for one, process in enumerate(self.at_work):
                        if process.holds(job["id"]):
                            return job["id"], len(rows), one
            await anyio.sleep(0.05)

    async def _cut(self, home: Place, job_id: str, end: str, seconds: float) -> None:
        """For so long: it cannot end meanwhile, since nobody hears that."""
        run(f"ip link set {end} down")
        with anyio.move_on_after(seconds):
            await home.get(f"/jobs/{job_id}?wait=60&until=ended")
        run(f"ip link set {end} up")


@pytest.mark.parametrize("workflow", LIFECYCLES)
@pytest.mark.parametrize("how", ["", "kill", "cut"], ids=["still", "kill", "cut"])
async def test_it_is_made_on_two_hosts_as_it_is_made_here(
    tmp_path: Path, workflow: str, how: str
) -> None:
    here = await shown(tmp_path / "here", workflow)
    with hosts(2) as others:
        there = Struck(2, tuple(others), how=how)
        made = await shown(tmp_path / "there", workflow, there)
    are_alike(here, made)
    interrupted = [one for one in made.attempts if one[2] == "interrupted"]
    assert len(interrupted) == (there.times if how == "kill" else 0)
    assert there.times == (len(here.attempts) if how else 0)


@pytest.mark.parametrize("rounds", PARTS)
async def test_a_worker_on_another_host_that_is_killed_costs_nothing(
    tmp_path: Path, rounds: int
) -> None:
    """In the middle of a stage in the loop, and of one in a process, each time."""
    async with at_work(tmp_path, 1, begun=0) as drill:
        name = drill.others[0][0]
        await killed(drill.house, drill.clock, tmp_path, rounds, "ip", "netns", "exec", name)


@dataclass
class HostDrill:
    """A service here, and workers on other hosts."""

    folder: Path
    house: House
    clock: AheadClock
    others: list[tuple[str, str, str]]
    workers: list[WorkProcess]
    number: int = 0

    async def begun(self, does: str) -> tuple[str, Path, int]:
        """A job whose stage is at work: its id, the gate it waits for, and who works on it."""
        self.number += 1
        gate, notes = (self.folder / f"{what}-{self.number}" for what in ("gate", "notes"))
        params = {"does": does, "gate": str(gate), "diary": str(notes)}
        job_id = (await self.house.ada.submit("far", params=params))["id"]
        await until(partial(has_lines, notes, 2 if does == "hang" else 1))
        while does in ("keep_file", "once") and not await kept_in(self.house, job_id):
            await anyio.sleep(0.01)
        (one,) = [n for n, worker in enumerate(self.workers) if worker.holds(job_id)]
        return job_id, gate, one

    async def outcomes(self, job_id: str) -> list[str]:
        rows = (await self.house.admin.get(f"/jobs/{job_id}/attempts")).json["attempts"]
        return [row["outcome"] for row in rows]

    async def is_whole(self, job_id: str, *files: str) -> None:
        """These files, each once, and none beside them; none where it was worked on either."""
        assert await names_of(self.house, job_id) == list(files)
        library = Path(self.house.service.facade.world.assets)
        await until(lambda: sorted(self.there(library, job_id)) == list(files))
        await until(lambda: not any(worker.holds(job_id) for worker in self.workers))

    @staticmethod
    def there(library: Path, job_id: str) -> list[str]:
        return [file.name for file in library.rglob("*") if job_id in str(file) and file.is_file()]


@asynccontextmanager
async def at_work(folder: Path, number: int, begun: int | None = None) -> AsyncIterator[HostDrill]:
    """So many other hosts, with a worker on each."""
    clock = AheadClock()
    ports = replace(system_ports(), clock=clock)
    server = ServerSection(host=HERE, port=0, drain_seconds=1)
    with hosts(number) as others, ExitStack() as stack:
        settings = replace(REMOTE, limit={"singing": 600.0, "counting": 600.0})
        async with serving(folder / "service", settings, ports, server=server) as house:
            workers = []
            for one in range(number if begun is None else begun):
                before = ("ip", "netns", "exec", others[one][0])
                token, url = house.worker.token or "", house.service.url
                process = work_process(folder / f"work-{one}", url, token, "far", before)
                workers.append(stack.enter_context(process))
            yield HostDrill(folder, house, clock, others, workers)


@pytest.mark.parametrize("rounds", [10])
async def test_a_host_whose_line_is_cut_costs_no_retry(tmp_path: Path, rounds: int) -> None:
    """Every second time for so long that its work is done again elsewhere: what it has to say when
    the line is back, nobody takes. A claim may be told to who cannot hear it, and is lost then."""
    async with at_work(tmp_path, 2) as drill:
        for number in range(rounds):
            job_id, gate, one = await drill.begun("keep_file")
            end = drill.others[one][2]
            run(f"ip link set {end} down")
            if number % 2:
                await lease_over(drill.house, drill.clock, job_id)
            gate.touch()
            if number % 2:
                await until_elsewhere(drill, job_id, 1 - one)
            run(f"ip link set {end} up")
            found = await ended(drill.house, job_id)
            assert (found["status"], found["retry_count"]) == ("done", 0), found
            outcomes = await drill.outcomes(job_id)
            assert [one for one in outcomes if one != "interrupted"] == ["done"] * 3, outcomes
            assert ("interrupted" in outcomes) == bool(number % 2), outcomes
            await drill.is_whole(job_id, "echo-2.txt", "song.txt")


async def until_elsewhere(drill: HostDrill, job_id: str, other: int) -> None:
    """Done by the other one, while this one believes that it is at work."""
    assert (await ended(drill.house, job_id))["ended_as"] == "completed"
    await until(lambda: not drill.workers[other].holds(job_id))


@pytest.mark.parametrize("rounds", [20])
async def test_a_job_that_is_cancelled_stops_its_stage_on_another_host(
    tmp_path: Path, rounds: int
) -> None:
    random = Random(SEED)
    async with at_work(tmp_path, 2) as drill:
        for _ in range(rounds):
            does = random.choice(["wait", "once", "keep_file", "hang"])
            job_id, _, _ = await drill.begun(does)
            notes = tmp_path / f"notes-{drill.number}"
            pid = int(notes.read_text().splitlines()[-1].split()[2])
            assert (await drill.house.ada.post(f"/jobs/{job_id}/cancel")).status == 200
            found = await ended(drill.house, job_id)
            assert (found["status"], found["retry_count"]) == ("canceled", 0)
            if does == "hang":
                await until(partial(is_over, pid))
            await drill.is_whole(job_id, *(["song.txt"] if does == "hang" else []))
        found = await ended(drill.house, (await drill.house.ada.submit("far"))["id"])
        assert found["status"] == "done"


@pytest.mark.parametrize("rounds", [10])
async def test_a_service_that_is_killed_spends_no_attempt_of_other_hosts(
    tmp_path: Path, rounds: int
) -> None:
    """Twice a round: while stages are at work, and at some moment while they say how they end."""
    random = Random(SEED)
    with hosts(2) as others, ExitStack() as stack:
        where = f'port = {free_port()}\nhost = "{HERE}"'
        async with place(tmp_path / "home", plugins=PLUGIN, more=PATIENT) as home:
            home.configure(home.config.replace("port = 0", where))
            await home.start()
            await home.user("worker", "workflow")
            await home.user("ada")
            for one, (name, _, _) in enumerate(others):
                before = ("ip", "netns", "exec", name)
                work, token = tmp_path / f"work-{one}", home.tokens["worker"]
                stack.enter_context(work_process(work, home.url, token, "far", before))
            for number in range(rounds):
                await twice_killed(home, tmp_path / str(number), random)
            await home.stop()
            assert home.faults() == ()


def free_port() -> int:
    with socket.socket() as asking:
        asking.bind((HERE, 0))
        return int(asking.getsockname()[1])


async def twice_killed(home: Place, folder: Path, random: Random) -> None:
    folder.mkdir()
    gate, jobs = folder / "gate", []
    for does in ("wait", "once", "keep_file"):
        notes = folder / does
        params = {"does": does, "gate": str(gate), "diary": str(notes)}
        jobs.append((await home.submit("far", "ada", params=params))["id"])
        await until(notes.exists)
    await home.kill()
    await home.start()
    gate.touch()
    moves = random.randrange(1, 12)
    while sum([len(await home.moves(one)) for one in jobs]) < 6 + moves:
        await anyio.sleep(0.001)
    await home.kill()
    await home.start()
    for one in jobs:
        await as_if_nothing_was(home, one)


async def as_if_nothing_was(home: Place, job_id: str) -> None:
    """A claim whose answer is lost with the service is nobody's for a while, and costs nothing."""
    found: Any = {"ended_as": None}
    for _ in range(8):
        found = (
            found if found["ended_as"] else await home.get(f"/jobs/{job_id}?wait=30&until=ended")
        )
    assert (found["status"], found["retry_count"]) == ("done", 0), found
    rows = (await home.get(f"/jobs/{job_id}/attempts"))["attempts"]
    told = [row["outcome"] for row in rows]
    assert [one for one in told if one != "interrupted"] == ["done"] * 3, rows
    files = (await home.get(f"/jobs/{job_id}/assets"))["assets"]
    names = [Path(row["storage_path"]).name for row in files]
    # A death between a file and its row leaves one that no job knows, and takes the number with it.
    assert sorted(NUMBER.sub("", name) for name in names) == ["echo.txt", "song.txt"], files
    folder = home.folder / "data" / "assets" / Path(files[0]["storage_path"]).parent
    assert set(names) <= set(os.listdir(folder))
