"""Names the files that rows of the file speak of, for those who copy them."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from jobrunner.errors import StorageError

AT_ONCE = 500
NEW = "SELECT id, storage_path FROM assets WHERE id > ? AND storage_path <> '' AND url NOT LIKE 'http%' ORDER BY id LIMIT ?"  # noqa: E501

# A file lies in a folder that is called like its job, or like itself where it is of none.
NEEDED = """
    SELECT storage_path FROM assets a
    WHERE (job = (SELECT id FROM jobs WHERE uid = :folder) OR uid = :folder)
        AND NOT EXISTS (SELECT 1 FROM objects o WHERE o.asset = a.id)
"""


@contextmanager
def needed_files(path: str) -> Iterator[Callable[[str], set[str]]]:
    """Give a way to find the files of a folder that are to be on the disk, are they there or not.

    Raises: StorageError
    """
    try:
        with closing(_opened(path)) as db:
            yield lambda folder: {place for (place,) in db.execute(NEEDED, {"folder": folder})}
    except sqlite3.Error as error:
        raise StorageError(f"{path} cannot be read: {error}") from error


def files_after(path: str, number: int, *, still: bool = False) -> tuple[int, list[str]]:
    """The next files behind the row of this number, and the number of the last. ``still``: nobody
    has it open, and nobody changes it.

    Raises: StorageError
    """
    try:
        with closing(_opened(path, "&immutable=1" if still else "")) as db:
            found = db.execute(NEW, (number, AT_ONCE)).fetchall()
    except sqlite3.Error as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    return (found[-1][0] if found else number), [place for _, place in found]


def _opened(path: str, how: str = "") -> sqlite3.Connection:
    return sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro{how}", uri=True)
