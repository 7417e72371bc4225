"""Which files the rows of a file speak of, for those who copy them beside it."""

import sqlite3
from contextlib import closing
from pathlib import Path

from jobrunner.errors import StorageError

AT_ONCE = 500
NEW = "SELECT id, storage_path FROM assets WHERE id > ? AND storage_path <> '' AND url NOT LIKE 'http%' ORDER BY id LIMIT ?"  # noqa: E501


def files_after(path: str, number: int, *, still: bool = False) -> tuple[int, list[str]]:
    """The next files behind the row of this number, and the number of the last. ``still``: nobody
    has it open, and nobody changes it.

    Raises: StorageError
    """
    address = f"{Path(path).absolute().as_uri()}?mode=ro{'&immutable=1' if still else ''}"
    try:
        with closing(sqlite3.connect(address, uri=True)) as db:
            found = db.execute(NEW, (number, AT_ONCE)).fetchall()
    except sqlite3.Error as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    return (found[-1][0] if found else number), [place for _, place in found]
