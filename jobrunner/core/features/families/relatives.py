"""The questions about families to the store, and their answers."""

from msgspec import Struct

from jobrunner.core.job import Snapshot


class Family(Struct, frozen=True):
    """How many of the children that were asked about there are, and how many ended well and ill."""

    known: int
    well: int
    ill: int


class ChildRow(Struct, frozen=True):
    """A child with its job, or with the status that it was deleted in."""

    job_id: str
    key: str
    well: bool
    deleted_in: str
    job: Snapshot | None


class FamilyCount(Struct, frozen=True):
    """How many children of a job, of one workflow, have this status (empty: deleted)."""

    workflow: str
    status: str
    jobs: int


class WaitOver(Struct, frozen=True):
    """A parent that is to be told that enough of its children have ended; ``row`` is its key."""

    row: int
    job_id: str
    serial: int


class Parting(Struct, frozen=True):
    """A parent that ended before its children up to the ``last`` one."""

    row: int
    last: int
    job_id: str
