"""The settings of an operator under ``[workflows.ss.settings]``."""

from msgspec import Struct


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """``escape_formulas``: text in a result that a spreadsheet would compute is marked as text."""

    escape_formulas: bool = True
