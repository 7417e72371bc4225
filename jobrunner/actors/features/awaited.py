"""Remembers which job awaits which webhook. It is a guess: the job itself says whether it does, and
its commit looks whether the id came before. After the first webhook of a name the store is asked.
"""

from collections import OrderedDict

from jobrunner.core.job import Attempt

NAMES_MAX = 32_768


class AwaitedNames:
    """Knows the jobs that parked last, up to ``NAMES_MAX``."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, str] = OrderedDict()

    def note(self, job_id: str, attempt: Attempt) -> None:
        """Remember what this attempt, which waits for a webhook, awaits."""
        self._jobs[attempt.awaits] = job_id
        if len(self._jobs) > NAMES_MAX:
            self._jobs.popitem(last=False)

    def guess(self, name: str) -> str:
        """Name the job that is likely to await it, once; empty where nobody is known."""
        return self._jobs.pop(name, "")
