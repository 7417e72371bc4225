"""Backups as they lie in their folder: which there are, what they say of themselves, and whether
that is still true. Whoever only reads them changes nothing there."""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from jobrunner.core.keeping.backups import Manifest
from jobrunner.errors import StorageError
from jobrunner.files.folders import flushed_copy, sha256_of

NAME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{6}\.[0-9]{3}Z")
DATABASE, LIST, MANIFEST, FILES = "jobrunner.db", "files.list", "manifest.json", "files"
BESIDE = ("notify.secret", "answers.secret", "admin.token")


class Sealed(Struct, frozen=True):
    """A manifest as it stands in its file: with the digest of its own text."""

    manifest: msgspec.Raw
    sha256: str


class FileLine(Struct, frozen=True):
    sha256: str
    size: int
    path: str


class StoredBackups:
    def __init__(self, root: str) -> None:
        self.root = Path(root)

    def folders(self) -> list[str]:
        """The names of all backups, oldest first, also of those that were cut off."""
        found = os.listdir(self.root) if self.root.is_dir() else []
        return sorted(name for name in found if NAME.fullmatch(name))

    def names(self) -> list[str]:
        """The names of those that are whole, oldest first."""
        return [name for name in self.folders() if (self.root / name / MANIFEST).exists()]

    def manifest(self, name: str) -> Manifest:
        """Raises: StorageError"""
        place = self.root / name / MANIFEST
        try:
            sealed = msgspec.json.decode(place.read_bytes(), type=Sealed)
            told = bytes(sealed.manifest)
            if hashlib.sha256(told).hexdigest() != sealed.sha256:
                raise StorageError(f"{place} is damaged: its text is not that of its digest")
            return msgspec.json.decode(told, type=Manifest)
        except (OSError, msgspec.DecodeError) as error:
            raise StorageError(f"{place} cannot be read: {error}") from error

    def lines(self, name: str) -> Iterator[FileLine]:
        """Raises: StorageError"""
        place = self.root / name / LIST
        try:
            with place.open(encoding="utf-8") as file:
                for line in file:
                    sha256, size, path = line.rstrip("\n").split(" ", 2)
                    yield FileLine(sha256, int(size), path)
        except (OSError, ValueError) as error:
            raise StorageError(f"{place} cannot be read: {error}") from error

    def faults(self, name: str) -> Iterator[str]:
        """Read all of it, and say what is not as it was when it was taken.

        Raises: StorageError
        """
        manifest = self.manifest(name)
        for part in (manifest.database, manifest.list, *manifest.beside):
            yield from _changed(self.root / name / part.name, part.size, part.sha256)
        count = 0
        for line in self.lines(name):
            count += 1
            yield from _changed(self.place_of(line.sha256), line.size, line.sha256, line.path)
        if count != manifest.files:
            yield f"{name} has {manifest.files} files, and lists {count}"

    def place_of(self, sha256: str) -> Path:
        return self.root / FILES / sha256[:2] / sha256


def _changed(place: Path, size: int, sha256: str, path: str = "") -> Iterator[str]:
    named = f"{place} ({path})" if path else str(place)
    try:
        if place.stat().st_size != size:
            yield f"{named} has {place.stat().st_size} bytes, and had {size}"
        elif sha256_of(place) != sha256:
            yield f"{named} is damaged: it is not what was backed up"
    except OSError as error:
        yield f"{named} cannot be read: {error.strerror}"


def copied(source: Path, target: Path, sha256: str) -> None:
    """A part of a backup at another place, flushed.

    Raises: StorageError, where it is not what it was; OSError
    """
    _demand_sound(source, sha256)
    flushed_copy(source, target)


def linked(source: Path, target: Path, sha256: str) -> None:
    """A file of a backup at the place of a restored one: a second name of it, or a copy.

    Raises: StorageError, where it is not what it was; OSError
    """
    _demand_sound(source, sha256)
    if not second_name(source, target):
        flushed_copy(source, target)


def _demand_sound(source: Path, sha256: str) -> None:
    if sha256_of(source) != sha256:
        raise StorageError(f"{source} is damaged: it is not what was backed up")


def second_name(source: Path, target: Path) -> bool:
    """Give a file a second name. Nothing that is here is changed in place; a wrong file of this
    name is replaced by a copy."""
    try:
        os.link(source, target)
    except OSError:
        return False
    return True
