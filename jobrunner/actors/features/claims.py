"""Work for outside workers: find what may be claimed, claim it through its actor, or wait."""

import anyio

from jobrunner.actors.commits import Answer
from jobrunner.actors.shared import World
from jobrunner.actors.supervisor import Supervisor
from jobrunner.core.job import Actor
from jobrunner.core.messages import Claim
from jobrunner.errors import Refused

LOOK_AGAIN_S = 5.0
SPARE = 8
TRIES = 3


class Claims:
    def __init__(self, world: World, supervisor: Supervisor) -> None:
        self._world = world
        self._supervisor = supervisor

    async def take(
        self,
        actor: Actor,
        workflow: str,
        statuses: tuple[str, ...],
        job_type: str | None,
        limit: int,
        wait_s: float,
    ) -> list[Answer]:
        """Up to ``limit`` claims; fewer, or none, when ``wait_s`` brings nothing."""
        with self._world.watchers.expecting() as arrival:
            taken = await self._now(actor, workflow, statuses, job_type, limit)
            with anyio.move_on_after(wait_s):
                while not (taken or self._world.draining):
                    with anyio.move_on_after(LOOK_AGAIN_S):
                        await arrival.wait()
                    arrival.clear()
                    with anyio.CancelScope(shield=True):
                        taken = await self._now(actor, workflow, statuses, job_type, limit)
        return taken

    async def _now(
        self,
        actor: Actor,
        workflow: str,
        statuses: tuple[str, ...],
        job_type: str | None,
        limit: int,
    ) -> list[Answer]:
        if workflow in self._world.pauses.workflows:
            return []
        for _ in range(TRIES):
            now = self._world.clock.now()
            # A few more than wanted: others may be faster with some of them, or with all.
            job_ids = await self._world.reader.claimable(
                workflow, statuses, job_type, now, limit + SPARE
            )
            if taken := await self._of(job_ids, actor, limit):
                return taken
            if len(job_ids) < limit + SPARE:
                break
        return []

    async def _of(self, job_ids: tuple[str, ...], actor: Actor, limit: int) -> list[Answer]:
        taken: list[Answer] = []
        for job_id in job_ids:
            if len(taken) == limit:
                break
            try:
                answer = await self._supervisor.ask(job_id, Claim(actor))
            except Refused:
                continue
            if "lease_until" in answer.fields:
                taken.append(answer)
        return taken
