"""Files of a service on another machine, for as long as a stage works with them here, in a folder
of this process; the next process removes what a crash left."""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from jobrunner.errors import Misconfigured
from jobrunner.files.folders import flush, made, private, sha256_of
from jobrunner.files.library import inside

LOCK = ".in-use"
PART = ".part"
NUMBERED = re.compile(r"-([0-9]{1,9})(?:\.[^.]{0,10})?\Z")


@contextmanager
def own_folder(base: str, name: str) -> Iterator[str]:
    """A folder that is nobody else's. Those of processes that are gone go first.

    Raises: Misconfigured, where nothing can be written."""
    try:
        above = made(Path(base).absolute())
        for left in above.iterdir():
            _remove_if_left(left)
        mine = above / name
        lock = _held(mine)
    except OSError as error:
        text = f"{base} cannot be worked in ({error.strerror}); name another with --folder"
        raise Misconfigured(text) from None
    try:
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


class PiecedFile:
    """A file of a job that comes from another machine in pieces, and has its name when it is whole.
    Coming a second time changes nothing."""

    def __init__(self, root: str, path: str) -> None:
        self._place = inside(root, path)
        made(self._place.parent)
        self._part = self._place.with_name(f"{self._place.name}{PART}")
        self._file = open(self._part, "w+b", opener=private)  # noqa: SIM115

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def finish(self, sha256: str) -> None:
        """Raises: ValueError, for another content than was sent; FileExistsError, for a name that
        another file has."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            if sha256_of(self._part) != sha256:
                raise ValueError(f"{self._place.name} did not come as it was sent")
            _link(self._part, self._place, sha256)
        finally:
            self.drop()
        flush(self._place.parent)

    def drop(self) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)


def piece_of(path: str, at: int, size: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(at)
        return file.read(size)


def digest_of(root: str, path: str) -> str:
    return sha256_of(inside(root, path))


def last_number(root: str, folder: str) -> int:
    """The highest number that tells files of a job apart, so far."""
    try:
        names = os.listdir(os.path.join(root, folder))
    except FileNotFoundError:
        return 0
    found = [int(match[1]) for name in names if (match := NUMBERED.search(name))]
    return max(found, default=1 if names else 0)


def _link(part: Path, place: Path, sha256: str) -> None:
    try:
        os.link(part, place)
    except FileExistsError:
        if sha256_of(place) != sha256:
            raise


def is_here(path: str) -> bool:
    return os.path.isfile(path)


def _held(mine: Path) -> int:
    """Hold a new folder. Whoever came between, and took it for one that was left, has removed it:
    then it is made once more."""
    while True:
        lock = os.open(made(mine) / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.fstat(lock).st_nlink:
            return lock
        os.close(lock)


def _remove_if_left(folder: Path) -> None:
    """Remove a folder that looks like one of ours, and whose process holds it no more."""
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
