"""The files of jobs, and those beside the database, in the place of a copy and back again.

A file never changes, so one that is there is the right one; those beside the database are few and
small, and are looked at each time.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from jobrunner.files.folders import flush, flushed_copy, made
from jobrunner.files.library import inside
from jobrunner.files.stored_backups import BESIDE, second_name

FILES, LITTLE = "files", "beside"


class Mirror:
    """Copies files from ``source`` to ``target``, both folders."""

    def __init__(self, source: str, target: str) -> None:
        self.source = source
        self.target = target

    def bring(self, paths: Iterable[str]) -> list[str]:
        """Give the target all of these; name those that the source has not either.

        Raises: OSError
        """
        absent: list[str] = []
        for path in paths:
            place = inside(self.target, path)
            if place.exists():
                continue
            source = inside(self.source, path)
            if not source.exists():
                absent.append(path)
                continue
            made(place.parent)
            if not second_name(source, place):
                flushed_copy(source, place)
            flush(place.parent)
        return absent

    def clear(self, needed: Callable[[str], set[str]], allowed: Callable[[], bool]) -> None:
        """Remove from the target what the source has no more and nobody needs, as long as that is
        ``allowed``. A disk that is not mounted has nothing either: this is its copy then.

        Raises: OSError
        """
        for folder, _, names in os.walk(self.target):
            wanted = needed(os.path.basename(folder)) if names else set()
            for name in names:
                path = Path(folder, name).relative_to(self.target)
                gone = not Path(self.source, path).exists()
                if gone and path.as_posix() not in wanted and allowed():
                    Path(folder, name).unlink(missing_ok=True)


def bring_beside(source: str, target: str) -> None:
    """The keys and tokens that lie beside a database. Raises: OSError"""
    for name in BESIDE:
        old, new = Path(source, name), Path(target, name)
        if old.exists() and not (new.exists() and new.read_bytes() == old.read_bytes()):
            made(new.parent)
            flushed_copy(old, new)
            flush(new.parent)
