"""Removes files that no row names: leftovers of attempts that never came to their end."""

import os
from functools import partial

import msgspec

from jobrunner.actors.shared import World
from jobrunner.core.job import JOB_ID, Snapshot
from jobrunner.core.units import Cleared
from jobrunner.errors import StorageError
from jobrunner.files.incoming import cleared
from jobrunner.files.library import old_files, remove, tidy

CLEARINGS = 100


async def clear_scratch(world: World) -> None:
    """Before any attempt begins: nobody who could need it is left."""
    if world.assets and os.path.isdir(world.scratch):
        await world.children.in_thread(lambda: tidy(world.scratch))


async def folders_of(world: World, job: Snapshot) -> tuple[str, ...]:
    """List the folders of this job, by its declaration and by its rows."""
    rows = await world.reader.assets(job.id)
    return folders_beside(world, job, tuple(row.asset.storage_path for row in rows))


def folders_beside(world: World, job: Snapshot, paths: tuple[str, ...]) -> tuple[str, ...]:
    """List the folders of this job, by its declaration and by the paths in its rows. A row may
    say anything, but only a folder that has the job's id for its name is the job's."""
    found = {folder_of(world, job)}
    for path in paths:
        above, _, _ = path.rpartition("/")
        if above.rpartition("/")[2] == job.id and "/" in above:
            found.add(above)
    return tuple(sorted(found))


def folder_of(world: World, job: Snapshot) -> str:
    """Name the folder for the job's own files, by its declaration."""
    definition = world.registry.of(job)
    folder = definition.workflow.folder if definition else ""
    return "/".join(filter(None, (folder, job.user_id, job.id)))


async def clear(world: World, folders: tuple[str, ...]) -> None:
    """The files of what was deleted follow their rows. Where that fails, the next start does it;
    while a backup wants them, it does so at its end."""
    if world.files_wanted:
        return
    try:
        if world.assets:
            await world.children.in_thread(partial(cleared, world.assets, folders))
        await world.commit(Cleared(folders))
    except (OSError, StorageError) as fault:
        world.say("assets.not_cleared", level="error", folders=list(folders), detail=str(fault))


async def clear_rest(world: World) -> None:
    """Remove the files that a crash left behind a deletion."""
    while folders := await world.reader.clearings(CLEARINGS):
        await clear(world, folders)
        if folders == await world.reader.clearings(CLEARINGS):
            return


async def sweep(world: World) -> None:
    """Removes files that are a day old and have no row. An attempt that is under way is younger, or
    has named its files in a row before. What does not lie in the folder of a job is not ours."""
    await clear_rest(world)
    root = world.assets
    if not root or not os.path.isdir(root):
        return
    try:
        found = await world.children.in_thread(partial(old_files, root, world.clock.now()))
        for name, paths in found.items():
            if JOB_ID.fullmatch(name):
                await _sweep_job(world, name, paths)
    except (OSError, StorageError) as fault:
        world.say("assets.not_swept", level="error", detail=str(fault))


async def unwanted(world: World, job_id: str, paths: list[str]) -> list[str]:
    """Pick files that no row names, that wait for no report, and that no open attempt needs."""
    job = await world.reader.job(job_id)
    attempt = job.attempt if job else None
    known = {row.asset.storage_path for row in await world.reader.assets(job_id)}
    lone = await world.reader.asset(job_id)  # a file that came before its job has a folder too
    known |= {lone.asset.storage_path} if lone else set()
    known |= {one.asset.storage_path for one in attempt.sent} if attempt else set()
    kept = msgspec.json.encode(attempt.kept).decode() if attempt else ""
    return [path for path in paths if path not in known and path not in kept]


async def _sweep_job(world: World, job_id: str, paths: list[str]) -> None:
    garbage = await unwanted(world, job_id, paths)
    if garbage:
        await world.children.in_thread(partial(remove, world.assets, garbage))
        world.say("assets.swept", job_id=job_id, files=len(garbage))
