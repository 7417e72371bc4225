"""Changes for the pages that show them: told at most twice a second, and rendered once for all who
look at the same jobs.

A page is not told of each change but of how its jobs are now. Between two tellings the latest of
each job is kept, and only of so many jobs: a page that shows others is told that there were more,
and asks. What has been told lies ready for whoever comes for it; whoever comes too late asks too.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import anyio

from jobrunner.actors.features.streams import Follower
from jobrunner.actors.watchers import Watchers
from jobrunner.core.job import Snapshot
from jobrunner.ports import Clock

EVERY_S = 0.5
JOBS_MAX = 50


class Changes(NamedTuple):
    """The jobs that changed last, as they are now; ``more``: there were others before them."""

    jobs: list[Snapshot]
    more: bool


Whose = tuple[str | None, tuple[str, ...]]
Words = Callable[[Changes], Awaitable[bytes]]


class Gathering(Follower):
    """Keeps the latest of each job that changed, decided or not; of some workflows, or of all."""

    def __init__(self, workflows: tuple[str, ...] = ()) -> None:
        super().__init__()
        self._workflows = workflows
        self._jobs: dict[str, Snapshot] = {}
        self._more = False

    def hear(self, job: Snapshot, decided: bool) -> None:
        if self._workflows and job.workflow not in self._workflows:
            return
        self._jobs.pop(job.id, None)
        self._jobs[job.id] = job
        if len(self._jobs) > JOBS_MAX:
            del self._jobs[next(iter(self._jobs))]
            self._more = True
        self.woken.set()

    def gathered(self) -> Changes:
        self.woken.clear()
        found = Changes(list(self._jobs.values()), self._more)
        self._jobs, self._more = {}, False
        return found

    def lose(self) -> None:
        """Say next time that there was more: what was gathered could not be told."""
        self._more = True
        self.woken.set()


class Telling:
    """The news for pages that look at the same jobs. ``number`` counts the tellings, ``said`` is
    the last one; ``pages`` listen, and the last of them closes it."""

    def __init__(self, gathering: Gathering, clock: Clock, close: Callable[[], None]) -> None:
        self.number = 0
        self.pages = 0
        self.said = b""
        self.close = close
        self._gathering = gathering
        self._clock = clock
        self._turn = anyio.Lock()
        self._told_at = float("-inf")

    async def wait(self, seen: int, words: Words) -> None:
        """Return when there is something newer than this telling. The page that comes first for it
        makes the words; the others find them."""
        if self.number > seen:
            return
        await self._gathering.woken.wait()
        rest_s = self._told_at + EVERY_S - self._clock.monotonic()
        if rest_s > 0:
            await self._clock.sleep(rest_s)
        async with self._turn:
            if self.number == seen:
                await self._tell(words)

    async def _tell(self, words: Words) -> None:
        self._told_at = self._clock.monotonic()
        changes = self._gathering.gathered()
        try:
            self.said = await words(changes)
        except BaseException:
            self._gathering.lose()
            raise
        self.number += 1


class Overview:
    """The tellings that somebody listens to: of everybody's jobs, of one user's, of those that a
    token is for."""

    def __init__(self, watchers: Watchers, clock: Clock) -> None:
        self._watchers = watchers
        self._clock = clock
        self._open: dict[Whose, Telling] = {}

    @contextmanager
    def telling(self, user_id: str | None, workflows: tuple[str, ...]) -> Iterator[Telling]:
        """Join those who listen to the same, or be the first."""
        whose = user_id, workflows
        found = self._open.get(whose) or self._opened(whose)
        found.pages += 1
        try:
            yield found
        finally:
            found.pages -= 1
            if not found.pages:
                del self._open[whose]
                found.close()

    def _opened(self, whose: Whose) -> Telling:
        user_id, workflows = whose
        following = ExitStack()
        gathering = Gathering(workflows)
        following.enter_context(self._watchers.following(user_id, gathering))
        self._open[whose] = Telling(gathering, self._clock, following.close)
        return self._open[whose]
