"""Batches, as data: what is written of them, and what may be asked.

A batch is many submissions of one user under one name. Each of them is known in the batch by a key
of its own, so a call that was cut off is repeated and makes nothing twice. It is whole when its
owner has closed it; it has ended when its last job has, and that commit tells so, once.
"""

from typing import Literal

from msgspec import Struct

BatchStatus = Literal["open", "running", "ended"]


class BatchLink(Struct, frozen=True):
    """The batch that a job was submitted in, and the key that it has there."""

    id: str
    key: str


class NewBatch(Struct, frozen=True, tag=True):
    """Refused with ``exists`` when its user has one of that key."""

    id: str
    user_id: str
    key: str | None
    at: int
    notify_url: str = ""
    lane: str = ""
    rerun_of: str | None = None


class BatchRefused(Struct, frozen=True, tag=True):
    """Submissions of a batch that no job was made of: key, code and detail of each."""

    batch: str
    items: tuple[tuple[str, str, str], ...]


class BatchClosed(Struct, frozen=True, tag=True):
    """A batch that takes no more jobs; refused with ``missing`` when it is closed already."""

    batch: str
    at: int


class BatchForgotten(Struct, frozen=True, tag=True):
    """A batch to delete; its jobs stay. Refused with ``missing`` unless it has ended."""

    batch: str


BATCH_UNITS = (NewBatch, BatchRefused, BatchClosed, BatchForgotten)
BatchUnit = NewBatch | BatchRefused | BatchClosed | BatchForgotten


class Batch(Struct, frozen=True):
    """``row`` is its integer key, ``unended`` how many of its jobs go on."""

    row: int
    id: str
    user_id: str
    key: str | None
    open: bool
    unended: int
    notify_url: str
    rerun_of: str | None
    created_at: int
    ended_at: int | None

    @property
    def status(self) -> BatchStatus:
        if self.open:
            return "open"
        return "running" if self.unended else "ended"


class BatchItem(Struct, frozen=True):
    """A submission of a batch: its job, or why there is none."""

    key: str
    job_id: str
    code: str
    detail: str


class BatchCounts(Struct, frozen=True):
    """``by_status`` are the jobs that are there; ``well`` and ``ill`` all that ended so."""

    by_status: dict[str, int]
    well: int
    ill: int
    unended: int
    deleted: int
    refused: int
