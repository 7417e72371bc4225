"""Brings a copy of the file forward by what commits have changed.

Pages are written where they belong, so a change may be written twice, and one that was cut off is
written again. How far it has come is said beside it only when it is on the disk.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from jobrunner.core.keeping.standby import CopiedChange, ReachedChange

FOLLOWING, REACHED = ".following", ".following.json"


class CopyReplay:
    """The copy beside ``path``, which nobody has open."""

    def __init__(self, path: str) -> None:
        self.place = Path(f"{os.path.abspath(path)}{FOLLOWING}")
        self._said = Path(f"{os.path.abspath(path)}{REACHED}")

    def reached(self) -> ReachedChange | None:
        """How far it has come; None where there is nothing to go on with."""
        try:
            found = msgspec.json.decode(self._said.read_bytes(), type=ReachedChange)
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        return found if self.place.exists() else None

    def forget(self) -> None:
        """Before another copy takes its place. Raises: OSError"""
        self._said.unlink(missing_ok=True)
        self.place.unlink(missing_ok=True)

    def apply(self, change: CopiedChange, pages: bytes, reached: ReachedChange) -> None:
        """Raises: OSError"""
        handle = os.open(self.place, os.O_RDWR | os.O_CLOEXEC)
        size = change.page_bytes
        try:
            for index, number in enumerate(change.numbers):
                os.pwrite(handle, pages[index * size : (index + 1) * size], (number - 1) * size)
            os.ftruncate(handle, change.pages * size)
            os.fsync(handle)
        finally:
            os.close(handle)
        self.say(reached)

    def say(self, reached: ReachedChange) -> None:
        """Raises: OSError"""
        draft = self._said.with_suffix(".draft")
        with suppress(FileNotFoundError):
            draft.unlink()
        draft.write_bytes(msgspec.json.encode(reached))
        os.replace(draft, self._said)

    def done(self) -> None:
        """Forget how far the copy came: it is in its place now."""
        self._said.unlink(missing_ok=True)
