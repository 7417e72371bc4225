"""The lease of the machine that serves: how long it still may, by the last renewal of the token."""

from collections.abc import Callable

from jobrunner.core.keeping.standby import FREE, HELD, StandbyToken
from jobrunner.errors import Misconfigured, OutcomeUnknown
from jobrunner.files.standby.tokens import TokenPlace
from jobrunner.ports import one_at_a_time

LEAST_S = 0.001
SPARE = 0.25
TOO_LATE = "stop using this machine, or follow with `jobrunner standby`"


class TakenOver(OutcomeUnknown):
    """Somebody else has the token: this service must end, and may not start again."""


class Lease:
    """``renew`` and ``free`` run on one thread at a time; the rest is asked from the loop. Where it
    ends, ``left_s`` is 0 for good. ``alarm`` lets the system end this process after so many
    seconds: one that stands still between its last look at the clock and the sending of an answer
    would else send it when it goes on."""

    def __init__(
        self,
        place: TokenPlace,
        holder: str,
        lease_s: float,
        steady: Callable[[], float],
        alarm: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._alarm = alarm
        self._turn = one_at_a_time()
        self._place = place
        self._holder = holder
        self._lease_s = lease_s
        self._steady = steady
        self._token: StandbyToken | None = None
        self._until = 0.0
        self.lost = ""

    @property
    def epoch(self) -> int:
        return self._token.epoch if self._token else 0

    @property
    def left_s(self) -> float:
        return 0 if self.lost else max(self._until - self._steady(), 0)

    @property
    def is_over(self) -> bool:
        return self.left_s <= 0

    @property
    def is_nearly_over(self) -> bool:
        """Say whether too little time is left to begin anything."""
        return self.left_s <= self._lease_s * SPARE

    def claim(self, known: bool = False) -> None:
        """Have the token, which must be ours, or nobody's yet: a place that is ``known`` had one.

        Raises: Misconfigured, StorageError, OSError
        """
        found = self._place.find()
        if found is None and known:
            raise Misconfigured(absent_text(self._place.root))
        if found is None:
            found = StandbyToken(FREE, 0, 0, self._lease_ms, self._holder).taken_by(
                self._holder, FREE
            )
            if not self._place.make(found):
                found = self._place.find()
        if found is None:
            raise OSError(absent_text(self._place.root))
        if found.holder != self._holder or found.standing not in (HELD, FREE):
            raise Misconfigured(taken_text(self._place.root, found))
        self._token = found
        self.renew()

    def found_held(self) -> StandbyToken | None:
        """Find the token, if somebody of our name has it. Raises: StorageError, OSError"""
        found = self._place.find()
        ours = found is not None and (found.standing, found.holder) == (HELD, self._holder)
        return found if ours else None

    def demand_still(self, seen: StandbyToken) -> None:
        """Raises: Misconfigured, when somebody has renewed it; StorageError, OSError"""
        if self._place.find() != seen:
            raise Misconfigured(twin_text(str(self._place.root), self._holder))

    def renew(self) -> None:
        """Be good for another while, from before it was asked for.

        Raises: TakenOver, OSError
        """
        began = self._steady()
        old = self._token
        assert old is not None, "claim comes first"
        new = old.renewed(HELD, self._lease_ms)
        if not self._place.swap(old, new):
            new = self._again(new)
        with self._turn:
            self._token, self._until = new, began + self._lease_s
            self._alarm(max(self._until - self._steady(), LEAST_S))

    def end(self) -> None:
        """The service is closed: whatever becomes of the process, it answers nobody."""
        self._until = 0.0
        self.stand_down()

    def stand_down(self) -> None:
        """Take back the alarm: nobody is answered any more, and what was answered is sent."""
        with self._turn:
            if self.is_nearly_over:
                self._alarm(0)

    def look(self) -> None:
        """Learn why the place refuses us: whoever took over has cleared our lines away.

        Raises: TakenOver, OSError
        """
        found = self._place.find()
        if found is not None and (found.holder, found.epoch) != (self._holder, self.epoch):
            self.lost = taken_text(self._place.root, found)
            raise TakenOver(self.lost)

    def free(self) -> None:
        """Give the token back, so that whoever takes over need not wait. Raises: OSError"""
        if self._token is not None and not self.lost:
            self._place.swap(self._token, self._token.renewed(FREE, self._lease_ms), safely=True)
            self._until = 0.0
            self.stand_down()

    def _again(self, new: StandbyToken) -> StandbyToken:
        """A server that lost its last moments may have our token under an older name."""
        found = self._place.find()
        if found is not None and (found.holder, found.epoch) == (self._holder, self.epoch):
            if found.standing == HELD and self._place.swap(found, new):
                return new
        if found is None:
            raise OSError(absent_text(self._place.root))
        self.lost = taken_text(self._place.root, found)
        raise TakenOver(self.lost)

    @property
    def _lease_ms(self) -> int:
        return int(self._lease_s * 1000)


def absent_text(root: str) -> str:
    return f"{root} has no token, and had one: mount its disk, or put its contents back"


def twin_text(root: str, name: str) -> str:
    return (
        f"{root} is held by {name}, which is this machine's name, and renewed by another one: this "
        "folder is a copy of that one's; remove the file .standby beside the database here, and "
        "follow with `jobrunner standby`"
    )


def taken_text(root: str, found: StandbyToken) -> str:
    return (
        f"{root} is held by {found.holder} since epoch {found.epoch} ({found.standing}), and not "
        f"by this machine: it has been taken over from; {TOO_LATE}"
    )
