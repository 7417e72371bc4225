"""Clients that keep going while the service dies around them, and write down what they were told.

Each client acts on jobs of its own. What it sends can be sent again: submissions carry a key,
callbacks an event id, and a move that has happened already is recognised by where the job stands.
So a client whose request died with the service sends it again to the next life, until it has an
answer. Every answer goes into the journal; in the end the journal is compared with the file.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import anyio

from tests.whole.process import Place, Said, event

PIPELINE = ("UPLOADED", "AUDIO_EXTRACTING", "AUDIO_READY", "TRANSCRIBING", "TRANSCRIPT_READY")
PICTURE = {"asset_type": "image", "url": "https://example.org/p.png"}
OPEN_MAX = 6


@dataclass
class Journal:
    """What was acknowledged: versions of jobs, and events."""

    versions: dict[str, dict[int, str]] = field(default_factory=dict)
    events: dict[tuple[str, str], str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    workflows: dict[str, str] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)

    @property
    def acks(self) -> int:
        return self.count.total()

    def job(self, what: str, job: Any) -> None:
        self.count[what] += 1
        self.workflows[job["id"]] = job["workflow"]
        self.versions.setdefault(job["id"], {})[job["version"]] = job["status"]


class Client:
    """``number`` makes its keys and events its own."""

    def __init__(self, home: Place, journal: Journal, number: int, seed: int) -> None:
        self._home = home
        self._journal = journal
        self._number = number
        self._random = Random(seed * 1000 + number)
        self._made = 0
        self._jobs: list[Any] = []
        self._sent: dict[str, int] = {}
        self._steps: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "cutx": self._cutx,
            "image-generation": self._picture,
            "howera": self._pipeline,
        }

    async def work(self, enough: Callable[[], bool]) -> None:
        while not enough():
            if len(self._jobs) < OPEN_MAX:
                await self._submit()
                continue
            at = self._random.randrange(len(self._jobs))
            job = await self._steps[self._jobs[at]["workflow"]](self._jobs[at])
            if job is None or job["kind"] in ("final", "settled"):
                del self._jobs[at]
            else:
                self._jobs[at] = job

    async def _submit(self) -> None:
        self._made += 1
        key = f"client-{self._number}-{self._made}"
        said = await self._told("POST", "/jobs", {"idempotency_key": key, **self._order()})
        assert said.status in (200, 201), said
        job = said.body
        assert self._journal.keys.setdefault(key, job["id"]) == job["id"]
        self._journal.job("submission", job)
        if job["workflow"] in self._steps:
            self._jobs.append(job)

    def _order(self) -> dict[str, Any]:
        match self._random.randrange(8):
            case 0:
                return {"workflow": "hello", "params": {"name": "you"}}
            case 1:
                return {"workflow": "trial", "params": {"does": "retry"}}
            case 2 | 3:
                return {"workflow": "image-generation", "params": {"prompt": "a quiet harbour"}}
            case 4 | 5:
                return {"workflow": "howera"}
            case _:
                params = {"product_id": "shoe"}
                return {"workflow": "cutx", "job_type": "static_ad", "params": params}

    async def _cutx(self, job: Any) -> Any:
        path = f"/jobs/{job['id']}"
        match job["status"], self._random.randrange(5):
            case _, 0:
                return await self._moved("cancel", f"{path}/cancel", {}, job)
            case "queued", _:
                return await self._moved("claim", f"{path}/claim", {}, job)
            case "processing", 1:
                failed = {"to": "failed", "failure_message": "it broke"}
                return await self._moved("report", f"{path}/transitions", failed, job)
            case "processing", 2:
                return await self._moved("progress", f"{path}/progress", {"progress": 50}, job)
            case "processing", _:
                done = {"to": "completed", "result": {"text": "done"}}
                return await self._moved("report", f"{path}/transitions", done, job)
        return await self._read(job)

    async def _picture(self, job: Any) -> Any:
        path = f"/jobs/{job['id']}"
        match job["status"], self._random.randrange(4):
            case "queued", _:
                return await self._moved("claim", f"{path}/claim", {}, job)
            case "running", 0 | 1:
                failed = {"to": "failed", "failure_message": "it broke"}
                return await self._moved("report", f"{path}/transitions", failed, job)
            case "running", 2:
                rejected = {"to": "rejected"}
                return await self._moved("report", f"{path}/transitions", rejected, job)
            case "running", _:
                done = {"to": "completed", "assets": [PICTURE]}
                return await self._moved("report", f"{path}/transitions", done, job)
        return await self._read(job)

    async def _pipeline(self, job: Any) -> Any:
        """Callbacks, each sent up to three times; now and then a failure, now and then a cancel."""
        if not self._random.randrange(12):
            return await self._moved("cancel", f"/jobs/{job['id']}/cancel", {}, job)
        status, report = self._next_status(job["status"])
        number = self._sent[job["id"]] = self._sent.get(job["id"], 0) + 1
        body = event(f"event-{number}", status, number, **report)
        for _ in range(1 + self._random.randrange(3)):
            said = await self._told("POST", f"/internal/jobs/{job['id']}/status", body)
            assert said.status in (200, 204), (job["status"], body, said)
            self._journal.count["event"] += 1
            self._journal.events[job["id"], body["event_id"]] = status
        return await self._read(job)

    def _next_status(self, status: str) -> tuple[str, dict[str, Any]]:
        retryable = status in ("AUDIO_EXTRACTING", "TRANSCRIBING")
        if retryable and not self._random.randrange(3):
            failure = {"failure_code": "BUSY", "failure_message": "later", "failed_stage": status}
            return status, failure
        if status not in PIPELINE:
            return PIPELINE[0], {}
        after = PIPELINE.index(status) + 1
        if after < len(PIPELINE):
            return PIPELINE[after], {}
        end = {"failure_code": "END", "failure_message": "enough", "failed_stage": "GENERATING"}
        return "FAILED", end

    async def _moved(self, what: str, path: str, body: Any, job: Any) -> Any:
        """A refusal is an answer too: the service died after the first try had its effect, or a
        timer was faster."""
        said = await self._told("POST", path, body)
        assert said.status in (200, 409), (job["status"], path, body, said)
        if said.status == 409:
            return await self._read(job)
        self._journal.job(what, said.body)
        return said.body

    async def _read(self, job: Any) -> Any:
        said = await self._told("GET", f"/jobs/{job['id']}")
        assert said.status == 200, said
        self._journal.job("reading", said.body)
        return said.body

    async def _told(self, method: str, path: str, body: Any = None) -> Said:
        """The answer, of this life or of one to come."""
        while True:
            said = await self._home.try_to(method, path, body)
            if said.status not in (0, 503):
                return said
            await anyio.sleep(0.02)
