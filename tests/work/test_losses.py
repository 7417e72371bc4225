"""Workers, lines and services that are lost while a stage runs elsewhere: each job ends right, no
file is there twice, nothing goes on that nobody wants, and nobody pays for the death of another."""

import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from jobrunner.core.messages import Fired
from jobrunner.ports import system_ports
from tests.client.relay import Relay, relayed
from tests.http.serving import House
from tests.whole.process import Place, place
from tests.work.living import PLUGIN, AheadClock, ended, serving, until, work_process, working

pytestmark = pytest.mark.anyio
LONG = pytest.mark.long
BEGINS_S = 100  # a process that begins on a busy machine
# Twenty times and more, in parts that end before the watchdog of the tests does.
SEVERAL = [pytest.param(4, marks=LONG, id=f"part-{part}") for part in range(5)]
MORE = '[workflows.far.stages]\n"*" = "remote"\n'


@pytest.fixture
async def late(tmp_path: Path) -> AsyncIterator[tuple[House, AheadClock]]:
    """A service on whose clock a lease can be over at once."""
    clock = AheadClock()
    ports = replace(system_ports(), clock=clock)
    async with serving(tmp_path / "service", ports=ports) as house:
        yield house, clock


async def lease_over(house: House, clock: AheadClock, job_id: str) -> None:
    clock.ahead_ms += 61_000
    facade = house.service.facade
    job = await facade.world.reader.job(job_id)
    assert job is not None
    timer = job.timer("lease")
    assert timer is not None, "somebody holds it"
    await facade.supervisor.deliver(job_id, Fired("lease", timer.due_at))


async def names_of(house: House, job_id: str) -> list[str]:
    rows = (await house.admin.get(f"/jobs/{job_id}/assets")).json["assets"]
    return sorted(row["storage_path"].rpartition("/")[2] for row in rows)


async def kept_in(house: House, job_id: str) -> bool:
    job = await house.service.facade.world.reader.job(job_id)
    return job is not None and job.attempt is not None and bool(job.attempt.kept)


def has_lines(notes: Path, number: int) -> bool:
    return notes.exists() and len(notes.read_text().splitlines()) >= number


def is_over(pid: int) -> bool:
    return not is_alive(pid)


def is_alive(pid: int) -> bool:
    """Whether there is still such a process, and not only what nobody has asked after yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it is gone, or goes while it is read
        return False


@pytest.mark.parametrize("rounds", [1, *SEVERAL])
async def test_a_worker_that_is_killed_costs_nothing(
    late: tuple[House, AheadClock], tmp_path: Path, rounds: int
) -> None:
    """In the middle of a stage in the loop, which had kept a file, and of one in a process: that
    goes with it. The next worker finds what was kept, and removes what the dead one left."""
    await killed(*late, tmp_path, rounds)


async def killed(
    house: House, clock: AheadClock, tmp_path: Path, rounds: int, *before: str
) -> None:
    token = house.worker.token or ""
    for number in range(rounds):
        for does, diary in (("keep_file", 1), ("hang", 2)):
            gate, notes = tmp_path / f"gate-{does}-{number}", tmp_path / f"notes-{does}-{number}"
            params = {"does": does, "gate": str(gate), "diary": str(notes)}
            job = await house.ada.submit("far", params=params)
            work = tmp_path / "work"
            with work_process(work, house.service.url, token, "far", before) as process:
                await until(partial(has_lines, notes, diary), within_s=BEGINS_S)
                while does == "keep_file" and not await kept_in(house, job["id"]):
                    await anyio.sleep(0.01)
                process.kill()
            pid = int(notes.read_text().splitlines()[-1].split()[2])
            await until(partial(is_over, pid))
            left = list((work / "work.d").iterdir())
            assert left, "a process that is killed cleans nothing"
            await lease_over(house, clock, job["id"])
            gate.touch()
            with work_process(work, house.service.url, token, "far", before):
                found = await ended(house, job["id"])
                assert not any(one.exists() for one in left)
            assert (found["status"], found["retry_count"]) == ("done", 0), found
            assert await names_of(house, job["id"]) == ["echo-2.txt", "song.txt"]


@pytest.mark.parametrize("times", [3, pytest.param(20, marks=LONG)])
async def test_jobs_that_are_cancelled_stop_their_stages(
    late: tuple[House, AheadClock], tmp_path: Path, times: int
) -> None:
    house, _ = late
    params = {"does": "wait", "gate": str(tmp_path / "never")}
    async with working(house, tmp_path / "work", slots=times) as worker:
        jobs = [(await house.ada.submit("far", params=params))["id"] for _ in range(times)]
        await until(lambda: worker.taking.running == times)
        for job_id in jobs:
            assert (await house.ada.post(f"/jobs/{job_id}/cancel")).status == 200
        await until(lambda: len(worker.said("stage.ended")) == times)
        assert worker.taking.running == 0
        for job_id in jobs:
            assert (await house.admin.get(f"/jobs/{job_id}")).json["status"] == "canceled"
        assert (await ended(house, (await house.ada.submit("far"))["id"]))["status"] == "done"


async def _lost(home: Place, relay: Relay, what: str) -> None:
    """The service dies and comes back, or the line does."""
    if what == "service":
        await home.kill()
        relay.break_all()
        await home.start()
    else:
        relay.upstream = ("127.0.0.1", 1)
        before = relay.refused
        relay.break_all()
        await until(lambda: relay.refused > before)
    host, _, port = home.url.removeprefix("http://").partition(":")
    relay.upstream = (host, int(port))


@pytest.mark.parametrize("what", ["service", "line"])
@pytest.mark.parametrize("times", [1, *SEVERAL])
async def test_a_service_or_a_line_that_is_lost_costs_no_attempt(
    tmp_path: Path, what: str, times: int
) -> None:
    """While stages work, and once more while they say that they are done and the next is claimed:
    their first attempt is their last, and each file is there once."""
    gate = tmp_path / "gate"
    async with place(tmp_path / "home", plugins=PLUGIN, more=MORE) as home:
        await home.start()
        await home.user("worker", "workflow")
        await home.user("ada")
        with relayed(home.url) as relay:
            with work_process(tmp_path / "work", relay.url, home.tokens["worker"]):
                jobs = [await _begun(home, does, gate) for does in ("wait", "once")]
                for _ in range(times):
                    await _lost(home, relay, what)
                gate.touch()
                await _lost(home, relay, what)
                for job in jobs:
                    await home.at(job["id"], "done", "failed")
            for job in jobs:
                await _first_try(home, job["id"], died=what == "service")
        await home.stop()
        assert home.faults() == ()


async def _begun(home: Place, does: str, gate: Path) -> Any:
    notes = gate.with_name(f"notes-{does}")
    params = {"does": does, "gate": str(gate), "diary": str(notes)}
    job = await home.submit("far", "ada", params=params)
    await until(notes.exists)
    return job


async def _first_try(home: Place, job_id: str, *, died: bool) -> None:
    job = await home.get(f"/jobs/{job_id}")
    assert (job["status"], job["retry_count"]) == ("done", 0), job
    attempts = (await home.get(f"/jobs/{job_id}/attempts"))["attempts"]
    assert [one["outcome"] for one in attempts] == ["done", "done", "done"], attempts
    rows = (await home.get(f"/jobs/{job_id}/assets"))["assets"]
    assert len(rows) == 2, rows
    folder = home.folder / "data" / "assets" / Path(rows[0]["storage_path"]).parent
    there, named = set(os.listdir(folder)), {Path(row["storage_path"]).name for row in rows}
    # A death between a file and its row leaves one that no job knows, until a start after a day.
    assert named <= there if died else named == there, there
