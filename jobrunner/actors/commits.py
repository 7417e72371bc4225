"""Answers to the callers of this room, and what a refused commit means."""

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from jobrunner.core.decision import Clash
from jobrunner.core.job import Snapshot
from jobrunner.errors import Refused

T = TypeVar("T")
Follow = Callable[[Snapshot | None], None]  # None: it was not written


class Answer(Struct, frozen=True):
    """The job as it stands now, and what the request adds: ``fields`` go beside it in the body."""

    job: Snapshot
    fields: dict[str, Any] = {}
    status: int = 200
    replayed: bool = False


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
