"""Cursors: the internal key of the last row seen, in an envelope that invites no arithmetic."""

import re

from jobrunner.http.frame.problems import invalid

SEAL = "c1-"
CURSOR = r"^c1-[0-9a-f]{1,15}$"


def cursor_of(key: int | None) -> str | None:
    """None when there is nothing further."""
    return None if key is None else f"{SEAL}{key:x}"


def key_of(cursor: str | None) -> int | None:
    """Raises: Refused VALIDATION_ERROR for what never was a cursor of ours."""
    if cursor is None:
        return None
    if "\n" in cursor or not re.match(CURSOR, cursor):
        detail = "cursor: take it as it came in next_cursor"
        raise invalid(detail, ("cursor", detail))
    return int(cursor.removeprefix(SEAL), 16)
