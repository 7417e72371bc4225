"""The tie between a job and the one that submitted it, as both sides keep it: data only.

It stands apart from what is decided about families because a snapshot and a message hold it.
"""

from typing import Literal

from msgspec import Struct

from jobrunner.core.declaration.offspring import AtEnd

Until = Literal["ended", "first_failure", "succeeded"]
Standing = Literal["", "well", "ill"]


class ParentLink(Struct, frozen=True, omit_defaults=True):
    """The job that submitted this one. ``run_id`` and ``key`` are what the submission is recognised
    by, ``serial`` is the attempt that made it; ``depth`` counts the generations; ``at_end`` says
    what becomes of this job when that one ends before it. ``covered``: that one's hold pays."""

    job_id: str
    run_id: str
    key: str
    serial: int
    depth: int = 1
    at_end: AtEnd = "cancel"
    covered: bool = False


class JobsAwaited(Struct, frozen=True, tag=True):
    """Children for whose end an attempt waits. It goes on when ``at_least`` of them have ended;
    with ``first_failure`` also as soon as one has not ended well; with ``succeeded`` only those
    count that have ended well, and it goes on too when there cannot be so many any more."""

    ids: tuple[str, ...]
    at_least: int
    until: Until = "ended"

    @property
    def counts_any(self) -> bool:
        """Say whether an end that was not good brings it nearer."""
        return self.until != "succeeded"

    @property
    def spare(self) -> int | None:
        """Return how many bad ends end the wait at once; None where no number does."""
        if self.until == "ended":
            return None
        return 1 if self.until == "first_failure" else len(self.ids) - self.at_least + 1

    def is_met(self, well: int, ill: int) -> bool:
        """Say whether so many good ends, and so many others, are enough to go on."""
        enough = well + (ill if self.counts_any else 0) >= self.at_least
        return enough or (self.spare is not None and ill >= self.spare)


class Parted(Struct, frozen=True, tag=True):
    """All children up to ``last`` were told that their parent ended; ``job`` is the key of the
    parent in the store."""

    job: int
    last: int


class Kin(Struct, frozen=True):
    """The meaning of a decision for a family. ``stood`` and ``stands`` are how the job looks to its
    parent; ``awaits`` are children that it waits for from now on, ``goes_on`` says that it waits
    for none any more; ``ends`` that those who are left are on their own."""

    stood: Standing = ""
    stands: Standing = ""
    awaits: JobsAwaited | None = None
    goes_on: bool = False
    ends: bool = False
