"""Folders and files: private, and on the disk before anything in them is said to be."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

PRIVATE = 0o700
CHUNK = 1024 * 1024


def made(folder: Path) -> Path:
    """The folder, with every one above it that was not there yet. A file is as safe as the name of
    its folder, so each parent that got a new name in it is flushed."""
    missing = []
    place = folder
    while not place.is_dir():
        missing.append(place)
        place = place.parent
    for new in reversed(missing):
        new.mkdir(mode=PRIVATE, exist_ok=True)
        flush(new.parent)
    return folder


def existing(root: str, folders: list[str]) -> list[str]:
    """Pick the folders below ``root`` that are there."""
    return [folder for folder in folders if Path(root, folder).is_dir()]


def flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def private(path: str, flags: int) -> int:
    """Open a file that its owner alone can read: an opener for ``open``."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


@contextmanager
def flushed(place: Path) -> Iterator[BinaryIO]:
    """A private file, written anew, which is on the disk when this is left."""
    with open(place, "wb", opener=private) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def flushed_copy(source: Path, target: Path) -> None:
    """Copy a file, which has its name when the whole of it is on the disk."""
    draft = target.with_name(f"{target.name}.draft")
    try:
        with source.open("rb") as old, flushed(draft) as new:
            shutil.copyfileobj(old, new, CHUNK)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def sha256_of(place: Path) -> str:
    with place.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
