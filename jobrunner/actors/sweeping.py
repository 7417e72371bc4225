"""Files that no row speaks of: what attempts left behind that never came to their end."""

import os
from functools import partial

from jobrunner.actors.world import World
from jobrunner.stages.shelf import SCRATCH, old_files, remove, tidy


async def clear_scratch(world: World) -> None:
    """Before any attempt begins: nobody who could need it is left."""
    scratch = os.path.join(world.assets, SCRATCH)
    if world.assets and os.path.isdir(scratch):
        await world.children.in_thread(lambda: tidy(scratch))


async def sweep(world: World) -> None:
    """Removes files that are a day old and have no row. An attempt that is under way is younger, or
    has named its files in a row before."""
    root = world.assets
    if not root or not os.path.isdir(root):
        return
    now = world.clock.now()
    found = await world.children.in_thread(lambda: old_files(root, now))
    for job_id, paths in found.items():
        rows = {row.asset.storage_path for row in await world.reader.assets(job_id)}
        garbage = [path for path in paths if path not in rows]
        if garbage:
            await world.children.in_thread(partial(remove, root, garbage))
            world.say("assets.swept", job_id=job_id, files=len(garbage))
