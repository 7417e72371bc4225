"""One function, one trip to the thread that owns a handle.

aiosqlite offers its users one await per statement. A transaction spread over several can be torn
by a cancellation in the middle: a cancelled COMMIT did commit, a cancelled BEGIN left a
transaction that nobody owned. So a whole transaction goes over as one function, through the one
private method that aiosqlite has for it; this file is the only place that knows its name.
"""

import os
import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

import aiosqlite
import anyio

T = TypeVar("T")
PREPARED = 512  # each size of a block is a statement of its own


class Handle(aiosqlite.Connection):
    """A connection that is called: ``await handle(function, a, b)`` runs
    ``function(connection, a, b)`` on its thread. Every form of ``ports.StoreThread`` given to the
    store keeps to this: the handle comes first."""

    async def __call__(self, function: Callable[..., T], *arguments: Any) -> T:
        answer: T = await self._execute(function, self._conn, *arguments)  # type: ignore[no-untyped-call]
        return answer


async def open_handle(path: str, *, make: bool = False) -> Handle:
    """Open a file that is there, or make one if that is wanted: whoever only looks makes none.
    Shielded: a cancelled connect would leak the native handle.

    Raises: sqlite3.Error
    """
    handle = Handle(lambda: _connected(path, make), iter_chunk_size=64)
    with anyio.CancelScope(shield=True):
        try:
            await handle
        except BaseException:
            # Its thread still has a last word for this loop, which may be about to close.
            handle._thread.join()
            raise
    return handle


def _connected(path: str, make: bool) -> sqlite3.Connection:
    place = f"file:{quote(os.path.abspath(path))}?mode={'rwc' if make else 'rw'}"
    # A copy is made through the writer's handle too, by a thread that takes turns with its own.
    return sqlite3.connect(
        place, uri=True, isolation_level=None, check_same_thread=False, cached_statements=PREPARED
    )
