"""cutx with its real stages behind real HTTP: its own provider, a hired writer, and the line."""

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import anyio
import pytest
from PIL import Image

from jobrunner import app
from jobrunner.config.settings import (
    Config,
    LimitsSection,
    ServerSection,
    StoreSection,
)
from jobrunner.testing.providers import (
    Delivery,
    Endless,
    Fault,
    Made,
    OpenAILike,
    Plan,
    Redirected,
    Refusal,
    ReplicateLike,
    Status,
    busy,
)
from tests.http.serving import Said
from tests.plugins.cutx_at_work import LAMP, PRICES, REST, VARIABLE, Home, home, orders_of, until
from tests.whole.living import Told

pytestmark = pytest.mark.anyio


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
