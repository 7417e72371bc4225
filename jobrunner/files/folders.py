"""Folders for files: private, and on the disk before anything in them is said to be."""

import os
from pathlib import Path

PRIVATE = 0o700


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
