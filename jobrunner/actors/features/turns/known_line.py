"""The line for slots as far as it is known without asking the table: who waits, and how many."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain, islice
from operator import itemgetter

from jobrunner.core.features.turns.in_line import Waiting
from jobrunner.core.job import Snapshot

KNOWN_MAX = 256
ALL_KNOWN_MAX = 1024
Place = tuple[int, int, int]
PLACE = itemgetter(0)


class InLine:
    """How many jobs wait for a slot, by priority and user; and, of users of whom few wait, which.
    The line of such a user is known whole, and nobody needs to ask the table for it: so it is found
    at once, also behind a hundred thousand jobs of somebody else. The others are strangers, until
    none of their jobs waits."""

    def __init__(self, counted: Iterable[tuple[int, str, int]] = ()) -> None:
        self._users: dict[int, Counter[str]] = {}
        self._counts: Counter[str] = Counter()
        self._known: dict[str, list[tuple[Place, Waiting]]] = {}
        self._known_count = 0
        self.count = 0
        for priority, user_id, count in counted:
            self._change(count, priority, user_id)

    def came(self, job: Snapshot) -> None:
        place = _place(job)
        user_id = job.user_id
        if not self._counts[user_id]:
            self._known[user_id] = []
        if (known := self._known.get(user_id)) is not None:
            if len(known) < KNOWN_MAX and self._known_count < ALL_KNOWN_MAX:
                insort(known, (place, _waiting(job)), key=PLACE)
                self._known_count += 1
            else:
                self._forget(user_id)
        self._change(1, job.priority, user_id)

    def left(self, job: Snapshot) -> None:
        self._change(-1, job.priority, job.user_id)
        if (known := self._known.get(job.user_id)) is None:
            return
        behind = range(bisect_left(known, _place(job), key=PLACE), len(known))
        index = next((index for index in behind if known[index][1].job_id == job.id), None)
        if index is None:
            self._forget(job.user_id)
            return
        del known[index]
        self._known_count -= 1
        if not known:
            self._known.pop(job.user_id, None)

    def doubt(self, user_id: str) -> None:
        """Forget what is known of a user who was called and did not come: the table knows
        better."""
        self._forget(user_id)

    def known(self, but_not: Collection[str] = (), most: int | None = None) -> list[Waiting]:
        """The lines of users who are no strangers, at most so many of each, as the table has them:
        highest priority first, then who waits longest."""
        wanted = (known for user_id, known in self._known.items() if user_id not in but_not)
        heads = chain.from_iterable(islice(known, most) for known in wanted)
        return [one for _, one in sorted(heads, key=PLACE)]

    def acquaintances(self) -> Collection[str]:
        """Users whose line is known whole."""
        return self._known.keys()

    def strangers(self) -> set[str]:
        """Users who wait, and of whose line only the table knows."""
        return self._counts.keys() - self._known.keys()

    def has_others_than(self, crowded: Callable[[str], bool]) -> bool:
        """Say whether somebody waits who may have a slot: a crowded user may not."""
        return any(not crowded(user_id) for user_id in self._counts)

    def users(self) -> set[str]:
        return set(self._counts)

    def somebody_before(self, priority: int, user_id: str, running: Mapping[str, int]) -> bool:
        """Say whether somebody has a better claim to a slot than this user's running job of this
        priority: by priority, or as a user of whom fewer run."""
        if self._users and max(self._users) > priority:
            return True
        most = running.get(user_id, 0)
        peers = self._users.get(priority, ())
        return any(running.get(peer, 0) < most for peer in peers if peer != user_id)

    def _forget(self, user_id: str) -> None:
        self._known_count -= len(self._known.pop(user_id, ()))

    def _change(self, change: int, priority: int, user_id: str) -> None:
        self.count += change
        users = self._users.setdefault(priority, Counter())
        for counted in (users, self._counts):
            counted[user_id] += change
            if counted[user_id] <= 0:
                del counted[user_id]
        if not users:
            del self._users[priority]


def _place(job: Snapshot) -> Place:
    assert job.line_at is not None, f"job {job.id} does not wait for a slot"
    return -job.priority, job.line_at, job.row


def _waiting(job: Snapshot) -> Waiting:
    assert job.line_at is not None, f"job {job.id} does not wait for a slot"
    return Waiting(
        job.id, job.user_id, job.workflow, job.status, job.job_type, job.priority, job.line_at,
        job.turn_key,
    )  # fmt: skip
