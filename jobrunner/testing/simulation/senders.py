"""Sends everything that an author gave: files of people, their library, answers that stages await.
Stops jobs at bad moments, too."""

import asyncio
import hashlib
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import anyio

from jobrunner.actors import Facade
from jobrunner.actors.commits import Answer
from jobrunner.core.declaration.workflow import Definition, Upload
from jobrunner.core.features import signatures
from jobrunner.core.job import Actor, Asset, Snapshot
from jobrunner.core.messages import Answered, Arrived, Arriving, Stop, Told
from jobrunner.core.units import Shelve
from jobrunner.errors import Refused, StorageError
from jobrunner.stages.sources import Source
from jobrunner.testing.simulation.callers import ADA, OLGA, ROOT
from jobrunner.testing.simulation.declared import takes
from jobrunner.testing.simulation.granted import Endowment
from jobrunner.testing.simulation.process import Gone, Process
from jobrunner.testing.simulation.witness import Witness

LATER_S = (0.0, 0.01, 0.3, 3.0, 40.0, 2000.0)
SOON_S = (0.0, 0.001, 0.02, 0.5, 4.0)
LOOKS_S = (0.1, 1.0, 10.0)
TRIES = 30
STOPPED = 0.08
Post = tuple[str, bytes, dict[str, str]]


class Senders:
    """``folder`` is where all files lie. They live outside of the service: what they were told to
    do is done in tasks of their own."""

    def __init__(
        self, definition: Definition, process: Process, granted: Endowment, witness: Witness,
        folder: Path, chance: random.Random,
    ) -> None:  # fmt: skip
        self._definition = definition
        self._process = process
        self._granted = granted
        self._witness = witness
        self._folder = folder
        self._chance = chance
        self._todo: deque[Callable[[], Coroutine[Any, Any, None]]] = deque()
        self._news = asyncio.Event()
        self._sent: set[tuple[str, int]] = set()
        self.calm = False

    async def run(self) -> None:
        """Send until it is cancelled."""
        async with anyio.create_task_group() as group:
            if self._granted.assets:
                group.start_soon(self._shelve)
            if self._granted.uploads:
                group.start_soon(self._upload_all)
            while True:
                await self._news.wait()
                self._news.clear()
                while self._todo:
                    group.start_soon(self._todo.popleft())

    def meddle(self, job_id: str) -> None:
        """A stage begins; now and then its job is stopped soon."""
        if not self.calm and self._chance.random() < STOPPED:
            self._do(lambda: self._stop(job_id))

    def parks(self, job_id: str, key: str, source: str) -> None:
        """A stage awaits an answer: it may come late, often or (while things go wrong) never."""
        name = f"{source}:{key}" if source else key
        value = self._granted.answer(name)
        if value is None:
            return
        times = 1 if self.calm else self._chance.choice((0, 1, 1, 1, 2, 3))
        for _ in range(times):
            self._do(lambda: self._answer(job_id, key, source, value))

    async def post(
        self,
        sources: Mapping[str, Source],
        keys: list[bytes],
        url: str,
        body: bytes,
        headers: Mapping[str, str],
    ) -> int:
        """A webhook of a provider: it may get lost, come twice, or come while nobody is there."""
        source = sources.get(url.rpartition("/webhooks/")[2])
        if source is None:
            return 404
        if signatures.verified(headers, body, keys, time.time()) is None:
            return 401
        heard = source.read(body, headers)
        if heard is None:
            return 200
        lost, twice = (0.0, 0.0) if self.calm else (0.1, 0.15)
        if self._chance.random() < lost:
            return 0
        for _ in range(1 + (self._chance.random() < twice)):
            taken = await self.take(source.name, heard.key, heard.value, headers["webhook-id"])
        return 200 if taken else 0

    async def take(self, source: str, key: str, value: Any, webhook_id: str) -> bool:
        """Bring a webhook in; say whether the service took it."""
        told = Told(source, webhook_id, key, value)
        return await self._ask(lambda facade: facade.hear(told)) is not None

    # ------------------------------------------------------------ what they do

    def _do(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._todo.append(act)
        self._news.set()

    async def _stop(self, job_id: str) -> None:
        await anyio.sleep(self._chance.choice(SOON_S))
        await self._tell(job_id, Stop(ROOT, "enough"))

    async def _answer(self, job_id: str, key: str, source: str, value: Any) -> None:
        await anyio.sleep(self._chance.choice(LATER_S))
        for _ in range(TRIES):
            if source:
                if await self.take(source, key, value, f"{job_id}-{key}"):
                    return
            elif await self._tell(job_id, Answered(OLGA, key, value)):
                return
            await anyio.sleep(self._chance.choice(LOOKS_S))

    async def _shelve(self) -> None:
        for asset_id, (asset_type, content) in self._granted.assets.items():
            name = f"ada/{asset_id}/1-{asset_type}"
            asset = self._placed(asset_id, asset_type, name, content)
            unit = Shelve(asset, ADA.name)
            for _ in range(TRIES):
                if await self._ask(lambda facade: self._written(facade, unit)):  # noqa: B023
                    break
                await anyio.sleep(1.0)

    async def _written(self, facade: Facade, unit: Shelve) -> bool:
        try:
            await facade.write(unit)
        except Refused as refused:
            return refused.code == "ALREADY_EXISTS"
        return True

    async def _upload_all(self) -> None:
        """Now and then, whatever of the files a job takes where it stands."""
        uploads = {one.name: one for one in self._definition.workflow.uploads}
        while True:
            await anyio.sleep(self._chance.choice(LOOKS_S))
            for job in list(self._witness.jobs.values()):
                for name, content in self._granted.uploads.items():
                    if takes(uploads[name], job.status) and self._first(job):
                        await self._upload(job, uploads[name], content)

    def _first(self, job: Snapshot) -> bool:
        """Send each job a file once, as it stands; sometimes twice."""
        mark = (job.id, job.version)
        known = mark in self._sent
        self._sent.add(mark)
        return not known or self._chance.random() < 0.01

    async def _upload(self, job: Snapshot, upload: Upload, content: bytes) -> None:
        owner = Actor(job.user_id, "user")
        await self._tell(job.id, Arriving(owner, upload.name))
        asset_id = self._process.ids.fresh()
        folder = "/".join(filter(None, (self._definition.workflow.folder, job.user_id, job.id)))
        name = f"{folder}/{asset_id}-{upload.name}"
        asset = self._placed(asset_id, upload.asset_type, name, content)
        await self._tell(job.id, Arrived(owner, upload.name, asset))

    def _placed(self, asset_id: str, asset_type: str, name: str, content: bytes) -> Asset:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        digest, url = hashlib.sha256(content).hexdigest(), f"/assets/{asset_id}/content"
        made_at = self._process.clock.now()
        return Asset(asset_id, asset_type, url, name, len(content), digest, made_at)

    async def _tell(self, job_id: str, message: Any) -> bool:
        answer = await self._ask(lambda facade: facade.ask(job_id, message))
        if isinstance(answer, Answer):
            self._witness.show(answer.job)
        return answer is not None

    async def _ask(self, ask: Callable[[Facade], Awaitable[Any]]) -> Any:
        """Ask the service; None when nobody answered."""
        try:
            return await self._process.call(ask)
        except (Gone, StorageError):
            return None
        except Refused as refused:
            return refused
