"""Tells parents that what they wait for is over, and children that their parent is.

Both are rows that commits have left: this task reads them, tells the jobs through their actors as
everybody does, and after a crash simply finds what is left of them. It is woken by the commits that
leave one, and looks again by itself when somebody could not be told.
"""

import asyncio
from collections.abc import Callable

import anyio

from jobrunner.actors.commits import ours
from jobrunner.actors.shared import World
from jobrunner.actors.supervisor import Supervisor
from jobrunner.core.decision import Decision
from jobrunner.core.features.families.parentage import Parted
from jobrunner.core.features.families.relatives import Parting, WaitOver
from jobrunner.core.job import Actor
from jobrunner.core.messages import Do, JobsEnded
from jobrunner.errors import JobrunnerError, OutcomeUnknown, Refused

PAGE = 100
AT_ONCE = 8
AGAIN_S = 5.0
CANCEL = "cancel"
REASON = "its parent has ended"
LATER = ("WORKFLOW_UNAVAILABLE", "OVERLOADED", "JOB_VERSION_CONFLICT", "CHILDREN_OPEN")


class Families:
    def __init__(self, world: World, supervisor: Supervisor, outbox: Callable[[], None]) -> None:
        self._world = world
        self._supervisor = supervisor
        self._outbox = outbox
        self._nudge = asyncio.Event()
        self._late = False

    @property
    def are_declared(self) -> bool:
        """Say whether any job that is served here may have children."""
        declared = self._world.registry.declared()
        return any(definition.workflow.children for definition in declared)

    def note(self, decision: Decision) -> None:
        """A commit meant something to a family, or may have ended a batch."""
        kin = decision.kin
        if kin is not None and (kin.ends or kin.awaits is not None or kin.stands != kin.stood):
            self._nudge.set()
            if decision.after.batch is not None:
                self._outbox()

    async def run(self) -> None:
        """Tell families of ends, for ever."""
        while True:
            self._nudge.clear()
            self._late = False
            await self._tell_parents()
            await self._part()
            with anyio.move_on_after(AGAIN_S if self._late else None):
                await self._nudge.wait()

    async def _tell_parents(self) -> None:
        after = 0
        while waits := await self._world.reader.waits_over(after, PAGE):
            for wait in waits:
                await self._tell_parent(wait)
            after = waits[-1].row

    async def _tell_parent(self, wait: WaitOver) -> None:
        """Tell a parent that its wait is over. One that cannot go on now is told later; the others
        do not wait for it."""
        try:
            await self._supervisor.tell(wait.job_id, JobsEnded(wait.serial))
        except OutcomeUnknown:
            raise
        except JobrunnerError:
            self._late = True
        except Exception:  # noqa: BLE001 - the supervisor has told of it
            self._late = True

    async def _part(self) -> None:
        """Cancel the children of parents that have ended, as they were born to be."""
        for parting in await self._world.reader.partings(PAGE):
            if await self._cancelled(parting):
                ours(await self._world.commit(Parted(parting.row, parting.last)))
            else:
                self._late = True

    async def _cancelled(self, parting: Parting) -> bool:
        """False when one of them could not be told now."""
        reader, after, told = self._world.reader, 0, True
        while children := await reader.open_children(
            parting.job_id, after, AT_ONCE, CANCEL, parting.last
        ):
            results = await asyncio.gather(*(self._cancel(job_id) for _, job_id in children))
            told, after = told and all(results), children[-1][0]
        return told

    async def _cancel(self, job_id: str) -> bool:
        """Cancel a child in its owner's name, as its workflow lets an owner do. One that may not be
        cancelled where it stands goes on."""
        job = await self._world.reader.job(job_id)
        if job is None or job.ended:
            return True
        try:
            message = Do(Actor(job.user_id, "user"), CANCEL, reason=REASON)
            await self._supervisor.ask(job_id, message)
        except Refused as refused:
            if refused.code in LATER:
                return False
            self._world.announce("child.not_canceled", job, "warning", error_code=refused.code)
        except JobrunnerError:
            return False
        return True
