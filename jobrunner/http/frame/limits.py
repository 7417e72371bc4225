"""How much the door takes, from one caller and in all. What is too much is refused at once.

429 says "you", 503 says "we"; both say when to come again, a little different to everybody, so
that those who were refused together do not return together. Every table here is bounded.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from jobrunner.errors import Refused
from jobrunner.http.front.admission import Admission
from jobrunner.ports import Clock, Ids

Weight = Literal["none", "reading", "moving", "making"]

KNOWN_MAX = 8192
ROUNDING_S = 1e-6
OTHERS = "others"
TICK_S = 0.1
LOOK_EVERY_S = 1.0
FULL_EVERY_S = 10.0
# What is under way already counts for more than what would be new, and looking is cheap: they are
# turned away when it is this many times as bad.
PATIENCE: dict[Weight, int] = {"making": 1, "moving": 4, "reading": 4}


class Bounds(Struct, frozen=True, kw_only=True):
    """0 of a rate, of ``submissions``, of ``pending_writes``, of ``lag`` (seconds) and of
    ``free_disk`` is no limit; of ``patience`` (seconds) it is none."""

    requests_per_second: float = 0
    burst: int = 100
    anonymous_per_second: float = 0
    connections: int = 4096
    streams: int = 1024
    streams_per_user: int = 16
    submissions: int = 0
    patience: float = 0
    pending_writes: int = 0
    lag: float = 0
    free_disk: int = 0


class HttpLimits:
    """``free`` tells how many bytes the disk has left, ``waiting`` how many writes wait."""

    def __init__(
        self,
        clock: Clock,
        ids: Ids,
        bounds: Bounds | None = None,
        free: Callable[[], int] = lambda: 2**62,
        waiting: Callable[[], int] = lambda: 0,
    ) -> None:
        self.bounds = bounds or Bounds()
        self._clock = clock
        self._ids = ids
        self._free = free
        self._of_token = Rate(clock, self.bounds.requests_per_second, self.bounds.burst)
        self._of_address = Rate(clock, self.bounds.anonymous_per_second, self.bounds.burst)
        self._streams: dict[str, list[Callable[[], bool]]] = {}
        self._waiting = waiting
        places, patience_s = self.bounds.submissions, self.bounds.patience
        self.admission = Admission(clock, places, patience_s, self._backlogged)
        self._full_at = -FULL_EVERY_S
        self._full = 0
        self._lag_s = 0.0
        self._room = 2**62
        self.on_lag: Callable[[float], None] = lambda seconds: None

    def take(self, token: bytes) -> None:
        """Count one request of this token. Raises: Refused RATE_LIMITED."""
        if self._of_token.per_second:
            self._take(self._of_token, token, "this token")

    def take_anonymous(self, address: str) -> None:
        """A guess: a token that is none, or a signature that does not fit. Raises: Refused
        RATE_LIMITED."""
        self._take(self._of_address, network_of(address), "your address")

    def admit(self, weight: Weight) -> None:
        """Before the body is read. Raises: Refused OVERLOADED, STORAGE_FULL."""
        if weight == "none":
            return
        bounds, patience = self.bounds, PATIENCE[weight]
        if bounds.lag and self._lag_s > bounds.lag * patience:
            raise self.overloaded("requests wait too long for their turn")
        if weight == "reading":
            return
        if weight == "moving" and self._backlogged(patience):
            raise self.overloaded(f"{self._waiting()} writes wait for the disk already")
        if weight == "making" and self._room < bounds.free_disk:
            detail = "the disk is nearly full: the rest is for jobs that exist; make room"
            raise Refused("STORAGE_FULL", detail, retry_after_s=self._later_s())

    @contextmanager
    def stream(self, user_id: str, gone: Callable[[], bool]) -> Iterator[None]:
        """A place for one stream; those whose client is gone give theirs up first.

        Raises: Refused TOO_MANY_STREAMS, OVERLOADED.
        """
        kept = [other for other in self._streams.get(user_id, ()) if not other()]
        most = self.bounds.streams_per_user
        self._streams.pop(user_id, None)
        if kept:
            self._streams[user_id] = kept
        if len(kept) >= most:
            detail = f"{most} streams of {user_id} are open; close one of them"
            raise Refused("TOO_MANY_STREAMS", detail, limit=most, retry_after_s=self._later_s())
        if sum(map(len, self._streams.values())) >= self.bounds.streams:
            raise self.overloaded("there is no place for one more stream")
        self._streams[user_id] = [*kept, gone]
        try:
            yield
        finally:
            left = [other for other in self._streams.pop(user_id, ()) if other is not gone]
            if left:
                self._streams[user_id] = left

    def overloaded(self, detail: str) -> Refused:
        return Refused("OVERLOADED", detail, retry_after_s=self._later_s())

    async def watch(self) -> None:
        """How late a nap ends is how long everybody waits."""
        looked_at = self._clock.monotonic() - LOOK_EVERY_S
        while True:
            before = self._clock.monotonic()
            if before - looked_at >= LOOK_EVERY_S:
                self._room, looked_at = self._free(), before
            await self._clock.sleep(TICK_S)
            self._lag_s = max(self._clock.monotonic() - before - TICK_S, 0)
            self.on_lag(self._lag_s)

    @property
    def free_bytes(self) -> int:
        return self._free()

    def stats(self) -> dict[str, float]:
        streams = sum(map(len, self._streams.values()))
        return {"waiting": self._waiting(), "lag_s": self._lag_s, "streams": streams}

    def full_seen(self) -> int:
        """How many times the disk was full since this last said so; 0 when that is too recent to
        speak of it again."""
        self._full += 1
        now = self._clock.monotonic()
        if now - self._full_at < FULL_EVERY_S:
            return 0
        self._full_at, seen, self._full = now, self._full, 0
        return seen

    def lower_connections(self, most: int) -> None:
        """The system lets us have no more."""
        self.bounds = replace(self.bounds, connections=most)

    def _backlogged(self, patience: int = 1) -> bool:
        most = self.bounds.pending_writes * patience
        return most > 0 and self._waiting() >= most

    def _take(self, rate: "Rate", key: Hashable, whose: str) -> None:
        wait_s = rate.take(key)
        if wait_s:
            detail = f"{whose} may ask {rate.per_second:g} times a second; this is more"
            later_s = max(self._later_s(), int(wait_s) + 1)
            raise Refused("RATE_LIMITED", detail, limit=rate.per_second, retry_after_s=later_s)

    def _later_s(self) -> int:
        return 1 + int(self._ids.jitter() * 4)


class Rate:
    """The generic cell rate algorithm: of each key, only when its next request would be due if they
    came evenly. So many may come at once; a key that has been quiet for a while is forgotten."""

    def __init__(self, clock: Clock, per_second: float, burst: int) -> None:
        self.per_second = per_second
        self._clock = clock
        self._every_s = 1 / per_second if per_second else 0.0
        self._ahead_s = self._every_s * (burst - 1)
        self._due: dict[Hashable, float] = {}

    def take(self, key: Hashable) -> float:
        """How long to wait; 0.0 when the request is fine, and then it is counted."""
        if not self.per_second:
            return 0.0
        now = self._clock.monotonic()
        if key not in self._due and len(self._due) >= KNOWN_MAX:
            self._forget(now)
            key = key if len(self._due) < KNOWN_MAX else OTHERS
        due = max(self._due.get(key, now), now)
        if due - now > self._ahead_s + ROUNDING_S:
            return due - now - self._ahead_s
        self._due[key] = due + self._every_s
        return 0.0

    def _forget(self, now: float) -> None:
        self._due = {key: due for key, due in self._due.items() if due > now}


def network_of(address: str) -> str:
    """Count a whole IPv6 network as one address: whoever has one has all."""
    groups = address.partition("%")[0].split(":")
    if len(groups) < 3 or "." in address:
        return address
    if "" in groups[:4]:
        return address.partition("::")[0] + "::"
    return ":".join(groups[:4]) + "::"
