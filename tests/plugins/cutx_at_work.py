"""cutx with its real stages behind real HTTP, for tests with the built-in provider and with a
scripted one that is hired."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from jobrunner import app
from jobrunner.config.settings import (
    Config,
    CreditsSection,
    DownloadsSection,
    LimitsSection,
    RetrySettings,
    ServerSection,
    StoreSection,
    WebhookSettings,
    WorkflowSettings,
)
from tests.http.serving import Caller

VARIABLE = "CUTX_WEBHOOK_SECRET"
SOON = RetrySettings(base=0.02)
PATIENCE_S = 120
LAMP = {
    "name": "Lumen Desk Lamp",
    "description": "A lamp for people who read late.",
    "features": ["Warm light that dims by touch", "Folds flat"],
    "price": "59 EUR",
}
PRICES = {"copy": 1, "static_ad": 3, "tts": 2, "ugc_video": 40, "scrape": 0}
REST = ("completed", "failed", "canceled", "expired")


class Home:
    """A service with cutx in it, an admin, and ada, who has 100 credits."""

    def __init__(
        self,
        service: app.LiveService,
        session: aiohttp.ClientSession,
        folder: Path,
        log: list[Any],
    ) -> None:
        self.service = service
        self.folder = folder
        self.logged: list[dict[str, Any]] = log
        token = service.first_token or (folder / "admin.token").read_text().strip()
        self.admin = Caller(session, service.url, None, token)
        self.ada = Caller(session, service.url, None)

    async def settle(self) -> None:
        made = await self.admin.post("/admin/tokens", {"name": "ada", "role": "user"})
        self.ada.token = made.json["token"]

    async def order(self, job_type: str, **params: Any) -> str:
        job = await self.ada.submit("cutx", job_type=job_type, params=params)
        return str(job["id"])

    async def ad(self, **more: Any) -> str:
        return await self.order("static_ad", product_id="lamp-7", product=LAMP, **more)

    async def job(self, job_id: str) -> Any:
        return (await self.ada.get(f"/jobs/{job_id}")).json

    async def at(self, job_id: str, *statuses: str) -> Any:
        """The job as soon as it stands in one of these; for nothing if it rests elsewhere."""
        with anyio.fail_after(PATIENCE_S):
            while True:
                job = await self.job(job_id)
                if job["status"] in statuses:
                    return job
                assert job["status"] not in ("completed", "canceled"), job
                await anyio.sleep(0.01)

    async def attempts(self, job_id: str) -> list[dict[str, Any]]:
        return list((await self.admin.get(f"/jobs/{job_id}/attempts")).json["attempts"])

    async def parked(self, job_id: str, runs: int = 1) -> None:
        async def awaited() -> bool:
            found = await self.attempts(job_id)
            apart = {one["run_id"] for one in found}
            return len(apart) >= runs and found[-1]["status"] == "parked"

        await until(awaited)

    async def balance(self) -> int:
        return int((await self.ada.get("/credits")).json["balance"])

    async def files(self, job_id: str) -> list[tuple[dict[str, Any], bytes]]:
        found = (await self.ada.get(f"/jobs/{job_id}/assets")).json["assets"]
        return [(one, (await self.ada.get(f"/assets/{one['id']}/content")).raw) for one in found]

    async def path(self, job_id: str) -> list[str]:
        found = (await self.ada.get(f"/jobs/{job_id}/history")).json["history"]
        return [one["to_status"] for one in found]

    async def ledger(self, job_id: str) -> list[int]:
        """What the job has cost, entry by entry."""
        said = await self.ada.get("/credits/history")
        assert said.status == 200, said.raw
        found = said.json["history"]
        return [one["amount"] for one in reversed(found) if one["job_id"] == job_id]

    async def refunded(self, job_id: str, cost: int, runs: int = 1) -> None:
        """Every run was charged once and given back once."""
        assert await self.ledger(job_id) == [-cost, cost] * runs

    async def sound(self) -> None:
        checked = await self.admin.post("/admin/db/check")
        assert checked.status == 200, checked.raw
        assert checked.json["faults"] == [], checked.json

    def lines(self, event: str, job_id: str = "") -> list[dict[str, Any]]:
        about = [line for line in self.logged if line["event"] == event]
        return [line for line in about if not job_id or line["job_id"] == job_id]


async def until(holds: Callable[[], Any]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not await holds():
            await anyio.sleep(0.01)


@asynccontextmanager
async def home(
    folder: Path,
    *,
    credits: int = 100,
    public_url: str = "",
    max_size: int = 1024**3,
    limit_s: float = 120,
    **settings: Any,
) -> AsyncIterator[Home]:
    cutx = WorkflowSettings(
        settings=settings, retry={"processing": SOON}, limit={"processing": limit_s}
    )
    config = Config(
        server=ServerSection(port=0, drain_seconds=1, public_url=public_url),
        store=StoreSection(path=str(folder / "jobs.db"), assets=str(folder / "assets"), min_free=0),
        limits=LimitsSection(lag=0),
        credits=CreditsSection(initial=credits),
        downloads=DownloadsSection(max_size=max_size),
        workflows={"cutx": cutx},
        webhooks={"replicate": WebhookSettings((VARIABLE,))} if "provider_url" in settings else {},
    )
    logged: list[dict[str, Any]] = []

    def log(event: str, level: str = "info", **fields: Any) -> None:
        logged.append({"event": event, "level": level, **fields})

    async with app.running(config, log) as service, aiohttp.ClientSession() as session:
        here = Home(service, session, folder, logged)
        await here.settle()
        yield here
        await here.sound()
    bugs = [line for line in logged if line["event"] in ("http.fault", "actor.crashed")]
    assert not bugs, bugs


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "probe" not in path.name]


def orders_of(folder: Path) -> list[dict[str, Any]]:
    """The built-in provider's book."""
    found = (folder / "companions" / "cutx" / "orders").glob("*.json")
    return [json.loads(path.read_bytes()) for path in found]
