"""Wakes requests that wait for a commit: of one job, of work for outside workers, of a live view.

A watcher is woken, not told: it reads the row, so a missed or a doubled call costs nothing. Only
who waits for the end of a job is given it, as it was committed: nothing comes after it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from jobrunner.actors.features.streams import Follower, Followers
from jobrunner.core.job import Snapshot


class Watchers:
    def __init__(self) -> None:
        self._of_job: dict[str, list[asyncio.Event]] = {}
        self._of_end: dict[str, list[asyncio.Future[Snapshot | None]]] = {}
        self._for_work: list[asyncio.Event] = []
        self._followers = Followers()

    @contextmanager
    def watching(self, job_id: str) -> Iterator[asyncio.Event]:
        """Set as soon as something of this job is committed, or the service is about to stop."""
        event = asyncio.Event()
        self._of_job.setdefault(job_id, []).append(event)
        try:
            yield event
        finally:
            self._of_job[job_id].remove(event)
            if not self._of_job[job_id]:
                del self._of_job[job_id]

    @contextmanager
    def ending(self, job_id: str) -> "Iterator[asyncio.Future[Snapshot | None]]":
        """Holds the job as soon as it has ended, or None when the service is about to stop."""
        end: asyncio.Future[Snapshot | None] = asyncio.get_running_loop().create_future()
        self._of_end.setdefault(job_id, []).append(end)
        try:
            yield end
        finally:
            end.cancel()
            self._of_end[job_id].remove(end)
            if not self._of_end[job_id]:
                del self._of_end[job_id]

    @property
    def awaited(self) -> int:
        """How many jobs somebody waits for the end of."""
        return len(self._of_end)

    @contextmanager
    def expecting(self) -> Iterator[asyncio.Event]:
        """Set as soon as there may be work for an outside worker."""
        event = asyncio.Event()
        self._for_work.append(event)
        try:
            yield event
        finally:
            self._for_work.remove(event)

    def following(
        self, user_id: str | None, follower: Follower | None = None
    ) -> AbstractContextManager[Follower]:
        """Follow all jobs of a user, or of everybody."""
        return self._followers.following(user_id, follower or Follower())

    def committed(self, before: Snapshot | None, job: Snapshot) -> None:
        """Wake everybody whom this commit concerns."""
        for event in self._of_job.get(job.id, ()):
            event.set()
        if job.ended:
            self._tell_end(job.id, job)
        self._followers.hear(before, job)
        if self._for_work and _up_for_claim(job):
            self.work_arrived()

    def work_arrived(self) -> None:
        """Let outside workers look for work."""
        for event in self._for_work:
            event.set()

    def close(self) -> None:
        """Wake everybody: a service that is about to stop keeps nobody waiting."""
        for events in self._of_job.values():
            for event in events:
                event.set()
        for job_id in self._of_end:
            self._tell_end(job_id, None)
        self.work_arrived()
        self._followers.close()

    def _tell_end(self, job_id: str, job: Snapshot | None) -> None:
        for end in self._of_end.get(job_id, ()):
            if not end.done():
                end.set_result(job)


def _up_for_claim(job: Snapshot) -> bool:
    """Say whether somebody may claim it: a guess, since whoever looks will see. A report of
    progress is no reason to look."""
    if job.line_at is not None or job.paused is not None:
        return False
    return job.attempt.status == "due" if job.attempt else job.kind == "queued"
