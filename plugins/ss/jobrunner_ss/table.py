"""The input as a table: read carefully, described column by column.

A file from outside is anything. It is told in words what is wrong with it and where, because the
person who has to repair it never sees this program. What had to be guessed at is written down in
``notes``, and shown with the draft.
"""

import csv
import io
import re
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from jobrunner import PermanentFailure

ROWS_MAX = 5_000_000
COLUMNS_MAX = 500
LEVELS_MAX = 30
SAMPLE = 64 * 1024
SAMPLE_LINES = 100
SEPARATORS = (",", ";", "\t", "|")
ENCODINGS = ("utf-8-sig", "cp1252", "latin-1")
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
MISSING = ["-", "–", "?", ".", "n.a.", "N.A.", "missing", "#VALUE!", "#DIV/0!"]
SIGNS = r"[\s\u00a0$€£%]"
WITH_POINT = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?([eE][+-]?\d+)?")
WITH_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?")
UNREADABLE = "INPUT_UNREADABLE"


def read(path: str) -> pd.DataFrame:
    """Raises: PermanentFailure INPUT_EMPTY, INPUT_UNREADABLE, INPUT_TOO_LARGE."""
    with open(path, "rb") as file:
        head = file.read(SAMPLE)
    encodings = ("utf-16",) if head.startswith(UTF_16) else ENCODINGS
    if encodings == ENCODINGS and b"\0" in head:
        text = "the file is not text; save the table as CSV and upload that"
        raise PermanentFailure(UNREADABLE, text)
    for encoding in encodings:
        try:
            return _read(path, encoding, head)
        except UnicodeError:
            continue
    raise PermanentFailure(UNREADABLE, "the file is in no encoding that is known: use UTF-8")


def notes(frame: pd.DataFrame) -> list[str]:
    """What was guessed at when the file was read."""
    return list(frame.attrs.get("notes", ()))


def described(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Each column: what kind of values, how many are missing, and what they are like."""
    return [_column(str(name), frame[name]) for name in frame.columns]


def is_number(column: pd.Series) -> bool:
    kinds = pd.api.types
    return bool(kinds.is_numeric_dtype(column) and not kinds.is_bool_dtype(column))


def kind_of(column: pd.Series) -> str:
    """``numeric``, ``binary`` (two values), ``category`` (a few), ``text`` or ``empty``."""
    distinct = column.nunique(dropna=True)
    if distinct == 0:
        return "empty"
    if distinct == 2:
        return "binary"
    if is_number(column):
        return "numeric"
    return "category" if distinct <= LEVELS_MAX else "text"


def _read(path: str, encoding: str, head: bytes) -> pd.DataFrame:
    lines = _lines(head, encoding)
    if not lines:
        raise PermanentFailure("INPUT_EMPTY", "the file has no rows: upload a CSV with a header")
    separator = _separator(lines)
    _check_header(_split(lines, separator))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                path,
                sep=separator,
                encoding=encoding,
                skipinitialspace=True,
                index_col=False,
                nrows=ROWS_MAX + 1,
                low_memory=False,
                na_values=MISSING,
            )
    except UnicodeError:
        raise
    except MemoryError as error:
        raise PermanentFailure("INPUT_TOO_LARGE", "the table does not fit into memory") from error
    except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError) as bad:
        text = f"the file is no CSV that can be read: {str(bad).strip()}"
        raise PermanentFailure(UNREADABLE, text) from bad
    return _checked(frame, separator)


def _lines(head: bytes, encoding: str) -> list[str]:
    """The whole lines at the beginning; a letter or a line may be cut by the end of the sample."""
    cut = len(head) == SAMPLE
    text = head.decode(encoding, "ignore" if cut else "strict")
    lines = [line for line in text.splitlines()[: SAMPLE_LINES + 1] if line.strip()]
    return lines[:-1] if cut and len(lines) > 1 else lines


def _split(lines: list[str], separator: str) -> list[list[str]]:
    rows = csv.reader(io.StringIO("\n".join(lines)), delimiter=separator, skipinitialspace=True)
    try:
        return list(rows)
    except csv.Error:
        return [line.split(separator) for line in lines]


def _separator(lines: list[str]) -> str:
    """The sign that cuts most lines into the same number of parts, and into the most of them."""

    def fits(separator: str) -> tuple[float, int]:
        rows = _split(lines, separator)
        width, alike = Counter(len(row) for row in rows).most_common(1)[0]
        return (alike / len(rows) if width > 1 else 0.0, width)

    return max(SEPARATORS, key=fits)


def _check_header(rows: list[list[str]]) -> None:
    header = [name.strip() for name in rows[0]]
    if len(header) > COLUMNS_MAX:
        text = f"the table has {len(header)} columns; {COLUMNS_MAX} are read"
        raise PermanentFailure("INPUT_TOO_LARGE", text)
    named = [name for name in header if name]
    if named and all(WITH_POINT.fullmatch(name) for name in named):
        text = "the first line has numbers where the names of the columns belong: add a header"
        raise PermanentFailure(UNREADABLE, text)
    twice = [name for name, count in Counter(named).items() if count > 1]
    if twice:
        raise PermanentFailure(UNREADABLE, f"two columns are called {twice[0]!r}: rename one")
    for number, row in enumerate(rows[1:], 2):
        if any(value.strip() for value in row[len(header) :]):
            text = f"line {number} has {len(row)} values where the header has {len(header)} names"
            raise PermanentFailure(UNREADABLE, text)


def _checked(frame: pd.DataFrame, separator: str) -> pd.DataFrame:
    if len(frame) > ROWS_MAX:
        text = f"the table has more than {ROWS_MAX:,} rows, which is what is read: upload a part"
        raise PermanentFailure("INPUT_TOO_LARGE", text)
    names = [str(name).strip() for name in frame.columns]
    unnamed = [name.startswith("Unnamed: ") for name in names]
    frame.columns = [
        f"column {number}" if blank else name
        for number, (name, blank) in enumerate(zip(names, unnamed, strict=True), 1)
    ]
    blank = [
        name for name, no_name in zip(frame.columns, unnamed, strict=True)
        if no_name and frame[name].isna().all()
    ]  # fmt: skip
    frame = frame.drop(columns=blank).dropna(how="all").reset_index(drop=True)
    if frame.empty:
        raise PermanentFailure("INPUT_EMPTY", "the file has a header and no rows below it")
    return _in_numbers(frame, separator)


def _in_numbers(frame: pd.DataFrame, separator: str) -> pd.DataFrame:
    """Columns that people would call numbers, whatever signs are in them."""
    told = []
    for name in frame.columns:
        column = frame[name]
        if is_number(column):
            frame[name] = column.replace([np.inf, -np.inf], np.nan)
        elif not pd.api.types.is_bool_dtype(column) and column.notna().any():
            fresh, note = _as_numbers(str(name), column, separator)
            frame[name] = fresh
            told += [note] if note else []
    frame.attrs["notes"] = told
    return frame


def _as_numbers(name: str, column: pd.Series, separator: str) -> tuple[pd.Series, str]:
    values = column.dropna().astype(str).str.replace(SIGNS, "", regex=True)
    forms = [(WITH_POINT, ",", ".")]
    if separator != ",":
        forms.append((WITH_COMMA, ".", ","))
    best: pd.Series | None = None
    for pattern, between, point in forms:
        fitting = values.str.fullmatch(pattern.pattern)
        if fitting.all():
            plain = values.str.replace(between, "", regex=False).str.replace(point, ".")
            found = pd.to_numeric(plain).astype(float).reindex(column.index)
            return found, f"{name!r} is read as numbers, as {column.dropna().iloc[0]!r}"
        best = fitting if best is None or fitting.sum() > best.sum() else best
    assert best is not None
    if best.mean() < 0.8:
        return column, ""
    odd = column.dropna()[~best.to_numpy(bool)]
    text = (
        f"{name!r} is no column of numbers: {len(odd)} of its values are none, as {odd.iloc[0]!r}"
    )
    return column, text


def _column(name: str, column: pd.Series) -> dict[str, Any]:
    kind = kind_of(column)
    known: dict[str, Any] = {"name": name, "kind": kind, "missing": int(column.isna().sum())}
    if is_number(column):
        known |= {
            "mean": _short(column.mean()),
            "sd": _short(column.std()),
            "min": _short(column.min()),
            "median": _short(column.median()),
            "max": _short(column.max()),
        }
    elif kind in ("binary", "category"):
        counts = column.value_counts().head(10)
        known["levels"] = {str(level): int(count) for level, count in counts.items()}
    return known


def _short(number: Any) -> float | None:
    return None if pd.isna(number) else float(f"{float(number):.6g}")
