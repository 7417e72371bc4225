"""Files that no row speaks of: what attempts left behind that never came to their end."""

import os
from functools import partial

from jobrunner.actors.world import World
from jobrunner.core.job import JOB_ID
from jobrunner.errors import StorageError
from jobrunner.stages.shelf import SCRATCH, old_files, remove, tidy


async def clear_scratch(world: World) -> None:
    """Before any attempt begins: nobody who could need it is left."""
    scratch = os.path.join(world.assets, SCRATCH)
    if world.assets and os.path.isdir(scratch):
        await world.children.in_thread(lambda: tidy(scratch))


async def sweep(world: World) -> None:
    """Removes files that are a day old and have no row. An attempt that is under way is younger, or
    has named its files in a row before. What does not lie in the folder of a job is not ours."""
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


async def _sweep_job(world: World, job_id: str, paths: list[str]) -> None:
    rows = {row.asset.storage_path for row in await world.reader.assets(job_id)}
    garbage = [path for path in paths if path not in rows]
    if garbage:
        await world.children.in_thread(partial(remove, world.assets, garbage))
        world.say("assets.swept", job_id=job_id, files=len(garbage))
