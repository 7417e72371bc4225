"""The door of this room: what HTTP, the application and the simulator may ask of it.

The single features stand here under their names; what is about every job is a method.
"""

from collections.abc import Coroutine
from typing import Any

import anyio
from msgspec import Struct

from jobrunner.actors.commits import Answer
from jobrunner.actors.dispatcher import Dispatcher
from jobrunner.actors.drain import Drain
from jobrunner.actors.features.answers import give
from jobrunner.actors.features.bulk import Bulks
from jobrunner.actors.features.claims import Claims
from jobrunner.actors.features.credits import grant
from jobrunner.actors.features.explain import explain
from jobrunner.actors.features.families.batches import Batches
from jobrunner.actors.features.families.partings import Families
from jobrunner.actors.features.notifications.sender import Deliveries
from jobrunner.actors.features.overview import Overview
from jobrunner.actors.features.pauses import Pausing
from jobrunner.actors.features.schedules.schedules import Schedules
from jobrunner.actors.features.submissions import Submissions
from jobrunner.actors.features.turns.limits import Limits
from jobrunner.actors.features.upgrades.upgrades import Upgrades
from jobrunner.actors.features.webhooks import Hearing, hear
from jobrunner.actors.keeping.census import CensusTaker
from jobrunner.actors.keeping.charts import ChartKeeper
from jobrunner.actors.keeping.deletions import Deletions
from jobrunner.actors.keeping.file_moves import FileMoves
from jobrunner.actors.keeping.retention import Retention
from jobrunner.actors.keeping.storage_loss import StorageLoss
from jobrunner.actors.keeping.upkeep import Upkeep
from jobrunner.actors.shared import World
from jobrunner.actors.stage_input import known
from jobrunner.actors.supervisor import Supervisor
from jobrunner.actors.watchers import Watchers
from jobrunner.core.access import unknown
from jobrunner.core.attempts import attempt_of
from jobrunner.core.decision import Unit
from jobrunner.core.features.answers.giving import PendingAnswer
from jobrunner.core.features.bulk import Tick
from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.messages import Message, Submit, Told
from jobrunner.core.units import Grant
from jobrunner.errors import PluginFault, Refused
from jobrunner.stages import Given, Registry


class Facade(Struct, frozen=True, kw_only=True):
    world: World
    supervisor: Supervisor
    dispatcher: Dispatcher
    limits: Limits
    submissions: Submissions
    batches: Batches
    bulks: Bulks
    claims: Claims
    deletions: Deletions
    families: Families
    deliveries: Deliveries
    pausing: Pausing
    schedules: Schedules
    retention: Retention
    upgrades: Upgrades
    upkeep: Upkeep
    file_moves: FileMoves
    census: CensusTaker
    overview: Overview
    charts: ChartKeeper
    drain: Drain

    @property
    def definitions(self) -> Registry:
        return self.world.registry

    @property
    def draining(self) -> bool:
        return self.world.draining

    @property
    def loss(self) -> StorageLoss:
        return self.world.loss

    @property
    def watchers(self) -> Watchers:
        return self.world.watchers

    async def submit(
        self, submission: Submit, tick: Tick | None = None, *, at_once: bool = False
    ) -> Answer:
        """Make a durable job, or find the one that this submission made before. Let it begin
        ``at_once`` for a caller who waits for its end."""
        return await self.submissions.submit(submission, tick, at_once=at_once)

    def ask(self, job_id: str, message: Message) -> Coroutine[Any, Any, Answer]:
        """Ask a job; it answers after its commit."""
        return self.supervisor.ask(job_id, message)

    async def told(self, job: Snapshot) -> Given:
        """Collect what the stage of a claimed attempt is told, for whoever runs it elsewhere."""
        definition = self.world.registry.of(job)
        assert definition is not None, "a job that was claimed just now has its declaration"
        return await known(self.world, job, attempt_of(job), definition)

    def hear(self, message: Told) -> Coroutine[Any, Any, Hearing]:
        """Bring a verified webhook to its job, or keep it for later."""
        return hear(self.world, self.supervisor.ask, message)

    async def give(self, found: PendingAnswer, actor: Actor, value: Any, *, by_token: bool) -> bool:
        """Give an answer to a question of a stage; say whether it had been given before."""
        return await give(self.world, self.supervisor.ask, found, actor, value, by_token=by_token)

    async def write(self, unit: Unit) -> None:
        """Write what is about no job's state: tokens, endpoints, notes."""
        await self.world.write(unit)

    async def grant(self, unit: Grant) -> bool:
        """Give credits to an account; say whether they were given before under the same key."""
        return await grant(self.world, unit)

    async def changed(self, job: Snapshot, wait_s: float, progress: bool) -> Snapshot:
        """Return the job as soon as it moved on from what the caller has seen, it ended, or time is
        up."""
        with self.watchers.watching(job.id) as woken:
            with anyio.move_on_after(wait_s):
                while True:
                    now = await self.world.reader.job(job.id)
                    if now is None:
                        raise unknown(job.id)
                    if _moved(job, now, progress) or self.draining:
                        return now
                    await woken.wait()
                    woken.clear()
        return await self.world.reader.job(job.id) or job

    async def ended(self, job: Snapshot, wait_s: float) -> Snapshot:
        """Return the job as it ended, or as it stands when time is up."""
        with self.watchers.ending(job.id) as end:
            now = self.supervisor.kept(job.id) or await self.world.reader.job(job.id)
            if now is None:
                raise unknown(job.id)
            if now.ended or self.draining:
                return now
            with anyio.move_on_after(wait_s):
                if last := await end:
                    return last
        return self.supervisor.kept(job.id) or await self.world.reader.job(job.id) or job

    async def explain(self, job: Snapshot) -> dict[str, Any]:
        """Say why the job is not moving."""
        return await explain(self.world, self.dispatcher, job)

    def secrets_of(self, source: str) -> tuple[str, ...]:
        """The secrets with which companions sign what they send to this source of webhooks."""
        return self.world.surroundings.secrets_of(source)

    def faulted(self, fault: PluginFault, job: Snapshot | None = None) -> Refused:
        """Log that a function of a plugin failed; return the refusal for whoever asked."""
        return self.world.faulted(fault, job)

    def stats(self) -> dict[str, int]:
        return {
            "actors": len(self.supervisor),
            "letters": self.supervisor.letters,
            "running": len(self.dispatcher.running),
            "in_line": self.dispatcher.backlog,
            "strays": self.world.children.strays,
        }


def _moved(seen: Snapshot, now: Snapshot, progress: bool) -> bool:
    if now.version != seen.version or now.ended:
        return True
    return progress and now.beat != seen.beat
