"""Whether the service is well: what ``/readyz`` tells, and the tick by which this process lives."""

import faulthandler
import sys
from collections.abc import Mapping
from typing import Protocol

from jobrunner.actors.answer import Announce
from jobrunner.actors.supervisor import Supervisor
from jobrunner.errors import OutcomeUnknown, StorageError
from jobrunner.ports import Children, Clock, end_process

TICK_S = 1.0
SEEN_EVERY_S = 30.0
SILENCE_S = 10.0
LAG_MAX_S = 2.0
STRAYS_MAX = 4


class Living(Protocol):
    """The store, as far as it is asked for a sign of life."""

    async def touch(self) -> None: ...


class Health:
    """The loop's lag is measured by how late a nap ends; the writer answers a no-op now and then. A
    thread outside the loop ends the process when the loop does not tick at all."""

    def __init__(
        self, store: Living, supervisor: Supervisor, clock: Clock, children: Children
    ) -> None:
        self._store = store
        self._supervisor = supervisor
        self._clock = clock
        self._children = children
        self._lag_s = 0.0
        self._store_fault = ""

    async def __call__(self) -> Mapping[str, str]:
        faults = {}
        if self._supervisor.draining:
            faults["drain"] = "the service is stopping"
        if self._lag_s > LAG_MAX_S:
            faults["loop"] = f"the event loop lags {self._lag_s:.1f} s behind"
        if self._store_fault:
            faults["store"] = self._store_fault
        if self._children.strays >= STRAYS_MAX:
            faults["threads"] = "stages in threads go on though their time is over; restart"
        return faults

    async def watch(self, log: Announce) -> None:
        dog = self._children.watchdog(SILENCE_S, _bark)
        try:
            seen_at = self._clock.monotonic()
            while True:
                before = self._clock.monotonic()
                await self._clock.sleep(TICK_S)
                self._lag_s = max(self._clock.monotonic() - before - TICK_S, 0)
                dog.tick()
                if self._clock.monotonic() - seen_at >= SEEN_EVERY_S:
                    seen_at = self._clock.monotonic()
                    await self._touch(log)
        finally:
            dog.close()

    async def _touch(self, log: Announce) -> None:
        try:
            await self._store.touch()
            self._store_fault = ""
        except StorageError as error:
            self._store_fault = str(error)
            if isinstance(error, OutcomeUnknown):
                self._supervisor.give_up(error)
            log("storage.fault", level="error", detail=str(error))


def _bark() -> None:
    """The loop hangs: say where, and start again from disk."""
    sys.stderr.write("the event loop did not tick for 10 s; ending the process\n")
    faulthandler.dump_traceback(all_threads=True)
    end_process(70)
