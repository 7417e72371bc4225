"""Columns that people would call numbers, whatever signs are in them."""

import numpy as np
import pandas as pd

from jobrunner_ss.header import NUMBER
from jobrunner_ss.showing import shown

SIGNS = r"[\s\u00a0$€£%]"
WITH_POINT = NUMBER.pattern
WITH_COMMA = r"[+-]?(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]+)(?:,[0-9]+)?"
MOSTLY = 0.8


def is_number(column: pd.Series) -> bool:
    kinds = pd.api.types
    return bool(kinds.is_numeric_dtype(column) and not kinds.is_bool_dtype(column))


def in_numbers(frame: pd.DataFrame, separator: str) -> pd.DataFrame:
    """Its columns, as numbers where they are some; what was guessed at stands in ``notes``. What is
    beyond all bounds is missing."""
    told = []
    for name in frame.columns:
        column, note = frame[name], ""
        if not is_number(column) and column.notna().any() and _is_text(column):
            column, note = _as_numbers(str(name), column, separator)
        if is_number(column):
            frame[name] = column.replace([np.inf, -np.inf], np.nan)
        told += [note] if note else []
    frame.attrs["notes"] = told
    return frame


def _is_text(column: pd.Series) -> bool:
    return not pd.api.types.is_bool_dtype(column)


def _as_numbers(name: str, column: pd.Series, separator: str) -> tuple[pd.Series, str]:
    texts = column.dropna().astype(str)
    values = texts.str.replace(SIGNS, "", regex=True)
    forms = [(WITH_POINT, ",", ".")]
    if separator != ",":
        forms.append((WITH_COMMA, ".", ","))
    fitting = [values.str.fullmatch(pattern).to_numpy(bool) for pattern, _, _ in forms]
    for fits, (_, between, point) in zip(fitting, forms, strict=True):
        if fits.all():
            plain = values.str.replace(between, "", regex=False)
            found = plain.str.replace(point, ".", regex=False).map(float).reindex(column.index)
            return found, f"{shown(name)!r} is read as numbers, as {shown(texts.iloc[0])!r}"
    best = max(fitting, key=lambda fits: int(fits.sum()))
    if best.mean() < MOSTLY:
        return column, ""
    odd = texts[~best]
    text = (
        f"{shown(name)!r} is no column of numbers: {len(odd)} of its values are none, as "
        f"{shown(odd.iloc[0])!r}"
    )
    return column, text
