"""Small files of our own, and how full the disk is."""

import hashlib
import os
import time

PAGE = bytes(4096)
FLUSH = getattr(os, "fdatasync", os.fsync)  # as the database does


class SystemFiles:
    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def free(self, path: str) -> int:
        disk = os.statvfs(_nearest(path))
        return disk.f_bavail * disk.f_frsize

    def flushes_s(self, folder: str, times: int) -> list[float]:
        path = os.path.join(_nearest(folder), f".flush.{os.getpid()}")
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError:
            return []
        os.unlink(path)  # whatever happens, nothing stays
        try:
            return [_flushed_s(handle) for _ in range(times)]
        except OSError:
            return []
        finally:
            os.close(handle)

    def write_private(self, path: str, data: bytes) -> None:
        """Readable by its owner only, and whole: a reader never sees half of it."""
        draft = f"{path}.{os.getpid()}.new"
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)


def _nearest(path: str) -> str:
    """The path, or what is there of it."""
    place = os.path.abspath(path)
    while not os.path.exists(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    return place


def _flushed_s(handle: int) -> float:
    began = time.perf_counter()
    os.write(handle, PAGE)
    FLUSH(handle)
    return time.perf_counter() - began


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
