"""The loss of the store: nobody knows any more what is on disk, so the service ends.

A commit may end without an answer. Then neither yes nor no is true, and only a new start can read
what happened: the service stops taking work, drains at once and ends.
"""

import asyncio

from jobrunner.actors.commits import Announce
from jobrunner.errors import OutcomeUnknown


class StorageLoss:
    """``unknown`` is the first error that said so; ``failed`` is set with it."""

    def __init__(self, log: Announce) -> None:
        self._log = log
        self.unknown: OutcomeUnknown | None = None
        self.failed = asyncio.Event()

    def give_up(self, error: OutcomeUnknown) -> None:
        """Stop the service, and let the next start read what is there."""
        if self.unknown is None:
            self._log("storage.lost", level="error", detail=str(error))
            self.unknown = error
        self.failed.set()
