"""The beginning of a file: whether it is text, what stands between its values, and what its columns
are called.

Nothing is taken from the name that the sender gave to the file. Only a sample of fixed size is
looked at, whatever the file is, and the header has to end in it.
"""

import csv
import io
import re
from collections import Counter
from itertools import islice

from jobrunner import PermanentFailure
from jobrunner_ss.showing import seen

COLUMNS_MAX = 500
NAME_MAX = 200
SAMPLE = 128 * 1024  # no longer than what Python's csv takes for one value
SAMPLE_LINES = 100
SEPARATORS = (",", ";", "\t", "|")
ENCODINGS = ("utf-8-sig", "cp1252", "latin-1")
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
PACKED = {
    b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd", b"7z\xbc\xaf": "7z",
}  # fmt: skip
NUMBER = re.compile(r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
EMPTY, UNREADABLE, TOO_LARGE = "INPUT_EMPTY", "INPUT_UNREADABLE", "INPUT_TOO_LARGE"
NO_TEXT = "the file is not text; save the table as CSV and upload that"


def encodings_of(head: bytes) -> tuple[str, ...]:
    """In which to try to read what begins like this.

    Raises: PermanentFailure INPUT_UNREADABLE"""
    if head.startswith(UTF_16):
        return ("utf-16",)
    packed = next((kind for sign, kind in PACKED.items() if head.startswith(sign)), "")
    if packed:
        text = f"the file is packed ({packed}), whatever it is called: unpack it, or "
        raise PermanentFailure(UNREADABLE, f"{text}save the table as CSV and upload that")
    if b"\0" in head:
        raise PermanentFailure(UNREADABLE, NO_TEXT)
    return ENCODINGS


def layout_of(head: bytes, encoding: str) -> tuple[str, list[str]]:
    """The separator, and a name for each column: empty where the header has none.

    Raises: UnicodeError, PermanentFailure"""
    cut = len(head) == SAMPLE
    text = head.decode(encoding, "ignore" if cut else "strict")
    if "\0" in text:
        raise PermanentFailure(UNREADABLE, NO_TEXT)
    if not text.strip():
        raise PermanentFailure(EMPTY, "the file has no rows: upload a CSV with a header")
    separator = max(SEPARATORS, key=lambda one: _fits(_rows(text, one, cut)))
    rows = _rows(text, separator, cut)
    if not rows:
        size = f"{SAMPLE // 1024} KiB"
        text = f"the header does not end within {size}: is a quote left open in the first line?"
        raise PermanentFailure(UNREADABLE, text)
    names = [seen(name) for name in rows[0]]
    _check_names(names)
    _check_rows(rows, len(names))
    return separator, names


def _rows(text: str, separator: str, cut: bool) -> list[list[str]]:
    """The first rows; the last of them may be cut by the end of the sample."""
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    try:
        rows = [row for row in islice(reader, SAMPLE_LINES + 1) if any(map(str.strip, row))]
        whole = not cut or lines.tell() < len(text)
    except csv.Error as bad:
        text = "the first lines of the file are no CSV: look for signs that no program wrote"
        raise PermanentFailure(UNREADABLE, text) from bad
    return rows if whole else rows[:-1]


def _fits(rows: list[list[str]]) -> tuple[float, int]:
    """The sign that cuts most lines into the same number of parts, and into the most of them."""
    if not rows:
        return (0.0, 0)
    width, alike = Counter(map(len, rows)).most_common(1)[0]
    return (alike / len(rows) if width > 1 else 0.0, width)


def _check_names(names: list[str]) -> None:
    if len(names) > COLUMNS_MAX:
        text = f"the table has {len(names)} columns; {COLUMNS_MAX} are read"
        raise PermanentFailure(TOO_LARGE, text)
    named = [name for name in names if name]
    if named and all(NUMBER.fullmatch(name) for name in named):
        text = "the first line has numbers where the names of the columns belong: add a header"
        raise PermanentFailure(UNREADABLE, text)
    if long := next((name for name in named if len(name) > NAME_MAX), ""):
        text = f"a column is called {long[:40]!r}… with {len(long)} letters; {NAME_MAX} are read"
        raise PermanentFailure(UNREADABLE, text)
    twice = [name for name, count in Counter(named).items() if count > 1]
    if twice:
        raise PermanentFailure(UNREADABLE, f"two columns are called {twice[0]!r}: rename one")


def _check_rows(rows: list[list[str]], width: int) -> None:
    for number, row in enumerate(rows[1:], 2):
        if any(value.strip() for value in row[width:]):
            text = f"line {number} has {len(row)} values where the header has {width} names"
            raise PermanentFailure(UNREADABLE, text)
