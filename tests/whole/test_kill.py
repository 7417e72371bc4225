"""The service ends again and again while clients go on; nothing that they were told is lost."""

import signal
import statistics
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import anyio
import pytest

from tests.whole.load import Client, Journal
from tests.whole.process import PATIENCE_S, Place, place

pytestmark = pytest.mark.anyio

CLIENTS = 8
SOON = """
[workflows.image-generation.retry.running]
base = "50ms"
"""
UNLUCKY = "STAGE_KILLED_SERVICE"


async def kill_and_compare(folder: Path, kills: int) -> None:
    journal, random, pauses = Journal(), Random(kills), []
    async with place(folder, more=SOON, credits=1_000_000) as home:
        await home.start()
        async with anyio.create_task_group() as group:
            finished = False
            for number in range(CLIENTS):
                client = Client(home, journal, number, kills)
                group.start_soon(client.work, lambda: finished)
            for _ in range(kills):
                await acknowledged(journal, journal.acks + random.randrange(1, 250))
                await end(home, random)
                assert home.faults() == ()
                if not random.randrange(8):
                    await die_while_starting(home, random)
                before = monotonic()
                await home.start()
                pauses.append(monotonic() - before)
            await acknowledged(journal, journal.acks + 50)
            finished = True
        lost = await compared(home, journal)
        assert await home.stop() == 0
        assert home.faults() == ()
    print(
        f"\nkills {kills}, acknowledged {journal.acks} {dict(journal.count)}, lost {len(lost)}; "
        f"start until it answers: median {statistics.median(pauses):.2f} s, "
        f"worst {max(pauses):.2f} s"
    )
    assert lost == []


async def acknowledged(journal: Journal, count: int) -> None:
    with anyio.move_on_after(PATIENCE_S):
        while journal.acks < count:
            await anyio.sleep(0.001)
        return
    raise AssertionError(f"the clients stand still at {dict(journal.count)}")


async def end(home: Place, random: Random) -> None:
    """Mostly at once; sometimes asked to drain, and then given the time for it or not."""
    how = random.randrange(8)
    if how == 0:
        assert await home.stop() == 0, home.said()[-3000:]
    elif how == 1:
        home.signal(signal.SIGTERM)
        for _ in range(random.randrange(10)):
            await anyio.sleep(0.01)
        await home.kill()
    else:
        await home.kill()


async def die_while_starting(home: Place, random: Random) -> None:
    """R14: recovery itself may be killed, at whatever point it has reached."""
    home.spawn()
    for _ in range(random.randrange(60)):
        await anyio.sleep(0.01)
    await home.kill()


async def compared(home: Place, journal: Journal) -> list[str]:
    """Whatever was acknowledged and is not there; everything else that is wrong fails at once."""
    lost = []
    for job_id, acked in journal.versions.items():
        at_work = journal.workflows[job_id] in ("hello", "trial")
        job = await (finished(home, job_id) if at_work else home.get(f"/jobs/{job_id}"))
        moves = await home.moves(job_id)
        lost += missing(job, acked, moves)
        lost += missing_events(job_id, journal, moves)
        once(job, moves)
    made = Counter(journal.keys.values())
    assert set(made.values()) == {1}, "two keys led to one job"
    return lost


async def finished(home: Place, job_id: str) -> Any:
    """R6: what runs in the house comes to its end by itself."""
    return await home.at(job_id, "greeted", "failed")


def missing(job: Any, acked: dict[int, str], moves: list[dict[str, Any]]) -> list[str]:
    """R1: each version that a client was told of, with the status it was told."""
    stood = {}
    for move in moves:
        stood[move["version"]] = move["to_status"]
    lost = [] if job["version"] >= max(acked) else [f"{job['id']} is at {job['version']}"]
    for version, status in acked.items():
        at = max((number for number in stood if number <= version), default=0)
        if stood.get(at) != status:
            lost.append(f"{job['id']} was {status} at version {version}, now {stood}")
    return lost


def missing_events(job_id: str, journal: Journal, moves: list[dict[str, Any]]) -> list[str]:
    """R4: each event that was accepted is there, and none is there twice."""
    found: dict[str, set[int]] = defaultdict(set)
    for move in moves:
        if move["event_id"]:
            found[move["event_id"]].add(move["version"])
    twice = {event_id: versions for event_id, versions in found.items() if len(versions) > 1}
    assert not twice, f"{job_id}: applied twice: {twice}"
    mine = {event_id for job, event_id in journal.events if job == job_id}
    return [f"{job_id}: event {event_id}" for event_id in sorted(mine - set(found))]


def once(job: Any, moves: list[dict[str, Any]]) -> None:
    """Timers fire once: as many tries as were declared, and one way back for each failure."""
    way = [move["to_status"] for move in moves]
    if job["workflow"] == "hello":
        whole = job["status"] == "greeted" and way == ["queued", "greeting", "greeted"]
        assert whole or job["failure_code"] == UNLUCKY, (job, way)
    elif job["workflow"] == "trial" and job["failure_code"] != UNLUCKY:
        assert way == ["queued", "working", "working", "working", "failed"], (job, way)
    elif job["workflow"] == "image-generation":
        assert way.count("running") <= 3, way
        for here, after in pairwise(way):
            assert here != "failed" or after in ("queued", "dead_letter"), way
    assert job["stuck"] is None, job


async def test_killed_eight_times_nothing_is_lost(tmp_path: Path) -> None:
    """R1 R2 R3 R4 R6 R13 R14 R19."""
    await kill_and_compare(tmp_path, 8)


@pytest.mark.long
async def test_killed_a_hundred_times_nothing_is_lost(tmp_path: Path) -> None:
    """R1 R2 R3 R4 R6 R13 R14 R19, at length."""
    await kill_and_compare(tmp_path, 100)
