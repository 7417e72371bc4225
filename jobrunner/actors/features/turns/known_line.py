"""The line for slots as far as it is known without asking the table: who waits, and how many."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain, count, islice
from operator import itemgetter

from jobrunner.core.features.turns.in_line import Waiting
from jobrunner.core.features.turns.shares import Shares
from jobrunner.core.job import Snapshot

KNOWN_MAX = 256
ALL_KNOWN_MAX = 1024
LATELY_ATTEMPTS = 16_384
AHEAD = 4
Place = tuple[int, int, int]
PLACE = itemgetter(0)
Fits = Callable[[Waiting], bool]


class InLine:
    """How many jobs wait for a slot, by priority and user; and of each user who is first, and since
    when nobody was called. Those in the head of a line are found without asking the table: so they
    are found at once, also behind a hundred thousand jobs of somebody else. Strangers are users of
    whom more wait than are known; ``learn`` makes heads of what the table says of them."""

    def __init__(self, counted: Iterable[tuple[int, str, int]] = ()) -> None:
        self._users: dict[int, Counter[str]] = {}
        self._counts: Counter[str] = Counter()
        self._known: dict[str, list[tuple[Place, Waiting]]] = {}
        self._known_count = 0
        self._calls = count(1)
        self._called: dict[str, int] = {}
        self._passing = -ALL_KNOWN_MAX
        self._shares = Shares(LATELY_ATTEMPTS)
        self._news: dict[str, Waiting | None] | None = None
        self._view: object = None
        self.count = 0
        for priority, user_id, jobs in counted:
            self._change(jobs, priority, user_id)

    def came(self, job: Snapshot) -> None:
        if self._news is not None:
            self._news[job.id] = _waiting(job)
        known = self._known.get(job.user_id, ())
        if not self._has_behind(job.user_id) or (known and _place(job) < known[-1][0]):
            self._add(_waiting(job))
        self._change(1, job.priority, job.user_id)

    def left(self, job: Snapshot) -> None:
        if self._news is not None:
            self._news[job.id] = None
        self._change(-1, job.priority, job.user_id)
        if (known := self._known.get(job.user_id)) is None:
            return
        behind = range(bisect_left(known, _place(job), key=PLACE), len(known))
        index = next((index for index in behind if known[index][1].job_id == job.id), None)
        if index is not None:
            del known[index]
            self._known_count -= 1
        if not known:
            del self._known[job.user_id]

    def call(self, user_id: str) -> None:
        """Note that a job of this user is called now."""
        if user_id in self._counts:
            self._called[user_id] = next(self._calls)

    def began(self, user_id: str) -> None:
        """Note that an attempt of this user begins, called or not."""
        self._shares.take(user_id, 1)

    def called(self, user_id: str) -> int:
        """Return after how many calls this user was called last, or came: whoever has waited for
        longest since has the lowest. Nobody who comes later has a lower one, but for users of whom
        little ran lately: these pass the others, a few times as often as there are users, and no
        more often."""
        return self._called.get(user_id, 0)

    def look(self, view: object) -> None:
        """Forget the heads of which the table knows more, where others may be called than when it
        told them: some of these may have been left out."""
        if view != self._view:
            for user_id in self.strangers():
                self._forget(user_id)
        self._view = view

    def ask(self) -> None:
        """Note from now on what changes while the table is asked."""
        self._news = {}

    def learn(self, line: Iterable[Waiting]) -> None:
        """Remember the heads of lines, as the table has told them since it was asked."""
        news, self._news = self._news or {}, None
        heads: dict[str, list[Waiting]] = {}
        for one in line:
            heads.setdefault(one.user_id, []).append(one)
        for user_id, head in heads.items():
            self._forget(user_id)
            came = [one for one in news.values() if one and one.user_id == user_id]
            head += [one for one in came if _place(one) <= _place(head[-1])]
            for one in head:
                if news.get(one.job_id, one) == one:
                    self._add(one)

    def doubt(self, user_id: str) -> None:
        """Forget what is known of a user who was called and did not come: the table knows
        better."""
        self._forget(user_id)

    def known(
        self, but_not: Collection[str] = (), most: int | None = None, fits: Fits = lambda one: True
    ) -> list[Waiting]:
        """The heads of lines, at most so many of each that fit, as the table has them: highest
        priority first, then who waits longest."""
        wanted = (known for user_id, known in self._known.items() if user_id not in but_not)
        fitting = ((pair for pair in known if fits(pair[1])) for known in wanted)
        heads = chain.from_iterable(islice(known, most) for known in fitting)
        return [one for _, one in sorted(heads, key=PLACE)]

    def strangers(self) -> set[str]:
        """Users of whom only the table knows all who wait."""
        return {user_id for user_id in self._counts if self._has_behind(user_id)}

    def has_others_than(self, crowded: Callable[[str], bool]) -> bool:
        """Say whether somebody waits who may have a slot: a crowded user may not."""
        return any(not crowded(user_id) for user_id in self._counts)

    def users(self) -> set[str]:
        return set(self._counts)

    def somebody_before(self, priority: int, user_id: str, running: Mapping[str, int]) -> bool:
        """Say whether somebody has a better claim to a slot than this user's running job of this
        priority: by priority, or as a user of whom fewer run. Where little ran of this one lately,
        only another of whom little did has."""
        if self._users and max(self._users) > priority:
            return True
        most, little = running.get(user_id, 0), self._shares.has_little
        peers = (peer for peer in self._users.get(priority, ()) if peer != user_id)
        fewer = (peer for peer in peers if running.get(peer, 0) < most)
        return any(map(little, fewer)) if little(user_id) else next(fewer, None) is not None

    def _has_behind(self, user_id: str) -> bool:
        """Say whether more wait than are known."""
        return self._counts[user_id] > len(self._known.get(user_id, ()))

    def _add(self, one: Waiting) -> None:
        """Add one to a head, unless the table told of it before its commit was heard of; as far as
        there is memory: the last may have to leave."""
        place, known = _place(one), self._known.setdefault(one.user_id, [])
        index = bisect_right(known, place, key=PLACE)
        if index and known[index - 1][1].job_id == one.job_id:
            return
        known.insert(index, (place, one))
        self._known_count += 1
        if len(known) > KNOWN_MAX or self._known_count > ALL_KNOWN_MAX:
            known.pop()
            self._known_count -= 1
        if not known:
            del self._known[one.user_id]

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
        if user_id not in self._counts:
            self._called.pop(user_id, None)
        elif user_id not in self._called:
            self._called[user_id] = self._place_of_comer(user_id)

    def _place_of_comer(self, user_id: str) -> int:
        """The last among those who wait, or among those of whom little ran lately."""
        calls = next(self._calls)
        if not self._shares.has_little(user_id):
            return calls
        self._passing = max(self._passing + 1, calls - AHEAD * len(self._counts))
        return self._passing


def _place(one: Snapshot | Waiting) -> Place:
    assert one.line_at is not None, "it does not wait for a slot"
    return -one.priority, one.line_at, one.row


def _waiting(job: Snapshot) -> Waiting:
    assert job.line_at is not None, f"job {job.id} does not wait for a slot"
    return Waiting(
        job.id, job.user_id, job.workflow, job.status, job.job_type, job.priority, job.line_at,
        job.turn_key, job.row,
    )  # fmt: skip
