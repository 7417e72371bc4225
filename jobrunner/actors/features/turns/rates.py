"""The rates of this service, kept in memory as the file has them.

A start takes from its rates when it is given a slot, before its job is asked, so that no two are
promised the same turn; what did not begin gives its turn back. The commit of the start carries the
rate's instant (``noted``), so a service that dies forgets no start, and one whose commit was lost
has started nothing.

Instants are seconds of the clock that does not jump; only the file has wall time.
"""

import math
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from jobrunner.core.decision import Decision, StartStage
from jobrunner.core.features.turns.rates import (
    HELD_BACK,
    HoldTerms,
    RateLimit,
    RateRow,
    emptied,
    hold_s,
    level,
    room_at,
    taken,
)
from jobrunner.core.instants import text_of
from jobrunner.core.job import Attempt
from jobrunner.ports import Clock
from jobrunner.stages import Stage
from jobrunner.store.reader import StoreReader

HOLD_MOST_S = 3600.0
HOLD_TIMES = 20


class RateNow(Struct, frozen=True):
    """How a rate stands: ``level`` is how many may start at once now, ``held_until`` and
    ``room_at`` are wall time."""

    name: str
    limit: RateLimit | None
    level: float | None
    room_at: int
    held_until: int | None
    held_by: str
    stages: tuple[str, ...]


class Bucket:
    """One rate. ``most`` is the largest amount that a stage takes at once; without a limit only its
    provider holds it back."""

    def __init__(self) -> None:
        self.limit: RateLimit | None = None
        self.most = 1
        self.full_at = self.held_until = -math.inf
        self.held_by = ""
        self.stages: list[str] = []

    @property
    def room_at(self) -> float:
        if self.limit is None:
            return self.held_until
        return max(room_at(self.limit, self.full_at, self.most), self.held_until)

    def take(self, now: float, count: int) -> None:
        if self.limit is not None:
            self.full_at = taken(self.limit, self.full_at, now, count)

    def give_back(self, count: int) -> None:
        if self.limit is not None:
            self.full_at -= count * self.limit.gap_s

    def hold(self, until: float, by: str) -> None:
        """Let nothing start before then, and then one start at a time."""
        if until > self.held_until:
            self.held_until, self.held_by = until, by
        if self.limit is not None:
            self.full_at = emptied(self.limit, self.full_at, until, self.most)

    def bound(self, now: float) -> None:
        """A bucket is empty at worst, whatever the clocks did meanwhile."""
        if self.limit is not None:
            burst = max(self.limit.burst, self.most)
            self.full_at = min(self.full_at, now + burst * self.limit.gap_s)


class Rates:
    """``begin`` is told of the limits and of the stages that take from them. A stage that declares
    no rate costs a look at an empty table."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rates: dict[str, Bucket] = {}
        self._promised: dict[str, list[Stage]] = {}
        self.hold_most_s = HOLD_MOST_S
        self.hold_times = HOLD_TIMES

    def begin(self, limits: Mapping[str, RateLimit], stages: Iterable[Stage]) -> None:
        for name in limits:
            self._rates.setdefault(name, Bucket())
        for stage in stages:
            for name, count in stage.rates.items():
                rate = self._rates.setdefault(name, Bucket())
                rate.most = max(rate.most, count)
                rate.stages.append(stage.name)
        for name, rate in self._rates.items():
            rate.limit = limits.get(name)

    async def load(self, reader: StoreReader) -> None:
        """Go on where the last life ended; one that another clock has left in the future is
        empty and no worse."""
        if not self._rates:
            return
        for row in await reader.rates():
            if (rate := self._rates.get(row.name)) is not None:
                rate.full_at = self._of_wall(row.full_at)
                longest = self._clock.monotonic() + self.hold_most_s
                rate.held_until = min(self._of_wall(row.held_until), longest)
                rate.held_by = row.held_by
                rate.bound(self._clock.monotonic())

    def limited(self, name: str, limit: RateLimit | None) -> None:
        """Set the limit of this rate from now on."""
        rate = self._rates.setdefault(name, Bucket())
        rate.limit = limit
        rate.bound(self._clock.monotonic())

    def short_of(self, stage: Stage) -> str:
        """Name the rate that has no turn for this stage now; empty when all have."""
        now = self._clock.monotonic()
        for name in stage.rates:
            if (rate := self._rates.get(name)) is not None and rate.room_at > now:
                return self._said(name, rate, now)
        return ""

    def take(self, job_id: str, stage: Stage | None) -> None:
        """Promise this job a start, which ``began`` makes true and ``give_back`` undoes."""
        if stage is None or not stage.rates:
            return
        now = self._clock.monotonic()
        for name, count in stage.rates.items():
            self._rates.setdefault(name, Bucket()).take(now, count)
        self._promised.setdefault(job_id, []).append(stage)

    def began(self, job_id: str, stage: Stage | None) -> bool:
        """Note that this stage began, and free what else was promised to the job. Return whether
        anything was."""
        promised = self._promised.pop(job_id, None)
        if promised is None:
            return False
        begun = next((one for one in promised if stage and one.name == stage.name), None)
        if begun is not None:
            promised.remove(begun)
        self._undo(promised)
        return bool(promised)

    def give_back(self, job_id: str) -> None:
        """Give back what was promised to a job that did not begin."""
        if job_id in self._promised:
            self._undo(self._promised.pop(job_id))

    def next_at(self) -> float | None:
        """Say when the next rate that has no room now has some."""
        now = self._clock.monotonic()
        short = (rate.room_at for rate in self._rates.values() if rate.room_at > now)
        return min(short, default=None)

    def holds(self, attempt: Attempt | None) -> HoldTerms | None:
        """Say on what terms a provider may hold back the rates of the stage at work."""
        if not self._rates or attempt is None:
            return None
        names = tuple(name for name, rate in self._rates.items() if attempt.stage in rate.stages)
        return HoldTerms(names, self.hold_most_s, self.hold_times) if names else None

    def noted(self, decision: Decision) -> Decision:
        """The decision with the rates as they stand after it, where it takes from one or a
        provider holds one back."""
        if not self._rates:
            return decision
        names = {name: None for one in decision.attempts for name in self._held(one)}
        for effect in decision.effects:
            if isinstance(effect, StartStage):
                names |= dict.fromkeys(self._names_of(effect.attempt.stage))
        rows = tuple(self._row(name, self._rates[name]) for name in names)
        return replace(decision, rates=rows) if rows else decision

    def now(self) -> tuple[RateNow, ...]:
        return tuple(self._now(name, rate) for name, rate in sorted(self._rates.items()))

    def turn_at(self, stage: Stage, ahead: int) -> int | None:
        """Say about when a start of this stage has its turn behind so many others, in wall time."""
        rates = [self._rates[name] for name in stage.rates if name in self._rates]
        if not rates:
            return None
        waits = [(rate, rate.limit.gap_s if rate.limit else 0) for rate in rates]
        now = self._clock.monotonic()
        return self._wall(max(max(rate.room_at, now) + ahead * gap for rate, gap in waits))

    def _held(self, attempt: Attempt) -> tuple[str, ...]:
        """Hold back the rates of an attempt that was put back in line, before that is written: a
        start that was decided earlier stands before it in the writer's line."""
        if attempt.outcome != HELD_BACK or attempt.failure is None:
            return ()
        asked_s = attempt.failure.retry_after_s
        until = self._clock.monotonic() + hold_s(asked_s, attempt.held_back, self.hold_most_s)
        names = self._names_of(attempt.stage)
        for name in names:
            self._rates[name].hold(until, attempt.stage)
        return names

    def _names_of(self, stage: str) -> tuple[str, ...]:
        return tuple(name for name, rate in self._rates.items() if stage in rate.stages)

    def _undo(self, promised: Iterable[Stage]) -> None:
        for stage in promised:
            for name, count in stage.rates.items():
                self._rates[name].give_back(count)

    def _now(self, name: str, rate: Bucket) -> RateNow:
        now = self._clock.monotonic()
        there = level(rate.limit, rate.full_at, now) if rate.limit else None
        held = self._wall(rate.held_until) if rate.held_until > now else None
        at = self._wall(max(rate.room_at, now))
        by = rate.held_by if held else ""
        return RateNow(name, rate.limit, there, at, held, by, tuple(rate.stages))

    def _said(self, name: str, rate: Bucket, now: float) -> str:
        if rate.held_until > now:
            until = text_of(self._wall(rate.held_until))
            return f"rate {name}, which a provider holds back until {until}"
        limit = rate.limit.text if rate.limit else ""
        return f"rate {name} ({limit}), which has room again at {text_of(self._wall(rate.room_at))}"

    def _row(self, name: str, rate: Bucket) -> RateRow:
        full_at = rate.full_at if rate.limit else self._clock.monotonic()
        held = self._wall(rate.held_until) if rate.held_until > self._clock.monotonic() else 0
        return RateRow(name, self._wall(full_at), held, rate.held_by if held else "")

    def _wall(self, at: float) -> int:
        return self._clock.now() + math.ceil((at - self._clock.monotonic()) * 1000)

    def _of_wall(self, at: int) -> float:
        return self._clock.monotonic() + (at - self._clock.now()) / 1000
