"""Answers to the callers of this room, and the part of the store that this room writes through."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from jobrunner.core.decision import Clash, Unit
from jobrunner.core.job import Snapshot
from jobrunner.core.keeping.upkeep import FileKeeping
from jobrunner.errors import Refused
from jobrunner.store.reader import StoreReader

T = TypeVar("T")
Follow = Callable[[Snapshot | None], None]  # None: it was not written


class Answer(Struct, frozen=True):
    """The job as it stands now, and what the request adds: ``fields`` go beside it in the body."""

    job: Snapshot
    fields: dict[str, Any] = {}
    status: int = 200
    replayed: bool = False


class Committed(Protocol):
    """The result of a commit: the snapshot as stored, if the unit was about a job."""

    @property
    def snapshot(self) -> Snapshot | None: ...


class Writer(Protocol):
    """The part of the store that this room writes through."""

    @property
    def reader(self) -> StoreReader: ...

    @property
    def epoch(self) -> int: ...

    @property
    def scheduled(self) -> bool:
        """Say whether there were schedules when the file was opened."""
        ...

    async def commit(self, unit: Unit, then: Follow | None = None) -> Committed | Clash: ...

    def waiting(self) -> int:
        """How many writes wait for their turn."""
        ...

    @property
    def keeper(self) -> FileKeeping: ...


def ours(outcome: T) -> T:
    """Return the store's verdict while the file is this process's.

    Raises: Refused, once another one has it, or once this item of a bulk is over, or this moment of
    a schedule: to try again here would never help.
    """
    if isinstance(outcome, Clash):
        if outcome.reason == "epoch":
            raise Refused("DRAINING", "another process has taken over this data folder")
        if outcome.reason == "tick":
            raise Refused("ALREADY_EXISTS", "this item was done before, or aborted")
    return outcome


Announce = Callable[..., None]
