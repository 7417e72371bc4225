"""The copy from which another machine can take over: who holds it, and its parts.

A line is what one life of one holder has copied: a base, which is the whole file at one moment, and
changes, which are numbered without a gap. Another life begins another line, since nobody knows what
of the life before was not copied any more.
"""

from typing import Literal

from msgspec import Struct

Standing = Literal["held", "free", "taken"]
HELD: Standing = "held"
FREE: Standing = "free"
TAKEN: Standing = "taken"


class StandbyToken(Struct, frozen=True):
    """The one thing in the copy's place that decides who may serve. Everything that it says is its
    name, so a renaming of it is a comparison and an exchange at once.

    ``held``: somebody serves, and renews it. ``free``: nobody does, and only its holder may without
    a take-over. ``taken``: its holder is about to."""

    standing: Standing
    epoch: int
    count: int
    lease_ms: int
    holder: str

    @property
    def name(self) -> str:
        return f"{self.standing}.{self.epoch:08d}.{self.count:012d}.{self.lease_ms}.{self.holder}"

    def renewed(self, standing: Standing, lease_ms: int) -> "StandbyToken":
        return StandbyToken(standing, self.epoch, self.count + 1, lease_ms, self.holder)

    def taken_by(self, holder: str, standing: Standing = TAKEN) -> "StandbyToken":
        """Make the token of the next epoch; the previous holder no longer finds one of its name."""
        return StandbyToken(standing, self.epoch + 1, 0, self.lease_ms, holder)


def token_of(name: str) -> StandbyToken | None:
    """Read a token from a file's name; None for any other file."""
    parts = name.split(".")
    if len(parts) != 5 or parts[0] not in (HELD, FREE, TAKEN):
        return None
    if not all(part.isdecimal() for part in parts[1:4]):
        return None
    standing: Standing = "held" if parts[0] == HELD else "free" if parts[0] == FREE else "taken"
    return StandbyToken(standing, int(parts[1]), int(parts[2]), int(parts[3]), parts[4])


class CopiedLine(Struct, frozen=True, order=True):
    """The line of one life of a service, ordered by time: a later one is greater."""

    epoch: int
    life: int

    @property
    def name(self) -> str:
        return f"{self.epoch:08d}.{self.life:06d}"


def line_of(name: str) -> CopiedLine | None:
    epoch, dot, life = name.partition(".")
    if not dot or not epoch.isdecimal() or not life.isdecimal():
        return None
    return CopiedLine(int(epoch), int(life))


class WholeCopy(Struct, frozen=True, kw_only=True):
    """The whole file as it was when ``number`` changes were taken; ``as_of`` is that moment."""

    number: int
    as_of: int
    size: int
    sha256: str
    version: str = ""


class CopiedChange(Struct, frozen=True, kw_only=True):
    """The pages that commits have changed, each as the last of them left it, in the order of
    ``numbers``. ``pages`` is how long the file is then; ``as_of`` the moment of the last commit."""

    number: int
    as_of: int
    page_bytes: int
    pages: int
    numbers: tuple[int, ...]


class ReachedChange(Struct, frozen=True):
    """How far a follower has come."""

    epoch: int
    life: int
    number: int
    as_of: int

    @property
    def line(self) -> CopiedLine:
        return CopiedLine(self.epoch, self.life)


class StandbyTerms(Struct, frozen=True):
    """Where the copy lies, how old a commit may be that is acknowledged and not copied (0: none
    is), and for how long a renewal of the token is good."""

    path: str
    lag_s: float
    lease_s: float


class StandbyState(Struct, frozen=True, kw_only=True):
    """How the copy stands, for those who look. ``behind_s`` is the age of the oldest commit that is
    not copied, ``lease_s`` what is left of the lease, ``files_behind`` counts files of jobs that
    are not copied yet."""

    path: str
    epoch: int = 0
    behind_s: float = 0
    lease_s: float = 0
    copied_at: int = 0
    changes: int = 0
    bytes: int = 0
    files_behind: int = 0
    fault: str = ""

    @property
    def warning(self) -> str:
        """Say what an operator should look at, though all goes on."""
        if not self.fault:
            return ""
        return f"the copy in {self.path} is {self.behind_s:.1f} s behind: {self.fault}"
