"""The ledger of all that stages do to the world outside: requests that make something happen,
through the context. One effect has one key, however often the step that makes it is repeated.

An effect is *unsure* while its stage may have to make it again: the answer was lost, or the pass
that had it was cut off, failed or parked before ``once`` (or a checkpoint) had stored it. Then a
repetition is the same effect, and must come under the same key; and a step that is repeated to its
end must not have put another key in its place.
"""

from collections.abc import Mapping
from fnmatch import fnmatch
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from jobrunner.outgoing.calls import Exchange
from jobrunner.testing.simulation.passes import Pass

MAKING = ("POST", "PATCH")  # repeating any other method is harmless by what it means
Step = tuple[str, str, str]  # job, state, run


class Effect(Struct):
    """``within`` is the name of the ``once`` that it was made in."""

    wish: str
    key: str
    called: str
    within: str
    where: str
    unsure: bool = False
    settled: bool = False


class KeptName(Struct, frozen=True):
    """A name of ``once``, and the line that says it."""

    name: str
    where: str


class StepHistory(Struct):
    """The deeds of all passes of one step so far."""

    unsure: list[Effect] = []
    names: dict[str, tuple[str, str]] = {}  # name: the line, and the artifacts that were there


class EffectLedger:
    """``harmless`` are patterns of requests that may be repeated without a key."""

    def __init__(self, harmless: tuple[str, ...] = ()) -> None:
        self._harmless = harmless
        self._steps: dict[Step, StepHistory] = {}

    def page(self, step: Step, work: Pass) -> "EffectPage":
        """Open a page for a pass that begins."""
        history = self._steps.setdefault(step, StepHistory())
        return EffectPage(history, work, self._harmless)


class EffectPage:
    """The effects of one pass."""

    def __init__(self, history: StepHistory, work: Pass, harmless: tuple[str, ...]) -> None:
        self._history = history
        self._work = work
        self._harmless = harmless
        self._made: list[Effect] = []
        self._asked: list[KeptName] = []
        self._issued: set[str] = set()
        self._before: set[str] = set()
        self._artifacts = ""

    def begin(self, kept: Mapping[str, Any], artifacts: Mapping[str, Any]) -> None:
        """Note what the pass finds: with other artifacts it may go another way."""
        self._before, self._artifacts = set(kept), repr(sorted(artifacts.items()))

    def issued(self, key: str) -> None:
        """The context gave out a key: wherever a request carries it, that is its key."""
        self._issued.add(key)

    def asks_once(self, name: str) -> None:
        where = self._work.here()
        self._asked.append(KeptName(name, where))
        self._history.names.setdefault(name, (where, self._artifacts))

    def sends(self, asked: Exchange, within: str) -> Effect | None:
        """Begin an effect; None for a request that changes nothing."""
        called = f"{asked.method} {asked.url}"
        if asked.method.upper() not in MAKING or any(fnmatch(called, p) for p in self._harmless):
            return None
        effect = Effect(_wish(asked), self._key(asked), called, within, self._work.here())
        again = [one for one in self._history.unsure if one.wish == effect.wish]
        if again and not (effect.key and any(one.key == effect.key for one in again)):
            self._repeated(again[0], effect)
        self._made.append(effect)
        return effect

    def lost(self, effect: Effect | None) -> None:
        """Note that nobody knows whether it happened."""
        if effect is not None:
            effect.unsure = True
            self._history.unsure.append(effect)

    def refused(self, effect: Effect | None) -> None:
        """Note that it did not happen."""
        if effect is not None:
            effect.settled = True

    def keeps(self, name: str) -> None:
        self._settle(lambda effect: effect.within == name)

    def checkpoints(self) -> None:
        """The attempt after this one begins behind here."""
        self._settle(lambda effect: True)

    def cut_off(self) -> None:
        """The stage was interrupted: whatever is not stored may be made again."""
        self._history.unsure += [one for one in self._made if not one.settled and not one.unsure]

    def ends(self, outcome: str) -> None:
        """The pass came to an end of its own."""
        self._replaced()
        self._renamed()
        if outcome == "done":
            self._settle(lambda effect: True)
        else:
            self.cut_off()

    def _settle(self, which: Any) -> None:
        for effect in self._made:
            effect.settled = effect.settled or which(effect)
        gone = {(one.wish, one.key) for one in self._made if one.settled}
        unsure = self._history.unsure
        self._history.unsure = [one for one in unsure if (one.wish, one.key) not in gone]

    def _repeated(self, first: Effect, again: Effect) -> None:
        """The same wish as one that may have been heard, not under its key."""
        if first.key and again.key:
            return  # told at the end: it may be another one of the same words
        how = f"once({again.within!r})" if again.within else "once"
        if again.within:
            text = f"{again.called} was made in {how}, cut off, and made again without a key: send "
            self._work.fault(text + "ctx.idempotency_key() along", again.where)
        else:
            text = f"{again.called} is made again when the step is repeated: the effect comes "
            self._work.fault(text + "before its once, and has no key", again.where)

    def _replaced(self) -> None:
        sent = {(one.wish, one.key) for one in self._made}
        for first in self._history.unsure:
            others = [
                one for one in self._made
                if one.wish == first.wish and one.key and one.key != first.key
                and not self._known(one)
            ]  # fmt: skip
            if first.key and others and (first.wish, first.key) not in sent:
                text = f"makes one effect under two keys, {first.key} and {others[0].key}"
                self._work.fault(f"{text}: {first.called}", others[0].where)

    def _known(self, effect: Effect) -> bool:
        unsure = self._history.unsure
        return any(one.wish == effect.wish and one.key == effect.key for one in unsure)

    def _renamed(self) -> None:
        """A name that was kept and is not asked for any more, and another one at its line."""
        asked = {one.name for one in self._asked}
        for name in sorted(self._before - asked):
            where, artifacts = self._history.names.get(name, ("", ""))
            for one in self._asked if artifacts == self._artifacts else ():
                if where and one.where == where and one.name not in self._before:
                    again = f"and, when it is repeated, once({one.name!r}): the name must stay"
                    self._work.fault(f"calls one step once({name!r}) {again}", where)

    def _key(self, asked: Exchange) -> str:
        for name, value in asked.headers.items():
            if name.lower() == "idempotency-key":
                return value
        sent = asked.url + repr(asked.data) + repr(sorted(asked.headers.items()))
        return next((key for key in sorted(self._issued, key=len, reverse=True) if key in sent), "")


def _wish(asked: Exchange) -> str:
    said = (asked.method, asked.url, repr(asked.data))
    return blake2b(msgspec.json.encode(said), digest_size=8).hexdigest()
