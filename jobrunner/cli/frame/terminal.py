"""The terminal that is printed to, if it is one: how wide it is, and whether it has colours."""

import os
import shutil
import sys
from typing import Any

CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "dim": "2"}
TONES = {"completed": "green", "partial": "yellow"}


def width() -> int | None:
    """How many letters a line has; None where nobody looks at it, and any is right."""
    told = os.environ.get("COLUMNS", "")
    if not (told.isascii() and told.isdigit() and int(told)) and not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def has_colours() -> bool:
    """Say whether to use colours: on a terminal, unless NO_COLOR is set or it has none."""
    refused = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not refused


def painted(text: str, colour: str) -> str:
    return f"\x1b[{CODES[colour]}m{text}\x1b[0m" if colour and has_colours() else text


def tone(row: dict[str, Any]) -> str:
    """The colour of a job in a list: by how it ended, or that it waits for a person."""
    if row.get("needs_person"):
        return "yellow"
    ended_as = row.get("ended_as")
    return TONES.get(ended_as, "red") if ended_as else ""
