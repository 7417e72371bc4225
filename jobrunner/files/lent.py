"""Files of a service on another machine, for as long as a stage works with them here: under a
folder of this process, which whoever comes after a crash removes."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from jobrunner.errors import Misconfigured
from jobrunner.files.folders import made
from jobrunner.files.library import inside

LOCK = ".in-use"
PART = ".part"


@contextmanager
def own_folder(base: str, name: str) -> Iterator[str]:
    """A folder that is nobody else's. Those of processes that are gone go first.

    Raises: Misconfigured, where nothing can be written."""
    try:
        above = made(Path(base).absolute())
        for left in above.iterdir():
            _remove_if_left(left)
        mine = made(above / name)
        lock = os.open(mine / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        text = f"{base} cannot be worked in ({error.strerror}); name another with --folder"
        raise Misconfigured(text) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield str(mine)
    finally:
        os.close(lock)
        shutil.rmtree(mine, ignore_errors=True)


@contextmanager
def coming_in(path: str) -> Iterator[BinaryIO]:
    """A file that has its name when it is whole."""
    made(Path(path).parent)
    with open(f"{path}{PART}", "w+b") as file:
        yield file
    os.replace(f"{path}{PART}", path)


@contextmanager
def going_out(root: str, path: str) -> Iterator[BinaryIO | None]:
    """A file of the job's library that was made here; None for one that is not here."""
    try:
        file = inside(root, path).open("rb")
    except (FileNotFoundError, IsADirectoryError):
        yield None
        return
    with file:
        yield file


def is_here(path: str) -> bool:
    return os.path.isfile(path)


def _remove_if_left(folder: Path) -> None:
    """Only what looks like one of ours, and whose process holds it no more."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
