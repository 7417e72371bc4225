"""Deletes jobs that have ended, and files that belong to no job: first the rows, then the files."""

from jobrunner.actors.commits import ours
from jobrunner.actors.features.families.lineage import still_open
from jobrunner.actors.keeping.cleaning import clear, folders_of
from jobrunner.actors.requester import asked
from jobrunner.actors.shared import World
from jobrunner.actors.supervisor import Supervisor
from jobrunner.core.access import foreign, unknown
from jobrunner.core.decision import Clash
from jobrunner.core.features.bulk import Tick
from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.replies import stale_version
from jobrunner.core.units import Forget, Unshelve
from jobrunner.errors import Refused

TRIES = 3


class Deletions:
    def __init__(self, world: World, supervisor: Supervisor) -> None:
        self._world = world
        self._supervisor = supervisor

    async def forget(
        self, job_id: str, actor: Actor, expected: int | None = None, tick: Tick | None = None
    ) -> None:
        """Delete a job that has ended.

        Raises: Refused
        """
        for _ in range(TRIES):
            job = await self._world.reader.job(job_id)
            if job is None:
                raise unknown(job_id)
            if refused := self._refused(job, actor, expected) or await self._parent(job):
                raise refused
            folders = await folders_of(self._world, job)
            unit = Forget(job, self._world.clock.now(), actor.name, folders, tick)
            if not isinstance(ours(await self._world.commit(asked(unit))), Clash):
                self._supervisor.reread(job_id)
                self._world.announce("job.deleted", job, "info", actor=actor.name)
                await clear(self._world, folders)
                return
        raise Refused("JOB_VERSION_CONFLICT", "others keep changing this job; try again")

    async def unshelve(self, unit: Unshelve) -> None:
        """Delete a file that is no job's."""
        await self._world.write(unit)
        await clear(self._world, (unit.folder,))

    async def _parent(self, job: Snapshot) -> Refused | None:
        """Refuse to delete a parent before its children have ended."""
        definition = self._world.registry.of(job)
        if definition is not None and not definition.workflow.children:
            return None
        return await still_open(self._world.reader, job)

    def _refused(self, job: Snapshot, actor: Actor, expected: int | None) -> Refused | None:
        definition = self._world.registry.of(job)
        return foreign(definition, job, actor) or _kept(job, actor, expected)


def _kept(job: Snapshot, actor: Actor, expected_version: int | None) -> Refused | None:
    """Say why it may not be deleted."""
    if not actor.roles(job) & {"user", "admin"}:
        return Refused("FORBIDDEN", "deleting a job is for its owner or an admin")
    if refused := stale_version(job, expected_version):
        return refused
    if job.ended:
        return None
    return Refused(
        "JOB_NOT_SETTLED",
        f"the job is {job.status}; it can be deleted when it has ended",
        current_status=job.status,
    )
