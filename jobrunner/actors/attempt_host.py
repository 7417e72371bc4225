"""The host of one attempt: what its stage says reaches the job as messages, thinned out."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from msgspec.structs import replace

from jobrunner.actors.host_answers import Reach
from jobrunner.actors.shared import World
from jobrunner.actors.supervisor import Supervisor
from jobrunner.core.job import STAGE
from jobrunner.core.messages import Beat, Checkpoint, Ended, Keep
from jobrunner.core.messages import Report as Made
from jobrunner.stages import LastLines
from jobrunner.stages.outcomes import for_attempt, plain
from jobrunner.stages.requests import Answer, Question

PROGRESS_EVERY_S = 1.0
T = TypeVar("T")


class AttemptHost:
    """At most one report of progress a second is stored, and the last one always is: it waits for
    its second, or goes with the outcome. ``reach`` answers for the world beyond the job;
    ``silence_s`` is for how long the stage may be silent."""

    def __init__(self, world: World, supervisor: Supervisor, job_id: str, serial: int) -> None:
        self._world = world
        self._supervisor = supervisor
        self._job_id = job_id
        self._serial = serial
        self._lines = LastLines()
        self._last = float("-inf")
        self._late: Beat | None = None
        self._thinned = asyncio.Event()
        self.reach: Reach | None = None
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
        else:
            self._thinned.set()

    async def keep(self, name: str, value: Any) -> None:
        await self._supervisor.deliver(self._job_id, Keep(self._serial, name, value))

    async def checkpoint(self, made: Made) -> None:
        await self._supervisor.deliver(self._job_id, Checkpoint(self._serial, made))

    async def ask(self, question: Question) -> Answer:
        """A stage that waits for its answer is as alive as its host."""
        assert self.reach is not None, "a stage asks when it has its brief"
        pulse = asyncio.ensure_future(self.live(self.silence_s))
        try:
            return await self.reach.answer(question)
        finally:
            pulse.cancel()

    def room(self, size: int) -> None:
        self._world.surroundings.room(size)

    async def block(self, function: Callable[[], T]) -> T:
        return await self._world.children.in_thread(function)

    def log(self, line: str) -> None:
        self._lines(line)

    def monotonic(self) -> float:
        return self._world.clock.monotonic()

    def fresh(self) -> str:
        return self._world.ids.fresh()

    async def catch_up(self) -> None:
        """Report what was thinned out as soon as its second is over, for as long as it runs."""
        while True:
            await self._thinned.wait()
            left_s = self._last + PROGRESS_EVERY_S - self.monotonic()
            await self._world.clock.sleep(max(left_s, 0))
            await self._flush()

    async def live(self, silence_s: float) -> None:
        """A stage in the loop lives as long as its task does; its job is told so now and then."""
        while silence_s:
            await self._world.clock.sleep(silence_s / 4)
            await self._report(Beat(STAGE))

    @property
    def lines(self) -> tuple[str, ...]:
        return for_attempt(Ended(0, ""), self._serial, self._lines.all()).log

    def close(self, ended: Ended) -> Ended:
        """The outcome, with everything that was not told yet."""
        ended = for_attempt(ended, self._serial, self._lines.all())
        late, report = self._late, ended.report
        if late is None or report.progress is not None:
            return ended
        late_report = replace(report, progress=late.progress, message=late.message)
        return replace(ended, report=late_report)

    async def _flush(self) -> None:
        self._thinned.clear()
        late, self._late = self._late, None
        if late is not None:
            self._last = self.monotonic()
            await self._report(late)

    async def _report(self, beat: Beat) -> None:
        """Progress is not worth waiting for a full disk, nor losing an attempt for."""
        with suppress(Exception):
            await self._supervisor.tell(self._job_id, beat)
