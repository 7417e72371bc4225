"""Work for outside workers: find what may be claimed, claim it through its actor, or wait."""

from collections.abc import Callable

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
Runs = tuple[tuple[str, str, str], ...]
Place = tuple[tuple[str, ...], str | None]


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
        runs: Runs = (),
        gone: Callable[[], bool] = lambda: False,
    ) -> list[Answer]:
        """Up to ``limit`` claims; fewer, or none, when ``wait_s`` brings nothing. With ``runs``
        only of jobs whose stage is among these. Whoever is ``gone`` while it waits gets nothing."""
        asked = Claim(actor, runs)
        places = self._places(workflow, runs) if runs else [(statuses, job_type)]
        with self._world.watchers.expecting() as arrival:
            taken = await self._now(asked, workflow, places, limit)
            with anyio.move_on_after(wait_s):
                while not (taken or self._world.draining or gone()):
                    with anyio.move_on_after(LOOK_AGAIN_S):
                        await arrival.wait()
                    arrival.clear()
                    if gone():
                        break
                    with anyio.CancelScope(shield=True):
                        taken = await self._now(asked, workflow, places, limit)
        return taken

    async def _now(
        self, asked: Claim, workflow: str, places: list[Place], limit: int
    ) -> list[Answer]:
        if workflow in self._world.pauses.workflows:
            return []
        taken: list[Answer] = []
        for statuses, job_type in places:
            if len(taken) < limit:
                left = limit - len(taken)
                taken += await self._there(asked, workflow, statuses, job_type, left)
        return taken

    async def _there(
        self,
        asked: Claim,
        workflow: str,
        statuses: tuple[str, ...],
        job_type: str | None,
        limit: int,
    ) -> list[Answer]:
        for _ in range(TRIES):
            now = self._world.clock.now()
            # A few more than wanted: others may be faster with some of them, or with all.
            job_ids = await self._world.reader.claimable(
                workflow, statuses, job_type, now, limit + SPARE
            )
            if taken := await self._of(job_ids, asked, limit):
                return taken
            if len(job_ids) < limit + SPARE:
                break
        return []

    async def _of(self, job_ids: tuple[str, ...], asked: Claim, limit: int) -> list[Answer]:
        taken: list[Answer] = []
        for job_id in job_ids:
            if len(taken) == limit:
                break
            try:
                answer = await self._supervisor.ask(job_id, asked)
            except Refused:
                continue
            if "lease_until" in answer.fields:
                taken.append(answer)
        return taken

    def _places(self, workflow: str, runs: Runs) -> list[Place]:
        """Find where jobs of each type rest that lead to these stages: in the state itself, or in
        the queue before it."""
        definition = self._world.registry.current(workflow)
        if definition is None:
            return []
        found: dict[str, list[str]] = {}
        for state, job_type, _ in runs:
            ahead = [
                one.name
                for one in definition.workflow.states
                if one.kind == "queued" and definition.onward_of(one.name, job_type) == state
            ]
            found.setdefault(job_type, []).extend((state, *ahead))
        return [(tuple(sorted(set(names))), job_type) for job_type, names in found.items()]
