"""The answers to a stage that runs alone and asks for more than its job: by hand, or, under
the real guard, by servers that the test has started.
"""

import hashlib
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

from jobrunner.core.features.families.parentage import JobsAwaited
from jobrunner.core.job import Asset
from jobrunner.errors import PermanentFailure
from jobrunner.files.library import Kept
from jobrunner.outgoing.calls import Download, Exchange, Fetched, Reply
from jobrunner.outgoing.gate import Outlets
from jobrunner.ports import SystemChildren, SystemConnector
from jobrunner.stages.given import Given
from jobrunner.stages.requests import (
    Answer,
    Browse,
    Find,
    Found,
    Held,
    JobSubmission,
    OutcomesAsked,
    PosedToken,
    Posing,
    Question,
    Recall,
    Recalled,
)
from jobrunner.testing.kit.families import TrialChildren
from jobrunner.testing.simulation.loop import RealWorld
from jobrunner.testing.simulation.wires import answering, fetched, getting, judged

Scripted = Callable[[Exchange], Reply | Awaitable[Reply]]
DOWNLOAD_MAX = 1024**3
NO_NETWORK = "no network here: give http=, or await run_stage_live(origins=...)"


class HostAnswers:
    """``assets`` are the library of the job's owner, the newest first: type and content by id;
    ``http`` answers every request. ``reached``: one was made that nobody answers."""

    def __init__(
        self,
        given: Given,
        assets: Mapping[str, tuple[str, bytes]],
        http: Scripted | None = None,
        children: TrialChildren | None = None,
    ) -> None:
        self.given = given
        self._http = http
        self.children = children or TrialChildren()
        self.reached = False
        self._downloads = 0
        self._held = {
            asset_id: _shelved(given.root, asset_id, *found) for asset_id, found in assets.items()
        }

    async def answer(self, question: Question) -> Answer:
        match question:
            case Exchange():
                return await self.exchange(question)
            case Download():
                self._downloads += 1
                return await self.download(question)
            case Find(asset_id):
                if asset_id not in self._held:
                    text = f"the job's owner has no file {asset_id!r}"
                    raise PermanentFailure("ASSET_NOT_FOUND", text)
                return self._held[asset_id]
            case Browse(asset_type, limit):
                every = [held.asset for held in self._held.values()]
                fitting = [one for one in every if asset_type in (None, one.asset_type)]
                return Found(tuple(fitting[:limit]))
            case Posing(name):
                return PosedToken(f"token-of-{name}")
            case Recall(name):
                return Recalled(self.given.artifacts.get(name))
            case JobSubmission() | JobsAwaited() | OutcomesAsked():
                return self.children.answer(question)

    async def exchange(self, asked: Exchange) -> Reply:
        return judged(asked, await self._scripted(asked))

    async def download(self, asked: Download) -> Fetched:
        reply = await self._scripted(getting(asked))
        return fetched(asked, self.path(asked.name), reply)

    def path(self, name: str) -> str:
        """Make a path of its own for every download."""
        folder = os.path.join(self.given.scratch, f"download-{self._downloads}")
        os.makedirs(folder)
        return os.path.join(folder, name)

    async def _scripted(self, asked: Exchange) -> Reply:
        if self._http is None:
            self.reached = True
            raise RealWorld(NO_NETWORK)
        said = self._http(asked)
        return said if isinstance(said, Reply) else await said


def answers_of(http: Any, seed: int) -> Scripted | None:
    """Make one answer of a function, a provider, or several by origin. Nobody takes webhooks."""
    if http is None:
        return None
    return answering(http, random.Random(f"http {seed}"), _not_taken)


async def _not_taken(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    return 404


class LiveHostAnswers(HostAnswers):
    """Under the real guard; only ``origins`` and those in the settings are open beside the public
    world."""

    def __init__(
        self, given: Given, assets: Mapping[str, tuple[str, bytes]], origins: tuple[str, ...]
    ) -> None:
        super().__init__(given, assets)
        self._settings: dict[str, Any] = {"settings": given.settings, "origins": origins}
        self.outlets = Outlets(SystemConnector(), SystemChildren(), max_size=DOWNLOAD_MAX)

    async def exchange(self, asked: Exchange) -> Reply:
        return await self.outlets.exchange(asked, self._settings)

    async def download(self, asked: Download) -> Fetched:
        return await self.outlets.download(asked, self.path(asked.name), self._settings)

    def closing(self) -> Any:
        return aclosing(self.outlets)


def kept_files(root: str, files: Mapping[str, bytes]) -> dict[str, Kept]:
    """The files behind artifacts, put where a stage finds them."""
    return {
        name: Kept(held.asset.storage_path, held.asset.file_size or 0, held.asset.sha256)
        for name, held in (
            (name, _shelved(root, name, "artifact", content)) for name, content in files.items()
        )
    }


def _shelved(root: str, name: str, asset_type: str, content: bytes) -> Held:
    path = Path(root, "before", name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    url = f"/assets/{name}/content"
    asset = Asset(name, asset_type, url, f"before/{name}", len(content), digest)
    return Held(asset, str(path))
