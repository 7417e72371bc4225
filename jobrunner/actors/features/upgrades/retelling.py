"""Decides recorded decisions again in the running service: by the declarations of their day, by
another one that the service knows, or by one that is sent along. The only result is an answer: no
job, file or declaration is touched.
"""

from functools import partial

import anyio.lowlevel
import msgspec
from msgspec import Struct

from jobrunner.actors.shared import World
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.upgrades.replays import Recorded, Retold, replayed
from jobrunner.core.job import Snapshot
from jobrunner.errors import Refused
from jobrunner.ports import digest

PAGE = 100
SIZE_MAX = 16 * 1024**2


class Retelling(Struct, frozen=True):
    """``whole``: these are all the decisions on record. ``under`` is the other declaration."""

    steps: tuple[tuple[Recorded, Retold], ...]
    whole: bool
    under: Definition | None


async def retold(world: World, job: Snapshot, under: Definition | None, most: int) -> Retelling:
    """Make the first ``most`` decisions about a job again; others get their turn in between."""
    records, whole = await _recorded(world, job.id, most)
    registry, steps = world.registry, []
    pinned = {
        one: found
        for one in {record.digest for record in records}
        if (found := registry.pinned(one)) is not None
    }
    told = replayed(records, pinned, under)
    for record in records:
        steps.append((record, next(told)))
        await anyio.lowlevel.checkpoint()
    return Retelling(tuple(steps), whole, under)


def known(world: World, workflow: str, named: str) -> Definition:
    """Raises: Refused NOT_FOUND, for a declaration that no job here is under."""
    found = world.registry.pinned(named)
    if found is None or found.workflow.name != workflow:
        raise Refused("NOT_FOUND", f"no declaration {named} of {workflow} is known here")
    return found


async def thought_of(world: World, workflow: str, data: bytes) -> Definition:
    """Read and examine a declaration that this service has never seen.

    Raises: Refused, with everything that is wrong with it.
    """
    examine = partial(world.registry.tried, workflow, digest(data).hex(), data)
    try:
        found, faults = await world.children.in_thread(examine)
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unfit((f"it is not understood: {error}",)) from error
    if found.workflow.name != workflow:
        faults = (f"it is named {found.workflow.name!r}, and the job's is {workflow!r}", *faults)
    if faults:
        raise _unfit(faults)
    return found


async def _recorded(world: World, job_id: str, most: int) -> tuple[list[Recorded], bool]:
    """The first decisions, as far as they may be held at a time, and whether these are all."""
    found: list[Recorded] = []
    size, place = 0, (0, 0)
    while page := await world.reader.decisions(job_id, PAGE, place):
        left = most - len(found)
        if left <= 0 or size >= SIZE_MAX:
            return found, False
        found += [msgspec.json.decode(one.data, type=Recorded) for one in page[:left]]
        if len(page) > left:
            return found, False
        size += sum(len(one.data) for one in page)
        place = (page[-1].version, page[-1].beat)
    return found, True


def _unfit(faults: tuple[str, ...]) -> Refused:
    errors = [{"path": "$.declaration", "message": fault} for fault in faults]
    text = f"declaration: {faults[0]}"
    return Refused("INVALID_PARAMS", text, errors=errors)
