"""Followers of jobs while they change. A follower is woken, not told: it reads from the table what
it missed. So it costs a flag and, for reports of progress, the latest report of a few jobs."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from jobrunner.core.job import Snapshot

BEATS_MAX = 256


class Follower:
    """``woken`` is set when something of its user's jobs, or of any, was committed."""

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        self._beats: dict[str, Snapshot] = {}

    def take(self) -> list[Snapshot]:
        """The jobs that reported progress since, without their payloads, each as it is now."""
        self.woken.clear()
        beats = list(self._beats.values())
        self._beats.clear()
        return beats

    def hear(self, job: Snapshot, decided: bool) -> None:
        """Note a commit. Decisions stand in the table; of progress keep the latest, and of too many
        jobs those that reported last."""
        self._beats.pop(job.id, None)
        if not decided:
            self._beats[job.id] = job
            if len(self._beats) > BEATS_MAX:
                del self._beats[next(iter(self._beats))]
        self.woken.set()


class Followers:
    def __init__(self) -> None:
        self._of_user: dict[str | None, list[Follower]] = {}

    @contextmanager
    def following(self, user_id: str | None, follower: Follower) -> Iterator[Follower]:
        """Follow one user's jobs, or everybody's."""
        self._of_user.setdefault(user_id, []).append(follower)
        try:
            yield follower
        finally:
            self._of_user[user_id].remove(follower)
            if not self._of_user[user_id]:
                del self._of_user[user_id]

    def hear(self, before: Snapshot | None, job: Snapshot) -> None:
        if not self._of_user:
            return
        decided = before is None or before.version != job.version
        brief = replace(job, params={}, result=None, artifacts={})
        for user_id in (job.user_id, None):
            for follower in self._of_user.get(user_id, ()):
                follower.hear(brief, decided)

    def close(self) -> None:
        """Wake everybody: there will be nothing more to hear."""
        for followers in self._of_user.values():
            for follower in followers:
                follower.woken.set()
