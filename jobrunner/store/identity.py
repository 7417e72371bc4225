"""Finds out whether the files of the store are still the ones that were opened.

A program goes on writing to a file that was deleted or replaced, and everything looks well until
the restart, which finds nothing of it. So each commit looks, before anybody is told of it, whether
a new start would find what it wrote: the file, its log, and the lock that keeps others away.
"""

import os
import pwd

from jobrunner.errors import Misconfigured

ENDINGS = ("", "-wal", ".lock")
MARK, LOG_MARK = b"SQLite format 3\0", b"\x37\x7f\x06"
PUT_BACK = "stop, put a backup in its place with `jobrunner db restore FOLDER"
Identity = tuple[int, int]


def demand_own(path: str) -> None:
    """Root may open the file of anybody, and what it leaves beside it keeps that one out for good.

    Raises: Misconfigured"""
    owner = os.stat(path).st_uid if os.path.exists(path) else 0
    if os.geteuid() or not owner:
        return
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        name = f"#{owner}"
    raise Misconfigured(
        f"{path} belongs to another user, and what root makes beside it would keep that one out: "
        f"run this as that user (sudo -u {name})"
    )


class Whereabouts:
    """``take`` remembers which files they are, once all of them are there."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._opened: dict[str, Identity] = {}
        self._held: dict[str, int] = {}

    def take(self) -> None:
        for ending in ENDINGS:
            if (identity := _identity(self._path + ending)) is not None:
                self._opened[self._path + ending] = identity

    def hold(self) -> None:
        """Keeps a look at the files themselves. It is closed when no other handle is open: the
        system takes all locks on a file from a process that closes any one handle on it."""
        for path in (self._path, f"{self._path}-wal"):
            self._held[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        while self._held:
            os.close(self._held.popitem()[1])

    def spoilt(self) -> str:
        """Find what no handle of SQLite would notice, since each of them knows its way about
        already: a start begins at the beginning of the files."""
        for path, handle in self._held.items():
            try:
                begin = os.pread(handle, 16, 0)
            except OSError as error:
                return f"{path} cannot be read: {error}"
            if not (begin == MARK or (path != self._path and begin[:3] in (b"", LOG_MARK))):
                return f"{path} was overwritten: {PUT_BACK} --force`, and start again"
        return ""

    def lost(self) -> str:
        """Say what is wrong, in a sentence; nothing when each stands where it stood. A file that
        cannot be looked at now (no rights, a failing disk) is not taken for gone."""
        for path, identity in self._opened.items():
            try:
                now = _identity(path)
            except OSError:
                continue
            if now is None:
                return f"{path} is gone: put it back, or {PUT_BACK}`, and start again"
            if now != identity:
                return f"{path} is another file than the one that was opened: start again on it"
        return ""


def _identity(path: str) -> Identity | None:
    """Identify a file; None for one that is not there. Raises: OSError, when nobody can tell."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
