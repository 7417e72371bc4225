"""The price of retention: ``python -m jobrunner.bench.retention prune|steady``.

``prune``: a file of many ended jobs, which by turns are kept and go; submissions come at a fixed
rate all the time, and what counts is how long they take with and without. ``steady``: jobs that end
at once, at a fixed rate, each kept for a minute; what counts is that file, log, memory and times
stay as they are. The clients are a program of their own. The machine should have nothing else to
do.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import msgspec
from msgspec import Struct

from jobrunner.bench.cost import resident_kib
from jobrunner.bench.crowd import Crowd, NoCompiler, built, crowd
from jobrunner.bench.stored import Growth, grow
from jobrunner.bench.target import Address, job_under_way

PATTERNS = 8
CONNECTIONS = 32
WARM_UP_S = 5.0
CONFIG = """
[server]
port = 0
[store]
path = "jobs.db"
assets = "assets"
[limits]
queued_jobs = 1000000000
[credits]
initial = 1000000000
[plugins]
path = "none"
[workflows.howera.stages]
"*" = "external"
[workflows.hello.quota]
open_jobs = 0
per_minute = 0
[retention]
ended = "{0}"
keys = "{0}"
"""
SUBMITTED = msgspec.json.encode({"workflow": "howera"})
ENDING = msgspec.json.encode({"workflow": "hello", "params": {"name": "you"}})


class Window(Struct, frozen=True):
    """A while of the service: what clients found, and how file and process stood at its end."""

    crowd: Crowd
    jobs: int
    file_mb: float
    unused_mb: float
    wal_mb: float
    memory_mb: float

    def __str__(self) -> str:
        one = self.crowd
        return (
            f"{one.made:7}  {one.refused + one.other + one.broken:7}  {one.made_p50_ms:6.1f}  "
            f"{one.made_p99_ms:6.1f}  {self.jobs:8}  {self.file_mb:8.1f}  {self.unused_mb:8.1f}  "
            f"{self.wal_mb:6.1f}  {self.memory_mb:7.1f}"
        )


HEAD = "   made  refused  p50 ms  p99 ms      jobs   file MB  free MB   WAL MB   RSS MB"


async def prune(ended: int, rate: float, seconds: float, rounds: int) -> None:
    """Raises: NoCompiler."""
    with _folder() as folder:
        program = await built(folder)
        async with _service(folder, "0") as at:
            for _ in range(PATTERNS):
                await _ended_job(at)
        await grow(str(folder / "jobs.db"), Growth(ended))
        print(f"{ended} jobs have ended", flush=True)
        kept: list[Window] = []
        pruned: list[Window] = []
        for _ in range(rounds):
            for age, windows in (("0", kept), ("1d", pruned)):
                print(f"{'they are kept' if age == '0' else 'they go'}\n{HEAD}", flush=True)
                async with _service(folder, age) as at:
                    await crowd(program, at.url, at.token, rate, WARM_UP_S, CONNECTIONS, SUBMITTED)
                    windows.append(await _window(program, at, folder, rate, seconds, SUBMITTED))
    ratios = sorted(
        after.crowd.made_p99_ms / before.crowd.made_p99_ms
        for before, after in zip(kept, pruned, strict=True)
    )
    print(f"p99 before {_middle(kept):.1f} ms, meanwhile {_middle(pruned):.1f} ms (medians); "
          f"pair by pair {', '.join(f'{one:.2f}' for one in ratios)}")  # fmt: skip


def _middle(windows: list[Window]) -> float:
    return statistics.median(one.crowd.made_p99_ms for one in windows)


async def steady(rate: float, seconds: float, windows: int) -> None:
    """Raises: NoCompiler."""
    with _folder() as folder:
        program = await built(folder)
        print(HEAD, flush=True)
        async with _service(folder, "60s") as at:
            for _ in range(windows):
                await _window(program, at, folder, rate, seconds, ENDING)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="jobrunner-retention-") as name:
        yield Path(name)


@asynccontextmanager
async def _service(folder: Path, ended: str) -> AsyncIterator[Address]:
    (folder / "config.toml").write_text(CONFIG.format(ended), encoding="utf-8")
    command = [sys.executable, "-m", "jobrunner", "serve", "--config", "config.toml"]
    with (folder / "log").open("ab") as log:
        async with await anyio.open_process(command, cwd=folder, stderr=log) as process:
            assert process.stdout is not None
            line = (await process.stdout.receive()).split()[3].decode()
            token = (folder / "admin.token").read_text(encoding="ascii").strip()
            try:
                yield Address(line, token, process.pid)
            finally:
                process.terminate()
                await process.wait()


async def _ended_job(at: Address) -> None:
    """One with a history: it was on its way when it was cancelled."""
    async with (
        job_under_way(at) as (session, job_id),
        session.post(f"/jobs/{job_id}/cancel", json={}) as answer,
    ):
        assert answer.status in (200, 202), await answer.text()


async def _window(
    program: Path, at: Address, folder: Path, rate: float, seconds: float, body: bytes
) -> Window:
    many = await crowd(program, at.url, at.token, rate, seconds, CONNECTIONS, body)
    figures = await _figures(at)
    found = Window(
        many,
        int(sum(value for name, value in figures if name.startswith("jobrunner_jobs{"))),
        _size_mb(folder / "jobs.db"),
        sum(value for name, value in figures if name == "jobrunner_store_unused_bytes") / 1e6,
        _size_mb(folder / "jobs.db-wal"),
        resident_kib(at.pid) * 1024 / 1e6,
    )
    print(found, flush=True)
    return found


async def _figures(at: Address) -> list[tuple[str, float]]:
    import aiohttp

    headers = {"Authorization": f"Bearer {at.token}"}
    async with (
        aiohttp.ClientSession(at.url, headers=headers) as session,
        session.get("/metrics") as answer,
    ):
        lines = (await answer.text()).splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return [(name, float(value)) for name, _, value in pairs]


def _size_mb(path: Path) -> float:
    return path.stat().st_size / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m jobrunner.bench.retention")
    parser.add_argument("what", choices=("prune", "steady"))
    parser.add_argument("--ended", type=int, default=1_000_000, help="jobs in the file")
    parser.add_argument("--rate", type=float, default=200, help="submissions a second")
    parser.add_argument("--seconds", type=float, default=20, help="of a window")
    parser.add_argument("--rounds", type=int, default=5, help="with and without, in turn")
    parser.add_argument("--windows", type=int, default=30, help="of a steady load")
    given = parser.parse_args()
    try:
        if given.what == "prune":
            anyio.run(prune, given.ended, given.rate, given.seconds, given.rounds)
        else:
            anyio.run(steady, given.rate, given.seconds, given.windows)
    except NoCompiler as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
