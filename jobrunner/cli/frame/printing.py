"""How answers are printed: rows in columns, as JSON, or nothing but their ids."""

from collections.abc import Sequence
from typing import Any

import msgspec

from jobrunner.cli.frame.options import Output


def rows(found: Sequence[dict[str, Any]], columns: Sequence[str], output: Output = "table") -> None:
    """One line a row; a table has the named columns, JSON has everything."""
    if output == "ids":
        for row in found:
            print(row["id"])
    elif output == "json":
        json(found)
    else:
        _table([[_cell(row.get(column)) for column in columns] for row in found], columns)


def record(found: dict[str, Any], output: Output = "table") -> None:
    """One thing: a line for each of its fields that has a value."""
    if output == "ids":
        print(found["id"])
    elif output == "json":
        json(found)
    else:
        width = max(map(len, found), default=0)
        for name, value in found.items():
            if value not in (None, "", [], {}):
                print(f"{name:<{width}}  {_cell(value)}")


def read(said: bytes) -> Any:
    """An answer, whoever gave it."""
    return msgspec.json.decode(said)


def json(found: Any) -> None:
    print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())


def _table(cells: list[list[str]], columns: Sequence[str]) -> None:
    lines = [[column.upper() for column in columns], *cells]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(padded).rstrip())


def _cell(value: Any) -> str:
    """One line, whatever a client or provider put into it."""
    if value is None:
        return "-"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return "".join(letter if letter.isprintable() else " " for letter in text)
