"""The host's answers to a plain function, whose whole pass is one moment: read from the file and
from the network without a step in between."""

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from jobrunner.actors.host_answers import Reach
from jobrunner.errors import PermanentFailure
from jobrunner.files.library import SoundFiles
from jobrunner.outgoing.calls import Download, Exchange, Fetched, Reply
from jobrunner.stages.given import Given
from jobrunner.stages.requests import Answer, Posing, Question
from jobrunner.store import jobs
from jobrunner.store.features import assets as shelved
from jobrunner.store.keeping import objects
from jobrunner.testing.kit.attempt import at_once
from jobrunner.testing.simulation.wires import SimOutlets

T = TypeVar("T")

AWAITED_ONLY = PermanentFailure(
    "NOT_IN_A_PROOF",
    "jobs and questions of a stage are decided by others while it waits, which a plain function "
    "cannot do in a proof: make it an async def, or try it against a running service",
)


def answered_at_once(
    database: Path, assets: Path, wires: SimOutlets | None, given: Given, question: Question
) -> Answer:
    """Raises: RetryableFailure, PermanentFailure."""
    if isinstance(question, Posing):
        raise AWAITED_ONLY
    world: Any = _World(database, assets, wires)
    nobody: Any = _Nobody()
    answer: Answer = at_once(Reach(world, given, nobody).answer(question))
    return answer


class _Nobody:
    """A plain function cannot hold up its world until others have decided."""

    async def submit(self, *_: Any) -> NoReturn:
        raise AWAITED_ONLY

    is_met = outcomes = submit


class _World:
    """As much of the shared context as answers need."""

    def __init__(self, database: Path, assets: Path, wires: SimOutlets | None) -> None:
        self.assets = str(assets)
        self.checked = SoundFiles(self.assets)
        self.reader = _File(database)
        self.children = self
        self.surroundings = self
        self.outlets = _Outlets(wires)
        self.bucket = None

    async def in_thread(self, function: Callable[[], T]) -> T:
        return function()


class _Outlets:
    def __init__(self, wires: SimOutlets | None) -> None:
        self._wires = wires

    async def exchange(self, asked: Exchange, settings: Mapping[str, Any]) -> Reply:
        return self._led_out().exchange_at_once(asked)

    async def download(self, asked: Download, path: str, settings: Mapping[str, Any]) -> Fetched:
        return self._led_out().download_at_once(asked, path)

    def _led_out(self) -> SimOutlets:
        if self._wires is None:
            raise PermanentFailure("NO_WAY_OUT", "nothing leads out of here: give http=")
        return self._wires


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path

    async def artifact(self, *which: Any) -> Any:
        return self._ask(jobs.artifact, *which)

    async def asset(self, asset_id: str) -> Any:
        return self._ask(shelved.asset, asset_id)

    async def far_file(self, path: str) -> Any:
        return self._ask(objects.far_file, path)

    async def library(self, *which: Any) -> Any:
        return self._ask(shelved.library, *which)

    def _ask(self, question: Callable[..., T], *which: Any) -> T:
        connection = sqlite3.connect(self._path, isolation_level=None)
        try:
            return question(connection, *which)
        finally:
            connection.close()
