"""The service is killed at any point of a cutx job: it ends right after the restart, it is ordered
once, charged once, and brought home once; with the built-in provider and with a hired one."""

import os
import time
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from jobrunner.testing.providers import Delivery, Plan, ReplicateLike
from tests.plugins.cutx_at_work import VARIABLE, files_below, orders_of
from tests.ports import free_port
from tests.whole.process import Place, place, until

pytestmark = pytest.mark.anyio

SOON = """
[workflows.cutx.retry.processing]
base = "20ms"
cap = "50ms"
"""
PRICES = {"copy": 1, "static_ad": 3, "tts": 2, "ugc_video": 40}
PARAMS: dict[str, dict[str, Any]] = {
    "copy": {"product_id": "lamp-7"},
    "static_ad": {"product_id": "lamp-7", "product": {"name": "Lamp"}, "style": "bold"},
    "tts": {"text": "This is a lamp."},
    "ugc_video": {"product_id": "lamp-7", "script": "This is a lamp."},
}
INSISTENT = Delivery(tries=100, pause_s=0.1)


class Kills:
    """Rounds of: order, wait a while, kill, start, and look that all is well."""

    def __init__(self, here: Place, random: Random, types: tuple[str, ...]) -> None:
        self.here = here
        self.random = random
        self.types = types
        self.jobs: dict[str, str] = {}
        self.slowest_s = 0.0

    async def round(self) -> None:
        fresh = [await self._ordered(kind) for kind in self.types]
        for _ in range(self.random.randrange(100)):
            await anyio.sleep(0.01)
        if not self.random.randrange(8):
            self.here.signal(15)
        await self.here.kill()
        await nobody_at_work(self.here.folder)
        if not self.random.randrange(6):
            self.here.spawn()
            for _ in range(self.random.randrange(80)):
                await anyio.sleep(0.01)
            await self.here.kill()
        await self.here.start()
        began = time.monotonic()
        for job_id in fresh:
            await self._ended_well(job_id)
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    async def _ordered(self, kind: str) -> str:
        job = await self.here.submit("cutx", job_type=kind, params=PARAMS[kind])
        self.jobs[job["id"]] = kind
        return str(job["id"])

    async def _ended_well(self, job_id: str) -> None:
        job = await self.here.at(job_id, "completed", "failed", "expired", "canceled")
        assert job["status"] == "completed", job
        found = await self.here.get(f"/jobs/{job_id}/assets")
        assert len(found["assets"]) == (self.jobs[job_id] != "copy"), found

    async def books(self) -> None:
        """Each job was charged once, and nothing was given back."""
        paid: dict[str, list[tuple[str, int]]] = {}
        cursor = ""
        while True:
            page = await self.here.get(f"/credits/history?limit=100{cursor}")
            for entry in page["history"]:
                if entry["job_id"]:
                    paid.setdefault(entry["job_id"], []).append((entry["kind"], entry["amount"]))
            if not page["next_cursor"]:
                break
            cursor = f"&cursor={page['next_cursor']}"
        wanted = {job_id: [("charge", -PRICES[kind])] for job_id, kind in self.jobs.items()}
        assert paid == wanted
        checked = await self.here.post("/admin/db/check")
        assert checked.body["faults"] == []

    async def shelves(self) -> None:
        """A file that was put down in the instant before a death belongs to nobody. It goes at the
        next start after a day; what belongs to jobs stays."""
        root = self.here.folder / "data" / "assets"
        assert await self.here.stop() == 0
        made = sum(kind != "copy" for kind in self.jobs.values())
        assert len(files_below(root)) >= made
        for path in files_below(root):
            os.utime(path, (0, 0))
        await self.here.start()
        await until(lambda: len(files_below(root)) == made)
        checked = await self.here.post("/admin/db/check")
        assert checked.body["faults"] == []

    def ordered_once(self, keys: list[str]) -> None:
        """Nothing was asked for under two keys in one run."""
        jobs = [key.split(":")[0] for key in keys]
        assert sorted(jobs) == sorted(job for job, kind in self.jobs.items() if kind != "copy")


async def nobody_at_work(folder: Path) -> None:
    """What the built-in provider had started ends with it."""
    with anyio.fail_after(120):
        while _benches(folder):
            await anyio.sleep(0.01)


def _benches(folder: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if b"companions/cutx" in line and os.fsencode(folder) in line:
            found.append(line.decode(errors="replace"))
    return found


async def with_the_studio(folder: Path, rounds: int, types: tuple[str, ...]) -> None:
    async with place(folder, more=SOON, credits=1_000_000) as here:
        await here.start()
        kills = Kills(here, Random(rounds), types)
        for _ in range(rounds):
            await kills.round()
        await kills.books()
        await kills.shelves()
        orders = orders_of(folder / "data")
        assert {order["status"] for order in orders} == {"succeeded"}
        kills.ordered_once([order["repeat_key"] for order in orders])
        assert await here.stop() == 0
        assert here.faults() == ()
        await nobody_at_work(folder)
    print(f"\n{rounds} kills, {len(kills.jobs)} jobs; slowest end {kills.slowest_s:.1f} s")


async def with_a_hired_one(folder: Path, provider: ReplicateLike, rounds: int) -> None:
    """Its webhooks go to one address, so the service has one; it insists."""
    random = Random(rounds)
    more = f"""{SOON}
[workflows.cutx.settings]
provider_url = "{provider.url}/v1"
[webhooks.replicate]
secrets_env = ["{VARIABLE}"]
"""
    async with place(folder, more=more, credits=1_000_000) as here:
        here.configure(here.config.replace("port = 0", f"port = {free_port()}"))
        await here.start()
        kills = Kills(here, random, ("static_ad", "static_ad"))
        for _ in range(rounds):
            how = Plan(takes_s=random.random() / 4, webhook=INSISTENT)
            early = Plan(webhook=Delivery(tries=100, early=True))
            provider.plan(how, early if not random.randrange(4) else how)
            await kills.round()
        await kills.books()
        await kills.shelves()
        assert await here.stop() == 0
        assert here.faults() == ()
    provider_knows = {call.key for call in provider.calls.of("create") if call.worked}
    assert provider_knows == {call.key for call in provider.calls.of("create")}
    kills.ordered_once(sorted(provider_knows))
    assert len(provider.predictions) == len(kills.jobs)
    print(f"\n{rounds} kills, {len(kills.jobs)} jobs; slowest end {kills.slowest_s:.1f} s")


async def test_killed_three_times_with_the_studio(tmp_path: Path) -> None:
    """C9 C22 C24 C25 C26 C38: R1 R3 R6."""
    await with_the_studio(tmp_path, 3, ("static_ad", "copy"))


async def test_killed_three_times_with_a_hired_provider(
    tmp_path: Path, replicate_like: ReplicateLike, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C9 C24 C26 C38: R1 R3 R6."""
    monkeypatch.setenv(VARIABLE, replicate_like.secret)
    await with_a_hired_one(tmp_path, replicate_like, 3)


@pytest.mark.long
async def test_killed_often_with_the_studio(tmp_path: Path) -> None:
    """C9 C22 C24 C25 C26 C38: R1 R3 R6, at length."""
    await with_the_studio(tmp_path, 60, ("static_ad", "copy", "tts"))


@pytest.mark.long
async def test_killed_often_while_filming(tmp_path: Path) -> None:
    """C24 C26 C38: with more processes to end."""
    await with_the_studio(tmp_path, 20, ("ugc_video",))


@pytest.mark.long
async def test_killed_often_with_a_hired_provider(
    tmp_path: Path, replicate_like: ReplicateLike, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C9 C24 C26 C38: R1 R3 R6, at length."""
    monkeypatch.setenv(VARIABLE, replicate_like.secret)
    await with_a_hired_one(tmp_path, replicate_like, 60)
