"""A file under a second name, for a job that gets along what another one had made.

The two names are rows' own: removing one leaves the other whole. Where the disk cannot give a file
two names it is copied. Nothing here is ever written in place, so neither can change the other.
"""

import os
import shutil
from collections.abc import Iterable

from jobrunner.files.folders import flush, made, private
from jobrunner.files.library import DRAFT, inside, remove


def twin(root: str, pairs: Iterable[tuple[str, str]]) -> None:
    """Each first path gets the second one as well; all are named on disk when this returns."""
    for old, new in pairs:
        source, place = inside(root, old), inside(root, new)
        made(place.parent)
        try:
            os.link(source, place)
        except FileExistsError:
            raise
        except OSError:
            _copy(str(source), str(place))
        os.utime(place)
        flush(place.parent)


def untwin(root: str, paths: Iterable[str]) -> None:
    """The job that was to have them was not made."""
    every = list(paths)
    remove(root, every)
    for folder in {inside(root, path).parent for path in every}:
        try:
            folder.rmdir()
        except OSError:
            continue


def _copy(source: str, place: str) -> None:
    draft = place + DRAFT
    try:
        with open(source, "rb") as old, open(draft, "wb", opener=private) as new:
            shutil.copyfileobj(old, new)
            new.flush()
            os.fsync(new.fileno())
        os.replace(draft, place)
    finally:
        if os.path.exists(draft):
            os.unlink(draft)
