"""The writer of a service from which another machine may take over: it writes only while it holds
the copy's token, and says that something is written only while the copy is near enough.

What is refused before it is written is a plain no, like that of a full disk: the copy's place may
come back. What was written and may not be acknowledged has an outcome that nobody knows: perhaps
another machine serves already, and its file is the one that counts.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from jobrunner.errors import LeaseOver, OutcomeUnknown
from jobrunner.store.batch import Verdict
from jobrunner.store.compiling import Work
from jobrunner.store.keeping.standby.tap import Tap
from jobrunner.store.writer import StoreWriter


class Leased(Protocol):
    """Knows whether this service may still serve."""

    async def ready(self) -> str:
        """Wait until something may be begun; say why it may not."""
        ...

    async def kept_up(self) -> str:
        """Wait until the copy is near enough; say why nothing may be acknowledged then."""
        ...


class LeasedWriter(StoreWriter):
    """``lease`` is asked before and after each batch."""

    def __init__(self, lease: Leased, *parts: Any) -> None:
        super().__init__(*parts)
        self._lease = lease

    async def _written(self, batch: list[Work]) -> list[Verdict]:
        if refusal := await self._lease.ready():
            return [LeaseOver(refusal) for _ in batch]
        verdicts = await super()._written(batch)
        if lost := await self._lease.kept_up():
            return [OutcomeUnknown(lost) for _ in batch]
        return verdicts


class Untapped:
    """The tap where nothing is copied."""

    def looked(self) -> None:
        return

    def close(self) -> None:
        return


class StandbyWriting(Struct, frozen=True):
    """The tap looks at what each turn of the writer's handle has changed; ``writer`` makes one."""

    tap: Tap | Untapped
    writer: Callable[..., StoreWriter]


NO_STANDBY = StandbyWriting(Untapped(), StoreWriter)


def copying(tap: Tap, lease: Leased) -> StandbyWriting:
    """Writing for a copy that is taken from ``tap``, while ``lease`` lasts."""
    return StandbyWriting(tap, partial(LeasedWriter, lease))
