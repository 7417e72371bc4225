"""Answers what the stage of one attempt asks for from beyond its job: the world under the guard,
and the files of the job's owner, of nobody else.
"""

import os
import re
from functools import partial
from typing import Any

from jobrunner.actors.shared import World
from jobrunner.core.job import Asset
from jobrunner.errors import PermanentFailure, RetryableFailure, StorageError
from jobrunner.files.library import Kept, checked_name
from jobrunner.outgoing.calls import Download, Exchange, Fetched
from jobrunner.stages import Given
from jobrunner.stages.outcomes import said
from jobrunner.stages.requests import Answer, Beyond, Browse, Find, Found, Held, Recall, Recalled

PAGE = 500
PATIENCE_S_MAX = 86_400
REDIRECTS_MAX = 20
LIBRARY_MAX = 10_000
ASSET_ID = re.compile(r"[0-9a-f-]{36}")


class Reach:
    def __init__(self, world: World, given: Given) -> None:
        self._world = world
        self._given = given
        self._taken: set[str] = set()

    async def answer(self, question: Beyond) -> Answer:
        """Raises: RetryableFailure, PermanentFailure."""
        try:
            match question:
                case Exchange():
                    _check(question)
                    outlets = self._world.surroundings.outlets
                    return await outlets.exchange(question, self._given.settings)
                case Download():
                    return await self._download(question)
                case Find(asset_id):
                    return await self._find(asset_id)
                case Browse(asset_type, limit):
                    return Found(await self._browse(asset_type, limit))
                case Recall(name, version):
                    return Recalled(await self._recall(name, version))
        except StorageError as fault:
            text = "a file could not be read: the disk says no"
            raise RetryableFailure("STORAGE", text, excerpt=said(fault)) from fault

    async def _recall(self, name: str, version: int) -> Any:
        view = await self._world.reader.artifact(self._given.job_id, name, version)
        if view is None:
            text = f"the job has no artifact {name!r} in version {version}"
            raise PermanentFailure("ARTIFACT_NOT_FOUND", text)
        if view.unreadable:
            text = f"artifact {name!r} of the job cannot be read in version {version}"
            raise PermanentFailure("CORRUPT_INPUT", text, excerpt=view.unreadable)
        return view.artifact.value

    async def _download(self, wanted: Download) -> Fetched:
        """Under a name that no other download of this attempt has."""
        _check(wanted)
        path = self._free_path(checked_name(wanted.name))
        self._taken.add(path)
        os.makedirs(self._given.scratch, exist_ok=True)
        try:
            outlets = self._world.surroundings.outlets
            return await outlets.download(wanted, path, self._given.settings)
        except BaseException:
            self._taken.discard(path)
            raise

    def _free_path(self, name: str) -> str:
        stem, ending = os.path.splitext(name)
        path, number = os.path.join(self._given.scratch, name), 1
        while path in self._taken or os.path.lexists(path):
            number += 1
            path = os.path.join(self._given.scratch, f"{stem}-{number}{ending}")
        return path

    async def _find(self, asset_id: str) -> Held:
        """Somebody else's file is as if there were none."""
        known = ASSET_ID.fullmatch(asset_id)
        row = await self._world.reader.asset(asset_id) if known else None
        if row is None or row.user_id != self._given.user_id or not row.asset.storage_path:
            shown = asset_id[:80]
            raise PermanentFailure("ASSET_NOT_FOUND", f"the job's owner has no file {shown!r}")
        asset = row.asset
        kept = Kept(asset.storage_path, asset.file_size or 0, asset.sha256)
        if not await self._world.children.in_thread(partial(self._world.checked, kept)):
            text = f"the file of asset {asset.id} is missing, or is not what was recorded"
            raise PermanentFailure("CORRUPT_INPUT", text)
        return Held(asset, os.path.join(self._world.assets, asset.storage_path))

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


def _check(asked: Exchange | Download) -> None:
    """A stage in a process is not believed that its words went through our context."""
    patience = asked.patience
    waits = (patience.connect_s, patience.idle_s, patience.total_s)
    if not all(0 < seconds <= PATIENCE_S_MAX for seconds in waits):
        text = f"patience {waits}: each of its seconds is above 0 and at most {PATIENCE_S_MAX}"
        raise PermanentFailure("BAD_REQUEST", text)
    if isinstance(asked, Exchange) and not 0 <= asked.redirects <= REDIRECTS_MAX:
        text = f"redirects={asked.redirects}: a number from 0 to {REDIRECTS_MAX}"
        raise PermanentFailure("BAD_REQUEST", text)
