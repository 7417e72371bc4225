"""Chooses who goes in the next round of the writer, and how many.

Jobs that join the line for slots let those go first that move, which mostly are jobs that hold one.
With all that come at a time a round would last so long that slots stood empty, while those who come
have to wait in line anyway. So two go with three others. Where the disk is what takes long, as many
go as make a round last twice as long: nobody waits for them then.
"""

import math
from collections import deque

from jobrunner.core.job import Snapshot
from jobrunner.ports import Clock
from jobrunner.store.batch import Verdict
from jobrunner.store.compiling import Work
from jobrunner.store.rounds import Asked

AskedUnit = Asked[Work, Verdict]


class WriterQueue:
    """Those who wait to be written; those who join the line for slots apart."""

    def __init__(self, most: int, clock: Clock) -> None:
        self._most = most
        self._pace = Pace(clock)
        self._moving: deque[AskedUnit] = deque()
        self._newborn: deque[AskedUnit] = deque()

    def __len__(self) -> int:
        return len(self._moving) + len(self._newborn)

    def add(self, asked: AskedUnit) -> None:
        way = self._newborn if joins_the_line(asked.question.snapshot) else self._moving
        way.append(asked)

    def is_enough(self) -> bool:
        return len(self) >= self._most

    def take(self) -> list[AskedUnit]:
        kept = min(len(self._newborn), self._most * 2 // 5)
        moving = min(len(self._moving), self._most - kept)
        fair = self._pace.newborn(moving) if moving else self._most
        newborn = min(len(self._newborn), self._most - moving, fair)
        taken = [self._moving.popleft() for _ in range(moving)]
        return taken + [self._newborn.popleft() for _ in range(newborn)]

    def round_ended(self, units: int, flush_s: float) -> None:
        self._pace.round_ended(units, flush_s)


class Pace:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._round_ended = clock.monotonic()
        self.while_flushed = 0

    def newborn(self, others: int) -> int:
        """Say how many may go in a round with so many others."""
        return max(1, others * 2 // 3, self.while_flushed)

    def round_ended(self, units: int, flush_s: float) -> None:
        """Count how many units could have been written while the disk flushed these."""
        now = self._clock.monotonic()
        doing_s, self._round_ended = now - self._round_ended - flush_s, now
        self.while_flushed = int(units * flush_s / max(doing_s, math.ulp(1.0)))


def joins_the_line(job: Snapshot | None) -> bool:
    """Say whether this is a new job that has to wait for a slot."""
    return job is not None and job.version == 1 and job.line_at is not None
