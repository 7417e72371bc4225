"""Copies the files of jobs behind the commits that name them: a large one holds up no commit."""

import os
from collections.abc import Callable

from jobrunner.actors.keeping.standby.copying import StandbyCopy
from jobrunner.errors import JobrunnerError, StorageError
from jobrunner.files.standby.mirror import Mirror
from jobrunner.files.standby.places import CopyPlace
from jobrunner.ports import Children, Clock
from jobrunner.store.keeping.standby.naming import files_after, needed_files

LOOK_EVERY_S = 1.0
WHOLE_EVERY_S = 3600.0


class StandbyFiles:
    """Copies files, one pass after another: what is new, and now and then everything, since the
    number of a deleted row may be given again."""

    def __init__(
        self, copy: StandbyCopy, place: CopyPlace, database: str, assets: str, clock: Clock,
        children: Children, say: Callable[..., None],
    ) -> None:  # fmt: skip
        self._copy = copy
        self._place = place
        self._database = os.path.abspath(database)
        self._assets = os.path.abspath(assets)
        self._clock = clock
        self._children = children
        self._say = say
        self._reached = 0
        self._whole_at = clock.monotonic()

    async def run(self) -> None:
        """Copy files for as long as the service runs.

        Raises: StorageError
        """
        while True:
            more = await self._children.in_thread(self._pass)
            if not more:
                await self._clock.sleep(LOOK_EVERY_S)

    async def bring_keys(self) -> None:
        """Copy the files beside the database. Raises: StorageError"""
        await self._children.in_thread(self._bring_keys)

    async def finish(self) -> None:
        """Copy the rest when the service ends."""
        try:
            while await self._children.in_thread(self._pass):
                continue
        except (JobrunnerError, OSError) as error:
            self._say("standby.fault", level="error", detail=str(error))

    def _bring_keys(self) -> None:
        try:
            self._place.tokens.demand()
            self._place.send_beside(os.path.dirname(self._database))
        except OSError as error:
            raise StorageError(f"keys are not copied to {self._place.root}: {error}") from error

    def _pass(self) -> bool:
        """Run on a thread; say whether there may be more."""
        mirror = self._place.there(self._assets)
        self._bring_keys()
        try:
            self._begin_anew(mirror)
            reached, paths = files_after(self._database, self._reached)
            self._copy.files_behind = len(paths)
            mirror.bring(paths)
        except OSError as error:
            raise StorageError(f"files are not copied to {self._place.root}: {error}") from error
        self._copy.files_behind = 0
        self._reached = reached
        return bool(paths)

    def _begin_anew(self, mirror: Mirror) -> None:
        if self._clock.monotonic() - self._whole_at >= WHOLE_EVERY_S:
            self._whole_at = self._clock.monotonic()
            self._reached = 0
            with needed_files(self._database) as needed:
                mirror.clear(needed, lambda: not self._copy.over())
