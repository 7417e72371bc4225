"""The turns of jobs that are taken one at a time, kept in memory as the file has them.

A key is taken with the slot, before its job is asked, and held by whoever has the slot or, as the
last commit says, an attempt under way, here or elsewhere. So a parked attempt keeps it without a
slot, and a stage that is deaf to being stopped keeps it with its slot.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.turns.in_line import Waiting
from jobrunner.core.features.turns.one_at_a_time import most_of, shown_key
from jobrunner.core.job import Snapshot
from jobrunner.errors import Refused
from jobrunner.store.reader import StoreReader


class Turns:
    """``on_free`` is told when a turn comes free that no slot came free with. Where no declaration
    asks for turns, the line is read without a look at them."""

    def __init__(self) -> None:
        self._reader: StoreReader | None = None
        self._asked = False
        self._holders: dict[str, dict[str, None]] = {}
        self._by_commit: dict[str, str] = {}
        self._by_slot: dict[str, str] = {}
        self._by_claim: dict[str, str] = {}
        self.on_free: Callable[[], None] = lambda: None

    async def load(self, reader: StoreReader, declared: Iterable[Definition]) -> None:
        states = (state for one in declared for state in one.workflow.states)
        self._asked = any(state.one_at_a_time is not None for state in states)
        self._reader = reader
        if not self._asked:
            return
        for job_id, key in await reader.turns():
            self._hold(self._by_commit, job_id, key)

    async def line(
        self,
        limit: int,
        workflows: tuple[str, ...],
        but_not: tuple[str, ...] = (),
        not_at: tuple[tuple[str, str, str], ...] = (),
    ) -> tuple[Waiting, ...]:
        """The line without those who have no turn."""
        assert self._reader is not None, "nobody has loaded who has a turn"
        if not self._asked:
            return await self._reader.line(limit, workflows, but_not, not_at)
        taken = tuple(key for key, holders in self._holders.items() if len(holders) >= most_of(key))
        return await self._reader.keyed_line(limit, workflows, but_not, not_at, taken)

    def lack(self, job_id: str, key: str) -> str:
        """Name what a job with this key waits for; empty when it has a turn or needs none."""
        holders = self._holders.get(key)
        if not holders or job_id in holders or len(holders) < most_of(key):
            return ""
        who = ", ".join(f"job {one}" for one in holders)
        return f"its turn among those with the key {shown_key(key)}; {who} has it"

    @property
    def are_asked(self) -> bool:
        """Say whether any declaration asks for turns."""
        return self._asked

    @contextmanager
    def claiming(self, job_id: str, key: str) -> Iterator[None]:
        """Keep the turn while a claim is decided and written. Raises: Refused."""
        if lack := self.lack(job_id, key):
            raise Refused("JOB_ALREADY_RUNNING", f"the job waits for {lack}")
        if key:
            self._hold(self._by_claim, job_id, key)
        try:
            yield
        finally:
            self._let_go(self._by_claim, job_id)

    def take(self, one: Waiting) -> None:
        if one.turn_key:
            self._hold(self._by_slot, one.job_id, one.turn_key)

    def slot_free(self, job_id: str) -> None:
        if job_id in self._by_slot:
            self._let_go(self._by_slot, job_id)

    def committed(self, before: Snapshot | None, job: Snapshot) -> None:
        """An attempt that begins where its state asks for no turn has none, though it has the
        slot."""
        if job.has_turn:
            self._hold(self._by_commit, job.id, job.turn_key)
        elif before is not None and before.has_turn:
            self._let_go(self._by_commit, job.id)
            if job.attempt is not None and job.attempt.status == "running":
                self._let_go(self._by_slot, job.id)
            self.on_free()

    def _hold(self, by: dict[str, str], job_id: str, key: str) -> None:
        if by.get(job_id, key) != key:
            self._let_go(by, job_id)
        by[job_id] = key
        self._holders.setdefault(key, {})[job_id] = None

    def _let_go(self, by: dict[str, str], job_id: str) -> None:
        key = by.pop(job_id, "")
        kept = (by.get(job_id) for by in (self._by_commit, self._by_slot, self._by_claim))
        if key and key not in kept:
            holders = self._holders.get(key, {})
            holders.pop(job_id, None)
            if not holders:
                self._holders.pop(key, None)
