"""Servers under load, each a process of its own with its data in a folder of its own."""

import base64
import http.client
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from jobrunner.bench.cost import Used, used
from jobrunner.bench.workloads import WORKFLOWS, install
from jobrunner.errors import Misconfigured

READY_S = 120.0
POLL_S = 0.002
MANY = 100_000
CREDITS = 10**12
KEY = b"key of the bench, nobody's else."
ENVIRONMENT = {"BENCH_BELL": f"whsec_{base64.b64encode(KEY).decode()}"}
SETTINGS = """
[server]
port = 0
[store]
path = "{folder}/jobrunner.db"
assets = "{folder}/assets"
[plugins]
enabled = {workflows}
path = "{folder}/plugins.d"
[credits]
initial = {credits}
[webhooks.bell]
secrets_env = ["BENCH_BELL"]
"""
COUNT = "SELECT sum(jobs) FROM tally WHERE workflow = ? AND status = ?"
DEFAULT: dict[str, int] = {}
LARGE = {"active_jobs": MANY, "per_user_active": MANY, "queued_jobs": 10**9, "pending_writes": MANY}


class Server:
    """Something that answers at ``url``; ``pids`` is whose cost counts."""

    url: str
    token = ""
    pids: tuple[int, ...]

    def used(self) -> Used:
        return used(*self.pids)

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        """Ask once, over a connection of its own."""
        place = urlsplit(self.url)
        line = http.client.HTTPConnection(place.hostname or "", place.port, timeout=READY_S)
        headers |= {"Content-Type": "application/json"} if body else {}
        headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            line.request(method, path, body or None, headers)
            answer = line.getresponse()
            return answer.status, answer.read()
        finally:
            line.close()


class Reference(Server):
    """``bare`` or ``R``."""

    def __init__(self, kind: str, folder: Path) -> None:
        command = [sys.executable, "-m", "jobrunner.bench.reference", kind, str(folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self.pids = (self.process.pid,)
        if not self.url:
            raise Misconfigured(f"the reference {kind} did not start")

    def stop(self) -> None:
        self.process.kill()
        with self.process:
            self.process.wait()


class Service(Server):
    """Ours, as an operator starts it: with key, credits, history, ledger, tokens and log.

    The stages of the workflows ``outside`` are bound to nobody: their jobs are taken, and wait."""

    def __init__(self, folder: Path, limits: dict[str, int], outside: Sequence[str] = ()) -> None:
        self.folder = folder
        self.path = folder / "jobrunner.db"
        if not (folder / "plugins.d").exists():
            install(folder / "plugins.d")
        words = [SETTINGS.format(folder=folder, workflows=list(WORKFLOWS), credits=CREDITS)]
        words += ["[limits]", *(f"{name} = {value}" for name, value in limits.items())]
        words += [f'[workflows.{name}.stages]\n"*" = "external"' for name in outside]
        (folder / "config.toml").write_text("\n".join(words).replace("'", '"'))
        self.start()

    def start(self) -> float:
        """How many seconds it takes until it answers. Raises: Misconfigured."""
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        command = [sys.executable, "-m", "jobrunner", "serve", "--config", "config.toml"]
        began = time.perf_counter()
        with log.open("wb") as told:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=_environment(), stdout=told, stderr=told
            )
        self.pids = (self.process.pid,)
        self.url = self._ready(log)
        took_s = time.perf_counter() - began
        self.token = (self.folder / "admin.token").read_text().strip()
        return took_s

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(READY_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def token_of(self, name: str) -> str:
        """A token for a new user."""
        status, answer = self.ask(
            "POST", "/admin/tokens", msgspec.json.encode({"name": name, "role": "user"})
        )
        assert status < 300, answer
        return str(msgspec.json.decode(answer)["token"])

    def jobs(self, workflow: str, status: str) -> int:
        """How many jobs stand there now, out of the file: asking would cost the service."""
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as db:
            found = db.execute(COUNT, (workflow, status)).fetchone()
        return int(found[0] or 0)

    def file_mib(self) -> float:
        return self.path.stat().st_size / 2**20

    def figure(self, name: str, labels: str = "") -> float:
        """One of the service's own figures; 0 when it has none such."""
        return figure(self.ask("GET", "/metrics")[1].decode(), name, labels)

    def share(self, name: str, share: float) -> float:
        """Below which so many of a histogram are, told by its bounds."""
        return below(self.ask("GET", "/metrics")[1].decode(), name, share)

    def wait_until(self, workflow: str, status: str, jobs: int, within_s: float = 600) -> None:
        """Raises: TimeoutError."""
        end = time.perf_counter() + within_s
        while self.jobs(workflow, status) < jobs:
            if time.perf_counter() > end:
                found = self.jobs(workflow, status)
                raise TimeoutError(f"{found} of {jobs} jobs of {workflow} are {status}")
            time.sleep(0.05)

    def _ready(self, log: Path) -> str:
        end = time.perf_counter() + READY_S
        while time.perf_counter() < end and self.process.poll() is None:
            found = re.search(rb'"event": ?"service.ready".*?"url": ?"([^"]+)"', log.read_bytes())
            if found:
                return found[1].decode()
            time.sleep(POLL_S)
        self.kill()
        raise Misconfigured(f"the service did not start: {log.read_text()[-2000:]}")


def figure(text: str, name: str, labels: str = "") -> float:
    """One line of a page of metrics."""
    head = f"{name}{{{labels}}} " if labels else f"{name} "
    lines = (line for line in text.splitlines() if line.startswith(head))
    return float(next(lines, f"{head}0").rpartition(" ")[2])


def below(text: str, name: str, share: float) -> float:
    """The bound of a histogram that is not below this share of it; endless beyond the last one."""
    buckets = re.findall(rf'^{name}_bucket{{le="([^"]+)"}} (\S+)$', text, re.MULTILINE)
    wanted = share * max((float(count) for _, count in buckets), default=0.0)
    return next((float(bound) for bound, count in buckets if float(count) >= wanted), 0.0)


@contextmanager
def data_folder(disk: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="jobrunner-bench-", dir=disk) as folder:
        yield Path(folder)


@contextmanager
def service(disk: Path, limits: dict[str, int], outside: Sequence[str] = ()) -> Iterator[Service]:
    """Ours, with an empty file."""
    with data_folder(disk) as folder:
        made = Service(folder, limits, outside)
        try:
            yield made
        finally:
            made.kill()


@contextmanager
def reference(disk: Path, kind: str) -> Iterator[Reference]:
    with data_folder(disk) as folder:
        made = Reference(kind, folder)
        try:
            yield made
        finally:
            made.stop()


def _environment() -> dict[str, str]:
    """The environment without the operator's settings: nothing of theirs is touched."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JOBRUNNER_")}
    return kept | ENVIRONMENT
