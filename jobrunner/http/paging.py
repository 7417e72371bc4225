"""Cursors: the internal key of the last row seen, in an envelope that invites no arithmetic."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error

from jobrunner.http.problems import invalid

SEAL = b"c1:"


def cursor_of(key: int | None) -> str | None:
    """None when there is nothing further."""
    return None if key is None else urlsafe_b64encode(SEAL + b"%d" % key).decode().rstrip("=")


def key_of(cursor: str | None) -> int | None:
    """Raises: Refused VALIDATION_ERROR for what never was a cursor of ours."""
    if cursor is None:
        return None
    try:
        text = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
    except (Error, UnicodeEncodeError):
        text = b""
    digits = text.removeprefix(SEAL)
    if not text.startswith(SEAL) or not digits.isdigit() or len(digits) > 18:
        detail = "cursor: take it as it came in next_cursor"
        raise invalid(detail, ("cursor", detail))
    return int(digits)
