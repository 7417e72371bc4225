"""The seats on the cluster: who is there, whose seat it is, and what a stage is short of."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from jobrunner.stages.away import AwayStage

NOBODYS = "?"


class Skills(Struct, frozen=True):
    """A worker, as it told of itself. ``stages`` are those that it has, by the distribution and the
    version that bring them."""

    python: str
    jobrunner: str
    stages: dict[str, str]
    there: dict[str, int] = {}


class Seat(Struct):
    """A worker. ``unfit`` is why it is given nothing; ``job_id`` is whose seat it is;
    ``is_clearing``: that job has left, and what it had begun goes on."""

    address: str
    name: str = ""
    labels: dict[str, int] = {}
    skills: Skills | None = None
    unfit: str = ""
    job_id: str = ""
    is_clearing: bool = False

    @property
    def is_free(self) -> bool:
        return self.skills is not None and not self.unfit and not self.job_id

    def left(self) -> None:
        """The job that had it may sit elsewhere by now; nobody sits here before it is clear."""
        self.is_clearing, self.job_id = True, NOBODYS

    def misses(self, stage: AwayStage, brought: str) -> str:
        """Name what this worker does not have for a stage; empty when it fits."""
        has = self.skills.stages.get(stage.plain_name) if self.skills else None
        if has is None:
            return f"stage {stage.plain_name}"
        if brought and has != brought:
            return f"{brought} (it has {has})"
        there = {**(self.skills.there if self.skills else {}), **self.labels}
        short = [name for name, count in stage.labels.items() if there.get(name, 0) < count]
        return f"{stage.labels[short[0]]} of {short[0]}" if short else ""


class Seats:
    """``brought`` are the stages of this service, by the distribution and version that bring them.
    ``trouble`` is why nobody is there at all."""

    def __init__(self, brought: Mapping[str, str]) -> None:
        self._brought = brought
        self._seats: dict[str, Seat] = {}
        self.trouble = "it was not reached yet"

    def get(self, address: str) -> Seat | None:
        return self._seats.get(address)

    def of(self, job_id: str) -> Seat | None:
        return next((one for one in self._seats.values() if one.job_id == job_id), None)

    def meet(self, seat: Seat) -> None:
        self._seats[seat.address] = seat

    def keep(self, addresses: Iterable[str]) -> list[Seat]:
        """Forget everybody else; return who that was."""
        there = set(addresses)
        gone = [seat for address, seat in self._seats.items() if address not in there]
        self._seats = {one: seat for one, seat in self._seats.items() if one in there}
        return gone

    @property
    def free(self) -> int:
        return sum(seat.is_free for seat in self._seats.values())

    def take(self, job_id: str, stage: AwayStage) -> Seat | None:
        if (seat := self.of(job_id)) is None:
            fit = [one for one in self._fit(stage) if one.is_free]
            seat = min(fit, key=_spare) if fit else None
        if seat is not None:
            seat.job_id = job_id
        return seat

    def lack(self, stage: AwayStage) -> str:
        """Name what a stage is short of; empty when there is a free seat for it."""
        if self.trouble:
            return f"the cluster: {self.trouble}"
        well = [seat for seat in self._seats.values() if not seat.unfit]
        if not well:
            return f"a worker of the cluster; {self._told_unfit()}"
        fit = self._fit(stage)
        if not fit:
            missing = ", ".join(sorted({self._missed(seat, stage) for seat in well}))
            return f"a worker of the cluster that has {missing}"
        if not any(seat.is_free for seat in fit):
            return f"a free worker of the cluster ({len(fit)} in all could run its stage)"
        return ""

    def counted(self) -> dict[str, int]:
        """Count workers by how they stand."""
        found = dict.fromkeys(("free", "taken", "clearing", "unfit"), 0)
        for seat in self._seats.values():
            found[_standing(seat)] += 1
        return found

    def brought(self, stage: str) -> str:
        return self._brought.get(stage, "")

    def _fit(self, stage: AwayStage) -> list[Seat]:
        return [
            seat
            for seat in self._seats.values()
            if seat.skills is not None and not seat.unfit and not self._missed(seat, stage)
        ]

    def _missed(self, seat: Seat, stage: AwayStage) -> str:
        return seat.misses(stage, self.brought(stage.plain_name))

    def _told_unfit(self) -> str:
        told = [f"{seat.name or seat.address} {seat.unfit}" for seat in self._seats.values()]
        return "; ".join(told[:3]) or "nobody is there"


def _spare(seat: Seat) -> tuple[int, str]:
    """Take first whoever has least to offer, so that what is scarce stays free."""
    return sum(seat.labels.values()), seat.address


def _standing(seat: Seat) -> str:
    if seat.is_clearing:
        return "clearing"
    if seat.unfit or seat.skills is None:
        return "unfit"
    return "taken" if seat.job_id else "free"
