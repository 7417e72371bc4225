"""Milliseconds inside, RFC 3339 outside: always UTC, always with three digits and a Z."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from jobrunner.errors import Refused

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


@lru_cache(maxsize=4096)
def text_of(instant: int) -> str:
    second, millisecond = divmod(instant, 1000)
    return f"{_text_of_second(second)}.{millisecond:03}Z"


@lru_cache(maxsize=1024)
def _text_of_second(second: int) -> str:
    return (EPOCH + timedelta(seconds=second)).isoformat()[:-6]


def text_or_none(instant: int | None) -> str | None:
    return None if instant is None else text_of(instant)


def instant_of(moment: datetime, path: str) -> int:
    """``moment`` has an offset: nothing else is taken from outside. At its ends the calendar
    has instants that only other offsets have a name for: nobody could be told of them again.

    Raises: Refused VALIDATION_ERROR, about what stood at ``path``.
    """
    try:
        return (moment.astimezone(UTC) - EPOCH) // MILLISECOND
    except OverflowError:
        detail = f"{path}: in UTC this is before the year 1 or after the year 9999"
        errors = [{"path": path, "message": detail}]
        raise Refused("VALIDATION_ERROR", detail, errors=errors) from None


def instant_or_none(moment: datetime | None, path: str) -> int | None:
    """Raises: Refused VALIDATION_ERROR."""
    return None if moment is None else instant_of(moment, path)


def timed(value: Any) -> Any:
    """The same, with whole numbers under names that speak of an instant written as text."""
    if isinstance(value, dict):
        return {key: _timed(key, inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [timed(inner) for inner in value]
    return value


def _timed(key: str, value: Any) -> Any:
    instant = key == "at" or key.endswith(("_at", "_until"))
    if instant and isinstance(value, int) and not isinstance(value, bool):
        return text_of(value)
    return timed(value)
