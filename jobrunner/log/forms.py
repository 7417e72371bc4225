"""The forms of a line: one JSON object, or words for people.

A form is handed what has been withheld and cleaned already. Words of strangers stand in it, so the
form for people lets no control character through: it would be an order to the terminal.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

Form = Callable[[int, str, str, dict[str, Any]], bytes]

COLOURS = {"info": "2", "warning": "33", "error": "31;1"}
INDENT = "    "
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@+-")


class AsJson:
    """Time, level, event, then the fields in their order."""

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder(enc_hook=str).encode
        self._second = (-1, "")

    def __call__(self, now: int, level: str, event: str, fields: dict[str, Any]) -> bytes:
        return self._encode({"ts": self._stamp(now), "level": level, "event": event, **fields})

    def _stamp(self, now: int) -> str:
        second, millis = divmod(now, 1000)
        if second != self._second[0]:
            text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            self._second = (second, text)
        return f"{self._second[1]}.{millis:03d}Z"


class AsWords:
    """Local time, level, event, the fields; texts of several lines stand below, as they are.
    ``at_hand``: somebody watches, who knows what day it is and may see colours."""

    def __init__(self, *, at_hand: bool = False, coloured: bool = False) -> None:
        self._time = "%H:%M:%S" if at_hand else "%Y-%m-%d %H:%M:%S"
        self._coloured = coloured
        self._encode = msgspec.json.Encoder(enc_hook=str).encode

    def __call__(self, now: int, level: str, event: str, fields: dict[str, Any]) -> bytes:
        known = {name: value for name, value in fields.items() if value not in (None, "")}
        below = {name: value for name, value in known.items() if _is_long(value)}
        said = [f"{name}={self._shown(known[name])}" for name in known if name not in below]
        first = f"{self._stamp(now)} {self._level(level)} {event:<20} {' '.join(said)}".rstrip()
        lines = [first, *(line for name in below for line in _block(name, below[name]))]
        return "\n".join(lines).encode("utf-8", "replace")

    def _stamp(self, now: int) -> str:
        second, millis = divmod(now, 1000)
        return f"{datetime.fromtimestamp(second).astimezone():{self._time}}.{millis:03d}"

    def _level(self, level: str) -> str:
        padded = f"{level:<7}"
        return f"\x1b[{COLOURS.get(level, '0')}m{padded}\x1b[0m" if self._coloured else padded

    def _shown(self, value: Any) -> str:
        if isinstance(value, str) and PLAIN.issuperset(value):
            return value
        return _harmless(self._encode(value).decode())


def _is_long(value: Any) -> bool:
    return isinstance(value, str) and "\n" in value.strip()


def _block(name: str, text: str) -> list[str]:
    return [f"{INDENT}{name}:", *(f"{INDENT}  {_harmless(line)}" for line in text.splitlines())]


def _harmless(text: str) -> str:
    """Escape whatever moves a cursor, rings a bell or turns the text around."""
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text)
