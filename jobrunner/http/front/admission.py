"""How many submissions are worked on at once, and how long the others wait for their turn.

So many have a place; whoever comes while all are taken waits in line, and is let in by whoever
leaves. A line in which the wait is short now and then only evens out bursts and stalls, so one may
wait long in it. When for that long nobody's wait was short, more comes than can be done, and then
everybody may wait a moment only. Nobody is turned away sooner than that: those who ask again as
soon as they are refused would otherwise cost more the more of them there are. Users take turns, and
of one user the first come is first served, so nobody gets more by asking more often, or over more
connections; strangers have one turn together.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from jobrunner.ports import Clock

STRETCH = 10
SHORT = 0.25
LOOKS = 10
TURNED_AWAY_AT_ONCE = 256

Later = Callable[[float, Callable[[], None]], object]


class Waiter(Protocol):
    def go_in(self) -> None:
        """There is a place, and it is taken."""

    def turn_away(self, waited_s: float) -> None:
        """There was none in time."""


def in_the_loop(delay_s: float, call: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(delay_s, call)


class Admission:
    """``places`` 0 is no limit, ``patience_s`` 0 turns away at once. ``full`` may say that nobody
    goes in for another reason."""

    def __init__(
        self,
        clock: Clock,
        places: int = 0,
        patience_s: float = 0,
        full: Callable[[], bool] = lambda: False,
        later: Later = in_the_loop,
    ) -> None:
        self._clock = clock
        self._places = places
        self._patience_s = patience_s
        self._full = full
        self._later = later
        self._line: OrderedDict[Waiter, tuple[str, float]] = OrderedDict()
        self._turns: OrderedDict[str, OrderedDict[Waiter, None]] = OrderedDict()
        self._short_at = 0.0
        self._looking = False
        self.inside = 0

    def enter(self) -> bool:
        """Take a place, if one is free and nobody waits for it."""
        if self._line or not self._free:
            return False
        self.inside += 1
        return True

    def leave(self) -> None:
        self.inside -= 1
        self._let_in()

    def wait(self, waiter: Waiter, whose: str = "") -> None:
        """Let this one in or turn it away, now or later. ``whose`` names its user, if that is
        known."""
        if not self._patience_s:
            waiter.turn_away(0.0)
            return
        now = self._clock.monotonic()
        if not self._line:
            self._short_at = now
            self._look_again()
        self._line[waiter] = whose, now
        self._turns.setdefault(whose, OrderedDict())[waiter] = None

    def forget(self, waiter: Waiter) -> None:
        """Forget one that waits no more."""
        if waiter in self._line:
            self._take_out(waiter)

    def __len__(self) -> int:
        """How many wait."""
        return len(self._line)

    @property
    def _free(self) -> bool:
        return (not self._places or self.inside < self._places) and not self._full()

    def _let_in(self) -> None:
        while self._line and self._free:
            now = self._clock.monotonic()
            if now - self._oldest <= SHORT * self._patience_s:
                self._short_at = now
            whose, waiters = next(iter(self._turns.items()))
            self._turns.move_to_end(whose)
            waiter = next(iter(waiters))
            self._take_out(waiter)
            self.inside += 1
            waiter.go_in()

    @property
    def _oldest(self) -> float:
        """Since when whoever has waited for longest has."""
        return next(iter(self._line.values()))[1]

    def _take_out(self, waiter: Waiter) -> None:
        whose, _ = self._line.pop(waiter)
        waiters = self._turns[whose]
        del waiters[waiter]
        if not waiters:
            del self._turns[whose]

    def _look(self) -> None:
        """The line moves by itself when somebody leaves; this is for whoever waits too long."""
        self._looking = False
        self._let_in()
        more = self._turn_away(self._clock.monotonic())
        if self._line:
            self._look_again(at_once=more)

    def _look_again(self, *, at_once: bool = False) -> None:
        if not self._looking:
            self._looking = True
            self._later(0 if at_once else self._patience_s / LOOKS, self._look)

    def _turn_away(self, now: float) -> bool:
        """Say whether more have waited too long than are told so in one go: others want their
        turn."""
        patience_s = self._patience_s
        if now - self._short_at <= STRETCH * patience_s:
            patience_s *= STRETCH
        for _ in range(TURNED_AWAY_AT_ONCE):
            if not self._line or (waited_s := now - self._oldest) <= patience_s:
                return False
            waiter = next(iter(self._line))
            self._take_out(waiter)
            waiter.turn_away(waited_s)
        return True
