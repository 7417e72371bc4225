"""Looks after the store's file beside the work: keeps its log small, and gives unused room back to
the disk, a few pages at a time.

Some room is left: what is deleted today is filled tomorrow, and a file that shrinks and grows by
turns costs more than one that stays as it is.
"""

from typing import Any

import anyio

from jobrunner.actors.requester import asked
from jobrunner.actors.shared import World
from jobrunner.core.keeping.upkeep import FileInfo
from jobrunner.core.units import AuditRecord, Note
from jobrunner.store.keeping.upkeep import Tended

TEND_EVERY_S = 1.0
TOLD_EVERY_S = 60.0
SPARE_SHARE = 10
SPARE_BYTES = 4 * 1024**2
PAGES = 64
RESTS = 4.0
REST_MAX_S = 0.25


class Upkeep:
    def __init__(self, world: World) -> None:
        self._store = world.store
        self._world = world
        self._turn = anyio.Lock()
        self._told_at: float | None = None

    async def run(self) -> None:
        """Look after the file for as long as the service runs."""
        while True:
            await self._world.clock.sleep(TEND_EVERY_S)
            found = await self._store.keeper.tend()
            self._tell_of_log(found)
            if found.free_pages > _spared(found):
                await self._give_back(_spared(found), TOLD_EVERY_S)

    async def compact(self, actor: str, within_s: float) -> int:
        """Give back all unused pages, for at most so long, as somebody orders; say how many are
        left."""
        before = (await self._store.keeper.tend()).free_pages
        left = await self._give_back(0, within_s)
        fields: dict[str, Any] = {"pages": before - left, "left": left}
        record = AuditRecord("store.compacted", actor, fields)
        await self._world.commit(asked(Note(record, self._world.clock.now())))
        self._world.say("store.compacted", actor=actor, **fields)
        return left

    async def info(self) -> FileInfo:
        return await self._store.keeper.info()

    async def _give_back(self, spared: int, within_s: float) -> int:
        """Give back pages in steps, each followed by a rest that is longer than it took."""
        clock = self._world.clock
        until_s = clock.monotonic() + within_s
        async with self._turn:
            left = (await self._store.keeper.tend()).free_pages
            while left > spared and clock.monotonic() < until_s and not self._world.draining:
                began_s = clock.monotonic()
                before, left = left, await self._store.keeper.give_back(min(PAGES, left - spared))
                if left >= before:
                    break
                await clock.sleep(min((clock.monotonic() - began_s) * RESTS, REST_MAX_S))
                await self._give_way(until_s)
            return left

    async def _give_way(self, until_s: float) -> None:
        clock = self._world.clock
        until_s = min(until_s, clock.monotonic() + REST_MAX_S)
        while self._store.waiting() and clock.monotonic() < until_s:
            await clock.sleep(0.005)

    def _tell_of_log(self, found: Tended) -> None:
        """Once a minute while it is too large: nobody but its readers can change that."""
        now_s = self._world.clock.monotonic()
        if not found.too_large:
            if self._told_at is not None:
                self._world.say("store.wal_cut", bytes=found.wal_bytes)
            self._told_at = None
        elif self._told_at is None or now_s - self._told_at >= TOLD_EVERY_S:
            self._told_at = now_s
            self._world.say(
                "store.wal_held",
                level="warning",
                bytes=found.wal_bytes,
                readers=list(found.readers),
                detail="somebody reads in the log and does not end: it grows until they do",
            )


def _spared(found: Tended) -> int:
    return max(found.pages // SPARE_SHARE, SPARE_BYTES // max(found.page_bytes, 1))
