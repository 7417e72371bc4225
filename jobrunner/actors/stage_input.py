"""Gathers the input of a stage: the facts about its job, and a folder to scribble in."""

from collections.abc import Iterable

import msgspec

from jobrunner.actors.keeping.cleaning import folder_of
from jobrunner.actors.keeping.objects import is_there, lending
from jobrunner.actors.shared import World
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.tracing import attempt_of
from jobrunner.core.job import Asset, Attempt, Snapshot
from jobrunner.files.library import Kept, is_handed_out, made_empty, tidy
from jobrunner.stages import Given, Stage


async def given(
    world: World, job: Snapshot, attempt: Attempt, definition: Definition, stage: Stage
) -> Given:
    """The brief of an attempt; whoever asks for it takes it back in the end. In the loop there is
    no scratch folder before the stage asks for it, because most never do."""
    brief = await known(world, job, attempt, definition)
    if world.surroundings.bucket is not None:
        brief = lending(job, brief)
    if stage.runs != "loop":
        await world.children.in_thread(lambda: made_empty(brief.scratch))
    return brief


async def known(world: World, job: Snapshot, attempt: Attempt, definition: Definition) -> Given:
    """Gather everything that a stage is told of this attempt, wherever it runs."""
    around = world.surroundings
    files = await recorded(world, job) if job.artifacts else {}
    return Given(
        job_id=job.id, workflow=job.workflow, user_id=job.user_id, job_type=job.job_type,
        state=attempt.state, run_id=attempt.run_id, attempt=attempt.number,
        params={} if job.params is msgspec.UNSET else job.params,
        artifacts={name: found.value for name, found in job.artifacts.items()},
        settings=around.settings_of(job.workflow, definition.workflow.settings),
        kept=attempt.kept, answers=attempt.answers, files=files,
        seconds=definition.states[attempt.state].limit_s,
        root=world.assets, folder=folder_of(world, job), number=sum(job.asset_types.values()),
        scratch=f"{world.scratch}/{job.id}-{attempt.serial}",
        base_url=around.base_url, floor=around.room.floor,
        traceparent=attempt_of(job, attempt).text,
    )  # fmt: skip


async def take_back(world: World, brief: Given) -> None:
    """Remove the scratch folder with whatever the attempt has left in it."""
    if is_handed_out(brief.scratch):
        await world.children.in_thread(lambda: tidy(brief.scratch))


async def recorded(world: World, job: Snapshot) -> dict[str, Kept]:
    """Look up the files behind the job's artifacts, as recorded, by the artifact's name."""
    wanted = {found.asset: name for name, found in job.artifacts.items() if found.asset}
    if not wanted or not world.assets:
        return {}
    rows = [row.asset for row in await world.reader.assets(job.id) if row.asset.id in wanted]
    return {
        wanted[asset.id]: Kept(asset.storage_path, asset.file_size, asset.sha256)
        for asset in rows
        if asset.file_size is not None and asset.sha256
    }


async def verified(world: World, job: Snapshot) -> frozenset[str]:
    """Find the assets, behind artifacts or waiting for a report, whose files are there and as
    recorded. A file that was sound is not read again before something about it changes."""
    files = await recorded(world, job)
    sound = [name for name, kept in files.items() if await _is_sound(world, kept)]
    sent = [one.asset for one in job.attempt.sent] if job.attempt else []
    waiting = [asset.id for asset in await sound_ones(world, sent)]
    return frozenset([*(job.artifacts[name].asset for name in sound), *waiting])


async def sound_ones(world: World, assets: Iterable[Asset]) -> list[Asset]:
    """Keep those whose files are there and as recorded."""
    found = []
    for asset in assets:
        if asset.file_size is not None and asset.sha256:
            kept = Kept(asset.storage_path, asset.file_size, asset.sha256)
            found += [asset] if await _is_sound(world, kept) else []
    return found


async def _is_sound(world: World, kept: Kept) -> bool:
    return await world.children.in_thread(lambda: world.checked(kept)) or await is_there(
        world, kept
    )
