"""Where the files of jobs lie: under one folder, each at its ``storage_path``, whole or absent.

A file is written beside its place, flushed, given its name by a link that refuses to replace
another one, and its folder flushed; only then a row may speak of it. So a file without a row is
garbage, which the next start sweeps away when it is a day old, and a row without its file is a
fault. A stage in another process does this by itself: the room needs no port for it, as files are
the one thing that looks the same from everywhere.
"""

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct

from jobrunner.errors import PermanentFailure, RetryableFailure, StorageError
from jobrunner.files.folders import CHUNK, flush, flushed, made, sha256_of
from jobrunner.files.space import Room

NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
DRAFT = ".draft"
SCRATCH = ".scratch"
OLD_MS = 24 * 3600 * 1000
TRIES = 1000
# The scratch folders that this process has made and not tidied.
_handed_out: set[str] = set()
ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}


class Kept(Struct, frozen=True):
    """A file as it was when it got its name; ``path`` is below the folder of all files."""

    path: str
    size: int
    sha256: str


class Shelf:
    """The files of one job: ``folder`` is its own below ``root``, ``count`` how many it has."""

    def __init__(
        self, root: str, folder: str, count: int = 0, room: Callable[[int], None] | None = None
    ) -> None:
        self._root = root
        self._folder = folder
        self._count = count
        self._room = room or Room()

    def put(self, name: str, content: bytes | str) -> Kept:
        """Bytes, or the path of a file that is moved here, under a name of its own."""
        checked_name(name)
        folder = made(Path(self._root, self._folder))
        self._room(len(content) if isinstance(content, bytes) else os.path.getsize(content))
        draft = folder / f"{name}{DRAFT}"
        try:
            size, sha256 = _written(draft, content)
            place = self._named(draft, name)
        finally:
            draft.unlink(missing_ok=True)
        flush(folder)
        if isinstance(content, str):
            Path(content).unlink(missing_ok=True)
        return Kept(place.relative_to(Path(self._root)).as_posix(), size, sha256)

    def sound(self, artifact: str, kept: Kept | None) -> str:
        """The path of a file that is as it was recorded."""
        if kept is None:
            raise PermanentFailure("CORRUPT_INPUT", f"artifact {artifact!r} has no file here")
        try:
            sound = is_sound(self._root, kept)
        except StorageError as error:
            raise RetryableFailure("STORAGE_FAILED", str(error)) from error
        if not sound:
            text = f"the file of {artifact!r} is missing, or is not what was recorded"
            raise PermanentFailure("CORRUPT_INPUT", text)
        return str(Path(self._root, kept.path))

    def _named(self, draft: Path, name: str) -> Path:
        """The first file of a job keeps its name, every other one gets a number."""
        for number in range(self._count + 1, self._count + TRIES):
            place = draft.with_name(numbered(name, number))
            try:
                os.link(draft, place)
            except FileExistsError:
                continue
            self._count = number
            return place
        raise PermanentFailure("BAD_FILE_NAME", f"too many files are called {name!r} here")


def checked_name(name: str) -> str:
    if not NAME.fullmatch(name):
        text = f"{name[:120]!r} cannot be a file's name; 1 to 100 letters, digits, '.', '_', '-'"
        raise PermanentFailure("BAD_FILE_NAME", text)
    return name


def scratch_path(root: str) -> str:
    """Name the folder of what attempts need only while they run, on the disk that their files go
    to."""
    return os.path.abspath(os.path.join(root, SCRATCH))


def handed_out(folder: str) -> str:
    """Make a scratch folder for somebody who asks for one: most never do, and then nobody has to
    ask the disk whether there is one to tidy."""
    _handed_out.add(folder)
    os.makedirs(folder, exist_ok=True)
    return folder


def is_handed_out(folder: str) -> bool:
    return folder in _handed_out


def made_empty(folder: str) -> None:
    tidy(folder)
    made(Path(folder))
    _handed_out.add(folder)


def tidy(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    _handed_out.discard(folder)


def is_sound(root: str, kept: Kept) -> bool:
    """There, of this size, with this digest.

    Raises: StorageError, when nobody can tell: a file that cannot be opened now (too many are open,
    a right is missing, the disk fails) is not gone.
    """
    try:
        place = inside(root, kept.path)
        return place.stat().st_size == kept.size and sha256_of(place) == kept.sha256
    except OSError as error:
        if is_absent(error):
            return False
        raise StorageError(f"{kept.path} cannot be looked at: {error.strerror}") from error


def is_absent(error: OSError) -> bool:
    """There is no such file. Any other error (too many are open, a right is missing, the disk
    fails) says nothing of what is there."""
    return error.errno in ABSENT or isinstance(error, FileNotFoundError)


def inside(root: str, path: str) -> Path:
    """The place of a file, which is below the folder of all files whatever its row says."""
    place = Path(root, path)
    if not path or ".." in place.parts or Path(path).is_absolute():
        raise FileNotFoundError(path)
    return place


class SoundFiles:
    """Remembers which files were sound, for as long as nothing about them changed."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[Kept, tuple[int, ...]] = {}

    def __call__(self, kept: Kept) -> bool:
        marks = self._marks(kept)
        if marks is None:
            self._known.pop(kept, None)
            return False
        if self._known.get(kept) == marks:
            return True
        sound = is_sound(self._root, kept)
        if sound:
            self._known[kept] = marks
        if len(self._known) > TRIES:
            self._known.pop(next(iter(self._known)))
        return sound

    def _marks(self, kept: Kept) -> tuple[int, ...] | None:
        try:
            stat = inside(self._root, kept.path).stat()
        except OSError as error:
            if is_absent(error):
                return None
            raise StorageError(f"{kept.path} cannot be looked at: {error.strerror}") from error
        return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def old_files(root: str, now_ms: int) -> dict[str, list[str]]:
    """The paths of files that are a day old, by the name of their folder, which is a job's."""
    found: dict[str, list[str]] = {}
    for folder, _, names in os.walk(root):
        places = [Path(folder, name) for name in names]
        old = [place for place in places if _age_ms(place, now_ms) > OLD_MS]
        for place in old:
            path = place.relative_to(root).as_posix()
            found.setdefault(os.path.basename(folder), []).append(path)
    return found


def remove(root: str, paths: Iterable[str]) -> None:
    for path in paths:
        inside(root, path).unlink(missing_ok=True)


def _age_ms(place: Path, now_ms: int) -> int:
    try:
        return now_ms - place.stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0


def _written(draft: Path, content: bytes | str) -> tuple[int, str]:
    """Into a file that is on disk when this returns; its size and digest."""
    with flushed(draft) as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            with open(content, "rb") as source:
                shutil.copyfileobj(source, file, CHUNK)
    return draft.stat().st_size, sha256_of(draft)


def numbered(name: str, number: int) -> str:
    """The first file of a job keeps its name, unless that ends like the name of a later one."""
    if number == 1 and not re.search(r"-[0-9]+\Z", name.partition(".")[0]):
        return name
    stem, dot, ending = name.rpartition(".")
    if not stem or len(ending) > 10:
        stem, dot, ending = name, "", ""
    suffix = f"-{number}{dot}{ending}"
    return stem[: 100 - len(suffix)] + suffix
