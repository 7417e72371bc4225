"""Tells what a stage decided from what it measured: how long something took, and when it was, may
be said in a result, and is different each time."""

import re
import time
from typing import Any

import msgspec

DAYS_S = 2 * 86_400.0
INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")
FRACTION = re.compile(r"\d+\.\d+")


def without_measures(value: Any) -> Any:
    """The same, with nothing in it that a clock gave."""
    if isinstance(value, dict):
        return {name: without_measures(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_measures(inner) for inner in value]
    if isinstance(value, str):
        return FRACTION.sub("#", INSTANT.sub("#", value))
    if isinstance(value, float) or _is_now(value):
        return "#"
    return value


def as_decided(outcome: str, result: Any, artifacts: Any, awaits: str) -> str:
    """An end of a pass, as far as it was decided."""
    found = msgspec.to_builtins([outcome, result, artifacts, awaits])
    return repr(without_measures(found))


def _is_now(value: Any) -> bool:
    """Say whether this is the present time, in seconds or milliseconds since 1970."""
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    now = time.time()
    return abs(value - now) < DAYS_S or abs(value / 1000 - now) < DAYS_S
