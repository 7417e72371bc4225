"""Sends notifications. Each stands in the outbox since the commit that it is about; here the outbox
is read by window, each is tried, and the result is written.

A try that was made and not written down before the process died is made again with the same id: at
least once, and never silently not. Nothing is kept in memory but which tries are under way and
which lanes have no room; the outbox says everything else.
"""

import asyncio
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from jobrunner.actors.features.notifications.lanes import Lanes
from jobrunner.actors.features.notifications.signing import Seals, sealed
from jobrunner.actors.shared import World
from jobrunner.actors.tasks import Crew
from jobrunner.core.decision import Clash
from jobrunner.core.features.meter import Span
from jobrunner.core.features.notifications import DueDelivery, Post, TryAnswer, follows, origin_of
from jobrunner.core.units import Tried
from jobrunner.errors import OutcomeUnknown, StorageError
from jobrunner.store.batch import Written

WINDOW = 128
SLEEP_MAX_S = 60.0
AGAIN_S = 1.0
LAST_TRIES_S = 5.0
# Where very much waits, looking for what is due is work; others want to read too.
COSTLY_S = 0.01
PAUSE_FOR_COST = 4
PAUSE_S_MAX = 1.0


Send = Callable[[Post], Awaitable[TryAnswer]]


class Deliveries:
    """``send`` makes a request and says what came back; without ``seals`` nothing is sent, and what
    is to be told waits."""

    def __init__(self, world: World, send: Send, seals: Seals | None) -> None:
        self._world = world
        self._send = send
        self._seals = seals or Seals(list)
        self._lanes = Lanes()
        self._flying: set[int] = set()
        self._nudge = asyncio.Event()
        self.open = seals is not None

    @property
    def under_way(self) -> int:
        return len(self._flying)

    def note(self, lane: str = "") -> None:
        """Read the outbox again: something was put in, or is wanted now."""
        self._lanes.wake(lane)
        self._nudge.set()

    def secrets_of(self, owner: str) -> list[str]:
        """The secrets with which this owner's endpoints verify, newest first."""
        return self._seals.of(owner)

    def misfit_url(self, url: str) -> str | None:
        """Say why a client may not be told there; None when it may."""
        return self._world.surroundings.outlets.misfit_url(url)

    async def run(self, group: Crew | TaskGroup) -> None:
        """``group`` is where tries are made: they go on when this must be started again."""
        while True:
            self._nudge.clear()
            began = self._world.clock.monotonic()
            while await self._start(group):
                pass
            seconds = await self._ahead()
            await self._breathe(self._world.clock.monotonic() - began)
            await self._nap(seconds)

    async def drain(self) -> None:
        """Begin no new tries; those under way are written down, or made again at the next start."""
        self.open = False
        with anyio.move_on_after(LAST_TRIES_S):
            while self._lanes.under_way:
                self._nudge.clear()
                await self._nudge.wait()

    async def _start(self, group: Crew | TaskGroup) -> bool:
        """Try what is due and has room; True when there may be more."""
        if not self.open or self._lanes.room <= 0:
            return False
        now = self._world.clock.monotonic()
        due = await self._world.reader.due_deliveries(
            self._world.clock.now(), WINDOW, self._lanes.closed(now), self._seen()
        )
        started = 0
        for delivery in due:
            if self._enters(delivery, now):
                self._flying.add(delivery.row)
                group.start_soon(self._try, delivery)
                started += 1
        return started > 0

    def _enters(self, delivery: DueDelivery, now: float) -> bool:
        """While the outbox was read, a drain may have begun."""
        return self.open and self._lanes.enter(delivery.lane, now)

    def _seen(self) -> tuple[int, ...]:
        return tuple(sorted(self._flying))

    async def _breathe(self, looked_s: float) -> None:
        if looked_s > COSTLY_S:
            await self._world.clock.sleep(min(looked_s * PAUSE_FOR_COST, PAUSE_S_MAX))

    async def _nap(self, seconds: float | None) -> None:
        """Sleep for so long, or until something is put in, a try ends, or a lane is woken."""
        if seconds is None:
            await self._nudge.wait()
            return
        with anyio.move_on_after(max(seconds, 0)):
            await self._nudge.wait()

    async def _ahead(self) -> float | None:
        """Count the seconds with nothing to do; None without end. The wall clock may
        jump, so what is due is waited for a minute at a time."""
        if not self.open or self._lanes.room <= 0:
            return None
        now = self._world.clock.monotonic()
        due_at = await self._world.reader.next_delivery(self._lanes.closed(now), self._seen())
        opens_at = self._lanes.next_open(now)
        waits = [SLEEP_MAX_S]
        waits += [(due_at - self._world.clock.now()) / 1000] if due_at is not None else []
        waits += [opens_at - now] if opens_at is not None else []
        return min(waits) if len(waits) > 1 else None

    async def _try(self, delivery: DueDelivery) -> None:
        """Make one request and write what follows from its answer. A try that a bug leaves without
        an end is not made again in this life."""
        heard = TryAnswer(error="it was not tried")
        try:
            heard = await self._one(delivery)
            self._flying.discard(delivery.row)
        except Exception as bug:  # noqa: BLE001 - it is told, and costs nobody else anything
            self._world.say("delivery.crashed", level="error", id=delivery.id, error=repr(bug))
        finally:
            rest_s = heard.retry_after_s if not heard.well else 0.0
            now = self._world.clock.monotonic()
            self._lanes.leave(delivery.lane, now, hurt=not heard.well, rest_s=rest_s)
            self._nudge.set()

    async def _one(self, delivery: DueDelivery) -> TryAnswer:
        at, began = self._world.clock.now(), self._world.clock.monotonic()
        heard = await self._asked(delivery, at // 1000)
        took_s = self._world.clock.monotonic() - began
        heard = replace(heard, latency_ms=max(int(1000 * took_s), 0))
        now = self._world.clock.now()
        tried = follows(delivery, heard, at, now, self._world.ids.jitter())
        if await self._write(tried):
            self._say(delivery, tried)
            span = Span(at, now, took_s)
            self._world.meter.delivered(delivery, tried.number, tried.outcome, span)
        return heard

    async def _asked(self, delivery: DueDelivery, timestamp: int) -> TryAnswer:
        """A sender that breaks costs this try and is told; it does not try for ever."""
        body = delivery.body.encode()
        try:
            secrets = self._seals.of(delivery.owner)
            headers = sealed(secrets, delivery.id, timestamp, body)
            trusted = delivery.owner.startswith("workflow:")
            return await self._send(Post(delivery.url, headers, body, trusted))
        except Exception as bug:  # noqa: BLE001 - it is told, and costs a try
            self._world.say("delivery.crashed", level="error", id=delivery.id, error=repr(bug))
            return TryAnswer(error=f"it could not be sent: {type(bug).__name__}")

    async def _write(self, tried: Tried) -> bool:
        """False when there is nothing to write to: the job was deleted, or it is another's turn."""
        while True:
            try:
                outcome = await self._world.commit(tried)
            except OutcomeUnknown:
                self.open = False
                return False
            except StorageError as fault:
                if not self.open:
                    return False
                self._world.say("storage.fault", level="error", detail=str(fault))
            else:
                return self._is_written(outcome)
            await self._world.clock.sleep(AGAIN_S)

    def _is_written(self, outcome: Written | Clash) -> bool:
        """A process that took over the file sends from now on; this one must not."""
        if isinstance(outcome, Clash) and outcome.reason == "epoch":
            self.open = False
        return not isinstance(outcome, Clash)

    def _say(self, delivery: DueDelivery, tried: Tried) -> None:
        """URLs are keys to somebody's door: only where they lead is logged."""
        event = f"delivery.{NAMES[tried.outcome]}"
        self._world.say(
            event,
            level="info" if tried.outcome == "delivered" else "warning",
            delivery_id=delivery.id,
            job_id=delivery.job_id,
            workflow=delivery.workflow,
            user_id=delivery.user_id,
            endpoint=delivery.endpoint,
            origin=origin_of(delivery.url),
            tries=tried.number,
            latency_ms=tried.latency_ms,
            http_status=tried.http_status,
            error=tried.error,
        )


NAMES = {"delivered": "made", "due": "put_off", "failed": "given_up", "disabled": "unwanted"}
