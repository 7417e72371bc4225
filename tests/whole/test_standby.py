"""Another machine takes over: from one that was killed, and from one that only stood still."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus

from tests.whole.process import PATIENCE_S, Place, place, until

pytestmark = pytest.mark.anyio

SETTINGS = """
[standby]
path = "{copy}"
lag = {lag}
lease = {lease}
"""
LEASE_S = 4
SENDERS = 6


@dataclass
class Acknowledged:
    """When it was sent and acknowledged, and what was promised."""

    sent: float
    at: float
    job_id: str
    version: int


@dataclass
class Told:
    """All that one life has acknowledged."""

    lag_s: float
    all: list[Acknowledged] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)


class Pair:
    """Two machines and the place of the copy. ``here`` serves, ``there`` is the other one."""

    def __init__(self, here: Place, there: Place, copy: Path | str, more: str = "") -> None:
        self.here, self.there, self.copy, self.more = here, there, copy, more
        self.config = here.config

    def configure(self, lag_s: float) -> None:
        more = SETTINGS.format(copy=self.copy, lag=lag_s, lease=LEASE_S) + self.more
        for one in (self.here, self.there):
            one.configure(self.config + more)

    async def begin(self) -> None:
        await self.here.start()
        self.there.tokens = self.here.tokens

    async def take_over(self) -> dict[str, float]:
        """The other one serves; how long each part took."""
        began = monotonic()
        said = await run(self.there, "standby", "--take-over")
        taken = monotonic()
        assert said.returncode == 0, said.stdout
        await self.there.start()
        self.here, self.there = self.there, self.here
        return {"taken_s": taken - began, "serves_s": monotonic() - began}

    async def load(self, told: Told, *, task_status: TaskStatus[anyio.CancelScope]) -> None:
        """Senders that go on until they are called off."""
        async with anyio.create_task_group() as group:
            for _ in range(SENDERS):
                group.start_soon(self.send, self.here, told)
            task_status.started(group.cancel_scope)

    async def send(self, home: Place, told: Told) -> None:
        while True:
            sent = monotonic()
            said = await home.try_to("POST", "/jobs", {"workflow": "howera"})
            if said.status == 201:
                job = said.body
                told.all.append(Acknowledged(sent, monotonic(), job["id"], job["version"]))
            else:
                told.refused.append(said.status)
                await anyio.sleep(0.01)


async def run(home: Place, *words: str) -> Any:
    (home.folder / "config.toml").write_text(home.config)
    command = [sys.executable, "-m", "jobrunner", *words, "--config", "config.toml"]
    return await asyncio.to_thread(
        subprocess.run, command, cwd=home.folder, capture_output=True, text=True, check=False
    )


def lost(home: Place, told: Told) -> list[Acknowledged]:
    """What was acknowledged and is not there."""
    with closing(sqlite3.connect(home.database)) as db:
        found = dict(db.execute("SELECT uid, version FROM jobs"))
    return [one for one in told.all if found.get(one.job_id, 0) < one.version]


def demand_lag(told: Told, missing: list[Acknowledged]) -> float:
    """Whatever is lost was younger than the lag when the last thing was sent that was acknowledged:
    no clock but the sender's own, and no patience."""
    if not missing:
        return 0
    span = max(one.sent for one in told.all) - min(one.at for one in missing)
    assert span < told.lag_s, f"{len(missing)} lost, over {span:.3f} s"
    return span


async def one_kill(pair: Pair, lag_s: float, acks: int, *, stopped: bool) -> str:
    told, before = Told(lag_s), pair.here
    async with anyio.create_task_group() as group:
        load = await group.start(pair.load, told)
        await until(lambda: len(told.all) >= acks)
        before.signal(signal.SIGSTOP if stopped else signal.SIGKILL)
        if not stopped:
            await before.ended()
            load.cancel()
        took = await pair.take_over()
        count = len(told.all)
        if stopped:
            os.kill(before.pid, signal.SIGCONT)
            assert await before.ended() == -signal.SIGALRM, "the system ends it before it goes on"
            load.cancel()
            assert len(told.all) == count, "it acknowledged what nobody has"
    missing = lost(pair.here, told)
    span = demand_lag(told, missing)
    assert pair.here.faults() == ()
    again = await run(before, "serve")
    assert again.returncode != 0
    assert "taken over" in again.stderr
    how = "stopped" if stopped else "killed"
    return (
        f"{how}, lag {lag_s}: acknowledged {len(told.all)}, lost {len(missing)} of the last "
        f"{span:.3f} s, serves after {took['serves_s']:.1f} s"
    )


@contextmanager
def unmounted(copy: Path) -> Iterator[None]:
    away = copy.with_name("away")
    copy.rename(away)
    yield
    away.rename(copy)


async def out_of_reach(pair: Pair, away: AbstractContextManager[None]) -> None:
    """The place is away for longer than the lease, and comes back with the token as it was."""
    home = pair.here
    standing = (await home.get("/admin/db"))["standby"]
    assert (standing["path"], standing["epoch"], standing["fault"]) == (str(pair.copy), 1, "")
    before = await home.post("/jobs", {"workflow": "howera"})
    said = before
    with away:
        with anyio.fail_after(PATIENCE_S):
            while said.status == 201:
                said = await home.post("/jobs", {"workflow": "howera"})
            assert (said.status, said.code) == (503, "LEASE_OVER"), said
            while (await home.ask("GET", f"/jobs/{before.body['id']}")).status != 503:
                continue
        assert (await home.ask("GET", "/healthz")).status == 200
        ready = await home.ask("GET", "/readyz")
        assert str(pair.copy) in ready.body["warnings"]["standby"]
        assert (ready.status, bool(ready.body["checks"]["standby"])) == (503, True)
    with anyio.fail_after(PATIENCE_S):
        while said.status == 503:
            said = await home.post("/jobs", {"workflow": "howera"})
    assert said.status == 201


async def kill_again_and_again(
    folder: Path,
    kills: int,
    lags: tuple[float, ...],
    copy: Path | str = "",
    away: AbstractContextManager[None] | None = None,
    more: str = "",
) -> list[str]:
    """``copy`` is its place, which can be ``away``, and ``more`` what the settings say of it."""
    found: list[str] = []
    async with (
        place(folder / "a", credits=1_000_000, outside=True) as one,
        place(folder / "b", credits=1_000_000, outside=True) as two,
    ):
        pair = Pair(one, two, copy or folder / "copy", more)
        pair.configure(lags[0])
        await pair.begin()
        await out_of_reach(pair, away or unmounted(folder / "copy"))
        for number in range(kills):
            lag_s, after = lags[number % len(lags)], lags[(number + 1) % len(lags)]
            pair.configure(after)
            acks = 20 + number * 37 % 150
            found.append(await one_kill(pair, lag_s, acks, stopped=number % 4 == 1))
            print(found[-1], flush=True)
    return found


async def test_another_machine_takes_over(tmp_path: Path) -> None:
    await kill_again_and_again(tmp_path, 2, (1.0, 0))


@pytest.mark.long
async def test_another_machine_takes_over_again_and_again(tmp_path: Path) -> None:
    await kill_again_and_again(tmp_path, 50, (1.0, 0, 0.2))
