"""Moves jobs under way to the declaration of today, beside everything else.

An order is written down before it is acknowledged; then one task goes through the jobs of all open
orders, a slice at a time and no faster than bulks are set to. It asks each job as anybody would. A
dry run goes the same way and writes nothing but what it has counted. After a crash, a drain or a
full disk it goes on where the order says that it was.
"""

import asyncio

import anyio
from msgspec.structs import replace

from jobrunner.actors.commits import Answer
from jobrunner.actors.requester import asked
from jobrunner.actors.shared import World
from jobrunner.actors.slots import WorkLimits
from jobrunner.actors.supervisor import Supervisor
from jobrunner.actors.tasks import Crew
from jobrunner.core.decision import Clash, Decision, NoOp
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.upgrades.upgrades import (
    SHORT,
    ForgetDeclarations,
    NewUpgrade,
    Older,
    Turn,
    Upgrade,
    UpgradeLooked,
    UpgradeTurned,
    with_stay,
)
from jobrunner.core.job import Actor
from jobrunner.core.messages import Migrate
from jobrunner.errors import JobrunnerError, OutcomeUnknown, Refused, StorageError

PAGE = 10_000
SLICE = 64
EXAMPLES = 5
AT_ONCE = 100
AGAIN_S = 1.0
NOT_NOW = frozenset({"DRAINING", "OVERLOADED", "STORAGE_FULL"})


class Upgrades:
    def __init__(
        self, world: World, supervisor: Supervisor, crew: Crew, limits: WorkLimits
    ) -> None:
        self._world = world
        self._supervisor = supervisor
        self._crew = crew
        self._pace_s = SLICE / limits.bulk_per_second if limits.bulk_per_second else 0.0
        self._at_work = False
        self._turned = asyncio.Event()

    def resume(self) -> None:
        """Go on with what an earlier life began. Where all is of today, nothing can be open."""
        registry = self._world.registry
        declared = registry.declared()
        if not all(registry.is_of_today(definition) for definition in declared):
            self._begin()

    async def order(self, workflow: str, actor: Actor, reason: str | None, dry: bool) -> Upgrade:
        """Write it down, and begin.

        Raises: Refused, for a workflow that is not loaded.
        """
        today = self._world.registry.current(workflow)
        if today is None:
            raise Refused("NOT_FOUND", f"no workflow {workflow} is loaded")
        upgrade = Upgrade(
            id=self._world.ids.fresh(),
            workflow=workflow,
            digest=today.digest,
            version=today.workflow.version,
            actor=actor.name,
            at=self._world.clock.now(),
            reason=reason,
            dry=dry,
        )
        await self._world.write(asked(NewUpgrade(upgrade)))
        self._begin()
        return upgrade

    async def found(self, upgrade_id: str) -> Upgrade:
        """Raises: Refused NOT_FOUND."""
        found = await self._world.reader.upgrades(1, upgrade_id)
        if not found:
            raise Refused("NOT_FOUND", f"there is no upgrade {upgrade_id}")
        return found[0]

    async def ended(self, upgrade_id: str, wait_s: float) -> Upgrade:
        """Wait until it is over, or time is up."""
        with anyio.move_on_after(wait_s):
            turned = self._turned
            while (await self.found(upgrade_id)).status == "running" and not self._world.draining:
                await turned.wait()
                turned = self._turned
        return await self.found(upgrade_id)

    async def abort(self, upgrade_id: str, actor: Actor) -> Upgrade:
        """Move nobody more; those that were moved stay where they are."""
        upgrade = await self.found(upgrade_id)
        if upgrade.status == "running":
            await self._turn(upgrade, "aborted", actor.name)
        return await self.found(upgrade_id)

    def _begin(self) -> None:
        if not self._at_work:
            self._at_work = True
            self._crew.start_soon(self._run)

    async def _run(self) -> None:
        """Take a slice of each order in turn, until none is open."""
        try:
            while not self._world.draining:
                orders = await self._world.reader.upgrades(AT_ONCE, running=True)
                if not orders:
                    return
                for upgrade in orders:
                    await self._insist(upgrade)
        finally:
            self._at_work = False

    async def _insist(self, upgrade: Upgrade) -> None:
        try:
            await self._go_on(upgrade)
        except OutcomeUnknown:
            raise
        except StorageError:
            await self._world.clock.sleep(AGAIN_S)

    async def _go_on(self, upgrade: Upgrade) -> None:
        """The next page of its jobs, slice by slice.

        Raises: StorageError
        """
        today = self._world.registry.current(upgrade.workflow)
        if today is None or today.digest != upgrade.digest:
            await self._turn(upgrade, "aborted", upgrade.actor)
            return
        about = upgrade.workflow, upgrade.digest, upgrade.looked_at
        page = await self._world.reader.older(*about, PAGE)
        if not page:
            await self._turn(upgrade, "done", upgrade.actor)
            return
        for first in range(0, len(page), SLICE):
            if self._world.draining:
                return
            found = await self._slice(upgrade, today, page[first : first + SLICE])
            if found is None:
                return
            upgrade = found
            await self._world.clock.sleep(self._pace_s)

    async def _slice(
        self, upgrade: Upgrade, today: Definition, jobs: tuple[Older, ...]
    ) -> Upgrade | None:
        """These at once, so that many share a commit. None when the order is over.

        Raises: StorageError
        """
        message = Migrate(
            Actor(upgrade.actor, "admin"),
            upgrade.id,
            upgrade.reason,
            self._world.registry.standings(today),
        )
        why: dict[str, str] = {}
        faults: list[StorageError] = []
        async with anyio.create_task_group() as group:
            for one in jobs:
                group.start_soon(self._try, upgrade, one.job_id, message, why, faults)
        if faults:
            raise faults[0]
        stays = upgrade.stays
        for one in jobs:
            if why.get(one.job_id):
                stays = with_stay(stays, why[one.job_id], one.job_id, EXAMPLES)
        moved = len(jobs) - sum(map(bool, why.values())) if upgrade.dry else 0
        looked = UpgradeLooked(upgrade.id, jobs[-1].row, moved, stays)
        outcome = await self._world.commit(looked)
        return (
            None
            if isinstance(outcome, Clash)
            else replace(
                upgrade, looked_at=looked.looked_at, moved=upgrade.moved + moved, stays=stays
            )
        )

    async def _try(
        self,
        upgrade: Upgrade,
        job_id: str,
        message: Migrate,
        why: dict[str, str],
        faults: list[StorageError],
    ) -> None:
        """Move one job; whatever is wrong with it holds up no other."""
        try:
            why[job_id] = await self._stays(upgrade, job_id, message)
        except StorageError as fault:
            faults.append(fault)
        except Refused as refused:
            if refused.code in NOT_NOW:
                faults.append(StorageError(refused.detail))
            why[job_id] = f"{refused.code}: {refused.detail}"
        except JobrunnerError as error:
            why[job_id] = str(error)
        except Exception as bug:  # noqa: BLE001 - it was told where it happened
            why[job_id] = f"INTERNAL: {type(bug).__name__}"

    async def _stays(self, upgrade: Upgrade, job_id: str, message: Migrate) -> str:
        """Say why it stays; nothing when it was moved, or would be."""
        if not upgrade.dry:
            answer: Answer = await self._supervisor.ask(job_id, message)
            return str(answer.fields.get("stays", ""))
        _, verdict = await self._supervisor.foresee(job_id, message)
        match verdict:
            case NoOp(answer=answer_):
                return str(answer_.get("stays", ""))
            case Decision():
                return ""
            case refused:
                return f"{refused.code}: {refused.detail}"

    async def _turn(self, upgrade: Upgrade, status: Turn, actor: str) -> None:
        """The first status change wins."""
        moved = (await self.found(upgrade.id)).moved
        turned = UpgradeTurned(
            upgrade.id, status, actor, self._world.clock.now(), upgrade.workflow, moved
        )
        outcome = await self._world.commit(asked(turned))
        assert not isinstance(outcome, Clash) or outcome.reason in ("missing", "epoch")
        if not isinstance(outcome, Clash):
            self._world.say(
                "upgrade.ended",
                workflow=upgrade.workflow,
                status=status,
                dry=upgrade.dry,
                moved=moved,
                stay=sum(stay.jobs for stay in upgrade.stays),
            )
        woken, self._turned = self._turned, asyncio.Event()
        woken.set()


async def forget_declarations(world: World) -> None:
    """Forget older declarations that no job needs any more. Where all are of today, nobody is
    asked; those of workflows that are not loaded stay, for their plugin may come back."""
    registry = world.registry
    older = tuple(one.digest for one in registry.declared() if not registry.is_of_today(one))
    gone = await world.reader.needless(older) if older else ()
    if not gone:
        return
    await world.commit(ForgetDeclarations(gone))
    registry.forget(gone)
    world.say("declaration.forgotten", digests=[digest[:SHORT] for digest in gone])
