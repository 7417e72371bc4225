"""Lines that leave through a thread of their own: their writer waits neither for a disk nor for a
slow reader."""

import os
import select
import threading
from collections import deque
from contextlib import suppress
from typing import Protocol

BACKLOG_MAX = 8 * 1024 * 1024


class LinePlace(Protocol):
    """Somewhere to write. ``descriptors``: where last words go, past everything."""

    @property
    def descriptors(self) -> tuple[int, ...]: ...

    def write(self, data: bytes) -> str:
        """Write all of it; why it went elsewhere, or nothing. Raises: OSError."""
        ...


class ErrorOutput:
    """Write to a descriptor that is open already."""

    def __init__(self, number: int = 2) -> None:
        self.descriptors = (number,)

    def write(self, data: bytes) -> str:
        _write(self.descriptors[0], data)
        return ""


class RotatedFile:
    """A file that is renamed when it is full: ``path.1`` is the newest of those. Somebody else may
    move it away too; then it is made anew. While it cannot be written, lines go elsewhere.

    Raises: OSError, when it cannot be opened now.
    """

    def __init__(self, path: str, max_bytes: int, keep: int, otherwise: LinePlace) -> None:
        self._path = os.path.abspath(path)
        self._max_bytes = max_bytes
        self._keep = keep
        self._otherwise = otherwise
        self._torn = False
        self._handle = self._opened()
        self.descriptors = (self._handle, *otherwise.descriptors)

    def write(self, data: bytes) -> str:
        try:
            self._make_room(len(data))
            if self._torn:
                _write(self._handle, b"\n")  # an earlier line was cut short by a full disk
                self._torn = False
            self._append(data)
        except OSError as error:
            self._otherwise.write(data)
            return f"{self._path} cannot be written: {error.strerror}; lines go to the error output"
        return ""

    def _append(self, data: bytes) -> None:
        before = os.fstat(self._handle).st_size
        try:
            _write(self._handle, data)
        except OSError:
            self._torn = os.fstat(self._handle).st_size != before
            raise

    def _make_room(self, size: int) -> None:
        now = os.fstat(self._handle)
        try:
            named = os.stat(self._path)
            is_ours = (named.st_dev, named.st_ino) == (now.st_dev, now.st_ino)
        except FileNotFoundError:
            is_ours = False
        if is_ours and 0 < self._max_bytes < now.st_size + size and now.st_size:
            self._rename_full()
            is_ours = False
        if not is_ours:
            self._begin_anew()

    def _rename_full(self) -> None:
        """Rename from the oldest on: a crash in between leaves a gap in the numbers, and all
        lines."""
        for number in range(self._keep - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        os.replace(self._path, f"{self._path}.1")

    def _begin_anew(self) -> None:
        """Open the file anew under the same number, which others know for the last words."""
        fresh = self._opened()
        try:
            os.dup2(fresh, self._handle, inheritable=False)
        finally:
            os.close(fresh)
        self._torn = False

    def _opened(self) -> int:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


class LineThread:
    """Hand over whole lines with ``put``. The thread is a daemon: who wants to be sure that they
    are written waits, for as long as he likes."""

    def __init__(self, place: LinePlace) -> None:
        self._place = place
        self._waiting: deque[bytes] = deque()
        self._unwritten = 0
        self._behind = False
        self._lost = 0
        self._fault = ""
        self._told = "", 0
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="log", daemon=True).start()

    @property
    def descriptors(self) -> tuple[int, ...]:
        return self._place.descriptors

    def put(self, data: bytes) -> None:
        """More than is kept for a place that takes nothing is lost, and counted."""
        with self._changed:
            if self._unwritten + len(data) > BACKLOG_MAX:
                self._lost += data.count(b"\n")
                return
            self._waiting.append(data)
            self._unwritten += len(data)
            self._changed.notify_all()

    def settle(self, limit_s: float) -> None:
        """Wait until all is written, at most so long; and not at all while an earlier wait was in
        vain."""
        with self._changed:
            if self._behind and self._unwritten:
                return
            self._behind = not self._changed.wait_for(lambda: not self._unwritten, limit_s)

    def left(self) -> bytes:
        """Take back what the thread has not begun with."""
        with self._changed:
            data = b"".join(self._waiting)
            self._waiting.clear()
            self._unwritten -= len(data)
        return data

    @property
    def condition(self) -> tuple[str, int]:
        """Why lines do not arrive where they should, if so, and how many were lost in all."""
        with self._changed:
            return self._fault, self._lost

    def news(self) -> tuple[str, int]:
        """Say the condition, or nothing if it was said before. What told of it may be lost too:
        then it is another one by that."""
        with self._changed:
            now = self._fault, self._lost
            told, self._told = self._told, now
        return now if now != told and any(now) else ("", 0)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                data = b"".join(self._waiting)
                self._waiting.clear()
            fault, lost = self._written(data)
            with self._changed:
                self._fault = fault
                self._lost += lost
                self._unwritten -= len(data)
                self._changed.notify_all()

    def _written(self, data: bytes) -> tuple[str, int]:
        try:
            return self._place.write(data), 0
        except OSError as error:
            return f"the error output takes nothing: {error.strerror}", data.count(b"\n")


def _write(handle: int, data: bytes) -> None:
    """Write all of it, also where another program that has it open said that nobody is to wait."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(handle, rest) :]
        except BlockingIOError:
            select.select((), (handle,), ())
