"""Copies what commits have changed, renews the token behind it, and tells the writer how far it is.

Each round runs on a thread of its own: a place that does not answer holds up no loop, only the next
round, and in the end the lease.
"""

import os
from collections.abc import Callable
from functools import partial

import anyio
from msgspec import Struct

from jobrunner.actors.keeping.standby.leases import Lease, TakenOver
from jobrunner.actors.keeping.standby.taking_over import SLOWER
from jobrunner.actors.tasks import Crew
from jobrunner.core.keeping.standby import (
    CopiedChange,
    CopiedLine,
    StandbyState,
    StandbyTerms,
    StandbyToken,
    WholeCopy,
)
from jobrunner.errors import JobrunnerError, Misconfigured, OutcomeUnknown, StorageError
from jobrunner.files.standby.copied_lines import CopiedLines
from jobrunner.ports import Children, Clock, one_at_a_time
from jobrunner.store.keeping.standby.tap import Pages, Tap
from jobrunner.store.store import Store

Say = Callable[..., None]
RENEWALS = 5
ROUNDS, EARLIER = 4, 0.75
AGAIN_S = 1.0
LOOK_S = 0.25
LOOK_SHARE, SENDING_S = 0.02, 0.05
BASE_LEAST = 64 * 1024**2


class StandbyPlaces(Struct, frozen=True):
    """The copy's place, for its writer."""

    lease: Lease
    lines: CopiedLines
    tap: Tap


class StandbyCopy:
    """The copy of one life. ``most`` bytes wait to be copied before commits have to."""

    def __init__(
        self,
        terms: StandbyTerms,
        places: StandbyPlaces,
        clock: Clock,
        steady: Callable[[], float],
        children: Children,
        say: Say,
        most: int,
    ) -> None:
        self._terms = terms
        self._places = places
        self._clock = clock
        self._steady = steady
        self._children = children
        self._say = say
        self._most = most
        self._crew = Crew(clock, say, self._give_up)
        self._wake, self._turned = anyio.Event(), anyio.Event()
        self._rounds = one_at_a_time()
        self._line = CopiedLine(0, 0)
        self._copied_at = self._changes = self._bytes = 0
        self._since_base = self._base_bytes = 0
        self._store: Store | None = None
        self._stopping = False
        self._fault = ""
        self._loss: OutcomeUnknown | None = None
        self.files_behind = 0
        self._on_loss: Callable[[OutcomeUnknown], None] = lambda error: None

    async def claim(self, known: bool, *, copied: bool = False) -> None:
        """Have the token, or do not start. A place that is ``known`` had one; a machine whose
        folder was ``copied`` may have the name of another one, which serves.

        Raises: Misconfigured
        """
        if copied:
            await self._look_for_a_twin()
        await self._demand(partial(self._claimed, known))
        self._crew.keep(self._run)
        self._crew.keep(self._watch)

    async def begin(self, store: Store) -> None:
        """Copy the whole file, before anything is acknowledged that would not be in the copy.

        Raises: StorageError
        """
        self._store = store
        await self._copy_base()

    def end_with(self, on_loss: Callable[[OutcomeUnknown], None]) -> None:
        """Tell whom to tell when this service must end."""
        self._on_loss = on_loss
        if self._loss is not None:
            on_loss(self._loss)

    async def keep_small(self) -> None:
        """Copy the whole file again when its changes have grown larger than it is."""
        while True:
            await self._clock.sleep(AGAIN_S)
            if self._since_base > max(self._base_bytes, BASE_LEAST):
                await self._copy_base()

    async def close(self) -> None:
        """Copy the rest and give the token back, unless it is lost already."""
        self._stopping = True
        await self._crew.close()
        with anyio.move_on_after(self._terms.lease_s):
            fault = await self._in_thread(partial(self._round, last=True))
            if fault is not None:
                self._say("standby.fault", level="error", detail=_told(fault))
        self._places.lease.end()

    def crew(self) -> Crew:
        """Return the crew for the other tasks around the copy."""
        return Crew(self._clock, self._say, self._give_up)

    async def ready(self) -> str:
        """Say why nothing may be begun now, if so: what would have to wait for a copy whose place
        is gone is better not written at all, which is a plain no."""
        lease = self._places.lease
        while self._lags(EARLIER) and self._terms.lag_s and not lease.is_nearly_over:
            await self._next_round()
        return self._over() if lease.is_nearly_over else ""

    def over(self) -> str:
        """Say why nobody may be answered any more; empty while they may."""
        return self._over() if self._places.lease.is_nearly_over else ""

    async def kept_up(self) -> str:
        while self._lags() and not self._places.lease.is_over:
            await self._next_round()
        return self._over() if self._places.lease.is_over else ""

    def state(self) -> StandbyState:
        return StandbyState(
            path=self._terms.path,
            epoch=self._places.lease.epoch,
            behind_s=self.behind_s,
            lease_s=self._places.lease.left_s,
            copied_at=self._copied_at,
            changes=self._changes,
            bytes=self._bytes,
            files_behind=self.files_behind,
            fault=self._places.lease.lost or self._fault,
        )

    @property
    def line(self) -> CopiedLine:
        return self._line

    @property
    def behind_s(self) -> float:
        oldest = self._places.tap.since
        return max(self._steady() - oldest, 0) if oldest is not None else 0

    async def _next_round(self) -> None:
        turned = self._turned
        self._wake.set()
        with anyio.move_on_after(LOOK_S):
            await turned.wait()

    def _lags(self, share: float = 1) -> bool:
        oldest = self._places.tap.since
        if oldest is None:
            return False
        behind_s = self._steady() - oldest
        return behind_s >= self._terms.lag_s * share or self._places.tap.bytes > self._most

    def _over(self) -> str:
        if self._places.lease.lost:
            return self._places.lease.lost
        return (
            f"the copy in {self._terms.path} could not be reached for so long that another machine "
            "may have taken over; nothing is stored until it can be"
        )

    async def _watch(self) -> None:
        """Take the alarm back in time, when nothing is answered any more."""
        lease = self._places.lease
        while True:
            await self._clock.sleep(self._terms.lease_s * LOOK_SHARE)
            if lease.is_nearly_over:
                await self._clock.sleep(SENDING_S)
                lease.stand_down()

    async def _run(self) -> None:
        """Round after round, for as long as the service runs."""
        while True:
            with anyio.move_on_after(self._pause_s()):
                await self._wake.wait()
            self._wake = anyio.Event()
            self._tell(await self._in_thread(self._round))
            self._turned.set()
            self._turned = anyio.Event()

    def _pause_s(self) -> float:
        renewing = self._terms.lease_s / RENEWALS
        if self._fault:
            return min(renewing, AGAIN_S)
        return min(renewing, self._terms.lag_s / ROUNDS) if self._terms.lag_s else renewing

    def _tell(self, fault: Exception | None) -> None:
        if isinstance(fault, TakenOver):
            self._give_up(fault)
            raise fault
        told = "" if fault is None else _told(fault)
        if told != self._fault:
            level = "error" if told else "info"
            detail = told or "the copy is reached again"
            self._say("standby.fault", level=level, detail=detail, path=self._terms.path)
        self._fault = told

    async def _look_for_a_twin(self) -> None:
        """Wait for as long as a renewal is good: whoever serves renews the token meanwhile.

        Raises: Misconfigured"""
        found: list[StandbyToken | None] = []
        await self._demand(lambda: found.append(self._places.lease.found_held()))
        if (seen := found[0]) is None:
            return
        until = self._steady() + seen.lease_ms / 1000 * SLOWER
        while self._steady() < until:
            await self._clock.sleep(LOOK_S)
            await self._demand(partial(self._places.lease.demand_still, seen))

    async def _demand(self, function: Callable[[], None]) -> None:
        """Raises: Misconfigured"""
        fault = await self._in_thread(function)
        if fault is not None:
            raise fault if isinstance(fault, Misconfigured) else Misconfigured(_told(fault))

    def _give_up(self, error: OutcomeUnknown) -> None:
        if self._loss is None:
            self._loss = error
            self._on_loss(error)

    def _claimed(self, known: bool) -> None:
        lease = self._places.lease
        lease.claim(known)
        self._line = self._places.lines.begin(lease.epoch)

    def _round(self, *, last: bool = False) -> None:
        """Copy what is new on a thread, then renew the token behind it. A round that hung and is
        not wanted any more goes first."""
        with self._rounds:
            tap, lease = self._places.tap, self._places.lease
            try:
                if (pages := tap.take()) is not None:
                    self._put(pages)
            except OSError:
                lease.look()
                raise
            lease.renew()
            if pages is not None:
                tap.copied()
            if last:
                lease.free()

    def _put(self, pages: Pages) -> None:
        numbers = tuple(sorted(pages.found))
        change = CopiedChange(
            number=pages.number,
            as_of=pages.as_of,
            page_bytes=pages.page_bytes,
            pages=pages.count,
            numbers=numbers,
        )
        data = b"".join(pages.found[number] for number in numbers)
        size = self._places.lines.put_change(self._line, change, data)
        self._copied_at = pages.as_of
        self._changes += 1
        self._bytes += size
        self._since_base += size

    async def _copy_base(self) -> None:
        store = self._store
        assert store is not None, "begin comes first"
        place = f"{os.path.abspath(store.path)}.standing-by"
        numbers: list[int] = []
        taken = partial(_noted, numbers, self._places.tap.begin)
        as_of = await store.copy(place, self._children, self._wanted, taken)
        base = WholeCopy(number=numbers[0], as_of=as_of, size=0, sha256="")
        fault = await self._in_thread(partial(self._base_put, base, place))
        if isinstance(fault, JobrunnerError):
            raise fault
        if fault is not None:
            raise StorageError(_told(fault)) from fault

    def _base_put(self, base: WholeCopy, source: str) -> None:
        lines = self._places.lines
        base = lines.put_base(self._line, base, source)
        self._base_bytes, self._since_base = base.size, 0
        self._copied_at = max(self._copied_at, base.as_of)
        lines.clear_before(self._line, base.number)

    def _wanted(self) -> bool:
        return not self._stopping

    async def _in_thread(self, function: Callable[[], None]) -> Exception | None:
        """A thread that hangs in its place is waited for by nobody but us."""
        return await self._children.thread(partial(_failure, function), "standby")


def _noted(numbers: list[int], begin: Callable[[], int]) -> None:
    numbers.append(begin())


def _failure(function: Callable[[], None]) -> Exception | None:
    try:
        function()
    except Exception as error:  # noqa: BLE001 - a thread has nobody to raise it at
        return error
    return None


def _told(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
