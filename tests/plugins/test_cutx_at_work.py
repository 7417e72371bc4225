"""cutx with its real stages behind real HTTP: every type with the built-in provider, and with a
scripted one everything that goes wrong between a provider and us."""

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
from PIL import Image

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
from jobrunner.testing.providers import (
    Cut,
    Delivery,
    Endless,
    Fault,
    Hang,
    Made,
    Nonsense,
    OpenAILike,
    Page,
    Plan,
    Redirected,
    Refusal,
    ReplicateLike,
    Slow,
    Status,
    busy,
    signed,
)
from tests.http.serving import Caller, Said
from tests.whole.living import Told

pytestmark = pytest.mark.anyio

VARIABLE = "CUTX_WEBHOOK_SECRET"
SOON = RetrySettings(base=0.02)
PATIENCE_S = 60
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


@pytest.fixture
async def studio(tmp_path: Path, anyio_backend: object) -> AsyncIterator[Home]:
    """With the built-in provider."""
    async with home(tmp_path) as here:
        yield here


@pytest.fixture
async def provider(replicate_like: ReplicateLike, monkeypatch: pytest.MonkeyPatch) -> ReplicateLike:
    monkeypatch.setenv(VARIABLE, replicate_like.secret)
    return replicate_like


@pytest.fixture
async def hired(tmp_path: Path, provider: ReplicateLike) -> AsyncIterator[Home]:
    """With the scripted provider."""
    async with home(tmp_path, provider_url=f"{provider.url}/v1") as here:
        yield here


# ------------------------------------------------------------ the built-in provider


async def test_copy_is_answered_at_once(studio: Home) -> None:
    """C3 C18 C19 C22 C23 C25 C34 C36: five variants in the answer, charged once, also when asked
    again."""
    body = {
        "product_id": "lamp-7",
        "product": LAMP,
        "platform": "meta",
        "tone": "bold",
        "idempotency_key": "lamp-7-copy-v1",
    }
    said = await studio.ada.post("/api/generate/copy", body)
    assert said.status == 200, said.raw
    assert said.json["status"] == "completed"
    assert len({variant["text"] for variant in said.json["variants"]}) == 5
    assert all(len(variant["text"]) <= 125 for variant in said.json["variants"])
    assert (said.json["credits_used"], said.json["credits_remaining"]) == (1, 99)
    again = await studio.ada.post("/api/generate/copy", body)
    assert again.json["replayed"]
    assert again.json["variants"] == said.json["variants"]
    assert await studio.balance() == 99
    assert await studio.path(said.json["job_id"]) == ["pending", "processing", "completed"]


async def test_an_ad_is_drawn(studio: Home) -> None:
    """C2 C6 C9 C21 C24 C26 C44 C45 C47: ordered, signed back, brought home, then completed."""
    said = await studio.ada.post(
        "/api/generate/static-ad",
        {"productId": "lamp-7", "product": LAMP, "style": "bold", "aspectRatio": "16:9"},
    )
    job_id = said.json["job_id"]
    assert said.json["status"] in ("queued", "processing")
    job = await studio.at(job_id, *REST)
    assert job["status"] == "completed", job
    [(asset, content)] = await studio.files(job_id)
    with Image.open(io.BytesIO(content)) as picture:
        picture.load()
        assert (picture.format, picture.size) == ("PNG", (1920, 1080))
        assert len(picture.convert("RGB").getcolors(2**24) or []) > 500
    assert job["result"]["asset_id"] == asset["id"]
    assert job["result"]["file_size"] == len(content)
    assert await studio.path(job_id) == ["pending", "queued", "processing", "completed"]
    assert await studio.ledger(job_id) == [-3]
    [created] = studio.lines("job.created", job_id)
    assert (created["job_type"], created["credits_cost"]) == ("static_ad", 3)
    assert studio.lines("job.completed", job_id)
    moves = [
        (line["from_status"], line["to_status"]) for line in studio.lines("job.transition", job_id)
    ]
    assert moves[-1] == ("processing", "completed")


async def test_a_film_is_made(studio: Home) -> None:
    """C19 C24 C26: a real film, with pictures that move."""
    said = await studio.ada.post(
        "/api/generate/video", {"product_id": "lamp-7", "script": "This is a lamp. I like it."}
    )
    job = await studio.at(said.json["job_id"], *REST)
    assert job["status"] == "completed", job
    [(_, content)] = await studio.files(job["id"])
    assert content[4:8] == b"ftyp"
    assert await studio.ledger(job["id"]) == [-40]


async def test_a_text_is_read_aloud_or_refused_with_a_reason(studio: Home) -> None:
    """C24 C30 C31 C32: where there is a voice it speaks; where there is none it costs nothing."""
    job = await studio.at(await studio.order("tts", text="Hello, this is a lamp."), *REST)
    if job["status"] == "completed":
        [(_, content)] = await studio.files(job["id"])
        assert content[:4] == b"RIFF"
        assert await studio.ledger(job["id"]) == [-2]
    else:
        assert "voice" in job["failure_message"]
        await studio.refunded(job["id"], 2)


async def test_webhooks_of_the_built_in_provider_take_the_short_way(tmp_path: Path) -> None:
    """C26: whatever the public address is; nothing that stays in the house goes out of it."""
    async with home(tmp_path, public_url="https://jobs.example.com/cutx") as here:
        job = await here.at(await here.ad(), *REST)
        assert job["status"] == "completed", job


@pytest.mark.parametrize("count", [8, pytest.param(100, marks=pytest.mark.long)])
async def test_many_orders_at_once(tmp_path: Path, count: int) -> None:
    """C24: two benches: each order is made once."""
    async with home(tmp_path, credits=100 + 3 * count) as here:
        jobs = [await here.ad(style="minimal") for _ in range(count)]
        for job_id in jobs:
            assert (await here.at(job_id, *REST))["status"] == "completed"
        assert await here.balance() == 100
        orders = orders_of(tmp_path)
        assert len(orders) == len({order["repeat_key"] for order in orders}) == count


def orders_of(folder: Path) -> list[dict[str, Any]]:
    """The built-in provider's book."""
    found = (folder / "companions" / "cutx" / "orders").glob("*.json")
    return [json.loads(path.read_bytes()) for path in found]


async def test_an_order_that_is_not_wanted_is_put_down(studio: Home) -> None:
    """C11 C29: canceled while the provider is at work; it is told, and stops."""
    job_id = await studio.order("ugc_video", product_id="lamp-7", script="One. Two. Three. Four.")
    await studio.parked(job_id)
    assert (await studio.ada.post(f"/jobs/{job_id}/cancel")).status == 200
    await studio.refunded(job_id, 40)

    async def stopped() -> bool:
        return [order["status"] for order in orders_of(studio.folder)] == ["canceled"]

    await until(stopped)
    assert (await studio.job(job_id))["status"] == "canceled"


async def test_a_page_is_read(tmp_path: Path) -> None:
    """C3 C23 C25: for nothing."""
    html = b"<html><head><meta property='og:title' content='Lamp'></head><body></body></html>"
    async with OpenAILike() as site:
        url = site.keep("page", Made(html, "text/html; charset=utf-8", "html"))
        async with home(tmp_path, writer_url=site.url) as here:
            job = await here.at(await here.order("scrape", url=url), *REST)
            assert job["status"] == "completed", job
            assert job["result"]["product"]["name"] == "Lamp"
            assert await here.ledger(job["id"]) == []


PAGES: dict[str, tuple[Made, Fault | None, str]] = {
    "no page": (Made(b"%PDF-1.4", "application/pdf", "pdf"), None, "NO_PAGE"),
    "nothing in it": (Made(b"", "text/html", "html"), None, "PRODUCT_NOT_FOUND"),
    "no end of it": (Made(b"<p>", "text/html", "html"), Endless(), "DOWNLOAD_TOO_LARGE"),
    "an inner address": (Made(b"<p>", "text/html", "html"), Redirected(), "DOWNLOAD_REFUSED"),
    "gone": (Made(b"<p>", "text/html", "html"), Status(404), "REMOTE_REFUSED"),
}


@pytest.mark.parametrize("case", PAGES)
async def test_a_page_that_tells_nothing(tmp_path: Path, case: str) -> None:
    """C10 C30 C31: what will be no page next time either is not tried again."""
    made, fault, code = PAGES[case]
    async with OpenAILike() as site:
        url = site.keep("page", made)
        site.script("files", fault)
        async with home(tmp_path, writer_url=site.url) as here:
            job = await here.at(await here.order("scrape", url=url), *REST)
            assert job["status"] == "failed", job
            assert job["failure_code"] == code, (job["failure_code"], job)
            assert job["failure_message"]
            assert len(await here.attempts(job["id"])) == 1


# ------------------------------------------------------------ webhooks


async def test_a_hired_provider_walks_the_same_way(hired: Home, provider: ReplicateLike) -> None:
    """C24 C26: order, webhook, download; one order under one key."""
    job = await hired.at(await hired.ad(), *REST)
    assert job["status"] == "completed", job
    [(_, content)] = await hired.files(job["id"])
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(provider.calls.of("create")) == 1
    provider.never_twice("create")
    [asked] = provider.calls.of("create")
    assert asked.json["input"]["product"]["name"] == LAMP["name"]
    assert "Lumen Desk Lamp. A lamp for people who read late" in asked.json["input"]["prompt"]
    assert None not in asked.json["input"].values()
    assert asked.json["webhook"] == f"{hired.service.url}/webhooks/replicate"
    assert not [call for call in provider.calls if call.route == "cancel"]


async def test_it_stays_in_processing_while_it_waits(hired: Home, provider: ReplicateLike) -> None:
    """C27: and is completed by a webhook that comes late."""
    provider.plan(Plan(webhook=Delivery(held=True)))
    job_id = await hired.ad()
    await hired.parked(job_id)
    assert (await hired.job(job_id))["status"] == "processing"
    provider.release()
    assert (await hired.at(job_id, *REST))["status"] == "completed"


DELIVERIES = {
    "early": Delivery(early=True),
    "twice": Delivery(times=2),
    "five times, early": Delivery(times=5, early=True),
    "a forged secret first": Delivery(forged="secret"),
    "a forged body first": Delivery(forged="body"),
    "an old one first": Delivery(forged="old"),
}


@pytest.mark.parametrize("how", DELIVERIES)
async def test_webhooks_that_come_otherwise(hired: Home, provider: ReplicateLike, how: str) -> None:
    """C26 C38: early, again and again, or after a forged one: one effect, of the right one."""
    provider.plan(Plan(webhook=DELIVERIES[how]))
    job_id = await hired.ad()
    assert (await hired.at(job_id, *REST))["status"] == "completed"
    await provider.delivered(DELIVERIES[how].times)
    assert len(await hired.files(job_id)) == 1
    assert await hired.ledger(job_id) == [-3]
    forged = [sent for sent in provider.sent if sent.forged]
    assert all(sent.answered == 401 for sent in forged), forged
    assert (await hired.path(job_id)).count("completed") == 1


async def test_a_lost_webhook_expires_the_job(tmp_path: Path, provider: ReplicateLike) -> None:
    """C12 C28: refunded; the provider is told to stop; what still comes has no effect."""
    provider.plan(Plan(webhook=Delivery(held=True)))
    async with home(tmp_path, provider_url=f"{provider.url}/v1", await_s=0.2) as here:
        job_id = await here.ad()
        job = await here.at(job_id, *REST)
        assert job["status"] == "expired", job
        await here.refunded(job_id, 3)
        provider.release()
        await provider.delivered()
        assert provider.sent[-1].answered == 200
        assert (await here.job(job_id))["status"] == "expired"
        assert await here.files(job_id) == []
        await provider.called("cancel")


@pytest.mark.parametrize("ends", ["failed", "canceled"])
async def test_a_failed_prediction(hired: Home, provider: ReplicateLike, ends: Any) -> None:
    """C10 C30 C31 C32 C33 C42 C48: paid for there, so not tried again by itself."""
    provider.plan(Plan(ends, error="CUDA out of memory" if ends == "failed" else ""))
    job_id = await hired.ad()
    job = await hired.at(job_id, *REST)
    assert (job["status"], job["failure_code"]) == ("failed", "PREDICTION_FAILED")
    assert ("CUDA" in job["failure_message"]) == (ends == "failed")
    assert job["failed_stage"]
    assert job["correlation_id"]
    await hired.refunded(job_id, 3)
    assert len(provider.calls.of("create")) == 1
    [line] = hired.lines("job.failed", job_id)
    assert line["refund"] == 3
    assert line["failure_code"] == "PREDICTION_FAILED"
    listed = (await hired.admin.get("/admin/dead-letters")).json
    assert job_id in json.dumps(listed)


async def test_content_that_the_provider_refuses(hired: Home, provider: ReplicateLike) -> None:
    """C10 C32: no reason to try again, and given back: cutx knows no forfeit."""
    provider.script("create", Refusal())
    job_id = await hired.ad()
    job = await hired.at(job_id, *REST)
    assert (job["status"], job["failure_code"]) == ("failed", "SAFE_BLOCK")
    await hired.refunded(job_id, 3)


# ------------------------------------------------------------ what goes wrong on the way

PASSING: dict[str, tuple[str, tuple[Fault | None, ...]]] = {
    "500 twice": ("create", (Status(500), Status(503))),
    "busy": ("create", (busy(0),)),
    "cut before the answer": ("create", (Cut(),)),
    "cut in the answer": ("create", (Cut(after=20),)),
    "done, and not said": ("create", (Status(500, done=True), Cut(done=True))),
    "slow": ("create", (Slow(piece=64, pause_s=0.001),)),
    "download: 500 twice": ("files", (Status(500), Status(502))),
    "download: busy": ("files", (busy(0),)),
    "download: cut": ("files", (Cut(after=40), Cut(after=60))),
}


@pytest.mark.parametrize("case", PASSING)
async def test_what_passes_is_tried_again(hired: Home, provider: ReplicateLike, case: str) -> None:
    """C38 C42: up to three attempts, one order, one charge, one file."""
    route, faults = PASSING[case]
    provider.script(route, *faults)
    job_id = await hired.ad()
    job = await hired.at(job_id, *REST)
    assert job["status"] == "completed", job
    assert len(await hired.files(job_id)) == 1
    assert await hired.ledger(job_id) == [-3]
    provider.never_twice("create")
    assert len(provider.predictions) == 1
    assert await hired.path(job_id) == ["pending", "queued", "processing", "completed"]


STAYING: dict[str, tuple[str, Fault, str, int]] = {
    "500": ("create", Status(500), "REMOTE_FAILED", 3),
    "busy": ("create", busy(0), "RATE_LIMITED", 3),
    "401": ("create", Status(401), "REMOTE_REFUSED", 1),
    "422": ("create", Status(422), "REMOTE_REFUSED", 1),
    "nonsense": ("create", Nonsense(), "BAD_ANSWER", 1),
    "a page": ("create", Page(), "BAD_ANSWER", 1),
    "an inner address": ("create", Redirected(), "REMOTE_REFUSED", 1),
    "no end": ("create", Endless(), "DOWNLOAD_TOO_LARGE", 1),
    "download: a page as an image": ("files", Page("image/png"), "DOWNLOAD_WRONG_TYPE", 1),
    "download: a page": ("files", Page(), "DOWNLOAD_WRONG_TYPE", 1),
    "download: gone": ("files", Status(404), "REMOTE_REFUSED", 1),
    "download: an inner address": ("files", Redirected(), "DOWNLOAD_REFUSED", 1),
    "download: 500": ("files", Status(500), "REMOTE_FAILED", 3),
    "download: no end": ("files", Endless(), "DOWNLOAD_TOO_LARGE", 1),
}


@pytest.mark.parametrize("case", STAYING)
async def test_what_stays_fails_and_is_refunded(
    tmp_path: Path, provider: ReplicateLike, case: str
) -> None:
    """C10 C30 C31 C32 C42 C48: classed, told in four fields, given back, nothing left behind."""
    route, fault, code, attempts = STAYING[case]
    provider.always(route, fault)
    url = f"{provider.url}/v1"
    async with home(tmp_path, provider_url=url, max_size=1024**2) as here:
        job_id = await here.ad()
        job = await here.at(job_id, *REST)
        assert job["status"] == "failed", job
        assert job["failure_code"] == code, job
        assert job["failure_message"]
        assert job["failed_stage"]
        assert job["correlation_id"]
        assert len(await here.attempts(job_id)) == attempts
        await here.refunded(job_id, 3)
        assert await here.files(job_id) == []
        provider.never_twice("create")
    assert files_below(tmp_path / "assets") == []


async def test_a_provider_that_hangs_for_a_while(tmp_path: Path, provider: ReplicateLike) -> None:
    """C38 C42: the attempt's time is over; the next one asks under the same key, and what was done
    meanwhile counts."""
    provider.script("create", Hang(done=True), None)
    async with home(tmp_path, limit_s=1, provider_url=f"{provider.url}/v1") as here:
        job_id = await here.ad()
        assert (await here.at(job_id, *REST))["status"] == "completed"
        found = await here.attempts(job_id)
        assert found[0]["failure_code"] == "STAGE_TIMEOUT", found
        assert len(provider.predictions) == len(provider.calls.keys("create")) == 1
        assert await here.ledger(job_id) == [-3]


async def test_a_provider_that_never_answers(tmp_path: Path, provider: ReplicateLike) -> None:
    """C11 C29: a job can be canceled in the middle of its order."""
    provider.script("create", Hang(done=True), None)
    async with home(tmp_path, provider_url=f"{provider.url}/v1") as here:
        job_id = await here.ad()
        await provider.called("create")
        assert (await here.ada.post(f"/jobs/{job_id}/cancel")).status == 200
        await here.refunded(job_id, 3)
        assert (await here.at(job_id, *REST, "canceled"))["status"] == "canceled"


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "probe" not in path.name]


# ------------------------------------------------------------ cancel and retry


async def test_canceled_while_it_waits(hired: Home, provider: ReplicateLike) -> None:
    """C11 C29 C32: refunded in the same commit; the provider is told; its news come too late."""
    provider.plan(Plan("never"))
    job_id = await hired.ad()
    await hired.parked(job_id)
    said = await hired.ada.post(f"/jobs/{job_id}/cancel")
    assert (said.status, said.json["status"]) == (200, "canceled")
    await hired.refunded(job_id, 3)
    await provider.called("cancel")
    await provider.delivered()
    [prediction] = provider.predictions.values()
    assert prediction.status == "canceled"
    assert provider.sent[-1].answered == 200
    assert (await hired.ada.post(f"/jobs/{job_id}/cancel")).code == "TERMINAL_STATE"
    [line] = hired.lines("stage.abandoned", job_id)
    assert line["error"] == ""


async def test_a_provider_that_does_not_hear_the_cancel(
    hired: Home, provider: ReplicateLike
) -> None:
    """C11: tried, once; the job is canceled and refunded whatever it answers."""
    provider.plan(Plan("never"))
    provider.always("cancel", Status(500))
    job_id = await hired.ad()
    await hired.parked(job_id)
    assert (await hired.ada.post(f"/jobs/{job_id}/cancel")).status == 200
    await hired.refunded(job_id, 3)

    async def told() -> bool:
        return bool(hired.lines("stage.abandoned", job_id))

    await until(told)
    assert "500" in hired.lines("stage.abandoned", job_id)[0]["error"]
    assert len(provider.calls.of("cancel")) == 1


async def test_retry_is_a_new_run_with_a_new_order(hired: Home, provider: ReplicateLike) -> None:
    """C13 C39 C40 C41: charged again, another key, another prediction; news of the earlier run
    have no effect on it."""
    provider.plan(Plan("failed"), Plan(webhook=Delivery(held=True)))
    job_id = await hired.ad()
    await hired.at(job_id, "failed")
    assert (await hired.ada.post(f"/api/admin/jobs/{job_id}/retry")).status == 403
    said = await hired.admin.post(f"/api/admin/jobs/{job_id}/retry")
    assert said.status == 200, said.raw
    await hired.parked(job_id, runs=2)
    first, second = provider.predictions.values()
    body = json.dumps({"id": first.id, "status": "succeeded", "output": "http://127.0.0.1:1/x"})
    late = await webhook(hired, provider, "msg_late", body.encode())
    assert late.status == 200
    assert (await hired.job(job_id))["status"] == "processing"
    provider.release()
    job = await hired.at(job_id, "completed")
    assert len(set(provider.calls.keys("create"))) == 2
    assert first.id != second.id
    assert await hired.ledger(job_id) == [-3, 3, -3]
    assert (await hired.path(job_id))[3:] == [
        "failed",
        "pending",
        "queued",
        "processing",
        "completed",
    ]
    assert len(await hired.files(job_id)) == 1
    assert job["failure_code"] is None
    assert (await hired.admin.post(f"/jobs/{job_id}/retry")).status == 409


async def test_retry_of_what_has_expired(tmp_path: Path, provider: ReplicateLike) -> None:
    """C14 C40 C41."""
    provider.plan(Plan(webhook=Delivery(times=0)))
    async with home(tmp_path, provider_url=f"{provider.url}/v1", await_s=1) as here:
        job_id = await here.ad()
        await here.at(job_id, "expired")
        assert (await here.admin.post(f"/jobs/{job_id}/retry")).status == 200
        await here.at(job_id, "completed")
        assert await here.ledger(job_id) == [-3, 3, -3]
        assert len(set(provider.calls.keys("create"))) == 2


async def test_retry_without_credits(tmp_path: Path, provider: ReplicateLike) -> None:
    """C13: 402, and nothing changes."""
    provider.plan(Plan("failed"), Plan("never"))
    async with home(tmp_path, provider_url=f"{provider.url}/v1", credits=3) as here:
        job_id = await here.ad()
        await here.at(job_id, "failed")
        await here.parked(await here.ad())
        said = await here.admin.post(f"/jobs/{job_id}/retry")
        assert (said.status, said.code) == (402, "INSUFFICIENT_CREDITS")
        assert len(provider.calls.of("create")) == 2
        await here.refunded(job_id, 3)


async def webhook(here: Home, provider: ReplicateLike, webhook_id: str, body: bytes) -> Said:
    import time

    headers = signed(provider.secret, webhook_id, int(time.time()), body)
    return await here.ada.ask("POST", "/webhooks/replicate", data=body, headers=headers)


# ------------------------------------------------------------ copy by a provider

GOOD = json.dumps(
    {
        "variants": [
            {"angle": f"a{n}", "headline": f"h{n}", "text": f"t{n}", "call_to_action": "Go"}
            for n in range(5)
        ]
    }
)
ANSWERS: dict[str, tuple[str, str]] = {
    "as asked": (GOOD, "completed"),
    "in a code block": (f"```json\n{GOOD}\n```", "completed"),
    "four of them": (json.dumps({"variants": json.loads(GOOD)["variants"][:4]}), "failed"),
    "prose": ("Sure! Here are five variants for you.", "failed"),
    "nothing": ("  ", "failed"),
    "empty texts": (GOOD.replace('"t1"', '" "'), "failed"),
    "numbers": (GOOD.replace('"t1"', "7"), "failed"),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_what_a_hired_writer_answers(tmp_path: Path, case: str) -> None:
    """C9 C10 C25 C32: five variants, or none and the credits back."""
    text, status = ANSWERS[case]
    async with (
        OpenAILike(reply=lambda asked: text) as writer,
        home(tmp_path, writer="openai", writer_url=f"{writer.url}/v1") as here,
    ):
        said = await here.ada.post("/api/generate/copy", {"product_id": "lamp-7"})
        assert said.json["status"] == status, said.raw
        assert len(said.json["variants"]) == (5 if status == "completed" else 0)
        assert said.json["credits_remaining"] == (99 if status == "completed" else 100)
        job = await here.job(said.json["job_id"])
        assert job["failure_code"] == (None if status == "completed" else "BAD_ANSWER")
        assert len(writer.calls.of("chat")) == 1


async def test_a_writer_that_refuses_or_stumbles(tmp_path: Path) -> None:
    """C10 C42: a refusal is the last word; 429 and 500 are tried again under the same key."""
    async with (
        OpenAILike(reply=lambda asked: GOOD) as writer,
        home(tmp_path, writer="openai", writer_url=f"{writer.url}/v1") as here,
    ):
        writer.script("chat", Refusal(spoken=True))
        refused = await here.ada.post("/api/generate/copy", {"product_id": "lamp-7"})
        assert refused.json["status"] == "failed"
        assert (await here.job(refused.json["job_id"]))["failure_code"] == "SAFE_BLOCK"
        writer.script("chat", busy(0), Status(500), None)
        said = await here.ada.post("/api/generate/copy", {"product_id": "lamp-8"})
        assert said.json["status"] == "completed"
        assert len(writer.calls.of("chat")) == 4
        assert len(writer.calls.keys("chat")) == 2
        assert await here.balance() == 99


async def test_a_key_that_is_not_there(tmp_path: Path, provider: ReplicateLike) -> None:
    """C10 C32: the operator named a variable and did not set it."""
    url = f"{provider.url}/v1"
    async with home(tmp_path, provider_url=url, provider_key_env="NOT_SET_ANYWHERE") as here:
        job = await here.at(await here.ad(), *REST)
        assert (job["status"], job["failure_code"]) == ("failed", "PROVIDER_KEY_MISSING")
        assert "NOT_SET_ANYWHERE" in job["failure_message"]
        assert len(provider.calls) == 0
        await here.refunded(job["id"], 3)


async def test_without_any_provider_nothing_leaves_the_house(tmp_path: Path) -> None:
    """C10 C32: when the built-in one cannot open, its jobs fail with a reason."""
    (tmp_path / "companions" / "cutx").mkdir(parents=True)
    (tmp_path / "companions" / "cutx" / "orders").write_text("in the way")
    async with home(tmp_path) as here:
        job = await here.at(await here.ad(), *REST)
        assert (job["status"], job["failure_code"]) == ("failed", "PROVIDER_MISSING")
        await here.refunded(job["id"], 3)
        copy = await here.ada.post("/api/generate/copy", {"product_id": "lamp-7"})
        assert copy.json["status"] == "completed"


async def test_the_studio_dies_and_comes_back(tmp_path: Path) -> None:
    """C26: another life of the service, on another port; what was ordered is delivered once."""
    async with home(tmp_path) as here:
        token = here.ada.token
        jobs = [await here.ad(style=style) for style in ("bold", "minimal", "lifestyle")]
        await here.parked(jobs[0])
    async with home(tmp_path) as here:
        here.ada.token = token
        for job_id in jobs:
            assert (await here.at(job_id, *REST))["status"] == "completed"
            assert len(await here.files(job_id)) == 1
    orders = orders_of(tmp_path)
    assert len(orders) == len({order["repeat_key"] for order in orders}) == 3
    assert not [task for task in asyncio.all_tasks() if "desk" in repr(task)]


# ------------------------------------------------------------ before, between and after the stages


async def test_what_stands_in_line(studio: Home) -> None:
    """C4 C5 C7 C8 C18 C20 C21 C32: made and charged before anything is done; left by cancel and by
    failure, and given back."""
    assert (await studio.admin.post("/admin/workflows/cutx/pause")).status == 200
    for kind, status in (("copy", "pending"), ("static_ad", "queued")):
        canceled, failed = [await studio.order(kind, product_id="lamp-7") for _ in range(2)]
        assert (await studio.job(canceled))["status"] == status
        assert await studio.ledger(canceled) == [-PRICES[kind]]
        assert (await studio.ada.post(f"/jobs/{canceled}/cancel")).json["status"] == "canceled"
        by_hand = {"to": "failed", "failure_message": "no stage for it"}
        said = await studio.admin.post(f"/jobs/{failed}/transitions", by_hand)
        assert said.status == 200, said.raw
        for job_id in (canceled, failed):
            await studio.refunded(job_id, PRICES[kind])
        assert (await studio.job(failed))["failure_message"] == "no stage for it"
    assert await studio.balance() == 100


async def test_no_way_back_from_the_end(studio: Home) -> None:
    """C1 C15 C16 C41 C46: of what was really delivered."""
    said = await studio.ada.post("/api/generate/copy", {"product_id": "lamp-7"})
    job_id = said.json["job_id"]
    declared = (await studio.ada.get("/workflows/cutx")).json["states"]
    statuses = [state["name"] for state in declared]
    assert len(statuses) == 7
    for status in statuses:
        refused = await studio.admin.post(f"/jobs/{job_id}/transitions", {"to": status})
        assert refused.status == 409, (status, refused.raw)
    assert len(studio.lines("job.transition_denied", job_id)) == 7
    assert (await studio.admin.post(f"/jobs/{job_id}/retry")).status == 409
    assert (await studio.ada.post(f"/jobs/{job_id}/cancel")).status == 409
    assert await studio.ledger(job_id) == [-1]


async def test_one_key_many_clients(hired: Home, provider: ReplicateLike) -> None:
    """C34 C35 C36 C37 C38: at once, while it is processing, and when it is over."""
    provider.plan(Plan(webhook=Delivery(held=True)))
    body = {"product_id": "lamp-7", "idempotency_key": "lamp-7-static-v1"}
    said: list[Said] = []

    async def ask() -> None:
        said.append(await hired.ada.post("/api/generate/static-ad", body))

    async with anyio.create_task_group() as group:
        for _ in range(12):
            group.start_soon(ask)
    [job_id] = {one.json["job_id"] for one in said}
    assert [one.json["replayed"] for one in said].count(False) == 1
    await hired.parked(job_id)
    await ask()
    assert (said[-1].json["job_id"], said[-1].json["status"]) == (job_id, "processing")
    provider.release()
    await hired.at(job_id, "completed")
    await ask()
    assert (said[-1].json["job_id"], said[-1].json["status"]) == (job_id, "completed")
    assert await hired.ledger(job_id) == [-3]
    assert len(provider.calls.of("create")) == 1


async def test_goodwill(studio: Home) -> None:
    """C9: a delivered job's credits back, once."""
    said = await studio.ada.post("/api/generate/copy", {"product_id": "lamp-7"})
    for _ in range(2):
        given = await studio.admin.post(f"/jobs/{said.json['job_id']}/refund", {"reason": "sorry"})
        assert given.status == 200, given.raw
    assert await studio.ledger(said.json["job_id"]) == [-1, 1]


async def test_every_event_is_one_line(tmp_path: Path) -> None:
    """C17 C43 C44 C45 C47: of a real run, as the service writes them."""
    told = Told()
    config = Config(
        server=ServerSection(port=0, drain_seconds=1),
        store=StoreSection(
            path=str(tmp_path / "jobs.db"), assets=str(tmp_path / "assets"), min_free=0
        ),
        limits=LimitsSection(lag=0),
    )
    async with app.running(config, told.log) as service, aiohttp.ClientSession() as session:
        here = Home(service, session, tmp_path, [])
        await here.settle()
        job_id = await here.ad()
        await here.at(job_id, "completed")
        lines = [line for line in told.lines() if line.get("job_id") == job_id]
    moves = [line for line in lines if line["event"] == "job.transition"]
    assert [(line["from_status"], line["to_status"]) for line in moves] == [
        ("pending", "queued"),
        ("queued", "processing"),
        ("processing", "completed"),
    ]
    assert {"job.created", "job.completed"} <= {line["event"] for line in lines}
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["ts"]), line
