"""The lines of a copy in a store of objects, under the names that they have in a folder."""

import os
from pathlib import Path

import msgspec

from jobrunner.core.keeping.standby import CopiedChange, CopiedLine, WholeCopy, line_of
from jobrunner.files.folders import sha256_of
from jobrunner.files.standby.copied_lines import (
    BASE,
    CHANGE,
    FOLDER,
    CopiedLines,
    base_of,
    demand_sound,
    packed,
    sealed,
    unpacked,
)
from jobrunner.files.standby.shelf import StandbyShelf

BEGUN = "begun"


class FarLines(CopiedLines):
    def __init__(self, shelf: StandbyShelf) -> None:
        super().__init__(shelf.root)
        self._shelf = shelf

    def lines(self) -> list[CopiedLine]:
        return sorted(line for name in self._shelf.names(FOLDER) if (line := line_of(name)))

    def begin(self, epoch: int) -> CopiedLine:
        """Begin a line in which nothing arrives that a life before had sent and nobody answered."""
        life = max((line.life for line in self.lines() if line.epoch == epoch), default=0) + 1
        while self._shelf.create(f"{FOLDER}/{CopiedLine(epoch, life).name}/{BEGUN}", b"") is None:
            life += 1
        return CopiedLine(epoch, life)

    def put_base(self, line: CopiedLine, base: WholeCopy, source: str) -> WholeCopy:
        place = Path(source)
        try:
            size, sha256 = place.stat().st_size, sha256_of(place)
            base = msgspec.structs.replace(base, size=size, sha256=sha256)
            self._shelf.send(_content(line, base), place)
        finally:
            os.unlink(source)
        self._shelf.write(_base(line, base.number), sealed(msgspec.json.encode(base)))
        return base

    def base(self, line: CopiedLine, number: int) -> WholeCopy:
        key = _base(line, number)
        return base_of(self._shelf.read(key)[0], f"{self._shelf.root}{key}")

    def bring_base(self, line: CopiedLine, base: WholeCopy, target: Path) -> None:
        self._shelf.fetch(_content(line, base), target)
        demand_sound(target, base)

    def put_change(self, line: CopiedLine, change: CopiedChange, pages: bytes) -> int:
        data = packed(change, pages)
        self._shelf.write(_change(line, change.number), data)
        return len(data)

    def change(self, line: CopiedLine, number: int) -> tuple[CopiedChange, bytes]:
        key = _change(line, number)
        return unpacked(self._shelf.read(key)[0], f"{self._shelf.root}{key}")

    def has_change(self, line: CopiedLine, number: int) -> bool:
        return self._shelf.has(_change(line, number))

    def clear_before(self, line: CopiedLine, number: int) -> None:
        older = [one for one in self.lines() if one < line]
        needless = [key for one in older for key in self._shelf.keys(f"{FOLDER}/{one.name}/")]
        needless += [_change(line, one) for one in self.changes(line) if one <= number]
        olden = [f"{BASE}{one:012d}." for one in self.bases(line) if one < number]
        names = [name for name in self._names(line) if name.startswith(tuple(olden))]
        self._shelf.remove([*needless, *(f"{FOLDER}/{line.name}/{name}" for name in names)])

    def _names(self, line: CopiedLine) -> list[str]:
        return self._shelf.names(f"{FOLDER}/{line.name}")


def _base(line: CopiedLine, number: int) -> str:
    return f"{FOLDER}/{line.name}/{BASE}{number:012d}.json"


def _content(line: CopiedLine, base: WholeCopy) -> str:
    """Named by what it is, so what is sent twice is the same."""
    return f"{FOLDER}/{line.name}/{BASE}{base.number:012d}.{base.sha256}.db"


def _change(line: CopiedLine, number: int) -> str:
    return f"{FOLDER}/{line.name}/{number:012d}{CHANGE}"
