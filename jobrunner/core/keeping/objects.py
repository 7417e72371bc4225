"""Files in a store of objects, as rows: where each lies, what is to be cleared there, and orders to
move them.

A file is in the store when its row says so, and the row is written when the object is there
whole. Until then it lies on the disk, and it is taken off the disk only afterwards; so whoever
looks on the disk first and asks the rows then finds it at every moment.
"""

from typing import Literal

from msgspec import Struct

Target = Literal["s3", "disk"]
Standing = Literal["running", "done", "aborted"]
# The failure of an attempt that could not have a file.
LACKS_FILES = "FILES_UNREACHABLE"


class FileHere(Struct, frozen=True):
    """A file that a row speaks of and that no row says is in the store; ``row`` is its asset's."""

    row: int
    path: str
    size: int | None
    sha256: str


class FilesHere(Struct, frozen=True):
    """Files on the disk among a page of assets. ``reached`` is the last asset of the page; None:
    there are no more."""

    files: tuple[FileHere, ...]
    reached: int | None


class FarFile(Struct, frozen=True):
    """A file in the store. Its digest is a part of its ``key``."""

    row: int
    path: str
    key: str
    size: int

    @property
    def sha256(self) -> str:
        return self.key.split("/")[-2]


class FileMove(Struct, frozen=True):
    """An order to move the files of all assets up to ``up_to``; ``reached`` is how far it is.
    ``row`` is its place in the file, once it is there."""

    id: str
    target: Target
    actor: str
    at: int
    up_to: int
    status: Standing = "running"
    reached: int = 0
    moved: int = 0
    bytes: int = 0
    skipped: int = 0
    ended_at: int | None = None
    row: int = 0


class NewMove(Struct, frozen=True, tag=True):
    """Store an order; refused with ``exists`` while another one is open."""

    move: FileMove


class MoveTurned(Struct, frozen=True, tag=True):
    """An order that is done or was aborted; refused with ``missing`` when it is over already."""

    id: str
    status: Standing
    actor: str
    at: int


class FilesMoved(Struct, frozen=True, tag=True):
    """These lie in the store from now on (``there``; a copy stays here until ``here_until``), and
    these no more (``back``). With ``order`` an order has come to ``reached``."""

    at: int
    there: tuple[FarFile, ...] = ()
    back: tuple[FarFile, ...] = ()
    here_until: int | None = None
    order: str = ""
    reached: int = 0
    skipped: int = 0


class CopiesHere(Struct, frozen=True, tag=True):
    """Copies of files in the store: they lie here until then, or (None) no more."""

    paths: tuple[str, ...]
    until: int | None


class KeysSeen(Struct, frozen=True, tag=True):
    """Keys that were seen in the store and that no row names."""

    keys: tuple[str, ...]
    at: int


class KeysCleared(Struct, frozen=True, tag=True):
    """Keys under which nothing lies any more."""

    keys: tuple[str, ...]


ObjectUnit = NewMove | MoveTurned | FilesMoved | CopiesHere | KeysSeen | KeysCleared
OBJECT_UNITS = NewMove, MoveTurned, FilesMoved, CopiesHere, KeysSeen, KeysCleared
