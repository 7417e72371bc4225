"""Clears files that attempts left in the folder of their job: saved or sent, but never delivered.

It goes when the attempt has ended, and that of an interrupted one with the attempt that follows it.
What is still of use stays: what a row speaks of, what waits with the open attempt for its report,
and what ``once`` has kept for it. A file that has a second name is just coming in.

Most stages save nothing, and the disk is not asked about them: of a job that this life has made it
is known whether somebody has saved files for it.
"""

import os
from functools import partial

from jobrunner.actors.keeping.cleaning import folder_of, unwanted
from jobrunner.actors.shared import World
from jobrunner.core.attempts import at_work
from jobrunner.core.job import Snapshot
from jobrunner.errors import StorageError
from jobrunner.files.library import remove

KNOWN_MAX = 10_000


class Leftovers:
    """Knows which jobs may have some: files were saved for them, and not looked through since."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._began_at = world.clock.now()
        self._saved_for: dict[str, None] = {}

    def may_be(self, job: Snapshot, saved: bool) -> bool:
        """Say whether the job may have some; ``saved``: its attempt may have left them."""
        known = saved or job.id in self._saved_for or bool(job.asset_types)
        return known or job.created_at <= self._began_at

    async def clear(self, job: Snapshot, serial: int, interrupted: bool) -> None:
        """After the end of this attempt. Where it fails, the sweep of a later start does it."""
        self._saved_for[job.id] = None
        if len(self._saved_for) > KNOWN_MAX:
            del self._saved_for[next(iter(self._saved_for))]
        if await clear_leavings(self._world, job, serial, interrupted):
            self._saved_for.pop(job.id, None)


async def clear_leavings(world: World, job: Snapshot, serial: int, interrupted: bool) -> bool:
    """Return whether nothing is left."""
    folder = os.path.join(world.assets, folder_of(world, job))
    if not world.assets or not os.path.isdir(folder):
        return True
    try:
        return await _clear(world, job.id, serial, interrupted, folder)
    except (OSError, StorageError) as fault:
        world.say("assets.not_cleared", level="error", job_id=job.id, detail=str(fault))
        return False


async def _clear(world: World, job_id: str, serial: int, interrupted: bool, folder: str) -> bool:
    """First the files, then who is at work, then the rows: what came in between is not looked at,
    or has its row."""
    found = await world.children.in_thread(partial(_whole_files, world.assets, folder))
    job = await world.reader.job(job_id) if found else None
    if job is None or _goes_on(job, serial, interrupted):
        return job is None
    if garbage := await unwanted(world, job_id, found):
        await world.children.in_thread(partial(remove, world.assets, garbage))
        world.announce("assets.cleared", job, "info", files=len(garbage))
    return True


def _goes_on(job: Snapshot, serial: int, interrupted: bool) -> bool:
    """Say whether this attempt is still open, or another one may be saving files here, or has taken
    over."""
    if job.attempt is None:
        return False
    return job.attempt.serial == serial or interrupted or at_work(job)


def _whole_files(root: str, folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        plain = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
    whole = [one.path for one in plain if one.stat(follow_symlinks=False).st_nlink == 1]
    return [os.path.relpath(path, root) for path in whole]
