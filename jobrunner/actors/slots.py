"""Counts what is scarce, and which job holds it: slots of this service, a user's share of them,
turns at a stage, named resources. A slot is free again when the stage's task has ended, not sooner:
a stage that is deaf to being stopped keeps it.
"""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from jobrunner.stages import Stage


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
    def __init__(self, limits: WorkLimits, resources: Mapping[str, int]) -> None:
        self.limits = limits
        self._resources = resources
        self._held: dict[str, Slot] = {}
        self._users: Counter[str] = Counter()
        self._stages: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def free(self) -> int:
        return max(self.limits.active_jobs - len(self._held), 0)

    @property
    def holders(self) -> dict[str, str]:
        return {job_id: slot.user_id for job_id, slot in self._held.items()}

    def crowded(self) -> tuple[str, ...]:
        """Users who have all that one user may have."""
        most = self.limits.per_user_active
        return tuple(sorted(user for user, count in self._users.items() if 0 < most <= count))

    def of_user(self, user_id: str) -> int:
        return self._users[user_id]

    def take(self, job_id: str, user_id: str, stage: Stage | None) -> None:
        self._held[job_id] = Slot(user_id, stage)
        self._count(self._held[job_id], 1)

    def give_back(self, job_id: str) -> None:
        slot = self._held.pop(job_id, None)
        if slot is not None:
            self._count(slot, -1)

    def lack(self, job_id: str, user_id: str, stage: Stage | None) -> str:
        """Name what this job is short of; empty when it may run."""
        if job_id in self._held:
            return "its last attempt to end, which goes on though it was stopped"
        if not self.free:
            return f"a free slot in this service ({self.limits.active_jobs} in all)"
        if user_id in self.crowded():
            return f"one of the {self.limits.per_user_active} slots that its owner may have"
        return self.short_of(stage) if stage is not None else ""

    def short_of(self, stage: Stage) -> str:
        if 0 < stage.concurrency <= self._stages[stage.name]:
            return f"stage {stage.name}, of which {stage.concurrency} may run at a time"
        for name, count in stage.resources.items():
            there = self._resources.get(name, 0)
            if self._taken[name] + count > there:
                holders = ", ".join(self._holding(name)) or "nobody"
                return f"{count} of resource {name} ({there} in all, held by {holders})"
        return ""

    def _holding(self, name: str) -> list[str]:
        return [
            f"job {job_id}"
            for job_id, slot in self._held.items()
            if slot.stage is not None and slot.stage.resources.get(name)
        ]

    def _count(self, slot: Slot, change: int) -> None:
        self._users[slot.user_id] += change
        if not self._users[slot.user_id]:
            del self._users[slot.user_id]
        if slot.stage is not None:
            self._stages[slot.stage.name] += change
            for name, count in slot.stage.resources.items():
                self._taken[name] += count * change
