"""Watches the health of the service: ``/readyz`` tells of it, and a store that is lost ends it."""

from collections.abc import Callable, Mapping

from jobrunner.actors.commits import Announce
from jobrunner.actors.shared import World
from jobrunner.errors import OutcomeUnknown, StorageError
from jobrunner.stages.process.code import stale_stages
from jobrunner.store.store import Store

TICK_S = 1.0
LOOK_EVERY_S = 8.0
SEEN_EVERY_S = 30.0
LAG_MAX_S = 2.0
UNREADABLE_MAX_S = 16.0
UNSEEN_MAX_S = 25.0
STRAYS_MAX = 4


class Health:
    """The loop's lag is measured by how late a nap ends; the file is looked at now and then, and
    the writer proves now and then that it can write. ``refusal``: why nobody is answered."""

    def __init__(self, store: Store, world: World, refusal: Callable[[], str] = lambda: "") -> None:
        self._store = store
        self._refusal = refusal
        self._world = world
        self._clock = world.clock
        self._lag_s = 0.0
        self._file_fault = ""
        self._write_fault = ""
        self._told_stale = set[str]()
        now = world.clock.monotonic()
        self._looked_at, self._readable_at, self._touched_at = now, now, now

    async def __call__(self) -> Mapping[str, str]:
        faults = {}
        if self._world.draining:
            faults["drain"] = "the service is stopping"
        if self._lag_s > LAG_MAX_S:
            faults["loop"] = f"the event loop lags {self._lag_s:.1f} s behind{self._suspects()}"
        if fault := self._file_fault or self._write_fault or self._silence():
            faults["store"] = fault
        if refusal := self._refusal():
            faults["standby"] = refusal
        if self._world.children.strays >= STRAYS_MAX:
            faults["threads"] = "stages in threads go on though their time is over; restart"
        if deaf := self._world.roster.those_deaf():
            faults["stages"] = f"told to stop, and go on: {', '.join(deaf)}; restart"
        return faults

    async def watch(self, log: Announce) -> None:
        """A loop that was held up is told with the stages that ran in it: it may be one of them."""
        while True:
            before = self._clock.monotonic()
            suspects = self._world.roster.those_in_loop()
            await self._clock.sleep(TICK_S)
            self._lag_s = max(self._clock.monotonic() - before - TICK_S, 0)
            if self._lag_s > LAG_MAX_S:
                found = sorted({*suspects, *self._world.roster.those_in_loop()})
                log("loop.blocked", level="error", seconds=round(self._lag_s, 1), stages=found)

    def _suspects(self) -> str:
        found = self._world.roster.those_in_loop()
        return f"; in it run {', '.join(found)}" if found else ""

    async def look(self, log: Announce) -> None:
        """Look at the disk, apart from the task that measures the lag: a disk may take its time."""
        while True:
            await self._clock.sleep(LOOK_EVERY_S)
            await self._look(log)
            if self._clock.monotonic() - self._touched_at >= SEEN_EVERY_S:
                await self._touch(log)

    def _silence(self) -> str:
        silent_s = self._clock.monotonic() - self._looked_at
        return f"the disk has not answered for {silent_s:.0f} s" if silent_s > UNSEEN_MAX_S else ""

    async def _look(self, log: Announce) -> None:
        condition = await self._store.condition()
        now = self._looked_at = self._clock.monotonic()
        if condition.fault != self._file_fault:
            level = "error" if condition.fault else "info"
            log("storage.looked_at", level=level, detail=condition.fault or "all is well again")
        self._tell_of_changed_code(log)
        self._file_fault = condition.fault
        if not condition.unreadable:
            self._readable_at = now
        if condition.lost:
            self._world.loss.give_up(OutcomeUnknown(condition.lost))
        elif now - self._readable_at >= UNREADABLE_MAX_S:
            self._world.loss.give_up(OutcomeUnknown(condition.unreadable))

    def _tell_of_changed_code(self, log: Announce) -> None:
        """Once of each stage that begins nothing before a restart."""
        for stage, where in stale_stages().items():
            if stage not in self._told_stale:
                self._told_stale.add(stage)
                detail = "its code has changed since the start; restart the service"
                log("stage.changed", level="error", stage=stage, file=where, detail=detail)

    async def _touch(self, log: Announce) -> None:
        self._touched_at = self._clock.monotonic()
        try:
            await self._store.mark_alive()
            self._write_fault = ""
        except StorageError as error:
            self._write_fault = str(error)
            if isinstance(error, OutcomeUnknown):
                self._world.loss.give_up(error)
            log("storage.fault", level="error", detail=str(error))
