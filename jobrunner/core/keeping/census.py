"""A census: the jobs that rest, and what somebody should look at, by workflow.

Counting these costs what there is of them, and not what every job costs. It may be much all the
same, so nobody waits for it who works on jobs, and it is not asked for more often than it is cheap.
"""

from msgspec import Struct


class RestingJobs(Struct, frozen=True):
    """How many jobs of a workflow rest, and since when the longest one does."""

    workflow: str
    jobs: int
    since: int | None = None


class OpenChildren(Struct, frozen=True):
    """How many open children of a workflow stand in states of this kind."""

    workflow: str
    kind: str
    jobs: int


class BatchCensus(Struct, frozen=True):
    """Batches that take jobs, and closed ones that have not ended; ``jobs`` of either go on."""

    open: int = 0
    running: int = 0
    jobs: int = 0


class Census(Struct, frozen=True, kw_only=True):
    """As of a moment. ``unclaimed`` may be taken by an outside worker now; ``waiting`` rest until a
    command, a callback or a timer; ``retained`` are old enough to go, or too many, and still here;
    ``dead_letters`` are those that stand on the list for review; ``parents`` wait for children."""

    at: int = 0
    stuck: tuple[RestingJobs, ...] = ()
    paused: tuple[RestingJobs, ...] = ()
    unclaimed: tuple[RestingJobs, ...] = ()
    waiting: tuple[RestingJobs, ...] = ()
    retained: int = 0
    dead_letters: int = 0
    dead_letter_at: int | None = None
    parents: int = 0
    children: tuple[OpenChildren, ...] = ()
    batches: BatchCensus = BatchCensus()
