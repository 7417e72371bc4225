"""The host of one attempt: what its stage says reaches the job as messages, thinned out."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from msgspec.structs import replace

from jobrunner.actors.features.answers import asked_of
from jobrunner.actors.host_answers import Reach
from jobrunner.actors.shared import World
from jobrunner.actors.supervisor import Supervisor
from jobrunner.actors.tasks import Crew
from jobrunner.core.engine_events import LOG_LINES_MAX
from jobrunner.core.job import STAGE
from jobrunner.core.messages import Beat, Checkpoint, Ended, Keep
from jobrunner.core.messages import Report as Made
from jobrunner.stages.outcomes import for_attempt, plain
from jobrunner.stages.requests import Answer, Posing, Question

PROGRESS_EVERY_S = 1.0
PULSES = 4
T = TypeVar("T")


class AttemptHost:
    """At most one report of progress a second is stored, and the last one always is: it waits for
    its second, or goes with the outcome. ``reaching`` makes what answers for the world beyond the
    job, if the stage ever asks; ``silence_s`` is for how long the stage may be silent;
    ``may_have_saved``: it has touched the disk, so files of it may lie there."""

    def __init__(
        self, world: World, crew: Crew, supervisor: Supervisor, job_id: str, serial: int
    ) -> None:
        self._world = world
        self._crew = crew
        self._supervisor = supervisor
        self._job_id = job_id
        self._serial = serial
        self._lines: deque[str] = deque(maxlen=LOG_LINES_MAX)
        self._last = float("-inf")
        self._late: Beat | None = None
        self._catching_up = False
        self._asking = 0
        self._pulse: asyncio.TimerHandle | None = None
        self._over = False
        self._reach: Reach | None = None
        self.reaching: Callable[[], Reach] | None = None
        self.may_have_saved = False
        self.silence_s = 0.0

    async def progress(self, percent: int | None, message: str | None) -> None:
        """Ignore invalid percentages; bad progress must not fail an attempt."""
        known = isinstance(percent, int) and 0 <= percent <= 100
        before = self._late or Beat(STAGE)
        self._late = Beat(
            STAGE,
            int(percent) if known and percent is not None else before.progress,
            before.message if message is None else plain(message),
        )
        if self.monotonic() - self._last >= PROGRESS_EVERY_S:
            await self._flush()
        elif not self._catching_up:
            self._catching_up = True
            self._crew.start_soon(self._catch_up)

    async def keep(self, name: str, value: Any) -> None:
        await self._supervisor.deliver(self._job_id, Keep(self._serial, name, value))

    async def checkpoint(self, made: Made) -> None:
        await self._supervisor.deliver(self._job_id, Checkpoint(self._serial, made))

    async def ask(self, question: Question) -> Answer:
        """Ask for something beyond the job; a stage that waits for its answer is as alive as its
        host."""
        assert self.reaching is not None, "a stage asks when it has its brief"
        self._reach = self._reach or self.reaching()
        self._asking += 1
        self.live()
        try:
            if isinstance(question, Posing):
                job = self._supervisor, self._job_id, self._serial
                return await asked_of(self._world, *job, question)
            return await self._reach.answer(question)
        finally:
            self._asking -= 1

    def room(self, size: int) -> None:
        self._world.surroundings.room(size)

    async def block(self, function: Callable[[], T]) -> T:
        self.may_have_saved = True
        return await self._world.children.in_thread(function)

    def log(self, line: str) -> None:
        self._lines.append(line)

    def monotonic(self) -> float:
        return self._world.clock.monotonic()

    def fresh(self) -> str:
        return self._world.ids.fresh()

    def live(self, always: bool = False) -> None:
        """Tell the job now and then that its stage lives, while it waits for an answer, or as long
        as its task does."""
        self._asking += always
        if self.silence_s and self._pulse is None and not self._over:
            later = asyncio.get_running_loop().call_later
            self._pulse = later(self.silence_s / PULSES, self._beat)

    @property
    def lines(self) -> tuple[str, ...]:
        return for_attempt(Ended(0, ""), self._serial, self._lines).log

    def judged(self, ended: Ended) -> Ended:
        """An attempt that failed for want of a file was none."""
        return ended if self._reach is None else self._reach.judged(ended)

    def close(self, ended: Ended) -> Ended:
        """Return the outcome, with everything that was not told yet."""
        self._over = True
        if self._pulse is not None:
            self._pulse.cancel()
        ended = for_attempt(ended, self._serial, self._lines)
        late, report = self._late, ended.report
        if late is None or report.progress is not None:
            return ended
        late_report = replace(report, progress=late.progress, message=late.message)
        return replace(ended, report=late_report)

    async def _catch_up(self) -> None:
        """Report what was thinned out as soon as its second is over."""
        await self._world.clock.sleep(max(self._last + PROGRESS_EVERY_S - self.monotonic(), 0))
        self._catching_up = False
        if not self._over:
            await self._flush()

    def _beat(self) -> None:
        self._pulse = None
        if self._asking:
            self._crew.start_soon(self._report, Beat(STAGE))
            self.live()

    async def _flush(self) -> None:
        late, self._late = self._late, None
        if late is not None:
            self._last = self.monotonic()
            await self._report(late)

    async def _report(self, beat: Beat) -> None:
        """Progress is not worth waiting for a full disk, nor losing an attempt for."""
        with suppress(Exception):
            await self._supervisor.tell(self._job_id, beat)
