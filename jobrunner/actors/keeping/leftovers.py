"""Clears files that attempts left in the folder of their job: saved or sent, but never delivered.

It goes when the attempt has ended, and that of an interrupted one with the attempt that follows it.
What is still of use stays: what a row speaks of, what waits with the open attempt for its report,
and what ``once`` has kept for it. A file that has a second name is just coming in.
"""

import os
from functools import partial

from jobrunner.actors.keeping.cleaning import folder_of, unwanted
from jobrunner.actors.shared import World
from jobrunner.core.attempts import at_work
from jobrunner.core.job import Snapshot
from jobrunner.errors import StorageError
from jobrunner.files.library import remove


async def clear_leavings(world: World, job: Snapshot, serial: int, interrupted: bool) -> None:
    """After the end of this attempt. Where it fails, the sweep of a later start does it."""
    folder = os.path.join(world.assets, folder_of(world, job))
    if not world.assets or not os.path.isdir(folder):
        return
    try:
        await _clear(world, job.id, serial, interrupted, folder)
    except (OSError, StorageError) as fault:
        world.say("assets.not_cleared", level="error", job_id=job.id, detail=str(fault))


async def _clear(world: World, job_id: str, serial: int, interrupted: bool, folder: str) -> None:
    """First the files, then who is at work, then the rows: what came in between is not looked at,
    or has its row."""
    found = await world.children.in_thread(partial(_whole_files, world.assets, folder))
    job = await world.reader.job(job_id) if found else None
    if job is None or _goes_on(job, serial, interrupted):
        return
    if garbage := await unwanted(world, job_id, found):
        await world.children.in_thread(partial(remove, world.assets, garbage))
        world.announce("assets.cleared", job, "info", files=len(garbage))


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
