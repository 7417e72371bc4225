"""Rates: so many starts in so much time, counted by name over all jobs and all stages.

A rate is one instant, ``full_at``: when its bucket would be full again if nobody took from it.
Whatever may be taken at a moment follows from that instant, the limit and the burst, so the state
of a rate is one number in memory and one in the file.

Everybody waits until there is room for the most that any stage takes at once. So whoever takes much
is not overtaken for ever by those who take little.
"""

import re

from msgspec import Struct

RATE = re.compile(
    r"\s*(\d{1,9})\s*/\s*(\d{0,6})\s*(s|sec|second|min|m|minute|h|hour|d|day)\s*(?:burst\s+(\d{1,9}))?\s*",
    re.IGNORECASE,
)
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
RATE_ALLOWED = 'a rate, like "60/min", "5/s", "1000/day" or "60/min burst 10"'
LIMITED = "RATE_LIMITED"
HELD_BACK = "held_back"
# Of a limit that says nothing about its burst, a tenth may come at once.
BURST_PART = 10


class RateLimit(Struct, frozen=True):
    """``count`` starts in ``per_s`` seconds in the long run, ``burst`` of them at once."""

    count: int
    per_s: float
    burst: int

    @property
    def gap_s(self) -> float:
        """Return the time from one start to the next when starts come evenly."""
        return self.per_s / self.count

    @property
    def text(self) -> str:
        unit = next((name for name, seconds in NAMED.items() if seconds == self.per_s), "")
        per = unit or f"{self.per_s:g}s"
        return f"{self.count}/{per} burst {self.burst}"


NAMED = {"s": 1, "min": 60, "h": 3600, "day": 86400}


class RateRow(Struct, frozen=True):
    """A rate as it is stored: when it would be full again, and until when a provider holds it
    back (0: it does not). Instants are milliseconds UTC."""

    name: str
    full_at: int
    held_until: int = 0
    held_by: str = ""


class HoldTerms(Struct, frozen=True):
    """How far a provider's word holds: for how long at a time, and how often one piece of work is
    put back in line instead of failing."""

    rates: tuple[str, ...]
    most_s: float
    times: int


def rate_of(text: str, burst: int = 0) -> RateLimit | None:
    """Read what an author or an operator wrote; None where it is no rate."""
    found = RATE.fullmatch(text)
    if found is None or not int(found[1]) or found[2] in ("0", "00"):
        return None
    count, per = int(found[1]), int(found[2] or 1)
    said = burst or int(found[4] or 0) or -(-count // BURST_PART)
    return RateLimit(count, float(per * SECONDS[found[3][0].lower()]), max(said, 1))


def room_at(limit: RateLimit, full_at: float, most: int) -> float:
    """Say from when on there is room for ``most``. All instants here are seconds of one clock."""
    return full_at + (most - max(limit.burst, most)) * limit.gap_s


def taken(limit: RateLimit, full_at: float, now: float, count: int) -> float:
    """Say when it is full again, after ``count`` are taken now."""
    return max(full_at, now) + count * limit.gap_s


def emptied(limit: RateLimit, full_at: float, until: float, most: int) -> float:
    """Say when it is full again if there is room for one more start at ``until`` and not sooner."""
    return max(full_at, until + (max(limit.burst, most) - most) * limit.gap_s)


def level(limit: RateLimit, full_at: float, now: float) -> float:
    """Say how many could be taken at once now."""
    return max(limit.burst - max(full_at - now, 0) / limit.gap_s, 0)


def hold_s(asked_s: float, times: int, most_s: float) -> float:
    """Say for how long a rate is held back: as the provider asked, and at least a little longer
    each time, but never longer than ``most_s``."""
    return min(max(asked_s, 2.0 ** min(times, 6)), most_s)
