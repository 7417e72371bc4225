"""Pauses of whole workflows and of stages, kept in memory as the table has them.

They are looked at wherever an attempt could start, and that must not cost a question each. What is
set here is set before its row is written: a start that was decided earlier is in the writer's line
before the row, so when a pause is acknowledged no further attempt begins.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Literal

from msgspec.structs import replace

from jobrunner.core.decision import Unit
from jobrunner.core.facts import Facts
from jobrunner.core.job import Actor, Paused, Snapshot
from jobrunner.core.units import Halt, Unhalt
from jobrunner.errors import Refused
from jobrunner.ports import Clock

Scope = Literal["workflow", "stage"]
Write = Callable[[Unit], Awaitable[None]]


class Pauses:
    def __init__(self) -> None:
        self.workflows: dict[str, Paused] = {}
        self.stages: dict[str, Paused] = {}

    def load(self, known: Iterable[tuple[str, str, Paused]]) -> None:
        for scope, name, paused in known:
            self.of(scope)[name] = paused

    def of(self, scope: str) -> dict[str, Paused]:
        return self.workflows if scope == "workflow" else self.stages

    def startable(self, workflows: Iterable[str]) -> tuple[str, ...]:
        """Pick the jobs of which an attempt may start."""
        return tuple(name for name in workflows if name not in self.workflows)

    def known_to(self, facts: Facts, job: Snapshot) -> Facts:
        """The facts with what is paused around this job."""
        halted = self.workflows.get(job.workflow)
        if halted is None and not self.stages:
            return facts
        return replace(facts, halted=halted, halted_stages=frozenset(self.stages))


class Pausing:
    """``resumed`` is told when something goes on: whoever waits in line or for a timer is looked
    for again."""

    def __init__(
        self, pauses: Pauses, clock: Clock, write: Write, resumed: Callable[[], None]
    ) -> None:
        self._pauses = pauses
        self._clock = clock
        self._write = write
        self._resumed = resumed

    async def pause(
        self, scope: Scope, name: str, actor: Actor, reason: str | None
    ) -> tuple[Paused, bool]:
        """The pause as it stands, and whether it stood before."""
        held = self._pauses.of(scope)
        if known := held.get(name):
            return known, True
        paused = held[name] = Paused(actor.name, self._clock.now(), reason)
        try:
            await self._write(Halt(scope, name, paused))
        except BaseException:
            del held[name]
            self._resumed()
            raise
        return paused, False

    async def resume(self, scope: Scope, name: str, actor: Actor, reason: str | None) -> bool:
        """Let it go on; False when it was not paused."""
        held = self._pauses.of(scope)
        if name not in held:
            return False
        try:
            await self._write(Unhalt(scope, name, actor.name, self._clock.now(), reason))
        except Refused as refused:
            if refused.code != "NOT_FOUND":
                raise
        held.pop(name, None)
        self._resumed()
        return True
