"""Chooses who goes in the next round of the writer, and how many.

Users of whom little was written lately go ahead of those of whom much was. While one of them is
about, rounds are short: what is written with a unit, or before it, is what it waits for. Short
rounds cost more, and end soon after these users have gone. Half of every round is left to the
others.

Jobs that join the line for slots let those go first that move, which mostly are jobs that hold one.
With all that come at a time a round would last so long that slots stood empty, while those who come
have to wait in line anyway. So two go with three others. Where the disk is what takes long, as many
go as make a round last twice as long: nobody waits for them then.
"""

import math
from collections import deque

from jobrunner.core.features.turns.shares import Shares
from jobrunner.core.job import Snapshot
from jobrunner.ports import Clock
from jobrunner.store.batch import Verdict
from jobrunner.store.compiling import Work
from jobrunner.store.rounds import Asked

LATELY_ROWS = 262_144
FEW = 6
SHORT_ROUNDS = 16
AskedUnit = Asked[Work, Verdict]


class WriterQueue:
    """Those who wait to be written; those who join the line for slots apart."""

    def __init__(self, most: int, clock: Clock) -> None:
        self.most = most
        self._pace = Pace(clock)
        self._shares = Shares(LATELY_ROWS)
        self._moving = FirstAndOthers()
        self._newborn = FirstAndOthers()
        self._short = 0

    def __len__(self) -> int:
        return len(self._moving) + len(self._newborn)

    def add(self, asked: AskedUnit) -> None:
        work = asked.question
        way = self._newborn if joins_the_line(work.snapshot) else self._moving
        if work.snapshot is None:
            way.add(asked, first=False)
            return
        user_id = work.snapshot.user_id
        way.add(asked, first=self._shares.has_little(user_id))
        self._shares.take(user_id, len(work.rows))

    def take(self) -> list[AskedUnit]:
        most = self._many()
        kept = min(len(self._newborn), most * 2 // 5)
        moving = self._moving.take(most - kept)
        fair = self._pace.newborn(len(moving)) if moving else most
        return moving + self._newborn.take(min(most - len(moving), fair))

    def _many(self) -> int:
        """Say how many make a round: a short one has few, but twice as many as are to go first, as
        many as take no longer than the disk, and a share of a long line."""
        if little := len(self._moving.first) + len(self._newborn.first):
            self._short = SHORT_ROUNDS
        if not self._short:
            return self.most
        self._short -= 1
        share = len(self) // SHORT_ROUNDS
        return min(self.most, max(FEW, 2 * little, share, self._pace.while_flushed))

    def round_ended(self, units: int, flush_s: float) -> None:
        self._pace.round_ended(units, flush_s)


class FirstAndOthers:
    """Units in the order in which they came, but for those that go first."""

    def __init__(self) -> None:
        self.first: deque[AskedUnit] = deque()
        self._others: deque[AskedUnit] = deque()

    def __len__(self) -> int:
        return len(self.first) + len(self._others)

    def add(self, asked: AskedUnit, *, first: bool) -> None:
        (self.first if first else self._others).append(asked)

    def take(self, most: int) -> list[AskedUnit]:
        first = min(len(self.first), max((most + 1) // 2, most - len(self._others)))
        others = min(len(self._others), most - first)
        taken = [self.first.popleft() for _ in range(first)]
        return taken + [self._others.popleft() for _ in range(others)]


class Pace:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._round_ended = clock.monotonic()
        self.while_flushed = 0

    def newborn(self, others: int) -> int:
        """Say how many may go in a round with so many others: at least one of those that go first,
        and one that does not."""
        return max(2, others * 2 // 3, self.while_flushed)

    def round_ended(self, units: int, flush_s: float) -> None:
        """Count how many units could have been written while the disk flushed these."""
        now = self._clock.monotonic()
        doing_s, self._round_ended = now - self._round_ended - flush_s, now
        self.while_flushed = int(units * flush_s / max(doing_s, math.ulp(1.0)))


def joins_the_line(job: Snapshot | None) -> bool:
    """Say whether this is a new job that has to wait for a slot."""
    return job is not None and job.version == 1 and job.line_at is not None
