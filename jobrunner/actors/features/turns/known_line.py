"""The line for slots as far as it is known without asking the table: who waits, and how many."""

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import itemgetter

from jobrunner.core.features.turns.in_line import Waiting
from jobrunner.core.job import Snapshot

KNOWN_MAX = 256


class InLine:
    """How many jobs wait for a slot, by priority and user; and who they are, as far as they came
    while few waited. A short line is known whole, and nobody needs to ask the table for it."""

    def __init__(self, counted: Iterable[tuple[int, str, int]] = ()) -> None:
        self._users: dict[int, Counter[str]] = {}
        self._known: dict[str, tuple[tuple[int, ...], Waiting]] = {}
        self.count = 0
        for priority, user_id, count in counted:
            self._change(count, priority, user_id)

    def came(self, job: Snapshot) -> None:
        assert job.line_at is not None, f"job {job.id} does not wait for a slot"
        self._change(1, job.priority, job.user_id)
        if len(self._known) < KNOWN_MAX:
            self._known[job.id] = (-job.priority, job.line_at, job.row), Waiting(
                job.id, job.user_id, job.workflow, job.status, job.job_type, job.priority,
                job.line_at, job.turn_key,
            )  # fmt: skip

    def left(self, job: Snapshot) -> None:
        self._change(-1, job.priority, job.user_id)
        self._known.pop(job.id, None)

    def doubt(self, job_id: str) -> None:
        """It was called and did not come: the table knows better."""
        self._known.pop(job_id, None)

    def whole(self) -> list[Waiting] | None:
        """The line, if it is known whole, as the table has it: highest priority first, then who
        waits longest."""
        if len(self._known) < self.count:
            return None
        return [one for _, one in sorted(self._known.values(), key=itemgetter(0))]

    def _change(self, change: int, priority: int, user_id: str) -> None:
        self.count += change
        users = self._users.setdefault(priority, Counter())
        users[user_id] += change
        if users[user_id] <= 0:
            del users[user_id]
        if not users:
            del self._users[priority]

    def users(self) -> set[str]:
        return {user_id for users in self._users.values() for user_id in users}

    def somebody_before(self, priority: int, user_id: str, running: Mapping[str, int]) -> bool:
        """Somebody has a better claim to a slot than this user's running job of this priority: by
        priority, or as a user of whom fewer run."""
        if self._users and max(self._users) > priority:
            return True
        most = running.get(user_id, 0)
        peers = self._users.get(priority, ())
        return any(running.get(peer, 0) < most for peer in peers if peer != user_id)
