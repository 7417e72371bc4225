"""The other machine: it follows the copy, and takes over when it is told to."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from jobrunner.core.keeping.standby import FREE, TAKEN, CopiedLine, ReachedChange, StandbyToken
from jobrunner.errors import Misconfigured, StorageError
from jobrunner.files.standby.places import CopyPlace
from jobrunner.files.standby.tokens import TokenPlace
from jobrunner.store.keeping.standby.naming import files_after
from jobrunner.store.keeping.standby.replaying import CopyReplay

SLOWER = 1.1


class Followed(Struct, frozen=True):
    """The changes that one look at the copy brought. ``fault``: why it went no further."""

    reached: ReachedChange | None
    changes: int = 0
    fault: str = ""


class StandbyFollower:
    """Brings the copy beside ``path`` forward, and the files into ``assets``."""

    def __init__(self, copy: CopyPlace, path: str, assets: str) -> None:
        self._lines = copy.lines
        self._replay = CopyReplay(path)
        self._mirror = copy.back(assets)
        self._files_reached = 0

    def follow(self) -> Followed:
        """Go as far as there is anything whole to go on with."""
        applied, reached = 0, self._replay.reached()
        try:
            newest = self._lines.newest()
            if newest is None:
                return Followed(reached)
            if reached is None or reached.line != newest or self._is_left_behind(reached):
                reached = self._begin(newest)
            while (after := self._next(newest, reached)) is not None:
                reached, applied = after, applied + 1
        except (StorageError, OSError) as fault:
            return Followed(reached, applied, str(fault))
        return Followed(reached, applied, self._gap(newest, reached))

    def files(self) -> list[str]:
        """Bring the files that the copy names; those that are not there either.

        Raises: StorageError, OSError
        """
        absent: list[str] = []
        while True:
            number, paths = files_after(str(self._replay.place), self._files_reached, still=True)
            absent += self._mirror.bring(paths)
            self._files_reached = number
            if not paths:
                return absent

    @property
    def place(self) -> str:
        return str(self._replay.place)

    def done(self) -> None:
        self._replay.done()

    def all_files(self) -> list[str]:
        self._files_reached = 0
        return self.files()

    def _begin(self, line: CopiedLine) -> ReachedChange:
        number = self._lines.bases(line)[-1]
        base = self._lines.base(line, number)
        self._replay.forget()
        self._lines.bring_base(line, base, self._replay.place)
        reached = ReachedChange(line.epoch, line.life, number, base.as_of)
        self._replay.say(reached)
        self._files_reached = 0
        return reached

    def _next(self, line: CopiedLine, reached: ReachedChange) -> ReachedChange | None:
        number = reached.number + 1
        if not self._lines.has_change(line, number):
            return None
        change, pages = self._lines.change(line, number)
        after = ReachedChange(line.epoch, line.life, number, change.as_of)
        self._replay.apply(change, pages, after)
        return after

    def _is_left_behind(self, reached: ReachedChange) -> bool:
        """A later base has made its next change needless."""
        bases = self._lines.bases(reached.line)
        there = self._lines.has_change(reached.line, reached.number + 1)
        return not there and bases[-1] > reached.number

    def _gap(self, line: CopiedLine, reached: ReachedChange) -> str:
        later = [number for number in self._lines.changes(line) if number > reached.number]
        if not later:
            return ""
        return f"change {reached.number + 1} of {line.name} is missing, and there are later ones"


class TakingOver:
    """The token, for a machine that takes over: first it is nobody else's, then ours."""

    def __init__(self, place: TokenPlace, holder: str, steady: Callable[[], float]) -> None:
        self._place = place
        self._holder = holder
        self._steady = steady
        self._token: StandbyToken | None = None
        self._at = 0.0
        self._wait_s = 0.0

    def take(self) -> Literal["taken", "again", "ours"]:
        """Take it: the one who had it finds no token of its name from here on.

        Raises: Misconfigured, StorageError, OSError
        """
        found = self._place.find()
        if found is None:
            raise Misconfigured(f"{self._place.root} holds no copy: it has no token")
        if found.holder == self._holder and found.standing != TAKEN:
            return "ours"
        again = found.holder == self._holder
        self._wait_s = 0 if found.standing == FREE else found.lease_ms / 1000 * SLOWER
        self._token = found.taken_by(self._holder)
        if not self._place.swap(found, self._token, safely=True):
            return self.take()
        self._at = self._steady()
        return "again" if again else "taken"

    @property
    def wait_s(self) -> float:
        """How long the other one may still believe that it serves."""
        return max(self._wait_s - (self._steady() - self._at), 0)

    def finish(self) -> None:
        """Let this machine start, now that all is in place.

        Raises: StorageError, where somebody else took over meanwhile; OSError
        """
        assert self._token is not None, "take comes first"
        mine = StandbyToken(FREE, self._token.epoch, 1, self._token.lease_ms, self._holder)
        if not self._place.swap(self._token, mine, safely=True):
            raise StorageError(f"{self._place.root} was taken over by another machine meanwhile")
