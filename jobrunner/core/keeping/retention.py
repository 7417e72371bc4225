"""How long things are kept after their end, and what is removed then.

A job goes when it has ended and nobody changed it for as long as its status is kept, or when more
jobs of its workflow have ended since than are kept. With it goes all that hangs on it; its
tombstone stays, and answers for its keys, until its own time is over. Which jobs that are is a
question to the store; that they go is a unit, refused when one of them has changed meanwhile.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from jobrunner.core.job import Snapshot

OFTEN_S, SELDOM_S, LOOKS = 5.0, 600.0, 20

Records = Literal["keys", "audit", "dead_letters", "firings", "batches"]


class WorkflowRetention(Struct, frozen=True):
    """``ages`` in seconds by status (0: for good); of all others the youngest so many (None: any
    number). ``doubtful``: its settings could not be read as they were meant, so all is kept."""

    ages: Mapping[str, float] = {}
    most: int | None = None
    doubtful: bool = False


ALL_ALIKE = WorkflowRetention()


class RetentionTerms(Struct, frozen=True, kw_only=True):
    """In seconds, 0 is for good. ``ended_s`` of jobs whose status has no age of its own; ``keys_s``
    of what tells a repeat from a first time, and ``counted_s`` at the least: quotas count deleted
    jobs by their tombstones; ``files_s`` of files that no job names."""

    ended_s: float = 0
    keys_s: float = 30 * 86_400.0
    counted_s: float = 86_400.0
    files_s: float = 0
    audit_s: float = 0
    dead_letters_s: float = 0
    firings_s: float = 0
    batches_s: float = 0
    workflows: Mapping[str, WorkflowRetention] = {}

    def age_s(self, workflow: str, status: str) -> float:
        """How long an ended job is kept in this status; 0 is for good."""
        own = self._of(workflow)
        return 0 if own.doubtful else own.ages.get(status, self.ended_s)

    def most(self, workflow: str) -> int | None:
        """How many ended jobs of a workflow are kept; None is any number."""
        own = self._of(workflow)
        return None if own.doubtful else own.most

    def spares(self, workflow: str, status: str) -> bool:
        """Tell if jobs in this status are kept for good by name, and count for no number."""
        return self._of(workflow).ages.get(status) == 0

    def records(self, now: int) -> dict[Records, int]:
        """The moments before which records are forgotten; without those that are kept for good."""
        kept_s: dict[Records, float] = {
            "keys": max(self.keys_s, self.counted_s) if self.keys_s else 0,
            "audit": self.audit_s,
            "dead_letters": self.dead_letters_s,
            "firings": self.firings_s,
            "batches": self.batches_s,
        }
        return {of: before(now, kept) for of, kept in kept_s.items() if kept}

    @property
    def look_every_s(self) -> float:
        """How often it is worth to look: often where something is kept for a short time only."""
        own = self.workflows.values()
        kept_s = [self.ended_s, self.keys_s, self.files_s, self.audit_s, self.dead_letters_s]
        kept_s += [self.firings_s, self.batches_s]
        kept_s += [age_s for one in own for age_s in one.ages.values()]
        if any(one.most is not None for one in own):
            kept_s.append(OFTEN_S)
        shortest_s = min((one for one in kept_s if one), default=SELDOM_S * LOOKS)
        return min(max(shortest_s / LOOKS, OFTEN_S), SELDOM_S)

    def _of(self, workflow: str) -> WorkflowRetention:
        return self.workflows.get(workflow) or ALL_ALIKE


def before(now: int, kept_s: float) -> int:
    return now - int(kept_s * 1000)


class Lot(Struct, frozen=True):
    """Ended jobs of one status whose last change was before ``until``, or then and up to ``row``:
    they are too old (``aged``), or too many."""

    workflow: str
    status: str
    until: int
    row: int
    aged: bool = True


class StepLimits(Struct, frozen=True):
    """The most that one transaction may remove; one job always goes, whatever hangs on it."""

    jobs: int = 4
    rows: int = 64
    bytes: int = 64 * 1024


def times(gear: float) -> StepLimits:
    """Allow so many times as much in a step."""
    usual = StepLimits()
    return StepLimits(int(usual.jobs * gear), int(usual.rows * gear), int(usual.bytes * gear))


class RipeJob(Struct, frozen=True):
    """A job that is due. ``paths`` are where its files lie."""

    job: Snapshot
    rows: int
    bytes: int
    paths: tuple[str, ...] = ()


class RipePage(Struct, frozen=True):
    """``after`` is where to go on, as (moment, row); None at the end of the lot. ``held`` are due
    and stay for now: they have notifications to be sent."""

    jobs: tuple[RipeJob, ...]
    after: tuple[int, int] | None
    held: int = 0


class LotCount(Struct, frozen=True):
    """A page of a count; ``after`` is where it goes on."""

    jobs: int
    after: tuple[int, int] | None


class IdleFiles(Struct, frozen=True):
    """Files of one owner that are no job's and that were long not found in use: id and folder."""

    user_id: str
    files: tuple[tuple[str, str], ...]


class Naming(Struct, frozen=True):
    """Which of the files are named in a page of jobs; ``after`` is the last row looked at, and
    ``more`` whether the owner has further jobs."""

    named: frozenset[str]
    after: int
    more: bool


class Overdue(Struct, frozen=True):
    """How many records of a kind are due, counted up to a limit."""

    of: Records
    before: int
    count: int


class Pruned(Struct, frozen=True):
    """A job that goes, and the folders of its files, which follow it."""

    job: Snapshot
    folders: tuple[str, ...] = ()


class Prune(Struct, frozen=True, tag=True):
    """These jobs are forgotten, all of them or none; refused with ``version`` when one of them has
    moved on."""

    jobs: tuple[Pruned, ...]
    at: int


class Expire(Struct, frozen=True, tag=True):
    """Forget at most so many records of a kind, the oldest, from before a moment."""

    of: Records
    before: int
    most: int


class FilesUsed(Struct, frozen=True, tag=True):
    """These files are in use: they are looked for again after as long as they are kept."""

    asset_ids: tuple[str, ...]
    at: int


class FileIdle(Struct, frozen=True, tag=True):
    """Forget a file that no job up to row ``looked_to`` names; refused with ``missing`` when one
    that came later does."""

    asset_id: str
    folder: str
    looked_to: int
    at: int


RetentionUnit = Prune | Expire | FilesUsed | FileIdle
