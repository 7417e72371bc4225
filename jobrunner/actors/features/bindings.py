"""Brings jobs to the stages of today, where a start binds them otherwise than the last one did: one
message per job that rests where that makes a difference. A start with nothing changed reads no job.

That a place is being changed is on the disk before the first job is, and that it was when the last
one is. A start that dies in between is done again by the next, whatever that one binds: a job that
has its shape already stays as it is.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
from msgspec.structs import replace

from jobrunner.actors.commits import Answer, ours
from jobrunner.actors.shared import World
from jobrunner.core.features.bindings import Bind, Binding, Resting, Spot, differences
from jobrunner.core.messages import Message, Rebound
from jobrunner.errors import StorageError

PAGE = 10_000
AT_ONCE = 512
Tell = Callable[[str, Message], Awaitable[Answer]]


async def begin_rebinding(world: World) -> tuple[Binding, ...]:
    """Find what is bound otherwise today, and write it down before any job hears of it."""
    known = await world.reader.bindings()
    world.bindings = {one.spot: one for one in known}
    changed = differences(world.registry.declared(), known, world.clock.now())
    if begun := tuple(one for one in changed if one.changed_at is not None):
        await _write(world, begun)
    return changed


async def rebind(world: World, changed: tuple[Binding, ...], tell: Tell) -> None:
    """Bring every job there to the bindings of today, and write down that it was done."""
    if not changed:
        return
    brought = await _bring(world, tuple(one.spot for one in changed), tell)
    settled = [replace(one, settled=True, jobs=brought[one.spot]) for one in changed]
    await _write(world, tuple(settled))
    world.bindings |= {one.spot: one for one in settled}
    for one in settled:
        _say(world, one)


async def _bring(world: World, places: tuple[Spot, ...], tell: Tell) -> Counter[Spot]:
    """Many at once, so that many share a commit; how many jobs were changed, by place. A job that
    cannot be read, or is refused, holds up no other; a disk that takes nothing ends the start."""
    brought: Counter[Spot] = Counter()
    faults: list[StorageError] = []

    async def bring(one: Resting) -> None:
        async with limit:
            if faults:
                return
            try:
                answer = await tell(one.job_id, Rebound())
            except StorageError as fault:
                faults.append(fault)
            except Exception as reason:  # noqa: BLE001 - whatever is wrong with one job
                world.say("binding.failed", level="error", job_id=one.job_id, error=repr(reason))
            else:
                brought[one.spot] += bool(answer.fields.get("rebound"))

    limit = anyio.CapacityLimiter(AT_ONCE)
    async for page in _pages(world, places):
        async with anyio.create_task_group() as group:
            for one in page:
                group.start_soon(bring, one)
        if faults:
            raise faults[0]
    return brought


async def _pages(world: World, places: tuple[Spot, ...]) -> AsyncIterator[tuple[Resting, ...]]:
    after = 0
    while page := await world.reader.resting(places, after, PAGE):
        yield page
        after = page[-1].row


async def _write(world: World, bindings: tuple[Binding, ...]) -> None:
    ours(await world.commit(Bind(bindings)))


def _say(world: World, one: Binding) -> None:
    """A place that nobody knew of before is worth a word only where jobs were."""
    if not one.was and not one.jobs:
        return
    definition = world.registry.pinned(one.digest)
    world.say(
        "binding.changed",
        workflow=definition.workflow.name if definition else "",
        status=one.status,
        job_type=one.job_type,
        was=one.was or None,
        stage=one.stage,
        jobs=one.jobs,
    )
