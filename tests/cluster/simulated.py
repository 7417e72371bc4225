"""A cluster that there is not, against the dispatcher that there is: ``python -m tests.cluster``.

A thousand workers are a semaphore, and a stage there is a moment of sleep; all else is the real
service, without its door: dispatcher, actors, decisions, commits to a file that is flushed. So what
gives way is ours. It prints how many stages ended each second, and what each part was busy with.
"""

import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import CLOCK_MONOTONIC, clock_gettime
from typing import Any

import anyio
from msgspec import Struct

from jobrunner import (
    Context,
    Deadline,
    Definition,
    Done,
    Edge,
    JobType,
    Lock,
    Retry,
    Stage,
    State,
    Workflow,
)
from jobrunner.app import LiveService, running
from jobrunner.config.settings import Config, LimitsSection, ServerSection, StoreSection
from jobrunner.core.features.meter import Meter
from jobrunner.core.job import Actor
from jobrunner.core.messages import Submit
from jobrunner.ports import SystemClock, SystemIds
from jobrunner.stages import Registry

STEPS = 5
LIMIT_S = 10_000.0
FEEDERS = 64
OWNERS = 50
CLOCK = SystemClock()
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Demand:
    """So many workers, each busy for so long with a stage: what they could do each second."""

    workers: int
    stage_s: float

    @property
    def stages_s(self) -> float:
        return self.workers / self.stage_s


@dataclass
class Cluster:
    """Workers that take a stage each: so many have one now, so many stages have ended."""

    demand: Demand
    ended: int = 0
    busy: int = 0

    async def run(self) -> None:
        self.busy += 1
        try:
            await CLOCK.sleep(self.demand.stage_s)
        finally:
            self.busy -= 1
            self.ended += 1


@dataclass
class Found:
    """What one span of time has shown."""

    demand: Demand
    stages_s: float
    busy_workers: float
    loop: float
    writer: float
    units_a_commit: float
    lag_s: float
    kib: int

    def told(self) -> str:
        wanted, each = self.demand, 1000 / max(self.stages_s, 1)
        return "; ".join(
            [
                f"{wanted.workers} workers, stages of {wanted.stage_s:g} s",
                f"wanted {wanted.stages_s:,.0f}/s, ended {self.stages_s:,.0f}/s",
                f"{self.busy_workers:,.0f} workers busy",
                f"loop {self.loop:.0%} of a core, {self.loop * each:.2f} ms a stage",
                f"other threads {self.writer:.0%}, {self.writer * each:.2f} ms a stage",
                f"{self.units_a_commit:.0f} units a commit",
                f"loop late by at most {self.lag_s:.2f} s",
                f"{self.kib // 1024} MiB",
            ]
        )


class Nothing(Struct, frozen=True):
    """A job says nothing of itself."""


@dataclass
class Counting:
    """Commits and units, as the meter hears them."""

    commits: int = 0
    units: int = 0


def definition() -> Definition:
    """A line of stages that all work on the cluster."""
    places = [f"step_{number}" for number in range(1, STEPS + 1)]
    active = tuple(
        State(
            place,
            "active",
            stage={"*": "cluster.step"},
            done=then,
            limit_s=LIMIT_S,
            deadline=Deadline(2 * LIMIT_S),
            retry=Retry("inside", failed=("failed",)),
        )
        for place, then in zip(places, [*places[1:], "done"], strict=True)
    )
    edges = [Edge("queued", places[0], by=("engine", "workflow"))]
    edges += [Edge(a, b, by=("stage", "workflow")) for a, b in pairwise(places)]
    edges += [Edge(places[-1], "done", by=("stage", "workflow"))]
    edges += [Edge(one, "failed", by=("stage", "timer", "engine", "workflow")) for one in places]
    workflow = Workflow(
        name="clustered",
        version="1",
        initial="queued",
        states=(
            State("queued", "queued", onward={"*": places[0]}),
            *active,
            State("done", "final", ends="completed"),
            State("failed", "final", ends="failed", fails=("failure_message",)),
        ),
        edges=tuple(edges),
        job_types=(JobType("job", params="params"),),
        locks=(Lock("job", guarded=tuple(places)),),
    )
    return Definition(workflow, structs={"params": Nothing})


@asynccontextmanager
async def service(folder: Path, cluster: Cluster) -> AsyncIterator[LiveService]:
    """The service with this cluster behind its stages."""

    async def step(ctx: Context[Any]) -> Done:
        await cluster.run()
        return Done(result={"ok": True})

    registry = Registry()
    registry.add(Stage("cluster.step", step, concurrency=cluster.demand.workers))
    registry.add(definition())
    assert not registry.refused["workflows"], registry.refused["workflows"]
    config = Config(
        server=ServerSection(port=0, drain_seconds=0),
        store=StoreSection(path=str(folder / "jobs.db"), assets=str(folder / "assets")),
        limits=LimitsSection(
            active_jobs=cluster.demand.workers,
            per_user_active=cluster.demand.workers,
            queued_jobs=1_000_000,
        ),
    )
    async with running(config, lambda *event, **fields: None, registry=registry) as live:
        yield live


async def feed(live: LiveService, line: int) -> None:
    """Keep so many jobs in line or at work."""
    ids = SystemIds(CLOCK)
    made = 0
    while True:
        if live.facade.dispatcher.backlog >= line:
            await anyio.sleep(0.02)
            continue
        owner = Actor(f"user-{made % OWNERS}", "user")
        made += 1
        await live.facade.submit(Submit(owner, "clustered", "job", {}, ids.fresh()))


async def measure(folder: Path, demand: Demand, seconds: float, warm: float) -> Found:
    """Let it run for a while, then look for a while."""
    cluster, counting = Cluster(demand), Counting()
    async with service(folder, cluster) as live:
        heard = live.facade.world.meter
        listen(heard, counting)
        async with anyio.create_task_group() as group:
            for _ in range(FEEDERS):
                group.start_soon(feed, live, max(demand.workers, 256))
            await CLOCK.sleep(warm)
            found = await looked(cluster, counting, seconds)
            group.cancel_scope.cancel()
    return found


def listen(meter: Meter, counting: Counting) -> None:
    """Hear what the writer says, beside whoever hears it already."""
    told = meter.committed

    def committed(units: int, batch_s: float, commit_s: float) -> None:
        counting.commits += 1
        counting.units += units
        told(units, batch_s, commit_s)

    meter.committed = committed  # type: ignore[method-assign]


async def looked(cluster: Cluster, counting: Counting, seconds: float) -> Found:
    began, ended, busy = now(), cluster.ended, 0.0
    loop, every = cpu()
    commits, units, lag, looks = counting.commits, counting.units, 0.0, 0
    while now() - began < seconds:
        before = now()
        await anyio.sleep(0.05)
        lag = max(lag, now() - before - 0.05)
        busy += cluster.busy
        looks += 1
    took = now() - began
    loop_after, every_after = cpu()
    loop_s, others_s = loop_after - loop, every_after - every - (loop_after - loop)
    return Found(
        cluster.demand,
        (cluster.ended - ended) / took,
        busy / looks,
        loop_s / took,
        others_s / took,
        (counting.units - units) / max(counting.commits - commits, 1),
        lag,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )


def now() -> float:
    return clock_gettime(CLOCK_MONOTONIC)


def cpu() -> tuple[float, float]:
    """Seconds of the loop's thread, and of all threads."""
    found = {
        task.name: sum(map(int, (task / "stat").read_text().rpartition(")")[2].split()[11:13]))
        for task in Path("/proc/self/task").iterdir()
    }
    return found[str(os.getpid())] / TICKS, sum(found.values()) / TICKS
