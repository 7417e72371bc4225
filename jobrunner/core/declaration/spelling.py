"""Spelling of names, and of a declaration's values for people."""

import re
from typing import Any

SHOWN_MAX = 60

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
USER = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
NOT = "not "  # before the name of a setting
ARTIFACT = re.compile(r"[a-z][a-z0-9_]{0,63}")
PATH = re.compile(r"(/([A-Za-z0-9._~-]+|\{[a-z][a-z_]*\}))+")


def shown(value: Any) -> str:
    """Any value, as it may stand in a text; whatever its own code does when it is asked."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a stranger's object, and its own idea of a repr
        text = f"something of type {type(value).__name__}"
    text = text.encode("ascii", "backslashreplace").decode()
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
