"""cutx with its real stages behind real HTTP: a hired provider, and all that goes wrong with it."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jobrunner.testing.providers import (
    Cut,
    Delivery,
    Endless,
    Fault,
    Hang,
    Nonsense,
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
from tests.http.serving import Said
from tests.plugins.cutx_at_work import LAMP, REST, VARIABLE, Home, files_below, home, until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def provider(replicate_like: ReplicateLike, monkeypatch: pytest.MonkeyPatch) -> ReplicateLike:
    monkeypatch.setenv(VARIABLE, replicate_like.secret)
    return replicate_like


@pytest.fixture
async def hired(tmp_path: Path, provider: ReplicateLike) -> AsyncIterator[Home]:
    """With the scripted provider."""
    async with home(tmp_path, provider_url=f"{provider.url}/v1") as here:
        yield here


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
    async with home(tmp_path, limit_s=5, provider_url=f"{provider.url}/v1") as here:
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
    async with home(tmp_path, provider_url=f"{provider.url}/v1", await_s=5) as here:
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
