"""Looks at the family of a job: whose child it is, and as a tree who of its children goes on."""

from collections.abc import Callable
from typing import Any

from jobrunner.actors.shared import World
from jobrunner.core.decision import Decision
from jobrunner.core.job import Snapshot
from jobrunner.core.replies import Verdict
from jobrunner.errors import Refused
from jobrunner.store.reader import StoreReader

SHOWN = 20
NODES = 100
GENERATIONS = 4
PEOPLE = ("user", "admin")
Why = Callable[[Snapshot], str]


async def lineage(world: World, job: Snapshot, why: Why) -> dict[str, Any]:
    """Show the family of a job; nothing where it has none. ``why`` says what the job waits for."""
    found: dict[str, Any] = {}
    if job.parent is not None:
        above = await world.reader.job(job.parent.job_id)
        found["parent"] = {"id": job.parent.job_id, "key": job.parent.key} | _named(above)
    definition = world.registry.of(job)
    if definition is not None and definition.workflow.children:
        tree = FamilyTree(world, why)
        found |= await tree.below(job.id, GENERATIONS)
    return found


def _named(job: Snapshot | None) -> dict[str, Any]:
    return {"workflow": job.workflow, "status": job.status} if job else {"status": None}


class FamilyTree:
    """As much of a family as fits: the oldest open jobs, generation by generation."""

    def __init__(self, world: World, why: Why) -> None:
        self._reader = world.reader
        self._why = why
        self._left = NODES

    async def below(self, job_id: str, generations: int) -> dict[str, Any]:
        counts = await self._reader.family_counts(job_id)
        if not counts:
            return {}
        shown: list[dict[str, Any]] = []
        if generations:
            shown = await self._open(job_id, generations)
        return {
            "children": sum(one.jobs for one in counts),
            "children_by_status": [
                {"workflow": one.workflow, "status": one.status or None, "jobs": one.jobs}
                for one in counts
            ],
            "children_open": shown,
        }

    async def _open(self, job_id: str, generations: int) -> list[dict[str, Any]]:
        page = await self._reader.open_children(job_id, 0, min(SHOWN, self._left))
        self._left -= len(page)
        found = []
        for _, child_id in page:
            if (child := await self._reader.job(child_id)) is not None:
                node = {
                    "id": child.id, "workflow": child.workflow, "status": child.status,
                    "stuck": child.stuck, "waits_for": self._why(child),
                }  # fmt: skip
                found.append(node | await self.below(child.id, generations - 1))
        return found


async def unless_awaited(
    reader: StoreReader, job: Snapshot, message: object, verdict: Verdict
) -> Verdict:
    """Refuse instead, where people would end a job before children that it is to wait for."""
    if not isinstance(verdict, Decision) or verdict.kin is None or not verdict.kin.ends:
        return verdict
    actor = getattr(message, "actor", None)
    if actor is None or actor.role not in PEOPLE:
        return verdict
    return await still_open(reader, job, "wait") or verdict


async def still_open(reader: StoreReader, job: Snapshot, at_end: str = "") -> Refused | None:
    """Refuse for the children that go on, those that were born to be treated like this or all."""
    page = await reader.open_children(job.id, 0, SHOWN, at_end)
    if not page:
        return None
    more = "at least " if len(page) == SHOWN else ""
    text = f"{more}{len(page)} children of job {job.id} go on; wait for them, or end them first"
    return Refused("CHILDREN_OPEN", text, children=[child_id for _, child_id in page])
