"""The files of a backup that lie in a store of objects: whether they are there, and what they are.

A store lists what it has by the order of keys, as the rows of a backup are read, so both are gone
through side by side whatever their number. One that a list does not have is asked for by itself.
"""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from jobrunner.errors import Misconfigured

if TYPE_CHECKING:
    from jobrunner.config.settings import Config
    from jobrunner.core.keeping.backups import Manifest
    from jobrunner.core.keeping.objects import FarFile
    from jobrunner.files.objects.bucket import ObjectStore

NAMED_MAX = 20


def store_of(manifest: "Manifest", config: "Config") -> "ObjectStore | None":
    """The store that has files of this backup; None where it has none there.

    Raises: Misconfigured, where the settings name none, or another one"""
    from jobrunner.equipping import bucket_of

    if not manifest.far_files:
        return None
    bucket = bucket_of(config, os.environ)
    place = bucket.terms.place if bucket else "none"
    if bucket is None or place != manifest.far_place:
        raise Misconfigured(
            f"{manifest.far_files} files of {manifest.name} lie in {manifest.far_place}, and the "
            f"settings name {place}: set [objects] to that place"
        )
    return bucket


async def far_faults(database: str, bucket: "ObjectStore", contents: bool) -> list[str]:
    """Name files that the store has not, as the rows of this database say, the first of them by
    themselves; with ``contents`` each is read and compared with its digest.

    Raises: FilesUnreachable, StorageError"""
    from jobrunner.store.keeping.backups import far_files_of

    found: list[str] = []
    count = 0
    async for fault in _faults(far_files_of(database), bucket, contents):
        count += 1
        if count <= NAMED_MAX:
            found.append(fault)
    if count > NAMED_MAX:
        found.append(f"and {count - NAMED_MAX} more files in {bucket.terms.place}")
    return found


async def _faults(
    rows: "Iterator[FarFile]", bucket: "ObjectStore", contents: bool
) -> AsyncIterator[str]:
    async with aclosing(_seen(bucket)) as listed:
        key, size = await _next(listed)
        for row in rows:
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


async def _seen(bucket: "ObjectStore") -> AsyncGenerator[tuple[str, int]]:
    async for page in bucket.listed():
        for one in page:
            yield one.key, one.size
