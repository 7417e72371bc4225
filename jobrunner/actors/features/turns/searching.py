"""Finds who may have a slot: in the heads of lines that are known, and in the table where it alone
knows.

The table is asked for a user of whose head nobody fits though more wait behind it. A head is
forgotten when others may be called than when it was learned: a workflow was paused or goes on, or
a stage has no turn left or has one again.
"""

from collections.abc import Collection
from functools import partial

from jobrunner.actors.features.turns.known_line import InLine
from jobrunner.actors.shared import World
from jobrunner.actors.slots import Slots
from jobrunner.core.features.turns.in_line import Waiting

ROUNDS_MAX = 8
HEAD = 8
HEADS = 64
Names = frozenset[str]


class Search:
    def __init__(self, world: World, slots: Slots) -> None:
        self._world = world
        self._slots = slots

    async def heads(
        self, line: InLine, ready: tuple[str, ...], later: Collection[str]
    ) -> list[Waiting]:
        """Find the first in the line of each user, in ``ready`` workflows. ``later`` are jobs that
        could not be asked."""
        passed, short, most = set(self._slots.crowded()), self._short(), self._slots.room + HEAD
        line.look((ready, short))
        found = line.known(passed, most, partial(self._fits, ready, short))
        strangers = line.strangers() - passed
        if not self._world.turns.are_asked:
            strangers -= {one.user_id for one in found}
        return await self._with_told(line, found, strangers, most + len(later), ready, short)

    async def everybody(
        self, line: InLine, ready: tuple[str, ...], later: Collection[str]
    ) -> list[Waiting]:
        """Find also those whose turn it is not yet, if all goes well."""
        passed, short = set(self._slots.crowded()), self._short()
        most = self._slots.limits.active_jobs + len(later)
        found = line.known(passed, None, partial(self._fits, ready, short))
        return await self._with_told(line, found, line.strangers() - passed, most, ready, short)

    async def _with_told(
        self,
        line: InLine,
        found: list[Waiting],
        strangers: set[str],
        most: int,
        ready: tuple[str, ...],
        short: Names,
    ) -> list[Waiting]:
        if not strangers:
            return found
        known = [one for one in found if one.user_id not in strangers]
        return known + await self._told(line, strangers, most, ready, short)

    async def _told(
        self, line: InLine, strangers: set[str], most: int, ready: tuple[str, ...], short: Names
    ) -> list[Waiting]:
        """Ask the table: for as many as may run and those behind them, and for more users if there
        are more who wait."""
        found, keyed = list[Waiting](), self._world.turns.are_asked
        most = most if keyed else max(most, HEADS)
        passed = {*self._slots.crowded()} | line.users() - strangers
        full = self._world.registry.places(short) if short else ()
        line.ask()
        for _ in range(ROUNDS_MAX):
            if strangers <= passed:
                break
            told = await self._world.turns.line(most, ready, tuple(sorted(passed)), full)
            found += told
            passed |= {one.user_id for one in told}
            if len(told) < most:
                break
        line.learn(() if keyed else found)
        return found

    def _short(self) -> Names:
        """Name the stages for which nobody needs to be called: they are paused, or have no turn or
        resource left."""
        stages = self._world.registry.stages.items()
        short = frozenset(name for name, stage in stages if self._slots.short_of(stage))
        return short | self._world.pauses.stages.keys()

    def _fits(self, ready: tuple[str, ...], short: Names, one: Waiting) -> bool:
        if one.workflow not in ready:
            return False
        bound_at = self._world.registry.bound_at
        return not short or bound_at(one.workflow, one.status, one.job_type) not in short
