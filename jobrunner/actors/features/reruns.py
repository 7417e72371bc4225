"""A job done again as a new one: its files get their second names first, then it is submitted."""

from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.actors.commits import Answer
from jobrunner.actors.features.submissions import Submissions
from jobrunner.actors.keeping.objects import brought
from jobrunner.actors.shared import World
from jobrunner.actors.stage_input import sound_ones, verified
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.bulk import Tick
from jobrunner.core.features.families.batches import BatchLink
from jobrunner.core.features.reruns import carried, first_of, merged, moved, named_in, place_of
from jobrunner.core.job import Actor, Artifact, Asset, Snapshot
from jobrunner.core.messages import Origin, Submit
from jobrunner.errors import Refused
from jobrunner.files.links import told_in, twin, untwin
from jobrunner.ports import digest

CANONICAL = msgspec.json.Encoder(order="sorted").encode


class Wish(Struct, frozen=True):
    """``place`` is where to begin again; ``params`` lie over the old ones."""

    by: Actor
    place: str | None = None
    params: dict[str, Any] = {}
    reason: str | None = None
    key: str | None = None
    correlation_id: str = ""
    batch: BatchLink | None = None


class RerunPlan(Struct, frozen=True):
    """The new job as it would be born; ``pairs`` says which path gets which second one, ``ids``
    which file is known by which second id."""

    definition: Definition
    params: dict[str, Any]
    origin: Origin
    pairs: list[tuple[str, str]]
    ids: dict[str, str]


class Reruns:
    def __init__(self, world: World, submissions: Submissions) -> None:
        self._world = world
        self._submissions = submissions

    async def rerun(self, job: Snapshot, wish: Wish, tick: Tick | None = None) -> Answer:
        """The new job, or the one that this wish leads to already.

        Raises: Refused
        """
        plan = await self.planned(job, wish)
        pairs = plan.pairs
        submission = self._submission(job, wish, await self._twinned(plan))
        made = False
        try:
            answer = await self._submissions.submit(submission, tick)
            made = not answer.replayed
        except Refused:
            raise
        except BaseException:
            made = True  # perhaps: what turns out to be garbage is swept away one day
            raise
        finally:
            if pairs and not made:
                spare = [new for _, new in pairs]
                await self._world.children.in_thread(partial(untwin, self._world.assets, spare))
        return answer

    async def _twinned(self, plan: RerunPlan) -> RerunPlan:
        """Give the files second names on the disk, and note size and digest of those written
        anew."""
        if not plan.pairs:
            return plan
        await brought(self._world, (old for old, _ in plan.pairs))
        doing = partial(twin, self._world.assets, plan.pairs, plan.ids)
        anew = {kept.path: kept for kept in await self._world.children.in_thread(doing)}
        assets = tuple(
            replace(asset, file_size=kept.size, sha256=kept.sha256)
            if (kept := anew.get(asset.storage_path))
            else asset
            for asset in plan.origin.assets
        )
        return replace(plan, origin=replace(plan.origin, assets=assets))

    async def planned(self, job: Snapshot, wish: Wish) -> RerunPlan:
        """Raises: Refused."""
        if job.unreadable:
            stuck = job.stuck or ""
            raise Refused("JOB_LOCKED", f"the job is stuck: {stuck}", stuck=stuck)
        definition = self._world.registry.current(job.workflow)
        if definition is None or job.job_type not in definition.job_types:
            text = f"workflow {job.workflow} of this job is not loaded now"
            raise Refused("WORKFLOW_UNAVAILABLE", text)
        params = _checked(definition, job, merged(job.params, wish.params))
        made = await self._as_made(definition, job)
        sound = await verified(self._world, made)
        place = place_of(definition, made, wish.place, bool(wish.params), sound)
        if isinstance(place, Refused):
            raise place
        artifacts = carried(definition, made, place, sound)
        assets = await self._files_of(job, artifacts)
        origin = self._origin(definition, job, wish, place, artifacts, assets)
        names = [asset.storage_path for asset in origin.assets]
        pairs = list(zip((asset.storage_path for asset in assets), names, strict=True))
        ids = {old.id: new.id for old, new in zip(assets, origin.assets, strict=True)}
        return RerunPlan(definition, params, origin, pairs, ids)

    async def _as_made(self, definition: Definition, job: Snapshot) -> Snapshot:
        """The job with its stages' own files where somebody went on from them."""
        first = {}
        for name in first_of(definition, job):
            found = await self._world.reader.artifact(job.id, name, 1)
            if found is not None and found.artifact.asset and not found.unreadable:
                first[name] = found.artifact
        return replace(job, artifacts={**job.artifacts, **first}) if first else job

    async def _files_of(self, job: Snapshot, artifacts: list[Artifact]) -> list[Asset]:
        """List the sound files behind these artifacts and those that they name, each once."""
        if not artifacts:
            return []
        rows = {row.asset.url: row.asset for row in await self._world.reader.assets(job.id)}
        behind = {asset.id: asset.storage_path for asset in rows.values()}
        texts = [behind.get(one.asset, "") for one in artifacts]
        await brought(self._world, [path for path in texts if path.endswith(".json")])
        told = await self._world.children.in_thread(partial(self._told_in, artifacts, rows))
        named = {asset.id: asset for one in told for asset in named_in(one, rows)}
        return await sound_ones(self._world, named.values())

    def _told_in(self, artifacts: list[Artifact], rows: dict[str, Asset]) -> list[Artifact]:
        """Pair each artifact with what the file behind it says, as far as that is JSON."""
        paths = {asset.id: asset.storage_path for asset in rows.values()}
        root = self._world.assets
        return [
            replace(one, value=[one.value, told_in(root, paths[one.asset])])
            if one.asset in paths
            else one
            for one in artifacts
        ]

    def _origin(
        self,
        definition: Definition,
        job: Snapshot,
        wish: Wish,
        place: str,
        artifacts: list[Artifact],
        assets: list[Asset],
    ) -> Origin:
        newborn = replace(job, id=self._world.ids.fresh())
        fresh = [(asset, self._world.ids.fresh()) for asset in assets]
        now = self._world.clock.now()
        made, files = moved(newborn, definition.workflow.folder, artifacts, fresh, now)
        return Origin(job.id, wish.by.name, place, wish.reason, made, files, newborn.id)

    def _submission(self, job: Snapshot, wish: Wish, plan: RerunPlan) -> Submit:
        """Submit in the owner's name: it is the owner's job, key, credits and files."""
        params, origin = plan.params, plan.origin
        said = [job.workflow, job.job_type, params, job.id, origin.place]
        return Submit(
            actor=Actor(job.user_id, "user"),
            workflow=plan.definition.workflow.name,
            job_type=job.job_type,
            params=params,
            omitted=tuple(name for name in job.omitted if name not in wish.params),
            job_id=origin.new_id,
            key=wish.key,
            body_digest=digest(CANONICAL(said)).hex(),
            priority=job.priority,
            labels=job.labels,
            notify_url=job.notify_url,
            notify_on=job.notify_on,
            correlation_id=wish.correlation_id,
            origin=origin,
            batch=wish.batch,
        )


def _checked(definition: Definition, job: Snapshot, params: dict[str, Any]) -> dict[str, Any]:
    """Check parameters as at submission: of the declared shape, with defaults filled in."""
    struct = definition.structs[definition.job_types[job.job_type].params]
    try:
        decoded: dict[str, Any] = msgspec.to_builtins(msgspec.convert(params, struct))
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        where = "$.params" + path.rstrip("`")
        faults = [{"path": where, "message": message}]
        raise Refused("INVALID_PARAMS", f"{where}: {message}", errors=faults) from None
    return decoded
