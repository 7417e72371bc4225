"""One function, one trip to the thread that owns a handle.

aiosqlite offers its users one await per statement. A transaction spread over several can be torn
by a cancellation in the middle: a cancelled COMMIT did commit, a cancelled BEGIN left a
transaction that nobody owned. So a whole transaction goes over as one function, through the one
private method that aiosqlite has for it; this file is the only place that knows its name.
"""

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

import aiosqlite
import anyio

T = TypeVar("T")


class Handle(aiosqlite.Connection):
    """A connection that is called: ``await handle(function, a, b)`` runs
    ``function(connection, a, b)`` on its thread. Every form of ``ports.Hop`` given to the store
    keeps to this: the handle comes first."""

    async def __call__(self, function: Callable[..., T], *arguments: Any) -> T:
        with anyio.CancelScope(shield=True):
            answer: T = await self._execute(function, self._conn, *arguments)  # type: ignore[no-untyped-call]
        return answer


async def open_handle(path: str) -> Handle:
    """Raises sqlite3.Error. Shielded: a cancelled connect would leak the native handle."""
    handle = Handle(lambda: sqlite3.connect(path, isolation_level=None), iter_chunk_size=64)
    with anyio.CancelScope(shield=True):
        try:
            await handle
        except BaseException:
            # Its thread still has a last word for this loop, which may be about to close.
            handle._thread.join()
            raise
    return handle
