"""How much an attempt may keep. It lies in the row of the attempt, which is written whole with each
value and read whenever the job is: so each value is small, and all of them together are, too."""

from collections.abc import Mapping
from typing import Any

import msgspec

EACH_MAX = 64 * 1024
ALL_MAX = 4 * 1024**2
ADVICE = "save() large things as files and keep their addresses; many small ones go under one name"


def size_of(kept: Mapping[str, Any]) -> int:
    return sum(len(name) + len(msgspec.json.encode(value)) for name, value in kept.items())


def too_much(name: str, size: int, before: int) -> str:
    """Say why a value of this size is not kept beside what was kept ``before``; empty if it is."""
    if size > EACH_MAX:
        return f"{name!r} is {size} bytes; {EACH_MAX} are kept"
    whole = before + len(name) + size
    if whole > ALL_MAX:
        return f"with {name!r} the attempt would keep {whole} bytes, and {ALL_MAX} is all: {ADVICE}"
    return ""
