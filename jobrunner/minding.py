"""Tells the program that minds this process how it is: ready, well, about to stop.

Well means two things at once: the event loop turns, for else nothing here would run, and the writer
of the store answers. A full disk is an answer: a new start would make no room. While either is
silent nothing is said, and after a while the process is ended from outside and started anew.
"""

from contextlib import suppress
from typing import Protocol

from jobrunner.errors import StorageFull
from jobrunner.ports import Clock, Minder


class Writing(Protocol):
    async def mark_alive(self) -> None:
        """Return when the writer has answered.

        Raises: StorageFull, OutcomeUnknown."""


def stopping(minder: Minder, within_s: float) -> None:
    """Say that it stops, and will take so long at most."""
    minder.say(STOPPING="1", EXTEND_TIMEOUT_USEC=f"{within_s * 1e6:.0f}")


async def keep_telling(minder: Minder, clock: Clock, store: Writing) -> None:
    """Say again and again that all is well, for as long as it is.

    Raises: OutcomeUnknown."""
    if not minder.every_s:
        return
    while True:
        with suppress(StorageFull):
            await store.mark_alive()
        minder.say(WATCHDOG="1")
        await clock.sleep(minder.every_s)
