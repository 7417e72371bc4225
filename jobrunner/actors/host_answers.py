"""Answers what the stage of one attempt asks for from beyond its job: the world under the guard,
and the files of the job's owner, of nobody else.
"""

import re
from typing import Any

from jobrunner.actors.features.families.bearing import Bearing
from jobrunner.actors.keeping.objects import lent, spared
from jobrunner.actors.shared import World
from jobrunner.core.features.families.parentage import JobsAwaited
from jobrunner.core.job import Asset
from jobrunner.core.keeping.objects import LACKS_FILES
from jobrunner.core.messages import Ended
from jobrunner.errors import FilesUnreachable, PermanentFailure, RetryableFailure, StorageError
from jobrunner.files.library import Kept
from jobrunner.outgoing.calls import Download, Exchange
from jobrunner.stages import Given
from jobrunner.stages.outcomes import said
from jobrunner.stages.requests import (
    Answer,
    Beyond,
    Browse,
    Find,
    Found,
    Held,
    JobOutcomes,
    JobsSeen,
    JobSubmission,
    JobSubmitted,
    OutcomesAsked,
    Recall,
    Recalled,
)
from jobrunner.stages.way_out import WayOut

PAGE = 500
LIBRARY_MAX = 10_000
ASSET_ID = re.compile(r"[0-9a-f-]{36}")


class Reach:
    def __init__(self, world: World, given: Given, bearing: Bearing) -> None:
        self._world = world
        self._bearing = bearing
        self._given = given
        self._lacked_files = False
        self._way_out = WayOut(world.surroundings.outlets, given)

    async def answer(self, question: Beyond) -> Answer:
        """Raises: RetryableFailure, PermanentFailure."""
        try:
            match question:
                case Exchange():
                    return await self._way_out.exchange(question)
                case Download():
                    return await self._way_out.download(question)
                case Find(asset_id):
                    return await self._find(asset_id)
                case Browse(asset_type, limit):
                    return Found(await self._browse(asset_type, limit))
                case Recall(name, version):
                    return Recalled(await self._recall(name, version))
                case JobSubmission():
                    return JobSubmitted(await self._bearing.submit(question))
                case JobsAwaited():
                    return JobsSeen(await self._bearing.is_met(question))
                case OutcomesAsked(ids):
                    return JobOutcomes(await self._bearing.outcomes(ids))
        except FilesUnreachable as fault:
            self._lacked_files = True
            text = "the store that holds a file of the job does not answer"
            raise RetryableFailure(LACKS_FILES, text, excerpt=said(fault)) from fault
        except StorageError as fault:
            text = "a file could not be read: the disk says no"
            raise RetryableFailure("STORAGE", text, excerpt=said(fault)) from fault

    def judged(self, ended: Ended) -> Ended:
        """An attempt that failed for want of a file was none. A stage that went on without it has
        said what became of it."""
        failure = ended.failure
        lacks = failure is not None and failure.retryable and failure.code == LACKS_FILES
        if not (lacks and self._lacked_files):
            return ended
        return spared(self._world, self._given.workflow, ended)

    async def _recall(self, name: str, version: int) -> Any:
        view = await self._world.reader.artifact(self._given.job_id, name, version)
        if view is None:
            text = f"the job has no artifact {name!r} in version {version}"
            raise PermanentFailure("ARTIFACT_NOT_FOUND", text)
        if view.unreadable:
            text = f"artifact {name!r} of the job cannot be read in version {version}"
            raise PermanentFailure("CORRUPT_INPUT", text, excerpt=view.unreadable)
        return view.artifact.value

    async def _find(self, asset_id: str) -> Held:
        """Find a file of the owner; somebody else's is as if there were none."""
        known = ASSET_ID.fullmatch(asset_id)
        row = await self._world.reader.asset(asset_id) if known else None
        if row is None or row.user_id != self._given.user_id or not row.asset.storage_path:
            shown = asset_id[:80]
            raise PermanentFailure("ASSET_NOT_FOUND", f"the job's owner has no file {shown!r}")
        asset = row.asset
        kept = Kept(asset.storage_path, asset.file_size or 0, asset.sha256)
        path = await lent(self._world, kept, asset.id, self._given.scratch)
        if path is None:
            text = f"the file of asset {asset.id} is missing, or is not what was recorded"
            raise PermanentFailure("CORRUPT_INPUT", text)
        return Held(asset, path)

    async def _browse(self, asset_type: str | None, limit: int) -> tuple[Asset, ...]:
        if not 0 < limit <= LIBRARY_MAX:
            text = f"library(limit={limit}): a number from 1 to {LIBRARY_MAX}"
            raise PermanentFailure("BAD_REQUEST", text)
        found: list[Asset] = []
        after: int | None = None
        while len(found) < limit:
            page = await self._world.reader.library(self._given.user_id, PAGE, after)
            found += [row.asset for row in page if asset_type in (None, row.asset.asset_type)]
            if len(page) < PAGE:
                break
            after = page[-1].row
        return tuple(found[:limit])
