"""How many jobs that join the line are written beside others that move.

With all that come at a time a round would last so long that slots stood empty, while those who come
have to wait in line anyway. So two go with three others, which mostly move jobs that hold slots.
Where the disk is what takes long, as many go as make a round last twice as long: nobody waits for
them then.
"""

import math

from jobrunner.core.job import Snapshot
from jobrunner.ports import Clock


def joins_the_line(job: Snapshot | None) -> bool:
    """Say whether this is a new job that has to wait for a slot."""
    return job is not None and job.version == 1 and job.line_at is not None


class Pace:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._round_ended = clock.monotonic()
        self._while_flushed = 0.0

    def newborn(self, others: int) -> int:
        """Say how many may go in a round with so many others."""
        return max(1, others * 2 // 3, int(self._while_flushed))

    def round_ended(self, units: int, flush_s: float) -> None:
        """Count how many units could have been written while the disk flushed these."""
        now = self._clock.monotonic()
        doing_s, self._round_ended = now - self._round_ended - flush_s, now
        self._while_flushed = units * flush_s / max(doing_s, math.ulp(1.0))
