"""The lines of a copy: bases and changes, written by who serves and read by who follows."""

import hashlib
import os
import shutil
import zlib
from pathlib import Path

import msgspec

from jobrunner.core.keeping.standby import CopiedChange, CopiedLine, WholeCopy, line_of
from jobrunner.errors import StorageError
from jobrunner.files.folders import CHUNK, flush, flushed, flushed_copy, made, sha256_of

FOLDER, BASE, CHANGE = "lines", "base.", ".change"
QUICKLY = 1


class CopiedLines:
    """All lines of a copy."""

    def __init__(self, root: str) -> None:
        self.folder = Path(root) / FOLDER

    def lines(self) -> list[CopiedLine]:
        """List the lines in their order. Raises: OSError"""
        try:
            return sorted(line for name in os.listdir(self.folder) if (line := line_of(name)))
        except FileNotFoundError:
            return []

    def newest(self) -> CopiedLine | None:
        """The last one that has a base: the one before is whole until then.

        Raises: OSError
        """
        return next((line for line in reversed(self.lines()) if self.bases(line)), None)

    def begin(self, epoch: int) -> CopiedLine:
        """The next line of this epoch. Raises: OSError"""
        life = max((line.life for line in self.lines() if line.epoch == epoch), default=0) + 1
        line = CopiedLine(epoch, life)
        made(self.folder / line.name)
        return line

    def bases(self, line: CopiedLine) -> list[int]:
        """The numbers of its whole bases, in their order."""
        found = self._names(line)
        return sorted(
            int(name[len(BASE) : -len(".json")])
            for name in found
            if name.startswith(BASE) and name.endswith(".json")
        )

    def changes(self, line: CopiedLine) -> list[int]:
        """The numbers of its changes, in their order."""
        found = self._names(line)
        return sorted(int(name[: -len(CHANGE)]) for name in found if name.endswith(CHANGE))

    def put_base(self, line: CopiedLine, base: WholeCopy, source: str) -> WholeCopy:
        """Take a copy of the file from ``source``, which goes; with its digest and size, once it is
        on the disk.

        Raises: OSError
        """
        place = self.base_place(line, base.number)
        draft = place.with_suffix(".draft")
        try:
            size, sha256 = _copied(Path(source), draft)
        finally:
            os.unlink(source)
        os.replace(draft, place)
        base = msgspec.structs.replace(base, size=size, sha256=sha256)
        _put(place.with_suffix(".json"), sealed(msgspec.json.encode(base)))
        return base

    def base(self, line: CopiedLine, number: int) -> WholeCopy:
        """Raises: StorageError, when it is not what it was; OSError"""
        place = self.base_place(line, number).with_suffix(".json")
        return base_of(place.read_bytes(), str(place))

    def bring_base(self, line: CopiedLine, base: WholeCopy, target: Path) -> None:
        """A base at another place, flushed.

        Raises: StorageError, when it is not what it was; OSError
        """
        place = self.base_place(line, base.number)
        demand_sound(place, base)
        flushed_copy(place, target)

    def base_place(self, line: CopiedLine, number: int) -> Path:
        return self.folder / line.name / f"{BASE}{number:012d}.db"

    def put_change(self, line: CopiedLine, change: CopiedChange, pages: bytes) -> int:
        """How many bytes it takes. Raises: OSError"""
        data = packed(change, pages)
        _put(self.change_place(line, change.number), data)
        return len(data)

    def change(self, line: CopiedLine, number: int) -> tuple[CopiedChange, bytes]:
        """A change and its pages.

        Raises: StorageError, when it is not what it was; OSError
        """
        place = self.change_place(line, number)
        return unpacked(place.read_bytes(), str(place))

    def has_change(self, line: CopiedLine, number: int) -> bool:
        return self.change_place(line, number).exists()

    def change_place(self, line: CopiedLine, number: int) -> Path:
        return self.folder / line.name / f"{number:012d}{CHANGE}"

    def clear_before(self, line: CopiedLine, number: int) -> None:
        """Remove what the base of this number has made needless: it goes on from there.

        Raises: OSError
        """
        for older in self.lines():
            if older < line:
                shutil.rmtree(self.folder / older.name, ignore_errors=True)
        for one in self.changes(line):
            if one <= number:
                self.change_place(line, one).unlink(missing_ok=True)
        for one in self.bases(line):
            if one < number:
                place = self.base_place(line, one)
                place.with_suffix(".json").unlink(missing_ok=True)
                place.unlink(missing_ok=True)

    def _names(self, line: CopiedLine) -> list[str]:
        try:
            return os.listdir(self.folder / line.name)
        except FileNotFoundError:
            return []


def packed(change: CopiedChange, pages: bytes) -> bytes:
    """A change as it lies in its place."""
    head = msgspec.json.encode(change)
    return sealed(len(head).to_bytes(4) + head + zlib.compress(pages, QUICKLY))


def unpacked(data: bytes, place: str) -> tuple[CopiedChange, bytes]:
    """Raises: StorageError"""
    found = _unsealed(data, place)
    try:
        end = 4 + int.from_bytes(found[:4])
        change = msgspec.json.decode(found[4:end], type=CopiedChange)
        return change, zlib.decompress(found[end:])
    except (msgspec.DecodeError, zlib.error) as error:
        raise StorageError(f"{place} is damaged: {error}") from error


def base_of(data: bytes, place: str) -> WholeCopy:
    """Raises: StorageError"""
    try:
        return msgspec.json.decode(_unsealed(data, place), type=WholeCopy)
    except msgspec.DecodeError as error:
        raise StorageError(f"{place} is damaged: {error}") from error


def demand_sound(place: Path, base: WholeCopy) -> None:
    """Raises: StorageError, when a base is not what it was; OSError"""
    if sha256_of(place) != base.sha256:
        raise StorageError(f"{place} is damaged: it is not what was copied")


def _copied(source: Path, target: Path) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as old, flushed(target) as new:
        while chunk := old.read(CHUNK):
            new.write(chunk)
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def sealed(data: bytes) -> bytes:
    return hashlib.sha256(data).digest() + data


def _unsealed(found: bytes, place: str) -> bytes:
    if hashlib.sha256(found[32:]).digest() != found[:32]:
        raise StorageError(f"{place} is damaged: it is not what was copied")
    return found[32:]


def _put(place: Path, data: bytes) -> None:
    """Whole and on the disk before it has its name, and its name on the disk, too."""
    draft = place.with_name(f"{place.name}.draft")
    with flushed(draft) as file:
        file.write(data)
    os.replace(draft, place)
    flush(place.parent)
