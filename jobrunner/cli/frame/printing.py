"""How answers are printed: rows in columns, as JSON, or nothing but their ids."""

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from cyclopts import CycloptsError

from jobrunner.cli.frame import terminal
from jobrunner.cli.frame.options import Form
from jobrunner.cli.frame.tables import Column, fitted

# What moves a cursor, sets a title or turns the text around. Lines stay lines.
ORDERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
INSTANTS = ("at", "as_of", "since")
TABLE = Form()


def rows(
    found: Sequence[dict[str, Any]],
    columns: Sequence[str],
    form: Form = TABLE,
    jobs: Collection[str] = ("job_id",),
    key: str = "id",
) -> None:
    """One line a row; a table has the named columns, JSON has everything. ``jobs`` are the columns
    with ids of jobs, of which a beginning is enough where there is no room; ``key`` is the one
    that says which row it is."""
    if form.output == "ids":
        for row in found:
            print(_id(row, key))
    elif form.output == "json":
        json(found)
    else:
        named = [Column(name, name in jobs, _says_when(name)) for name in columns]
        cells = [[cell(name, row.get(name), form) for name in columns] for row in found]
        _table(fitted(named, cells, terminal.width()), [terminal.tone(row) for row in found])


def record(found: dict[str, Any], form: Form = TABLE, key: str = "id") -> None:
    """One thing: a line for each of its fields that has a value."""
    if form.output == "ids":
        print(_id(found, key))
    elif form.output == "json":
        json(found)
    else:
        width = max(map(len, found), default=0)
        for name, value in found.items():
            if value not in (None, "", [], {}):
                print(f"{name:<{width}}  {cell(name, value, form)}")


def verdict(faults: Sequence[str], form: Form) -> int:
    """Print the faults that an examination found, or that all is well; return the exit code."""
    if form.output == "json":
        json({"ok": not faults, "faults": list(faults)})
    elif form.output == "table":
        print("\n".join(faults) or "ok")
    else:
        raise CycloptsError(msg="-o ids: this has no id; take json or table")
    return 1 if faults else 0


def read(said: bytes) -> Any:
    """An answer, whoever gave it."""
    return msgspec.json.decode(said)


def json(found: Any) -> None:
    print(harmless(msgspec.json.format(msgspec.json.encode(found), indent=2).decode()))


def line(found: Any) -> None:
    """One of many that come as they happen."""
    print(harmless(msgspec.json.encode(found).decode()), flush=True)


def harmless(text: str) -> str:
    """Write a text so that it gives no order to the terminal. In JSON this is another way to write
    the same."""
    return ORDERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def cell(name: str, value: Any, form: Form) -> str:
    """One line, whatever a client or provider put into it."""
    if value is None:
        return "-"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if _says_when(name):
        text = instant(text, form)
    return "".join(letter if letter.isprintable() else " " for letter in text)


def instant(text: str, form: Form) -> str:
    """An instant in the words of a clock on the wall; anything else as it is."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return text
    if when.tzinfo is None:
        return text
    here = when.astimezone(UTC if form.utc else None)
    return f"{here:%Y-%m-%d %H:%M:%S}{'Z' if form.utc else ''}"


def _says_when(name: str) -> bool:
    return name in INSTANTS or name.endswith("_at")


def _id(found: dict[str, Any], key: str) -> Any:
    if key not in found:
        raise CycloptsError(msg="-o ids: this has no id; take json or table")
    return found[key]


def _table(lines: Sequence[str], tones: Sequence[str]) -> None:
    head, *below = lines
    print(terminal.painted(head, "bold"))
    for text, tone in zip(below, tones, strict=True):
        print(terminal.painted(text, tone))
