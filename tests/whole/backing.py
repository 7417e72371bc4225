"""Backups under load: a file and a library of a given size, clients that do not stop, and after
each backup a restore into another place, examined from end to end. The clients rest meanwhile.

``python -m tests.whole.backing FOLDER --jobs 650000 --assets 1000 --rounds 100 --anew 10`` does it
at length and prints a line a round; the tests do it in short.
"""

import argparse
import hashlib
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.bench.stored import Growth, grow
from jobrunner.files.stored_backups import StoredBackups
from jobrunner.store.fsck import check_file
from tests.whole.process import Place, place, until

RESTORED = '[store]\npath = "jobs.db"\nassets = "assets"\n'


class Drill(Struct, frozen=True):
    """The size of what is backed up, and of what happens meanwhile; ``before`` submissions are
    waited for before each backup. After ``anew`` rounds it begins again at that size, if that is
    not 0: the file has grown by whatever was submitted."""

    jobs: int = 0
    assets: int = 20
    asset_bytes: int = 64 * 1024
    clients: int = 8
    rounds: int = 1
    anew: int = 0
    before: int = 20
    check: bool = True
    seed: int = 1


class Round(Struct, frozen=True):
    """One backup, restored and examined."""

    name: str
    seconds: float
    file_bytes: int
    jobs: int
    files: int
    new_bytes: int
    restore_s: float
    lost: tuple[str, ...]
    faults: tuple[str, ...]


@dataclass
class Told:
    """What clients were told was done: jobs, and files by id with digest and path. ``waits`` has a
    moment and a latency for each submission."""

    jobs: list[str] = field(default_factory=list)
    files: dict[str, tuple[str, str]] = field(default_factory=dict)
    waits: list[tuple[float, float]] = field(default_factory=list)
    refused: int = 0

    def p99_ms(self, since: float, until: float) -> float:
        found = sorted(wait for at, wait in self.waits if since <= at < until)
        return found[int(len(found) * 0.99)] * 1000 if found else 0.0

    def rate(self, since: float, until: float) -> float:
        return sum(since <= at < until for at, _ in self.waits) / (until - since)


class Load:
    """Clients that make jobs, and one that sends files and takes every other one back."""

    def __init__(self, home: Place, drill: Drill) -> None:
        self._home = home
        self._drill = drill
        self._random = Random(drill.seed)
        self._over = False
        self._at_work = anyio.Event()
        self._at_work.set()
        self.told = Told()

    @asynccontextmanager
    async def under_way(self) -> AsyncIterator[Told]:
        async with anyio.create_task_group() as group:
            for number in range(self._drill.clients):
                group.start_soon(self._submit, number)
            group.start_soon(self._send)
            try:
                yield self.told
            finally:
                self._over = True

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Whoever waits for an answer gets it, and asks no more for now."""
        self._at_work = anyio.Event()
        try:
            yield
        finally:
            self._at_work.set()

    async def fill(self) -> None:
        """The library as it is at the beginning."""
        ahead = iter(range(self._drill.assets))

        async def some() -> None:
            for _ in ahead:
                await self._sent()

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(some)

    async def _submit(self, number: int) -> None:
        workflow = "hello" if number % 4 == 0 else "howera"
        more = {"params": {"name": "Ada"}} if workflow == "hello" else {}
        while not self._over:
            await self._at_work.wait()
            began = monotonic()
            said = await self._home.post("/jobs", {"workflow": workflow, **more})
            if said.status != 201:
                self.told.refused += 1
                await anyio.sleep(0.02)
                continue
            self.told.waits.append((began, monotonic() - began))
            self.told.jobs.append(said.body["id"])

    async def _send(self) -> None:
        while not self._over:
            await self._at_work.wait()
            await self._sent()
            asset_id, _, _ = await self._made()
            gone = await self._home.ask("DELETE", f"/assets/{asset_id}")
            assert gone.status in (0, 204), gone
            await anyio.sleep(0.02)

    async def _sent(self) -> None:
        asset_id, sha256, path = await self._made()
        if asset_id:
            self.told.files[asset_id] = (sha256, path)

    async def _made(self) -> tuple[str, str, str]:
        data = self._random.randbytes(self._random.randrange(1, self._drill.asset_bytes))
        said = await self._home.upload("/assets?name=a.bin", data)
        if said.status != 201:
            self.told.refused += 1
            return "", "", ""
        assert said.body["sha256"] == hashlib.sha256(data).hexdigest()
        return said.body["id"], said.body["sha256"], said.body["storage_path"]


async def drilled(
    folder: Path, drill: Drill, say: Callable[[str], None] = lambda line: None
) -> list[Round]:
    """Every round of it. What is lost or wrong stands in the rounds."""
    rounds: list[Round] = []
    while len(rounds) < drill.rounds:
        part = folder / f"from-{len(rounds) + 1}"
        most = min(drill.anew or drill.rounds, drill.rounds - len(rounds))
        rounds += await _part(part, replace(drill, rounds=most), say)
        shutil.rmtree(part)
    return rounds


async def _part(folder: Path, drill: Drill, say: Callable[[str], None]) -> list[Round]:
    async with place(folder / "home", outside=True) as home:
        await home.start()
        if drill.jobs:
            await _grown(home, drill.jobs)
        load, rounds = Load(home, drill), []
        await load.fill()
        say(f"{home.database.stat().st_size / 1e6:.0f} MB, {len(load.told.files)} files")
        async with load.under_way():
            for number in range(drill.rounds):
                found = await _round(home, folder, load, drill, say)
                rounds.append(found)
                say(f"round {number + 1}: {found}")
        assert await home.stop() == 0
        return rounds


async def _grown(home: Place, jobs: int) -> None:
    """The service makes the patterns."""
    made = [await home.submit("hello", params={"name": f"n{number}"}) for number in range(40)]
    for job in made:
        await home.at(job["id"], "greeted")
    assert await home.stop() == 0
    await grow(str(home.database), Growth(jobs))
    await home.start()


async def _round(
    home: Place, folder: Path, load: Load, drill: Drill, say: Callable[[str], None]
) -> Round:
    told, quiet = load.told, monotonic()
    first = len(told.jobs)
    await until(lambda: len(told.jobs) >= first + drill.before)
    jobs, files, began = list(told.jobs), dict(told.files), monotonic()
    made = await backed_up(home, folder / "backups")
    ended = monotonic()
    if drill.jobs:
        say(
            f"  submissions a second before {told.rate(quiet, began):.0f}, during "
            f"{told.rate(began, ended):.0f}; p99 before {told.p99_ms(quiet, began):.1f} ms, during "
            f"{told.p99_ms(began, ended):.1f} ms; refused {told.refused}"
        )
    with load.resting():
        restored, lost, faults = await _examined(folder, made, jobs, files, check=drill.check)
    return Round(
        made["name"], round(ended - began, 2), made["bytes"], len(jobs), len(files),
        made["new_bytes"], restored, tuple(lost[:5]), faults[:5],
    )  # fmt: skip


async def _examined(
    folder: Path, made: Any, jobs: list[str], files: dict[str, tuple[str, str]], *, check: bool
) -> tuple[float, list[str], tuple[str, ...]]:
    """How long its restore took, what is not in it, and what is wrong with it."""
    again, began = folder / "again", monotonic()
    await commanded(again, "db", "restore", str(folder / "backups"), "--at", made["name"])
    restored = round(monotonic() - began, 2)
    lost = await anyio.to_thread.run_sync(missing, again, jobs, files)
    faults: tuple[str, ...] = (f"{made['absent']} files were absent",) if made["absent"] else ()
    if check:
        faults += await anyio.to_thread.run_sync(check_file, str(again / "jobs.db"))
        backups = StoredBackups(str(folder / "backups"))
        faults += tuple(await anyio.to_thread.run_sync(list, backups.faults(made["name"])))
    shutil.rmtree(again)
    return restored, lost, faults


async def backed_up(home: Place, folder: Path) -> Any:
    """Ask for one, and follow it to its end."""
    said = await home.post("/admin/db/backup", {"folder": str(folder)})
    while said.status == 202:
        said = await home.ask("GET", "/admin/db/backup?wait=20")
    assert said.status == 200, said
    assert said.body["state"] == "done", said
    return said.body


async def commanded(folder: Path, *arguments: str) -> str:
    """One command in a folder whose settings put everything there; it must go well."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(RESTORED)
    done = await anyio.run_process(
        [sys.executable, "-m", "jobrunner", *arguments],
        cwd=folder,
        env={key: text for key, text in os.environ.items() if "JOBRUNNER_" not in key},
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout.decode()


def missing(folder: Path, jobs: list[str], files: dict[str, tuple[str, str]]) -> list[str]:
    """Whatever was acknowledged before, and is not there now."""
    with closing(sqlite3.connect(folder / "jobs.db")) as db:
        found = {uid for (uid,) in db.execute("SELECT uid FROM jobs WHERE created_at > 0")}
        rows = dict(db.execute("SELECT uid, storage_path FROM assets"))
    lost = [f"job {job_id}" for job_id in jobs if job_id not in found]
    for asset_id, (sha256, path) in files.items():
        at = folder / "assets" / path
        whole = at.is_file() and hashlib.sha256(at.read_bytes()).hexdigest() == sha256
        if rows.get(asset_id) != path or not whole:
            lost.append(f"file {asset_id} at {path}")
    return lost


def main() -> None:
    parser = argparse.ArgumentParser(prog="backing", description="Back up under load, and restore.")
    parser.add_argument("folder", type=Path)
    for name, kind in Drill.__annotations__.items():
        if kind is int:
            default = getattr(Drill(), name)
            parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--no-check", dest="check", action="store_false")
    given = vars(parser.parse_args())
    folder = given.pop("folder")

    def say(line: str) -> None:
        print(line, flush=True)

    rounds = anyio.run(drilled, folder, Drill(**given), say)
    bad = [one for one in rounds if one.lost or one.faults]
    took = statistics.median(one.seconds for one in rounds)
    print(f"{len(rounds)} backups, {len(bad)} of them not whole; median {took} s")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
