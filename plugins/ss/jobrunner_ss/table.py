"""The input as a table: read carefully, described column by column.

A file from outside is anything. It is told in words what is wrong with it and where, because the
person who has to repair it never sees this program. What had to be guessed at is written down in
``notes``, and shown with the draft.
"""

import re
import warnings
from typing import Any

import numpy as np
import pandas as pd

from jobrunner import PermanentFailure
from jobrunner_ss.as_numbers import in_numbers, is_number
from jobrunner_ss.header import EMPTY, SAMPLE, TOO_LARGE, UNREADABLE, encodings_of, layout_of
from jobrunner_ss.showing import shown

ROWS_MAX = 5_000_000
LEVELS_MAX = 30
LEVELS_SHOWN = 10
MISSING = ["-", "–", "?", ".", "n.a.", "N.A.", "missing", "#VALUE!", "#DIV/0!"]
TOO_WIDE = re.compile(r"Expected ([0-9]+) fields in line ([0-9]+), saw ([0-9]+)")
UNCLOSED = re.compile(r"EOF inside string starting at row ([0-9]+)")


def read(path: str) -> pd.DataFrame:
    """Raises: PermanentFailure INPUT_EMPTY, INPUT_UNREADABLE, INPUT_TOO_LARGE."""
    with open(path, "rb") as file:
        head = file.read(SAMPLE)
    for encoding in encodings_of(head):
        try:
            separator, names = layout_of(head, encoding)
            return _checked(_read(path, encoding, separator, _called(names)), separator, names)
        except UnicodeError:
            continue
    raise PermanentFailure(UNREADABLE, "the file is in no encoding that is known: use UTF-8")


def notes(frame: pd.DataFrame) -> list[str]:
    """Tell what was guessed at when the file was read."""
    return list(frame.attrs.get("notes", ()))


def described(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Each column: what kind of values, how many are missing, and what they are like."""
    with np.errstate(all="ignore"):
        return [_column(str(name), frame[name]) for name in frame.columns]


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


def _called(names: list[str]) -> list[str]:
    """Each column by a name of its own, also where the header has none."""
    called: list[str] = []
    for number, name in enumerate(names, 1):
        made = name or f"column {number}"
        while not name and (made in names or made in called):
            made += "'"
        called.append(made)
    return called


def _read(path: str, encoding: str, separator: str, names: list[str]) -> pd.DataFrame:
    """From an open file: of a path pandas would guess by its ending what it has to unpack."""
    try:
        with open(path, encoding=encoding, newline="") as file, warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                file,
                sep=separator,
                header=0,
                names=names,
                skipinitialspace=True,
                index_col=False,
                nrows=ROWS_MAX + 1,
                low_memory=False,
                na_values=MISSING,
            )
    except UnicodeError:
        raise
    except MemoryError as error:
        raise PermanentFailure(TOO_LARGE, "the table does not fit into memory") from error
    except (pd.errors.ParserWarning, ValueError, OverflowError) as bad:
        text = f"the file is no CSV that can be read: {_why(str(bad))}"
        raise PermanentFailure(UNREADABLE, text) from bad


def _why(told: str) -> str:
    if found := TOO_WIDE.search(told):
        return "line {1} has {2} values where the header has {0} names".format(*found.groups())
    if found := UNCLOSED.search(told):
        return f"a quote is opened in row {found[1]} and never closed"
    if "Length of header" in told:
        return "its rows have more values than the header has names"
    return "save it as CSV once more, in UTF-8, with one line a row and quotes around long texts"


def _checked(frame: pd.DataFrame, separator: str, names: list[str]) -> pd.DataFrame:
    if len(frame) > ROWS_MAX:
        text = f"the table has more than {ROWS_MAX:,} rows, which is what is read: upload a part"
        raise PermanentFailure(TOO_LARGE, text)
    unnamed = [called for called, name in zip(frame.columns, names, strict=True) if not name]
    blank = [called for called in unnamed if frame[called].isna().all()]
    frame = frame.drop(columns=blank).dropna(how="all").reset_index(drop=True)
    if frame.empty:
        raise PermanentFailure(EMPTY, "the file has a header and no rows below it")
    return in_numbers(frame, separator)


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
        counts = column.value_counts().head(LEVELS_SHOWN)
        known["levels"] = {shown(level): int(rows) for level, rows in counts.items()}
    return known


def _short(number: Any) -> float | None:
    return float(f"{float(number):.6g}") if np.isfinite(float(number)) else None
