"""One task for all schedules: it sleeps until the next moment of any of them, and lets it fire.

What is due follows from what is stored of a schedule and from the time (``plan``), so a look that
was cut off is simply repeated, and a clock that was set only leads to another look. There is no
such task while there are no schedules.
"""

import asyncio
import math
from typing import Any

import anyio
from msgspec.structs import replace

from jobrunner.actors.commits import ours
from jobrunner.actors.features.schedules.firings import DETAIL_MAX, Firings, NotNow
from jobrunner.actors.requester import asked
from jobrunner.actors.shared import World
from jobrunner.actors.tasks import Crew
from jobrunner.core.decision import Clash, Unit
from jobrunner.core.features.schedules.schedules import (
    MissedMoments,
    MomentDone,
    Reached,
    Schedule,
    StoredSchedule,
    mark_of,
    missed_mark,
    plan,
)
from jobrunner.core.features.schedules.timetable import LAST_MS
from jobrunner.errors import JobrunnerError, bug_told

SLEEP_MAX_S = 60.0
AGAIN_S, AGAIN_MAX_S = 1.0, 60.0
AT_ONCE = 16


class StandingSchedule:
    """A schedule as it stands. ``wake_at`` is when it has something to do, as far as that is known.
    ``held`` is why its moment could not be fired yet, since ``held_since``; ``again_s`` is when
    that is tried again, by the clock that is never set; ``watched`` is the job whose end is
    waited for."""

    def __init__(self, stored: StoredSchedule) -> None:
        self.stored = stored
        self.wake_at = 0
        self.held: NotNow | None = None
        self.held_since: int | None = None
        self.tries = 0
        self.again_s = 0.0
        self.watched: str | None = None

    @property
    def schedule(self) -> Schedule:
        return self.stored.schedule

    def go_on(self, **changes: Any) -> None:
        self.stored = replace(self.stored, **changes)
        self.wake_at, self.held, self.tries = 0, None, 0
        self.held_since = None


class Timekeeper:
    """``standing`` are the schedules there are, by name; ``crew`` has the task. ``nudge`` is set
    when one of them is another than before."""

    def __init__(
        self, world: World, firings: Firings, standing: dict[str, StandingSchedule]
    ) -> None:
        self._world = world
        self._firings = firings
        self._crew: Crew | None = None
        self.standing = standing
        self.nudge = asyncio.Event()

    def begin(self, crew: Crew) -> None:
        """Begin to fire, if that was not begun before."""
        if self._crew is None:
            self._crew = crew
            crew.keep(self.run)

    async def run(self) -> None:
        """Fire whatever is due, then sleep until something is, for ever."""
        while True:
            self.nudge.clear()
            naps: list[float] = []
            limit = anyio.CapacityLimiter(AT_ONCE)
            async with anyio.create_task_group() as group:
                for one in list(self.standing.values()):
                    if (nap_s := self._rests_s(one)) is None:
                        group.start_soon(self._serve, one, limit, naps)
                    else:
                        naps.append(nap_s)
            rest_s = min(naps, default=math.inf)
            with anyio.move_on_after(None if rest_s == math.inf else min(rest_s, SLEEP_MAX_S)):
                await self.nudge.wait()

    def _rests_s(self, one: StandingSchedule) -> float | None:
        """Say for how long nothing is due; None, where something may be."""
        if one.stored.paused is not None or self._world.draining:
            return math.inf
        now = self._world.clock.now()
        if one.wake_at > now >= one.stored.up_to:
            return (one.wake_at - now) / 1000
        return None

    async def _serve(
        self, one: StandingSchedule, limit: anyio.CapacityLimiter, naps: list[float]
    ) -> None:
        """Do what is due of it, and say when to look again. A fault of one is not the others'."""
        async with limit:
            try:
                while self._is_served(one):
                    nap_s = await self._step(one)
                    if nap_s is not None:
                        naps.append(nap_s)
                        return
            except JobrunnerError as fault:
                naps.append(AGAIN_S)
                self._say_held(one, "STORAGE_FAULT", str(fault))
            except Exception as bug:  # noqa: BLE001 - it costs this schedule a minute, and is told
                naps.append(SLEEP_MAX_S)
                self._world.say("service.fault", level="error", task="Schedules.run",
                                schedule=one.schedule.name, **bug_told(bug))  # fmt: skip

    def _is_served(self, one: StandingSchedule) -> bool:
        here = self.standing.get(one.schedule.name) is one
        return here and one.stored.paused is None and not self._world.draining

    async def _step(self, one: StandingSchedule) -> float | None:
        """Do one thing; or nothing, and say for how long nothing is to be done."""
        now = self._world.clock.now()
        if one.stored.up_to > now:  # the clock was set back
            await self.write(Reached(one.schedule.name, now))
            one.go_on(up_to=now)
        todo = plan(one.schedule, one.stored.up_to, now)
        if todo.missed is not None:
            await self._miss(one, todo.missed, now)
            return None
        if todo.due is None:
            one.wake_at = LAST_MS if todo.wake_at is None else todo.wake_at
            return (one.wake_at - now) / 1000
        wait_s = one.again_s - self._world.clock.monotonic()
        if one.held is not None and wait_s > 0:
            return wait_s
        return await self._fire(one, todo.due, now)

    async def _fire(self, one: StandingSchedule, moment: int, now: int) -> float | None:
        stored = one.stored
        done = MomentDone(one.schedule.name, mark_of(moment), moment, now, up_to=moment)
        told = await self._firings.fire(one.schedule, done, stored.last_job, one.schedule.overlap)
        if isinstance(told, NotNow):
            return self._hold(one, told)
        last_job = told.job_id if told.outcome == "fired" else one.stored.last_job
        failed_at = now if told.outcome == "refused" else one.stored.failed_at
        one.go_on(up_to=max(one.stored.up_to, moment), last_job=last_job, failed_at=failed_at)
        self.tell(told)
        return None

    def _hold(self, one: StandingSchedule, why: NotNow) -> float:
        """Try again later: at the latest when its moment is too late, or another one comes."""
        if one.held is None or one.held.code != why.code:
            self._say_held(one, why.code, why.detail)
            one.tries = 0
        one.held = why
        one.held_since = one.held_since or self._world.clock.now()
        nap_s = min(AGAIN_S * 2.0 ** min(one.tries, 10), AGAIN_MAX_S)
        one.tries += 1
        if why.job_id is not None:
            nap_s = SLEEP_MAX_S
            self._watch(one, why.job_id)
        one.again_s = self._world.clock.monotonic() + nap_s
        return nap_s

    def _watch(self, one: StandingSchedule, job_id: str) -> None:
        if one.watched != job_id and self._crew is not None:
            one.watched = job_id
            self._crew.start_soon(self._until_over, one, job_id)

    async def _until_over(self, one: StandingSchedule, job_id: str) -> None:
        """Look again as soon as the job before has ended."""
        with self._world.watchers.ending(job_id) as end:
            job = await self._world.reader.job(job_id)
            if job is not None and not job.ended:
                await end
        one.watched, one.again_s = None, 0.0
        self.nudge.set()

    def _say_held(self, one: StandingSchedule, code: str, detail: str) -> None:
        name = one.schedule.name
        self._world.say(
            "schedule.waits", level="warning", schedule=name, error_code=code, detail=detail
        )

    async def _miss(self, one: StandingSchedule, missed: MissedMoments, now: int) -> None:
        """Write down what will not fire any more, and what held it up last, if anything did."""
        held = one.held
        done = MomentDone(
            one.schedule.name, missed_mark(missed.first), missed.first, now,
            outcome="missed", up_to=missed.last, last=missed.last, count=missed.count,
            code=held.code if held else "", detail=held.detail if held else missed.why,
        )  # fmt: skip
        await self.write(replace(done, detail=done.detail[:DETAIL_MAX]))
        one.go_on(up_to=max(one.stored.up_to, missed.last), failed_at=now)
        self.tell(done)

    def tell(self, done: MomentDone) -> None:
        failed = done.outcome in ("refused", "missed")
        self._world.meter.scheduled(done.schedule, done.outcome, done.count)
        self._world.say(
            f"schedule.{done.outcome}",
            level="warning" if failed else "info",
            schedule=done.schedule,
            moment=done.moment,
            how=done.how,
            job_id=done.job_id,
            error_code=done.code,
            count=done.count,
        )

    async def write(self, unit: Unit) -> None:
        outcome = ours(await self._world.commit(asked(unit)))
        assert not isinstance(outcome, Clash), f"{unit} clashes: {outcome}"
