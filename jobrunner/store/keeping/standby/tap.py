"""Collects the pages that commits have changed: read from the log on the writer's thread, and kept
until they are copied.

The index of the log (``-shm``) says how far the last commit reaches and by which salts a log is
known; they change when it begins anew. Of each page only the last form is kept.
"""

import os
import struct
from collections.abc import Callable

from msgspec import Struct

from jobrunner.ports import one_at_a_time

HEAD = struct.Struct("=8xI2xHII8x8s")  # changes, size of a page, last frame, pages, salts
HEAD_BYTES, LOG_HEAD, FRAME_HEAD = 48, 32, 24
SMALLEST_AS_ONE = 65536


class Pages(Struct, frozen=True):
    """Pages by their numbers, and how many the file has; ``since`` is when the oldest of them was
    found, ``as_of`` the moment of the newest."""

    number: int
    page_bytes: int
    count: int
    found: dict[int, bytes]
    since: float
    as_of: int


class Tap:
    """``looked`` is called after each turn of the writer's handle, ``take`` from any thread."""

    def __init__(self, path: str, steady: Callable[[], float], now: Callable[[], int]) -> None:
        self._path = path
        self._steady = steady
        self._now = now
        self._turn = one_at_a_time()
        self._index = self._log = -1
        self._salts, self._frame = b"", 0
        self._found: dict[int, bytes] = {}
        self._taken: Pages | None = None
        self._since = 0.0
        self._as_of = 0
        self._page_bytes = self._count = 0
        self.number = 0
        self.is_open = False

    def looked(self) -> None:
        """Read what is new in the log. Nothing before the first ``begin``."""
        if not self.is_open:
            return
        _, short, last, count, salts = HEAD.unpack(
            os.pread(self._index, HEAD_BYTES, 0)[: HEAD.size]
        )
        if salts != self._salts:
            self._salts, self._frame = salts, 0
        if last > self._frame:
            self._read(last, SMALLEST_AS_ONE if short == 1 else short, count)

    def begin(self) -> int:
        """Forget what was found: a copy of the whole file has it. On the writer's thread, in its
        turn. How many changes were taken by then."""
        if self._index < 0:
            # Kept open: to close it takes from this process the locks that SQLite has on it.
            self._index = os.open(f"{self._path}-shm", os.O_RDONLY | os.O_CLOEXEC)
            self._log = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        first, self.is_open = not self.is_open, True
        self.looked()
        if first:
            with self._turn:
                self._found = {}
        return self.number

    def take(self) -> Pages | None:
        """Hand over what was found since the last time, or what was handed over then, until it is
        ``copied``; None for nothing."""
        with self._turn:
            if self._taken is None and self._found:
                self.number += 1
                sizes = self._page_bytes, self._count
                self._taken = Pages(self.number, *sizes, self._found, self._since, self._as_of)
                self._found = {}
            return self._taken

    def copied(self) -> None:
        """Note that all that was taken is copied."""
        with self._turn:
            self._taken = None

    @property
    def since(self) -> float | None:
        """When the oldest was found that is not copied."""
        with self._turn:
            if self._taken is not None:
                return self._taken.since
            return self._since if self._found else None

    @property
    def bytes(self) -> int:
        """How much waits to be taken."""
        return len(self._found) * self._page_bytes

    def close(self) -> None:
        """After the handles of SQLite."""
        self.is_open = False
        for handle in (self._index, self._log):
            if handle >= 0:
                os.close(handle)
        self._index = self._log = -1

    def _read(self, last: int, page_bytes: int, count: int) -> None:
        frame_bytes = FRAME_HEAD + page_bytes
        size = (last - self._frame) * frame_bytes
        data = os.pread(self._log, size, LOG_HEAD + self._frame * frame_bytes)
        if len(data) != size:
            raise OSError(f"{self._path}-wal ends before its last commit")
        with self._turn:
            if not self._found:
                self._since = self._steady()
            for at in range(0, size, frame_bytes):
                number = int.from_bytes(data[at : at + 4])
                self._found[number] = data[at + FRAME_HEAD : at + frame_bytes]
            self._frame, self._page_bytes, self._count = last, page_bytes, count
            self._as_of = self._now()
