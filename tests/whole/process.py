"""The service as a process that may be killed: a folder that outlives it, and clients of all roles.

A ``Place`` is a data folder with a config file. Any number of lives are spent in it, one after the
other, each on a port of its own; what each printed and logged is a file of its own.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from jobrunner.store.fsck import check_file

PLUGIN = Path(__file__).parent / "plugin"
PATIENCE_S = 120
CONFIG = """
[server]
port = 0
drain_seconds = {drain_s}
[store]
path = "data/jobs.db"
assets = "data/assets"
[credits]
initial = {credits}
[plugins]
path = "{plugins}"
[limits]
active_jobs = {active}
free_disk = 0
lag = 0
[workflows.image-generation]
quota = {{ open_jobs = 0, per_minute = 0 }}
"""
OUTSIDE = "".join(
    f'[workflows.{name}.stages]\n"*" = "external"\n'
    for name in ("image-generation", "cutx", "ss", "asset-pattern", "howera")
)


@dataclass(frozen=True)
class Said:
    """One answer, whole. Status 0 means that nobody answered."""

    status: int
    body: Any = None
    headers: Any = None

    @property
    def code(self) -> str:
        return str(self.body["error_code"])


class Place:
    """``start``, ``kill``, ``stop`` and what is left in the folder between them."""

    def __init__(self, folder: Path, config: str, session: aiohttp.ClientSession) -> None:
        self.folder = folder
        self.url = ""
        self.lives = 0
        self.tokens: dict[str, str] = {}
        self.config = config
        self._session = session
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def database(self) -> Path:
        return self.folder / "data" / "jobs.db"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def configure(self, config: str) -> None:
        """For the lives to come."""
        self.config = config

    async def start(self, *before: str) -> None:
        """Until it answers; the first life leaves the admin's token behind. ``before`` is a
        command that becomes the service."""
        self.spawn(*before)
        await self.ready()

    def spawn(self, *before: str) -> None:
        (self.folder / "config.toml").write_text(self.config)
        command = [*before, sys.executable, "-m", "jobrunner", "serve", "--config", "config.toml"]
        environ = {key: text for key, text in os.environ.items() if "JOBRUNNER_" not in key}
        self.lives += 1
        with self._output().open("wb") as output:
            self._process = subprocess.Popen(
                command, cwd=self.folder, env=environ, stdout=output, stderr=output
            )

    async def ready(self) -> None:
        await until(self._says_where)
        token = self.seen("data") / "admin.token"
        self.tokens.setdefault("admin", token.read_text().strip())

    def seen(self, path: str) -> Path:
        """A path in the folder as the living service sees it, whatever is mounted there for it."""
        return Path(f"/proc/{self.pid}/root{self.folder}/{path}")

    async def kill(self) -> None:
        """Without a word of warning."""
        self._end(signal.SIGKILL)
        await self.ended()

    async def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return await self.ended()

    def signal(self, number: int) -> None:
        self._end(number)

    async def ended(self) -> int:
        """The exit code, as soon as there is one."""
        assert self._process is not None
        await until(lambda: self._process is None or self._process.poll() is not None)
        return int(self._process.returncode)

    def dead(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def said(self) -> str:
        """What this life printed and logged."""
        return self._output().read_text()

    def log(self, event: str = "") -> list[dict[str, Any]]:
        """The lines of this life, or those of one event."""
        lines = [line for line in self.said().split("\n")[:-1] if line.startswith("{")]
        parsed = [json.loads(line) for line in lines]
        return [line for line in parsed if not event or line["event"] == event]

    def faults(self) -> tuple[str, ...]:
        return check_file(str(self.database))

    async def ask(
        self, method: str, path: str, body: Any = None, who: str = "admin", **headers: str
    ) -> Said:
        sent = {"Authorization": f"Bearer {self.tokens[who]}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.request(
            method, self.url + path, json=body, headers=sent
        ) as answer:
            raw = await answer.read()
            return Said(answer.status, json.loads(raw) if raw else None, answer.headers)

    async def upload(self, path: str, data: bytes, who: str = "admin") -> Said:
        """A file as the body."""
        sent = {"Authorization": f"Bearer {self.tokens[who]}"}
        async with self._session.post(self.url + path, data=data, headers=sent) as answer:
            return Said(answer.status, json.loads(await answer.read()), answer.headers)

    async def try_to(self, method: str, path: str, body: Any = None, who: str = "admin") -> Said:
        """Where the service may die before, during or after."""
        try:
            return await self.ask(method, path, body, who)
        except (aiohttp.ClientError, OSError, TimeoutError):
            return Said(0)

    async def get(self, path: str, who: str = "admin") -> Any:
        said = await self.ask("GET", path, who=who)
        assert said.status == 200, said
        return said.body

    async def post(self, path: str, body: Any = None, who: str = "admin", **headers: str) -> Said:
        return await self.ask("POST", path, {} if body is None else body, who, **headers)

    async def submit(self, workflow: str, who: str = "admin", **more: Any) -> Any:
        """Again, while the machine has so much to do that the service turns it away."""
        said = await self.post("/jobs", order := {"workflow": workflow, **more}, who)
        with anyio.move_on_after(PATIENCE_S):
            while said.status == 503 and said.code == "OVERLOADED":
                await anyio.sleep(0.02)
                said = await self.post("/jobs", order, who)
        assert said.status in (200, 201), said
        return said.body

    async def user(self, name: str, role: str = "user", credits: int = 0) -> str:
        """A token, made; ``credits`` on top of what every account starts with."""
        made = await self.post("/admin/tokens", {"name": name, "role": role})
        assert made.status == 201, made
        self.tokens[name] = made.body["token"]
        if credits:
            given = {"amount": credits, "reason": "a test"}
            assert (await self.post(f"/admin/credits/{name}/grant", given)).status == 200
        return name

    async def event(self, job_id: str, status: str, number: int, **report: Any) -> Said:
        """A status callback; ``number`` is its identity and its place in time."""
        body = event(f"event-{number}", status, number, **report)
        return await self.post(f"/internal/jobs/{job_id}/status", body)

    async def at(self, job_id: str, *statuses: str) -> Any:
        """The job as soon as it stands in one of these; waits at the service, not beside it."""
        job: Any = None
        with anyio.move_on_after(PATIENCE_S):
            while True:
                job = await self.get(f"/jobs/{job_id}")
                if job["status"] in statuses:
                    return job
                await anyio.sleep(0.02)
        raise AssertionError(f"{job_id} is not in {statuses}: {job}\n{self.said()[-2000:]}")

    async def moves(self, job_id: str) -> list[dict[str, Any]]:
        return list((await self.get(f"/jobs/{job_id}/history"))["history"])

    def close(self) -> None:
        """Whatever happened, the process ends."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _end(self, number: int) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _output(self) -> Path:
        return self.folder / f"output-{self.lives}"

    def _says_where(self) -> bool:
        said = self.said()
        for line in said.splitlines():
            if line.startswith("jobrunner answers on ") and line + "\n" in said:
                self.url = line.split()[-1]
                return True
        if self.dead():
            raise AssertionError(f"the service did not start:\n{said}")
        return False


@asynccontextmanager
async def place(
    folder: Path,
    *,
    more: str = "",
    drain_s: float = 2,
    credits: int = 25,
    active: int = 64,
    plugins: Path = PLUGIN,
    outside: bool = False,
) -> AsyncIterator[Place]:
    """A folder to live in; on leaving, nobody lives there any more. However busy the machine is
    elsewhere, the service turns nobody away for it. ``more`` goes at the end of the config file;
    ``outside``: the lifecycles of this tree are worked from there alone."""
    folder.mkdir(parents=True, exist_ok=True)
    config = CONFIG.format(drain_s=drain_s, credits=credits, active=active, plugins=plugins)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=PATIENCE_S),
    ) as session:
        here = Place(folder, config + (OUTSIDE if outside else "") + more, session)
        try:
            yield here
        finally:
            here.close()


async def until(condition: Callable[[], bool]) -> None:
    """Polls; gives up loudly."""
    with anyio.move_on_after(PATIENCE_S):
        while not condition():
            await anyio.sleep(0.01)
        return
    raise AssertionError(f"waited {PATIENCE_S} s for {condition}")


async def at_once(asks: Sequence[Callable[[], Awaitable[Said]]]) -> list[Said]:
    """All of them under way before any is answered, as far as a client can tell."""
    answers: list[Said] = []

    async def one(asking: Callable[[], Awaitable[Said]]) -> None:
        answers.append(await asking())

    async with anyio.create_task_group() as group:
        for asking in asks:
            group.start_soon(one, asking)
    return answers


def event(event_id: str, status: str, number: int, **report: Any) -> dict[str, Any]:
    """``number`` seconds into a day that is past."""
    hours, seconds = divmod(number, 3600)
    moment = (
        f"2026-01-{1 + hours // 24:02d}T{hours % 24:02d}:{seconds // 60:02d}:{seconds % 60:02d}Z"
    )
    return {"event_id": event_id, "status": status, "occurred_at": moment, **report}
