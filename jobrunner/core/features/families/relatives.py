"""The questions about families to the store, and their answers."""

from typing import Protocol

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


class FamilyReader(Protocol):
    async def child(
        self, parent_id: str, run_id: str, key: str
    ) -> tuple[str, Snapshot | None] | None:
        """The child that a run knows by this key; without its job, if that was deleted."""
        ...

    async def family(self, parent_id: str, ids: tuple[str, ...]) -> Family: ...

    async def children_named(self, parent_id: str, ids: tuple[str, ...]) -> tuple[ChildRow, ...]:
        """Return these children of a job, in no order; other ids are left out."""
        ...

    async def family_size(self, parent_id: str) -> int: ...

    async def family_counts(self, parent_id: str) -> tuple[FamilyCount, ...]: ...

    async def open_children(
        self, parent_id: str, after: int, limit: int, at_end: str = "", last: int = ...
    ) -> tuple[tuple[int, str], ...]:
        """Keys and ids of those that go on, oldest first, from behind a key to the last one."""
        ...

    async def waits_over(self, after: int, limit: int) -> tuple[WaitOver, ...]: ...

    async def partings(self, limit: int) -> tuple[Parting, ...]: ...
