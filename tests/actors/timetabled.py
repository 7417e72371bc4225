"""A service with schedules in the simulator's time: hours pass in a moment, the clock is set, and
the process dies where a test or a seed says so."""

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import anyio
from msgspec import Struct

from jobrunner import (
    Command,
    Context,
    Definition,
    Done,
    Edge,
    JobType,
    Lock,
    Retry,
    State,
    Workflow,
    stage,
)
from jobrunner.actors import Facade
from jobrunner.config import settings
from jobrunner.core.instants import text_of
from jobrunner.stages import Registry
from jobrunner.store.fsck import check_file
from jobrunner.testing.simulation.loop import SimLoop, simulated
from jobrunner.testing.simulation.process import Process
from jobrunner.testing.simulation.world import (
    CALM,
    DAWN_MS,
    Fate,
    Faults,
    empty_database,
    folder,
)

T = TypeVar("T")
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
JOBS = """
    SELECT j.uid, j.status, j.created_at, s.schedule, s.mark
    FROM jobs j JOIN scheduled s ON s.job = j.id ORDER BY j.id
"""
FIRINGS = """
    SELECT moment, outcome, "count", code, job_id, how FROM firings WHERE schedule = ?
    ORDER BY moment, id
"""


class NapParams(Struct, frozen=True, forbid_unknown_fields=True):
    """For how long."""

    seconds: float = 0


@stage("nap.sleep")
async def sleep(ctx: Context[NapParams]) -> Done:
    with anyio.move_on_after(ctx.params.seconds):
        await anyio.sleep_forever()
    return Done()


NAP = Definition(
    Workflow(
        name="nap",
        version="1",
        initial="queued",
        states=(
            State("queued", "queued", onward={"*": "asleep"}),
            State("asleep", "active", stage={"*": "nap.sleep"}, done="awake", limit_s=DAY_S,
                  retry=Retry("inside", failed=("failed",), max=99, base_s=1, jitter=0)),
            State("awake", "final", ends="completed"),
            State("canceled", "final", ends="canceled"),
            State("failed", "final", ends="failed"),
        ),
        edges=(
            Edge("queued", "asleep", by=("engine",)),
            Edge("asleep", "awake", by=("stage",)),
            Edge("asleep", "failed", by=("stage", "timer", "engine")),
            Edge("queued", "canceled", by=("user",)),
            Edge("asleep", "canceled", by=("user",)),
        ),
        job_types=(JobType("nap", params="params"), JobType("dear", params="params", price=0)),
        commands=(
            Command("cancel", walks={"queued": ("canceled",), "asleep": ("canceled",)}),
        ),
        locks=(Lock("job", guarded=("asleep",)),),
    ),
    structs={"params": NapParams},
)  # fmt: skip


class FiringRow(Struct, frozen=True):
    """What came of a moment, with its time in the day."""

    at: str
    outcome: str
    count: int
    code: str
    job_id: str | None
    how: str


class Timed:
    """``process`` is the service, which is started anew with the schedules that are ``named``."""

    def __init__(
        self, loop: SimLoop, place: Path, named: dict[str, Any], faults: Faults, seed: int
    ) -> None:
        self.loop = loop
        self.place = place
        self.named = named
        self.ahead_ms = 0
        self.fate = Fate(seed, faults)
        self.seed = seed
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.workflows = True
        self.process = self._process()

    @property
    def database(self) -> Path:
        return self.place / "jobs.db"

    def now(self) -> int:
        return self.process.clock.now()

    async def start(self, group: Any) -> None:
        self.process = self._process()
        self.process.clock.ahead_ms = self.ahead_ms
        group.start_soon(self.process.run)
        await self.process.up.wait()

    async def stop(self) -> None:
        await self.process.close()

    def set_clock(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self.ahead_ms += int(seconds * 1000)
        self.process.clock.ahead_ms = self.ahead_ms

    async def until(self, clock: str) -> None:
        """Let it be this time of the first days, as in ``01 02:30``."""
        day, time = clock.split()
        hours, minutes = map(int, time.split(":"))
        at = DAWN_MS + ((int(day) - 1) * DAY_S + hours * HOUR_S + minutes * MINUTE_S) * 1000
        await self.pass_s((at - self.now()) / 1000)

    async def pass_s(self, seconds: float) -> None:
        """Let so much of the simulator's time pass."""
        await self.process.clock.sleep(seconds)

    async def ask(self, ask: Callable[[Facade], Awaitable[T]]) -> T:
        return await self.process.call(ask)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.database)) as db:
            return db.execute(sql, values).fetchall()

    def jobs(self, name: str = "a") -> list[tuple[str, str]]:
        """The moments that made jobs, in the order of their births, and how these stand."""
        return [
            (told(int(mark)), status)
            for _, status, _, schedule, mark in self.rows(JOBS)
            if schedule == name
        ]

    def born(self, name: str = "a") -> list[str]:
        """When its jobs were born."""
        return [told(at) for _, _, at, schedule, _ in self.rows(JOBS) if schedule == name]

    def firings(self, name: str = "a") -> list[FiringRow]:
        return [FiringRow(told(moment), *rest) for moment, *rest in self.rows(FIRINGS, name)]

    def outcomes(self, name: str = "a") -> list[tuple[str, str]]:
        return [(one.at, one.outcome) for one in self.firings(name)]

    def _process(self) -> Process:
        config = settings.Config(
            server=settings.ServerSection(drain_seconds=5),
            store=settings.StoreSection(str(self.database), str(self.place / "assets")),
            limits=settings.LimitsSection(active_jobs=64, per_user_active=64),
            schedules=self.named,
        )
        return Process(
            self.loop, self.place, config, self._installed, self.seed, self.fate,
            lambda what, **fields: None, self._log,
        )  # fmt: skip

    def _installed(self) -> Registry:
        registry = Registry()
        registry.add(sleep)
        if self.workflows:
            registry.add(NAP)
            assert not registry.refused["workflows"], registry.refused
        return registry

    def _log(self, event: str, level: str = "info", **fields: Any) -> None:
        self.logged.append((event, fields))


def told(at: int) -> str:
    """The day of the month and the time."""
    return text_of(at)[8:16].replace("T", " ")


def every(seconds: float, **more: Any) -> settings.ScheduleSettings:
    return settings.ScheduleSettings(workflow="nap", user="ada", every=seconds, **more)


def played(
    play: Callable[[Timed, Any], Awaitable[None]],
    seed: int = 1,
    faults: Faults = CALM,
    **named: settings.ScheduleSettings,
) -> None:
    """Play with a service that has these schedules, from midnight on. Whatever was played, its file
    is whole."""

    async def run(loop: SimLoop) -> None:
        scene = Timed(loop, place, named, faults, seed)
        async with anyio.create_task_group() as group:
            await scene.start(group)
            await play(scene, group)
            await scene.stop()
            group.cancel_scope.cancel()
        bugs = [one for one in scene.logged if one[0] == "service.fault"]
        assert not bugs, bugs
        assert check_file(str(scene.database)) == ()

    with folder() as place:
        empty_database(place / "jobs.db")
        simulated(run, seed)
