"""Counts what is scarce, and which job holds it: slots of this service, a user's share of them,
turns at a stage, named resources. A slot is free again when the stage's task has ended, not sooner:
a stage that is deaf to being stopped keeps it.

A job may keep its slot for its next attempt. Before that is decided, nobody knows which stage it
will need, so a turn and the resources of each that it may be are promised to it until it is known.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from jobrunner.actors.features.turns.rates import Rates
from jobrunner.stages import Stage
from jobrunner.stages.away import NOWHERE, AwayStage, Elsewhere


class WorkLimits(Struct, frozen=True):
    """The limits on running work, on waiting work and on the pace of bulks."""

    active_jobs: int = 64
    per_user_active: int = 8
    queued_jobs: int = 100_000
    bulk_per_second: int = 200


class Slot(Struct, frozen=True):
    user_id: str
    stage: Stage | None


class Slots:
    def __init__(
        self,
        limits: WorkLimits,
        resources: Mapping[str, int],
        rates: Rates,
        elsewhere: Elsewhere = NOWHERE,
    ) -> None:
        self.limits = limits
        self._elsewhere = elsewhere
        self._here = 0
        self._rates = rates
        self._promised: dict[str, list[Stage]] = {}
        self._resources = resources
        self._held: dict[str, Slot] = {}
        self._users: Counter[str] = Counter()
        self._stages: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def free(self) -> int:
        return max(self.limits.active_jobs - self._here, 0) + self._elsewhere.free

    @property
    def room(self) -> int:
        """How many slots a user may get now, at most."""
        most = self.limits.per_user_active
        return min(self.free, most) if most > 0 else self.free

    @property
    def holders(self) -> dict[str, str]:
        return {job_id: slot.user_id for job_id, slot in self._held.items()}

    def crowded(self) -> tuple[str, ...]:
        """Users who have all that one user may have."""
        return tuple(sorted(filter(self.is_crowded, self._users)))

    def is_crowded(self, user_id: str) -> bool:
        return 0 < self.limits.per_user_active <= self._users[user_id]

    @property
    def users(self) -> Mapping[str, int]:
        """How many slots each user has."""
        return self._users

    @property
    def resources(self) -> Mapping[str, tuple[int, int]]:
        """Return for each named resource how many are taken and how many there are."""
        return {name: (self._taken[name], there) for name, there in self._resources.items()}

    def take(self, job_id: str, user_id: str, stage: Stage | None) -> None:
        self._hold(job_id, user_id, stage)
        self._rates.take(job_id, stage)

    def lend(self, job_id: str, stages: Iterable[Stage]) -> frozenset[str]:
        """Name those of these stages that this job may begin in its slot. They are promised to it,
        until it begins one or gives its slot back."""
        self._take_back(job_id)
        slot, most = self._held.get(job_id), self.limits.active_jobs
        if slot is None or isinstance(slot.stage, AwayStage) or self._here > most:
            return frozenset()
        self._count_stage(slot.stage, -1)  # what it gives back may be what it begins with
        fit = [one for one in stages if not (isinstance(one, AwayStage) or self._no_turn_for(one))]
        self._count_stage(slot.stage, 1)
        for stage in fit:
            if _is_scarce(stage) and stage != slot.stage:
                self._promised.setdefault(job_id, []).append(stage)
                self._count_stage(stage, 1)
            if stage.rates:
                self._rates.take(job_id, stage)
        return frozenset([stage.name for stage in fit])

    def begin(self, job_id: str, stage: Stage | None) -> bool:
        """Begin this stage in the slot that the job has. Say whether others may now begin what they
        could not: a turn or a resource came free."""
        free = self._rates.began(job_id, stage)
        promised = self._take_back(job_id) or free
        slot = self._held.get(job_id)
        if slot is None or slot.stage == stage:
            return promised
        if isinstance(slot.stage, AwayStage) or isinstance(stage, AwayStage):
            self._leave(job_id, slot)
            self._hold(job_id, slot.user_id, stage)
        else:
            self._held[job_id] = Slot(slot.user_id, stage)
            self._count_stage(slot.stage, -1)
            self._count_stage(stage, 1)
        return promised or (slot.stage is not None and _is_scarce(slot.stage))

    def give_back(self, job_id: str) -> None:
        self._take_back(job_id)
        slot = self._held.pop(job_id, None)
        if slot is not None:
            self._leave(job_id, slot)

    def lack(self, job_id: str, user_id: str, stage: Stage | None) -> str:
        """Name what this job is short of; empty when it may run."""
        if job_id in self._held:
            return "its last attempt to end, which goes on though it was stopped"
        if full := self._no_slot_for(stage):
            return full
        if self.is_crowded(user_id):
            return f"one of the {self.limits.per_user_active} slots that its owner may have"
        return self.short_of(stage) if stage is not None else ""

    def short_of(self, stage: Stage) -> str:
        return self._no_slot_for(stage) or self._no_turn_for(stage)

    def _no_turn_for(self, stage: Stage) -> str:
        """Name what a stage lacks beside its slot, if anything."""
        if 0 < stage.concurrency <= self._stages[stage.name]:
            return f"stage {stage.name}, of which {stage.concurrency} may run at a time"
        for name, count in stage.resources.items():
            there = self._resources.get(name, 0)
            if self._taken[name] + count > there:
                holders = ", ".join(self._holding(name)) or "nobody"
                return f"{count} of resource {name} ({there} in all, held by {holders})"
        return self._rates.short_of(stage) if stage.rates else ""

    def _no_slot_for(self, stage: Stage | None) -> str:
        """Name the slot that the job lacks, if any; slots of this service are only for what runs
        here."""
        if isinstance(stage, AwayStage):
            return self._elsewhere.lack(stage)
        if self._here >= self.limits.active_jobs:
            return f"a free slot in this service ({self.limits.active_jobs} in all)"
        return ""

    def _hold(self, job_id: str, user_id: str, stage: Stage | None) -> None:
        self._held[job_id] = Slot(user_id, stage)
        self._count(self._held[job_id], 1)
        if isinstance(stage, AwayStage):
            self._elsewhere.take(job_id, stage)

    def _leave(self, job_id: str, slot: Slot) -> None:
        self._count(slot, -1)
        if isinstance(slot.stage, AwayStage):
            self._elsewhere.give_back(job_id)

    def _holding(self, name: str) -> list[str]:
        return [
            f"job {job_id}"
            for job_id, slot in self._held.items()
            if slot.stage is not None and slot.stage.resources.get(name)
        ]

    def _count(self, slot: Slot, change: int) -> None:
        self._here += 0 if isinstance(slot.stage, AwayStage) else change
        self._users[slot.user_id] += change
        if not self._users[slot.user_id]:
            del self._users[slot.user_id]
        self._count_stage(slot.stage, change)

    def _count_stage(self, stage: Stage | None, change: int) -> None:
        if stage is None:
            return
        self._stages[stage.name] += change
        for name, count in stage.resources.items():
            self._taken[name] += count * change

    def _take_back(self, job_id: str) -> bool:
        """Free what was promised to a job that needs it no longer."""
        self._rates.give_back(job_id)
        promised = self._promised.pop(job_id, ())
        for stage in promised:
            self._count_stage(stage, -1)
        return bool(promised)


def _is_scarce(stage: Stage) -> bool:
    return stage.concurrency > 0 or bool(stage.resources)
