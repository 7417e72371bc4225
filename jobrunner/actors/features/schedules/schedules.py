"""Schedules as callers see them: made, changed, paused, triggered, and made up for.

Those of the settings are brought into the table at a start and belong to the file; others are made
and changed by callers. What is here in memory is what the table says.
"""

from collections.abc import Iterable

import anyio
from msgspec.structs import replace

from jobrunner.actors.features.schedules.firings import Firings, NotNow
from jobrunner.actors.features.schedules.timekeeping import StandingSchedule, Timekeeper
from jobrunner.actors.shared import World
from jobrunner.actors.tasks import Crew
from jobrunner.core.features.schedules.schedules import (
    DropSchedule,
    HoldSchedule,
    KeepSchedule,
    MomentDone,
    Overlap,
    Owner,
    Schedule,
    StoredSchedule,
    between,
    mark_of,
    misfits,
)
from jobrunner.core.instants import text_of
from jobrunner.core.job import Actor, Paused
from jobrunner.core.units import AuditRecord, Note
from jobrunner.errors import Refused

BACKFILL_MAX = 1000


class Schedules:
    """``named`` are those of the settings."""

    def __init__(self, world: World, firings: Firings, named: Iterable[Schedule] = ()) -> None:
        self._world = world
        self._firings = firings
        self._named = tuple(named)
        self._crew: Crew | None = None
        self._turn = anyio.Lock()
        self.standing: dict[str, StandingSchedule] = {}
        self._keeper = Timekeeper(world, firings, self.standing)

    async def begin(self, crew: Crew) -> None:
        """Bring those of the settings into the table, and begin if there are any at all."""
        self._crew = crew
        if not self._named and not self._world.store.scheduled:
            return
        for stored in await self._world.reader.schedules():
            self.standing[stored.schedule.name] = StandingSchedule(stored)
        await self._settle()
        self._start()

    # ------------------------------------------------------------ what callers ask for

    def found(self, name: str) -> StandingSchedule:
        """Raises: Refused NOT_FOUND"""
        if (one := self.standing.get(name)) is None:
            known = ", ".join(sorted(self.standing)) or "none"
            raise Refused("NOT_FOUND", f"there is no schedule {name!r}; there are: {known}")
        return one

    async def keep(self, schedule: Schedule, by: Actor, *, fresh: bool = False) -> bool:
        """Make a schedule, or change one; True if there was none of this name.

        Raises: Refused ALREADY_EXISTS, SCHEDULE_OF_FILE
        """
        async with self._turn:
            known = self.standing.get(schedule.name)
            if known is not None and fresh:
                raise Refused("ALREADY_EXISTS", f"there is a schedule {schedule.name!r} already")
            if known is not None:
                _refuse_owned(known)
            await self._keep(schedule, "http", by.name)
            self._start()
            self._keeper.nudge.set()
            return known is None

    async def drop(self, name: str, by: Actor) -> None:
        """Forget a schedule; its jobs stay.

        Raises: Refused NOT_FOUND, SCHEDULE_OF_FILE
        """
        async with self._turn:
            _refuse_owned(self.found(name))
            await self._keeper.write(DropSchedule(name, by.name, self._world.clock.now()))
            self.standing.pop(name, None)

    async def pause(self, name: str, by: Actor, reason: str | None) -> bool:
        """Fire nothing of it until it is resumed; False if it was paused before."""
        async with self._turn:
            one, now = self.found(name), self._world.clock.now()
            if one.stored.paused is not None:
                return False
            paused = Paused(by.name, now, reason)
            before, one.stored = one.stored, replace(one.stored, paused=paused)
            try:
                await self._keeper.write(HoldSchedule(name, paused, by.name, now, reason))
            except BaseException:
                one.stored = before
                raise
            return True

    async def resume(self, name: str, by: Actor, reason: str | None) -> bool:
        """Let it go on from now; False if it was not paused."""
        async with self._turn:
            one, now = self.found(name), self._world.clock.now()
            if one.stored.paused is None:
                return False
            await self._keeper.write(HoldSchedule(name, None, by.name, now, reason))
            one.go_on(paused=None, up_to=max(one.stored.up_to, now))
            self._keeper.nudge.set()
            return True

    async def trigger(
        self, name: str, key: str, overlap: Overlap | None, by: str = ""
    ) -> tuple[str, bool]:
        """Fire it now, for nobody's moment; under one key once. Return the job, and whether it was
        there before.

        Raises: Refused, also whatever refuses its job
        """
        one, now = self.found(name), self._world.clock.now()
        done = MomentDone(name, f"trigger:{key}", now, now, "trigger", by=by)
        policy = overlap or one.schedule.overlap
        told = await self._firings.fire(one.schedule, done, one.stored.last_job, policy)
        if isinstance(told, NotNow) or told.job_id is None:
            raise Refused(told.code, told.detail, status=self._status(one.schedule, told.code))
        if told.outcome == "fired":
            one.stored = replace(one.stored, last_job=told.job_id)
            self._keeper.tell(told)
        return told.job_id, told.outcome == "same"

    def _status(self, schedule: Schedule, code: str) -> int:
        """The HTTP status of a workflow's own code; 0 for one of the engine's."""
        definition = self._world.registry.current(schedule.workflow)
        return definition.workflow.codes.get(code, 0) if definition else 0

    def span(self, name: str, from_at: int, to_at: int) -> list[int]:
        """List the moments of a span that is over.

        Raises: Refused VALIDATION_ERROR, for one with too many
        """
        found = between(self.found(name).schedule, from_at, to_at, BACKFILL_MAX)
        if len(found) > BACKFILL_MAX:
            detail = f"to: more than {BACKFILL_MAX} moments; take a shorter span, and the next then"
            errors = [{"path": "$.to", "message": detail}]
            raise Refused("VALIDATION_ERROR", detail, errors=errors)
        return found

    async def backfill(self, name: str, moments: list[int], by: str = "") -> list[MomentDone]:
        """Fire moments that are over, oldest first, each that made no job yet. Whatever waits for
        an end of others is not waited for. The audit has the order before any of them fires."""
        one, told = self.found(name), []
        if by and moments:
            fields = {"name": name, "moments": len(moments)}
            fields |= {"from": text_of(moments[0]), "to": text_of(moments[-1])}
            record = AuditRecord("schedule.backfilled", by, fields)
            await self._keeper.write(Note(record, self._world.clock.now()))
        for moment in moments:
            now = self._world.clock.now()
            done = MomentDone(name, mark_of(moment), moment, now, "backfill")
            over = await self._firings.fire(one.schedule, done, None, "allow")
            if isinstance(over, NotNow):
                over = replace(done, outcome="refused", code=over.code, detail=over.detail)
            elif over.outcome != "same":
                self._keeper.tell(over)
            told.append(over)
        return told

    def is_loaded(self, schedule: Schedule) -> bool:
        return self._world.registry.current(schedule.workflow) is not None

    def misfit(self, schedule: Schedule) -> str:
        """Say why it could not make a job today; empty, if it could."""
        definition = self._world.registry.current(schedule.workflow)
        if definition is None:
            return f"workflow {schedule.workflow!r} is not loaded; it waits until that is back"
        return "; ".join(f"{path}: {fault}" for path, fault in misfits(schedule, definition))

    # ------------------------------------------------------------ the table

    async def _settle(self) -> None:
        """Make the table say what the settings say of their schedules."""
        now_named = {schedule.name: schedule for schedule in self._named}
        for name, one in list(self.standing.items()):
            if one.stored.owner == "file" and name not in now_named:
                await self._keeper.write(DropSchedule(name, "file", self._world.clock.now()))
                del self.standing[name]
        for schedule in self._named:
            known = self.standing.get(schedule.name)
            if known is None or (known.schedule, known.stored.owner) != (schedule, "file"):
                await self._keep(schedule, "file", "file")
            if fault := self.misfit(schedule):
                self._world.say(
                    "schedule.unfit", level="error", schedule=schedule.name, detail=fault
                )

    async def _keep(self, schedule: Schedule, owner: Owner, by: str) -> None:
        """Store it. One whose times are others now begins now: nothing of before is made up for."""
        now, known = self._world.clock.now(), self.standing.get(schedule.name)
        moved = known is None or known.schedule.timetable != schedule.timetable
        up_to = now if moved else None
        await self._keeper.write(KeepSchedule(schedule, owner, by, now, up_to, fresh=known is None))
        if known is None:
            stored = StoredSchedule(schedule, owner, now, None, None, None, by, now, now)
            self.standing[schedule.name] = StandingSchedule(stored)
        else:
            kept_to = known.stored.up_to if up_to is None else up_to
            known.go_on(schedule=schedule, owner=owner, up_to=kept_to, changed_at=now)

    def _start(self) -> None:
        if self.standing:
            assert self._crew is not None, "begun"
            self._keeper.begin(self._crew)


def _refuse_owned(one: StandingSchedule) -> None:
    if one.stored.owner == "file":
        name = one.schedule.name
        detail = (
            f"schedule {name!r} stands in config.toml: change [schedules.{name}] there, and start "
            "the service again; over HTTP it can be paused, resumed, triggered and backfilled"
        )
        raise Refused("SCHEDULE_OF_FILE", detail)
