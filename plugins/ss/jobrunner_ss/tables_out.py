"""Results as CSV files. A spreadsheet takes a text that begins like a formula for one, and the
texts are a stranger's: such a text gets an apostrophe before it, which the spreadsheet takes for
the sign of a text. Numbers are left alone.
"""

import pandas as pd

from jobrunner_ss.header import NUMBER

FORMULA = tuple("=+-@\t\r\n＝＋－＠")


def csv_of(table: pd.DataFrame, *, escaped: bool) -> bytes:
    """As UTF-8, with its header."""
    shown = _escaped(table) if escaped else table
    return str(shown.to_csv(index=False, float_format="%.6g")).encode()


def _escaped(table: pd.DataFrame) -> pd.DataFrame:
    columns = [table.iloc[:, at].map(_plain) for at in range(table.shape[1])]
    made = pd.concat(columns, axis="columns")
    made.columns = [_plain(str(name)) for name in table.columns]
    return made


def _plain(value: object) -> object:
    if not isinstance(value, str) or not value.lstrip(" ").startswith(FORMULA):
        return value
    return value if NUMBER.fullmatch(value.strip()) else f"'{value}"
