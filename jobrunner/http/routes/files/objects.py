"""Files that come out of the store of objects, through us or by an address of its own.

They are named like all others, and asked for by the same rights. A whole file is compared with its
digest on its way: its last piece is kept back until the rest was right, so nobody takes a wrong
one for whole.
"""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator

from jobrunner.actors.keeping.objects import far_of
from jobrunner.core.keeping.objects import FarFile
from jobrunner.errors import Refused
from jobrunner.files.objects.bucket import ObjectStore
from jobrunner.http.frame.endpoint import HttpCall, HttpReply

FarPlace = tuple[ObjectStore, FarFile]
# Three of them are held for each download, and thousands may be taken slowly at a time.
BLOCK = 512 * 1024


async def far_place(call: HttpCall, path: str) -> FarPlace | None:
    """Raises: FilesUnreachable, where it is in a store that nobody knows."""
    return await far_of(call.door.facade.world, path) if path else None


async def redirected(call: HttpCall, place: FarPlace) -> HttpReply | None:
    """An address at the store that is good for a while; None where the settings say no."""
    seconds = call.door.facade.file_moves.terms.presign_s
    if not seconds:
        return None
    bucket, far = place
    address = await bucket.address(far.key, seconds)
    return HttpReply(307, b"", {"Location": address})


async def far_blocks(place: FarPlace, first: int, last: int) -> AsyncGenerator[bytes]:
    """Read from one byte to another, both included.

    Raises: FilesUnreachable, Refused ASSET_GONE, EOFError for what is not the file"""
    bucket, far = place
    blocks = bucket.blocks(far.key, first, last, BLOCK)
    blocks = _compared(blocks, far) if (first, last) == (0, far.size - 1) else blocks
    try:
        async for block in blocks:
            yield block
    except FileNotFoundError:
        raise Refused("ASSET_GONE", "the store does not have this file any more") from None


async def _compared(blocks: AsyncIterator[bytes], far: FarFile) -> AsyncIterator[bytes]:
    found, kept = hashlib.sha256(), b""
    async for block in blocks:
        if kept:
            yield kept
        found.update(block)
        kept = block
    if found.hexdigest() != far.sha256:
        raise EOFError("the store has another file under this key")
    yield kept
