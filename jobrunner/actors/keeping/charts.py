"""Writes the charts: every ten seconds, if anything happened, the counts since the last time.

Work is counted in memory by whoever measures it, so no commit of a job has a statement more. What a
crash loses is what was not written yet, ten seconds at the most; a stop writes it.
"""

from contextlib import suppress

import anyio

from jobrunner.actors.shared import World
from jobrunner.core.keeping.charts import (
    EVERYTHING,
    FLUSH_S,
    SPANS,
    Charted,
    ChartRow,
    Counted,
    Span,
    merged,
)
from jobrunner.errors import StorageError

Told = tuple[tuple[int, int], bytes]


class ChartKeeper:
    """``written`` counts the writings. ``told`` is what was made of the charts last, by span and by
    whose workflows, and as of when: it is good until the next bucket and the next writing."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._since = world.clock.now()
        self._turn = anyio.Lock()
        self.written = 0
        self.told: dict[tuple[Span, tuple[str, ...]], Told] = {}

    async def run(self) -> None:
        """Write the charts for as long as the service runs."""
        while True:
            now = self._world.clock.now() / 1000
            await self._world.clock.sleep(FLUSH_S - now % FLUSH_S)
            await self.flush()

    async def close(self) -> None:
        """Write what is left. A disk that takes no more costs these seconds and nothing else."""
        with suppress(StorageError):
            await self.flush()

    async def flush(self) -> None:
        """Raises: StorageError; then what was counted is kept for the next time."""
        counting = self._world.meter.charts
        if counting is None:
            return
        async with self._turn:
            moment, self._since = self._since, self._world.clock.now()
            line = await self._line()
            taken = counting.take()
            try:
                await self._write(taken | line, moment)
            except BaseException:
                counting.give_back(taken)
                raise

    async def rows(self, name: Span, begins_at: int) -> tuple[ChartRow, ...]:
        """Read those of a span that begins then."""
        span = SPANS[name]
        asked = span.step_s, begins_at, begins_at + span.long_ms
        return await self._world.reader.chart_rows((asked,))

    async def _line(self) -> dict[str, Counted]:
        """How the line stands; nothing, where nobody is in it."""
        found, now = await self._world.reader.gauges(), self._world.clock.now()
        if found.line_at is None:
            return {}
        waits_ms = max(now - found.line_at, 0)
        return {EVERYTHING: Counted(waits_ms=waits_ms, in_line=found.in_line)}

    async def _write(self, counted: dict[str, Counted], moment: int) -> None:
        if not counted:
            return
        buckets = ((span.step_s, at := span.bucket(moment), at + 1) for span in SPANS.values())
        stored = await self._world.reader.chart_rows(tuple(buckets))
        rows = tuple(merged(stored, counted, moment))
        await self._world.commit(Charted(rows, self._world.clock.now()))
        self.written += 1
