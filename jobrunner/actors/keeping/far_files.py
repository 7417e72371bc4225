"""The files of a backup that lie in a store of objects: whether they are there, and what they are.

A store lists what it has by the order of keys, as the rows of a backup are read, so both are gone
through side by side whatever their number. One that a list does not have is asked for by itself.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial

from jobrunner.core.keeping.backups import Manifest
from jobrunner.core.keeping.objects import FarFile
from jobrunner.files.objects.bucket import ObjectStore
from jobrunner.store.keeping.backups import far_files_of

InThread = Callable[[Callable[[], list[FarFile]]], Awaitable[list[FarFile]]]
NAMED_MAX = 20


def elsewhere(manifest: Manifest, bucket: ObjectStore | None) -> str:
    """Say that the store in use is not the one that has these files; empty when it is."""
    place = bucket.terms.place if bucket else "none"
    if bucket is not None and place == manifest.far_place:
        return ""
    return (
        f"{manifest.far_files} files of {manifest.name} lie in {manifest.far_place}, and the "
        f"settings name {place}: set [objects] to that place"
    )


async def far_faults(
    database: str, bucket: ObjectStore, contents: bool, in_thread: InThread
) -> list[str]:
    """Name files that the store has not, as the rows of this database say, the first of them by
    themselves; with ``contents`` each is read and compared with its digest.

    Raises: FilesUnreachable, StorageError"""
    found: list[str] = []
    count = 0
    async for fault in _faults(_rows(database, in_thread), bucket, contents):
        count += 1
        if count <= NAMED_MAX:
            found.append(fault)
    if count > NAMED_MAX:
        found.append(f"and {count - NAMED_MAX} more files in {bucket.terms.place}")
    return found


async def _rows(database: str, in_thread: InThread) -> AsyncIterator[FarFile]:
    last: FarFile | None = None
    while page := await in_thread(partial(far_files_of, database, last)):
        for row in page:
            yield row
        last = page[-1]


async def _faults(
    rows: AsyncIterator[FarFile], bucket: ObjectStore, contents: bool
) -> AsyncIterator[str]:
    async with aclosing(_seen(bucket)) as listed:
        key, size = await _next(listed)
        async for row in rows:
            while key and key < row.key:
                key, size = await _next(listed)
            there = size if key == row.key else await bucket.size(row.key)
            if there is None:
                yield f"{row.path} is missing: {bucket.terms.bucket} has no {row.key}"
            elif there != row.size:
                yield f"{row.path} has {there} bytes in the store, and had {row.size}"
            elif contents and not await bucket.is_sound(row.key, row.size):
                yield f"{row.path} is damaged: {row.key} is not what was put there"


async def _next(listed: AsyncIterator[tuple[str, int]]) -> tuple[str, int]:
    try:
        return await anext(listed)
    except StopAsyncIteration:
        return "", 0


async def _seen(bucket: ObjectStore) -> AsyncGenerator[tuple[str, int]]:
    async for page in bucket.listed():
        for one in page:
            yield one.key, one.size
