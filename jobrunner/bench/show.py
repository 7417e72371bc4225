"""A client of the running service as a demo sees it: it submits, waits, and keeps what was made."""

import os
import re
from pathlib import Path
from typing import Any

import anyio
import msgspec
from rich.progress import Progress, TaskID

Job = dict[str, Any]
SHOW_S = 300.0


class NotShown(Exception):
    """A job came to another end than was to be shown."""


class Show:
    """A client of the running service, for one workflow, with a bar that moves."""

    def __init__(self, session: Any, name: str, folder: Path, bars: Progress) -> None:
        self._session = session
        self._folder = folder
        self._bars = bars
        self._bar: TaskID = bars.add_task(name, total=100, told="")
        self.workflow = name
        self.scratch = folder / ".made"

    async def submit(self, job_type: str | None = None, **params: Any) -> Job:
        body = {"workflow": self.workflow, "params": params}
        body |= {"job_type": job_type} if job_type else {}
        return await self.ask("POST", "/jobs", body)

    async def upload(self, job: Job, path: Path) -> Job:
        """The file of a job, in one request."""
        return await self._send("PUT", f"/jobs/{job['id']}/upload?name={path.name}", path)

    async def shelve(self, path: Path) -> Job:
        """A file before its job."""
        return await self._send("POST", f"/assets?name={path.name}", path)

    async def command(self, job: Job, name: str, **fields: Any) -> Job:
        return await self.ask("POST", f"/jobs/{job['id']}/{name}", fields)

    async def until(self, job: Job, *statuses: str) -> Job:
        """The job when it stands in one of these. Raises: NotShown, when it ends elsewhere."""
        with anyio.fail_after(SHOW_S):
            while True:
                self._tell(job)
                if job["status"] in statuses:
                    return job
                if job["kind"] in ("settled", "final"):
                    raise NotShown(f"{job['status']}: {job.get('failure_message') or 'it ended'}")
                job = await self.ask("GET", f"/jobs/{job['id']}?wait=5&progress=1")

    async def keep(self, job: Job) -> None:
        """Fetch what the job made: its files under their names, and the job itself."""
        self._folder.mkdir(parents=True, exist_ok=True)
        found = await self.ask("GET", f"/jobs/{job['id']}/assets")
        for asset in found["assets"]:
            name = os.path.basename(asset.get("storage_path") or "") or asset["id"]
            async with self._session.get(f"/assets/{asset['id']}/content") as answer:
                answer.raise_for_status()
                disposition = answer.headers.get("Content-Disposition", "")
                named = re.search(r'filename="([^"/\\]+)"', disposition)
                data = await answer.read()
            target = self._folder / (named[1] if named else name)
            target.write_bytes(data)
        text = msgspec.json.format(msgspec.json.encode(job), indent=2)
        (self._folder / "job.json").write_bytes(text)
        self._bars.update(self._bar, completed=100, told=f"{job['status']}, kept")

    async def ask(self, method: str, path: str, body: Any = None) -> Job:
        options = {} if body is None else {"json": body}
        async with self._session.request(method, path, **options) as answer:
            return await _answer(answer)

    async def _send(self, method: str, path: str, file: Path) -> Job:
        with file.open("rb") as data:
            async with self._session.request(
                method, path, data=data, headers={"Content-Type": "application/octet-stream"}
            ) as answer:
                return await _answer(answer)

    def _tell(self, job: Job) -> None:
        told = " · ".join(part for part in (job["status"], job.get("progress_message")) if part)
        self._bars.update(self._bar, completed=min(job.get("progress") or 0, 99), told=told)

    def fail(self, reason: str) -> None:
        self._bars.update(self._bar, told=f"[red]{reason}")


async def _answer(answer: Any) -> Job:
    body = await answer.read()
    if answer.status >= 400:
        raise NotShown(f"{answer.status}: {body.decode('utf-8', 'replace')[:300]}")
    found: Job = msgspec.json.decode(body)
    return found
