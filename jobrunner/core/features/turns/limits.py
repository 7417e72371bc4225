"""Limits that an operator changes while the service runs, and what is kept of that."""

from msgspec import Struct


class SetLimit(Struct, frozen=True, tag=True):
    """A new value for a limit, as JSON. None goes back to the settings, and is refused with
    ``missing`` when nothing was changed."""

    key: str
    value: str | None
    by: str
    at: int
    reason: str | None = None


class LimitRow(Struct, frozen=True):
    """A limit that was changed, by whom and when."""

    key: str
    value: str
    by: str
    at: int
    reason: str | None = None
