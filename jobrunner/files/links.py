"""Second names of files, for a job that takes over what another one made.

The two names are rows' own: removing one leaves the other whole. Where the disk cannot give a file
two names it is copied. Nothing here is ever written in place, so neither can change the other.

A file of JSON may name other files of its job by their ids. It is written anew then, with the ids
that they have in the new job: the old one may be deleted, and its files with it.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from jobrunner.files.folders import flush, flushed, flushed_copy, made
from jobrunner.files.library import DRAFT, Kept, inside, remove

JSON_MAX = 16 * 1024 * 1024


def twin(root: str, pairs: Iterable[tuple[str, str]], ids: Mapping[str, str]) -> list[Kept]:
    """Give each first path its second name; all names are on disk when this returns. Return the
    files that had to be written anew, since they name some of ``ids``."""
    anew: list[Kept] = []
    for old, new in pairs:
        source, place = inside(root, old), inside(root, new)
        made(place.parent)
        data = _json(source)
        fresh = _renamed(data, ids)
        if fresh == data:
            _link(source, place)
        else:
            _write(fresh, place)
            anew.append(Kept(new, len(fresh), hashlib.sha256(fresh).hexdigest()))
        flush(place.parent)
    return anew


def told_in(root: str, path: str) -> Any:
    """Read a file of JSON; None for any other."""
    try:
        return msgspec.json.decode(_json(inside(root, path)) or b"null")
    except (OSError, msgspec.DecodeError):
        return None


def untwin(root: str, paths: Iterable[str]) -> None:
    """The job that was to have them was not made."""
    every = list(paths)
    remove(root, every)
    for folder in {inside(root, path).parent for path in every}:
        try:
            folder.rmdir()
        except OSError:
            continue


def second_name(source: Path, place: Path) -> None:
    """Give a file one more name, or copy it where the disk cannot do that. A file of that name
    stays.

    Raises: OSError"""
    made(place.parent)
    try:
        os.link(source, place)
    except (FileExistsError, FileNotFoundError):
        if not place.exists():
            raise
    except OSError:
        flushed_copy(source, place)


def _json(place: Path) -> bytes:
    """Read JSON; nothing of what is none, or too much to be looked through."""
    if place.suffix != ".json" or place.stat().st_size > JSON_MAX:
        return b""
    return place.read_bytes()


def _renamed(data: bytes, ids: Mapping[str, str]) -> bytes:
    for old, new in ids.items():
        data = data.replace(old.encode(), new.encode())
    return data


def _link(source: Path, place: Path) -> None:
    try:
        os.link(source, place)
    except FileExistsError:
        raise
    except OSError:
        flushed_copy(source, place)
    os.utime(place)


def _write(data: bytes, place: Path) -> None:
    draft = place.with_name(place.name + DRAFT)
    try:
        with flushed(draft) as file:
            file.write(data)
        os.link(draft, place)
    finally:
        draft.unlink(missing_ok=True)
