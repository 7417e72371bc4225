"""Finds out whether a disk quota is used up. SQLite recognises a full disk; of a user's or group's
quota it only says that writing failed, which might mean anything. So a little is written beside the
file: the system then says why it refuses."""

import errno
import os
import sqlite3
from contextlib import suppress

TRIED_BYTES = 64 * 1024
NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


def is_used_up(connection: sqlite3.Connection) -> bool:
    """Asked after a write that failed; the transaction is over."""
    try:
        path = connection.execute("PRAGMA database_list").fetchone()[2]
    except sqlite3.Error:
        return False
    return bool(path) and _takes_nothing(f"{path}.room")


def _takes_nothing(path: str) -> bool:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return error.errno in NO_ROOM
    try:
        os.write(handle, bytes(TRIED_BYTES))
        os.fsync(handle)
    except OSError as error:
        return error.errno in NO_ROOM
    finally:
        os.close(handle)
        with suppress(OSError):
            os.unlink(path)
    return False
