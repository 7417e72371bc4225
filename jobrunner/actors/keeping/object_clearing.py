"""Clears what files in object storage leave behind: copies on the disk whose time is over, and
objects that no row names any more, or that never got a row.
"""

import re
from functools import partial

from jobrunner.actors.shared import World
from jobrunner.core.keeping.objects import CopiesHere, KeysCleared, KeysSeen
from jobrunner.files.library import remove
from jobrunner.files.objects.bucket import ObjectStore

PAGE = 200
DAY_MS = 86_400_000
KEY = re.compile(r"(?:[^/]+/)+[0-9a-f]{64}/[^/]+")


async def clear_copies(world: World, bucket: ObjectStore) -> None:
    """Take copies off the disk whose time is over."""
    async with bucket.turn:
        paths = await world.reader.copies_over(world.clock.now(), PAGE)
        if paths:
            await world.children.in_thread(partial(remove, world.assets, paths))
            await world.write(CopiesHere(paths, None))


async def clear_keys(world: World, bucket: ObjectStore, keep_s: float) -> bool:
    """Remove objects whose files are gone for long enough."""
    now = world.clock.now()
    if unseen := await world.reader.keys_unseen(PAGE):
        await world.write(KeysSeen(unseen, now))
    before = now - int(keep_s * 1000)
    due = await world.reader.keys_left(before, PAGE)
    if due:
        await bucket.remove(due)
        await world.write(KeysCleared(due))
        world.say("objects.cleared", objects=len(due))
    return len(due) == PAGE or len(unseen) == PAGE


async def sweep(world: World, bucket: ObjectStore) -> None:
    """Remove what was put there a day ago or longer, and never came to a row."""
    old = world.clock.now() - DAY_MS
    async for page in bucket.listed():
        prefix = len(bucket.terms.prefix)
        keys = tuple(
            (one.key, one.changed_at)
            for one in page
            if one.changed_at < old and KEY.fullmatch(one.key[prefix:])
        )
        if orphans := await world.reader.keys_orphaned(keys):
            await bucket.remove(orphans)
            world.say("objects.swept", objects=len(orphans))
