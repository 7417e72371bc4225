"""Finds files wherever they lie: on the disk first, then in object storage.

A stage never works on the copy in its place, which may be cleared away under it: it has a second
name in its own scratch folder, or what was fetched there.
"""

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from jobrunner.actors.shared import World
from jobrunner.core.job import Failure, Snapshot
from jobrunner.core.keeping.objects import LACKS_FILES, CopiesHere, FarFile
from jobrunner.core.messages import Ended
from jobrunner.errors import FilesUnreachable, StorageError
from jobrunner.files.library import Kept, handed_out, inside, is_absent
from jobrunner.files.links import second_name
from jobrunner.files.objects.bucket import ObjectStore
from jobrunner.stages import Given

LENT = ".files"
BROUGHT_MS = 3_600_000
INTERRUPTS = "interrupted"
LOOKS = 3
NO_STORE = "it lies in a store of objects, and [objects] bucket names none"


async def is_there(world: World, kept: Kept) -> bool:
    """Tell whether the rows say that the store has this file. Nobody asks the store: what comes
    from there is compared with its digest when it comes."""
    far = await world.reader.far_file(kept.path) if kept.path else None
    return far is not None and (far.sha256, far.size) == (kept.sha256, kept.size)


async def far_of(world: World, path: str) -> tuple[ObjectStore, FarFile] | None:
    """The place of a file in the store; None for one that is not there.

    Raises: FilesUnreachable, where it is in a store that the settings do not name."""
    far = await world.reader.far_file(path)
    if far is None:
        return None
    if world.surroundings.bucket is None:
        raise FilesUnreachable(f"{path} cannot be had: {NO_STORE}", lasting=True)
    return world.surroundings.bucket, far


async def lent(world: World, kept: Kept, asset_id: str, scratch: str) -> str | None:
    """The path of a file for one attempt; None for one that is nowhere, or is not what was
    recorded. Where files come and go beneath it, it is one under the scratch folder.

    Raises: FilesUnreachable, RetryableFailure, StorageError"""
    place = Path(scratch, LENT, asset_id, os.path.basename(kept.path))
    for _ in range(LOOKS):
        if await world.children.in_thread(partial(world.checked, kept)):
            if world.surroundings.bucket is None:
                return os.path.join(world.assets, kept.path)
            handed_out(scratch)
            second = partial(_second_name, world.assets, kept.path, place)
            if await world.children.in_thread(second):
                return str(place)
        elif (found := await far_of(world, kept.path)) is not None:
            handed_out(scratch)
            return str(place) if await _fetched(world, *found, kept, place) else None
    return None


async def _fetched(
    world: World, bucket: ObjectStore, far: FarFile, kept: Kept, place: Path
) -> bool:
    world.surroundings.room(far.size)
    right = (far.sha256, far.size) == (kept.sha256, kept.size)
    return right and await bucket.fetch(far.key, far.size, place, world.children.in_thread)


async def brought(world: World, paths: Iterable[str]) -> None:
    """Copies of these files lie in their places for a while, as far as they are anywhere.

    Raises: FilesUnreachable, StorageError"""
    for path in paths:
        if (found := await far_of(world, path)) is None:
            continue
        bucket, far = found
        async with bucket.turn:
            await world.write(CopiesHere((path,), world.clock.now() + BROUGHT_MS))
        kept = Kept(path, far.size, far.sha256)
        if not await world.children.in_thread(partial(world.checked, kept)):
            world.surroundings.room(far.size)
            place = inside(world.assets, path)
            await bucket.fetch(far.key, far.size, place, world.children.in_thread)


def lending(job: Snapshot, brief: Given) -> Given:
    """Let a stage ask for each file that it works on, where there is a store of objects."""
    files = {name: one.asset for name, one in job.artifacts.items() if one.asset}
    return replace(brief, away={name: files[name] for name in brief.files})


def spared(world: World, workflow: str, ended: Ended) -> Ended:
    """An attempt that could not have its files was no attempt: it is taken up again when they can
    be had, and until then no other job of its workflow is begun in vain."""
    world.surroundings.hold_without_files(workflow)
    why = ended.failure or Failure(LACKS_FILES, "a file of the job could not be had")
    return replace(ended, outcome=INTERRUPTS, failure=why)


def _second_name(root: str, path: str, place: Path) -> bool:
    """Raises: StorageError, when nobody can tell."""
    try:
        second_name(inside(root, path), place)
    except OSError as error:
        if is_absent(error):
            return False
        raise StorageError(f"{path} cannot be had: {error.strerror}") from error
    return True
