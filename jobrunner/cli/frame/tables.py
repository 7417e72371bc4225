"""Tables that fit: no line is longer than the terminal is wide.

First ids of jobs give way to their beginnings, which every command takes; then instants lose year
and seconds; then the widest texts are cut, with a mark; then columns go from the right. Other ids
stay whole, for no part of them would be of use. Where nobody says how wide a line may be, nothing
is cut.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

GAP = "  "
MARK = "…"
NARROWEST = 8
SHORTEST_ID = 13
INSTANT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ?")
BRIEFLY = slice(5, 16)


class Column(NamedTuple):
    """``short``: it holds ids of jobs; ``instants``: it says when, to the second."""

    name: str
    short: bool = False
    instants: bool = False

    @property
    def is_whole(self) -> bool:
        return (
            self.instants
            or self.name == "id"
            or (self.name.endswith("_id") and self.name != "user_id")
        )


def fitted(columns: Sequence[Column], cells: list[list[str]], width: int | None) -> list[str]:
    """The lines of a table, its head first."""
    lines = [[column.name.upper() for column in columns], *cells]
    widths = _widths(lines)
    if width is not None and _total(widths) > width:
        lines = _shortened(columns, lines)
        if _total(_widths(lines)) > width:
            lines = [[_brief(column, text) for column, text in zip(columns, line, strict=True)]
                     for line in lines]  # fmt: skip
        widths = _narrowed(columns, _widths(lines), width)
    return [_line(line, widths) for line in lines]


def shortest(ids: Sequence[str]) -> int:
    """How many letters of these tell them apart, at least as many as one millisecond needs."""
    ordered = sorted(set(ids))
    known = [_alike(one, other) for one, other in pairwise(ordered)]
    return max([SHORTEST_ID, *(length + 1 for length in known)])


def _alike(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _shortened(columns: Sequence[Column], lines: list[list[str]]) -> list[list[str]]:
    lengths = [
        shortest([line[place] for line in lines[1:]]) if column.short else 0
        for place, column in enumerate(columns)
    ]
    below = [[text[: most or None] for text, most in zip(line, lengths, strict=True)]
             for line in lines[1:]]  # fmt: skip
    return [lines[0], *below]


def _brief(column: Column, text: str) -> str:
    return text[BRIEFLY] if column.instants and INSTANT.fullmatch(text) else text


def _narrowed(columns: Sequence[Column], widths: list[int], width: int) -> list[int]:
    """Take from the widest that can give, letter by letter; then from the right, whole columns."""
    widths = list(widths)
    while _total(widths) > width:
        giving = [
            place
            for place, column in enumerate(columns)
            if not column.is_whole and widths[place] > NARROWEST
        ]
        if giving:
            widest = max(giving, key=widths.__getitem__)
            widths[widest] -= 1
        elif len([one for one in widths if one]) > 1:
            widths[max(place for place, one in enumerate(widths) if one)] = 0
        else:
            widths[0] = width
    return widths


def _widths(lines: list[list[str]]) -> list[int]:
    return [max(_length(line[place]) for line in lines) for place in range(len(lines[0]))]


def _total(widths: list[int]) -> int:
    kept = [width for width in widths if width]
    return sum(kept) + len(GAP) * (len(kept) - 1)


def _line(line: list[str], widths: list[int]) -> str:
    return GAP.join(_cut(text, width) for text, width in zip(line, widths, strict=True) if width)\
        .rstrip()  # fmt: skip


def _cut(text: str, width: int) -> str:
    length = _length(text)
    if length <= width:
        return text + " " * (width - length)
    while _length(text) > width - 1:
        text = text[:-1]
    return text + MARK + " " * (width - 1 - _length(text))


def _length(text: str) -> int:
    """Measure a text in cells: some letters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
