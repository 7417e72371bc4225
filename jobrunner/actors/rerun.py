"""A job done again as a new one: its files get their second names first, then it is submitted."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from jobrunner.actors.answer import Answer
from jobrunner.actors.brief import verified
from jobrunner.actors.world import World
from jobrunner.core.bulk import Tick
from jobrunner.core.job import Actor, Artifact, Asset, Snapshot
from jobrunner.core.messages import Origin, Submit
from jobrunner.core.rerun import carried, merged, moved, place_of
from jobrunner.core.workflow import Definition
from jobrunner.errors import Refused
from jobrunner.ports import digest
from jobrunner.stages.twins import twin, untwin

CANONICAL = msgspec.json.Encoder(order="sorted").encode
SubmitIt = Callable[[Submit, Tick | None], Awaitable[Answer]]


class Wish(Struct, frozen=True):
    """``place`` is where to begin again; ``params`` lie over the old ones."""

    by: Actor
    place: str | None = None
    params: dict[str, Any] = {}
    reason: str | None = None
    key: str | None = None
    correlation_id: str = ""


class Reruns:
    def __init__(self, world: World, submit: SubmitIt) -> None:
        self._world = world
        self._submit = submit

    async def rerun(self, job: Snapshot, wish: Wish, tick: Tick | None = None) -> Answer:
        """The new job, or the one that this wish leads to already.

        Raises: Refused
        """
        definition, params, origin = await self.planned(job, wish)
        submission = self._submission(job, wish, definition, params, origin)
        pairs = await self._pairs(job, origin)
        if pairs:
            await self._world.children.in_thread(partial(twin, self._world.assets, pairs))
        made = False
        try:
            answer = await self._submit(submission, tick)
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

    async def planned(self, job: Snapshot, wish: Wish) -> tuple[Definition, dict[str, Any], Origin]:
        """What the new job would be born of.

        Raises: Refused
        """
        definition = self._world.registry.current(job.workflow)
        if definition is None or job.job_type not in definition.job_types:
            text = f"workflow {job.workflow} of this job is not loaded now"
            raise Refused("WORKFLOW_UNAVAILABLE", text)
        params = _checked(definition, job, merged(job.params, wish.params))
        sound = await verified(self._world, job)
        place = place_of(definition, job, wish.place, bool(wish.params), sound)
        if isinstance(place, Refused):
            raise place
        rows = {row.asset.id: row.asset for row in await self._world.reader.assets(job.id)}
        found = [(one, rows[one.asset]) for one in carried(definition, job, place, sound)]
        return definition, params, self._origin(definition, job, wish, place, found)

    def _origin(
        self,
        definition: Definition,
        job: Snapshot,
        wish: Wish,
        place: str,
        found: list[tuple[Artifact, Asset]],
    ) -> Origin:
        ids = [self._world.ids.fresh() for _ in found]
        newborn = msgspec.structs.replace(job, id=self._world.ids.fresh())
        artifacts, assets = moved(
            newborn, definition.workflow.folder, found, ids, self._world.clock.now()
        )
        return Origin(job.id, wish.by.name, place, wish.reason, artifacts, assets, newborn.id)

    def _submission(
        self,
        job: Snapshot,
        wish: Wish,
        definition: Definition,
        params: dict[str, Any],
        origin: Origin,
    ) -> Submit:
        """Under the owner's name: it is the owner's job, key, credits and files."""
        said = [job.workflow, job.job_type, params, job.id, origin.place]
        return Submit(
            actor=Actor(job.user_id, "user"),
            workflow=definition.workflow.name,
            job_type=job.job_type,
            params=params,
            job_id=origin.new_id,
            key=wish.key,
            body_digest=digest(CANONICAL(said)).hex(),
            priority=job.priority,
            labels=job.labels,
            notify_url=job.notify_url,
            notify_on=job.notify_on,
            correlation_id=wish.correlation_id,
            origin=origin,
        )

    async def _pairs(self, job: Snapshot, origin: Origin) -> list[tuple[str, str]]:
        """Which path gets which second one: carried files come in the order of their artifacts."""
        if not origin.assets:
            return []
        rows = {row.asset.id: row.asset for row in await self._world.reader.assets(job.id)}
        return [
            (rows[job.artifacts[artifact.name].asset].storage_path, asset.storage_path)
            for artifact, asset in zip(origin.artifacts, origin.assets, strict=True)
        ]


def _checked(definition: Definition, job: Snapshot, params: dict[str, Any]) -> dict[str, Any]:
    """As at submission: of the declared shape, with defaults filled in."""
    struct = definition.structs[definition.job_types[job.job_type].params]
    try:
        decoded: dict[str, Any] = msgspec.to_builtins(msgspec.convert(params, struct))
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        where = "$.params" + path.rstrip("`")
        faults = [{"path": where, "message": message}]
        raise Refused("INVALID_PARAMS", f"{where}: {message}", errors=faults) from None
    return decoded
