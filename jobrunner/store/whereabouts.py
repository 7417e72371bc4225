"""Whether the files of the store are still the ones that were opened.

A program goes on writing to a file that was deleted or replaced, and everything looks well until
the restart, which finds nothing of it. So each commit looks, before anybody is told of it, whether
a new start would find what it wrote: the file, its log, and the lock that keeps others away.
"""

import os

ENDINGS = ("", "-wal", ".lock")
Identity = tuple[int, int]


class Whereabouts:
    """``take`` remembers which files they are, once all of them are there."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._opened: dict[str, Identity] = {}

    def take(self) -> None:
        for ending in ENDINGS:
            if (identity := _identity(self._path + ending)) is not None:
                self._opened[self._path + ending] = identity

    def lost(self) -> str:
        """What is wrong, as a sentence; nothing when each stands where it stood. A file that cannot
        be looked at now (no rights, a failing disk) is not taken for gone."""
        for path, identity in self._opened.items():
            try:
                now = _identity(path)
            except OSError:
                continue
            if now is None:
                return f"{path} is gone: put it back, or restore a copy of it, and start again"
            if now != identity:
                return f"{path} is another file than the one that was opened: start again on it"
        return ""


def _identity(path: str) -> Identity | None:
    """None for a file that is not there. Raises: OSError, when nobody can tell."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
