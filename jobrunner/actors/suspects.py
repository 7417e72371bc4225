"""Attempts that may have killed the service: each starts alone, with nothing beside it.

After the service died soon after a start, the attempts that were open then are suspects. Each is
cleared by its end, or by a minute of life.
"""

from collections.abc import Container, Sequence

from jobrunner.core.features.turns.in_line import Waiting
from jobrunner.core.questions import LastLife, OpenAttempt
from jobrunner.ports import Clock

YOUNG_MS = 10 * 60 * 1000
CLEARED_AFTER_S = 60


class Suspects:
    """The jobs that are still to be tried, in order, and the one that is on trial now."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: list[str] = []
        self._on_trial = ""
        self.cleared_at: float | None = None

    def __bool__(self) -> bool:
        return bool(self._jobs)

    @property
    def on_trial(self) -> bool:
        return bool(self._on_trial)

    def accuse(self, job_ids: list[str]) -> None:
        self._jobs = list(job_ids)

    def those_of(self, line: Sequence[Waiting]) -> list[Waiting]:
        """Pick the suspects that wait for a slot, in the order of suspicion. Where none does, none
        is left."""
        waiting = {one.job_id: one for one in line}
        left = [waiting[job_id] for job_id in self._jobs if job_id in waiting]
        if not left:
            self._jobs = []
        return left

    def try_next(self, left: list[Waiting], not_now: Container[str]) -> list[Waiting]:
        """Put the first of these on trial that may be asked now."""
        first = next((one for one in left if one.job_id not in not_now), None)
        if first is None:
            return []
        self._jobs.remove(first.job_id)
        self._on_trial = first.job_id
        self.cleared_at = self._clock.monotonic() + CLEARED_AFTER_S
        return [first]

    def could_not_begin(self, job_id: str) -> None:
        """Put a suspect that could not begin to the end of the line."""
        if self._on_trial == job_id:
            self._jobs.append(job_id)

    def ended(self, job_id: str) -> None:
        if self._on_trial == job_id:
            self.clear()

    def clear(self) -> None:
        """Suspect the job on trial no more."""
        self._on_trial = ""
        self.cleared_at = None


def suspected(died: Sequence[OpenAttempt], life: LastLife | None) -> list[OpenAttempt]:
    """List the attempts that may have killed the service, the youngest first: an attempt that does
    it mostly does so when it begins. One that had run for a minute is innocent, unless nobody else
    is left."""
    if life is None or not _died_young(life):
        return []
    latest = life.seen_at - CLEARED_AFTER_S * 1000
    fresh = [one for one in died if not one.started_at or one.started_at > latest]
    return sorted(fresh or died, key=lambda one: one.started_at, reverse=True)


def _died_young(life: LastLife) -> bool:
    """Say whether the process before this ended without goodbye, soon after its start."""
    return life.ended_at is None and life.seen_at - life.started_at < YOUNG_MS
