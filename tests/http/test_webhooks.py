"""Webhooks over HTTP: the genuine ones have one effect each, whenever they come."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from jobrunner.stages import Registry
from tests.http.listener import jobrunner_listener as listener
from tests.http.posting import (
    KEY,
    OLD_KEY,
    OLD_VARIABLE,
    PATH,
    TYPE,
    VARIABLE,
    Provider,
    listening,
    registry,
    saying,
    secret,
    signed,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, secret(KEY))
    monkeypatch.delenv(OLD_VARIABLE, raising=False)


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[Provider]:
    async with listening(tmp_path) as provider:
        yield provider


async def test_a_webhook_takes_its_job_on(provider: Provider) -> None:
    """C-r11: the stage gets what the provider said."""
    job_id = await provider.listens("p-1")
    assert await provider.say("w-1", "p-1", {"url": "x"}) == {"applied": True}
    assert (await provider.at(job_id, "done"))["result"] == {"heard": {"url": "x"}}
    (line,) = provider.lines("callback.heard")
    assert (line["job_id"], line["applied"]) == (job_id, True)


async def test_a_thousand_copies_at_once(provider: Provider, tmp_path: Path) -> None:
    """R-P4: one effect, and every copy is answered."""
    diary = tmp_path / "diary"
    job_id = await provider.listens("p-1", diary=str(diary))
    body = saying("p-1", 7)
    headers = [*signed("w-1", body), *TYPE]
    said = await asyncio.gather(*(provider.post(headers, body) for _ in range(1_000)))
    assert {one.status for one in said} == {200}
    answers = [one.json for one in said]
    assert answers.count({"applied": True}) == 1
    assert answers.count({"applied": False, "reason": "replayed"}) == 999
    await provider.at(job_id, "done")
    assert len(diary.read_text().splitlines()) == 1
    assert 1 <= len(provider.lines("callback.replayed")) <= 10
    assert await provider.service.store.check() == ()


async def test_copies_that_come_before_their_job_waits(provider: Provider, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job_id = await provider.submitted("p-1", gate=str(gate), diary=str(tmp_path / "diary"))
    body = saying("p-1", 7)
    headers = [*signed("w-1", body), *TYPE]
    said = await asyncio.gather(*(provider.post(headers, body) for _ in range(200)))
    assert {one.status for one in said} == {200}, [one.raw for one in said if one.status != 200]
    assert [one.json["applied"] for one in said] == [False] * 200
    assert sorted({one.json["reason"] for one in said}) == ["kept", "replayed"]
    gate.touch()
    assert (await provider.at(job_id, "done"))["result"] == {"heard": 7}
    assert len((tmp_path / "diary").read_text().splitlines()) == 1
    assert (await provider.say("w-1", "p-1", 8))["reason"] == "replayed"


async def test_different_webhooks_of_one_key_at_once(provider: Provider) -> None:
    job_id = await provider.listens("p-1")
    said = await asyncio.gather(*(provider.say(f"w-{n}", "p-1", n) for n in range(50)))
    (applied,) = [n for n, one in enumerate(said) if one["applied"]]
    assert {one.get("reason") for one in said} == {None, "over"}
    assert (await provider.at(job_id, "done"))["result"] == {"heard": applied}


async def test_jobs_and_their_webhooks_race(provider: Provider) -> None:
    """R-P4: some come before their job waits, some after, and none is missed."""

    async def one(number: int) -> None:
        job, _ = await asyncio.gather(
            provider.submitted(f"p-{number}"), provider.say(f"w-{number}", f"p-{number}", number)
        )
        assert (await provider.at(job, "done"))["result"] == {"heard": number}

    await asyncio.gather(*map(one, range(60)))
    assert await provider.service.store.check() == ()


async def test_after_the_deadline(provider: Provider) -> None:
    job_id = await provider.submitted("p-1", "p-2", timeout_s=0.05)
    await provider.at(job_id, "failed")
    before = (await provider.admin.get(f"/jobs/{job_id}")).json
    assert await provider.say("w-1", "p-1") == {"applied": False, "reason": "over"}
    assert await provider.say("w-2", "p-2") == {"applied": False, "reason": "over"}
    assert (await provider.admin.get(f"/jobs/{job_id}")).json == before
    told = [(one["job_id"], one["reason"]) for one in provider.lines("callback.heard")]
    assert told == [(job_id, "over"), (job_id, "over")]


async def test_for_an_attempt_that_is_over(provider: Provider) -> None:
    job_id = await provider.submitted("p-1", "p-2", timeout_s=0.05, then_s=600)
    await provider.attempt(job_id, "parked", number=2)
    assert await provider.say("w-1", "p-1", 1) == {"applied": False, "reason": "over"}
    assert await provider.say("w-2", "p-2", 2) == {"applied": True}
    assert (await provider.at(job_id, "done"))["result"] == {"heard": 2}


async def test_what_a_provider_owes_is_nobodys_to_answer(provider: Provider) -> None:
    job_id = await provider.listens("p-1")
    await provider.attempt(job_id, "parked")
    assert (await provider.admin.get("/answers")).json["answers"] == []


async def test_for_a_job_that_was_canceled_and_one_that_was_deleted(provider: Provider) -> None:
    job_id = await provider.listens("p-1")
    await provider.admin.post(f"/jobs/{job_id}/cancel")
    assert await provider.say("w-1", "p-1") == {"applied": False, "reason": "over"}
    assert (await provider.admin.delete(f"/jobs/{job_id}")).status == 204
    assert await provider.say("w-2", "p-1") == {"applied": False, "reason": "gone"}
    assert await provider.say("w-1", "p-1") == {"applied": False, "reason": "replayed"}


async def test_in_the_wrong_order(provider: Provider) -> None:
    """What a source says before the end decides nothing, also when it comes after it."""
    job_id = await provider.listens("p-1")
    early = saying("p-1", status="working")
    for webhook_id in ("w-0", "w-2"):
        said = await provider.post(signed(webhook_id, early), early)
        assert said.json == {"applied": False, "reason": "nothing_to_say"}
        await provider.say("w-1", "p-1", 1)
    assert (await provider.at(job_id, "done"))["result"] == {"heard": 1}


async def test_two_jobs_with_one_key(provider: Provider) -> None:
    first = await provider.listens("p-1")
    second = await provider.submitted("p-1")
    failed = await provider.at(second, "failed")
    assert failed["failure_code"] == "CALLBACK_KEY_TAKEN"
    assert first in failed["failure_message"]
    assert await provider.say("w-1", "p-1", 1) == {"applied": True}
    await provider.at(first, "done")


async def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    async with listening(tmp_path) as provider:
        waits = await provider.listens("p-1")
        assert (await provider.say("w-2", "p-2", 2))["reason"] == "kept"
    async with listening(tmp_path) as again:
        again.admin.token = (tmp_path / "admin.token").read_text().strip()
        assert (await again.say("w-2", "p-2", 2))["reason"] == "replayed"
        assert await again.say("w-1", "p-1", 1) == {"applied": True}
        assert (await again.at(waits, "done"))["result"] == {"heard": 1}
        early = await again.submitted("p-2")
        assert (await again.at(early, "done"))["result"] == {"heard": 2}


async def test_what_is_of_no_job_any_more_is_forgotten_in_time(tmp_path: Path) -> None:
    async with listening(tmp_path) as provider:
        alive, gone = await provider.listens("p-1", timeout_s=600), await provider.listens("p-2")
        await provider.say("w-1", "p-1")
        await provider.admin.post(f"/jobs/{gone}/cancel")
        await provider.admin.delete(f"/jobs/{gone}")
        assert (await provider.say("w-2", "p-2"))["reason"] == "gone"
        assert (await provider.say("w-3", "p-3"))["reason"] == "kept"
        await provider.at(alive, "done")
    async with listening(tmp_path, keys_s=0.001) as again:
        with anyio.fail_after(120):
            while len(again.written()[0]) > 2 or len(again.written()[1]) > 1:
                await anyio.sleep(0.01)
        webhooks, awaits = again.written()[:2]
        assert [one[2] for one in webhooks] == ["w-1", "w-3"]
        assert [one[0] for one in awaits] == ["postman:p-1"]
        assert (await again.say("w-1", "p-1"))["reason"] == "replayed"


# ---------------------------------------------------------------- what verified webhooks may say


ODD = [
    b"", b"null", b"[]", b"{}", b'"x"', b"{", b"\xff", b'{"id": 1, "status": "done"}', b"nan",
    b'{"id": "", "status": "done"}', b'{"id": null, "status": "done"}', b'{"status": "done"}',
    b'{"id": "p-1"}', b'{"id": "\\u0000", "status": "done"}', b'{"id": "a\\nb", "status": "done"}',
    b'{"id": "\\ud800", "status": "done"}', saying("x" * 256), saying("p-1", status="raise"),
    saying("p-1", status="nonsense"), b"[" * 5_000 + b"]" * 5_000, b"[" * 100_000,
    b'{"id": "p-1", "status": "done", "output": ' + b"[" * 80 + b"]" * 80 + b"}",
    b'{"id": "p-1", "status": "done", "output": 99999999999999999999}',
    b'{"id": "p-1", "status": "done", "output": "\\udfff"}',
    b'{"id": "p-1", "status": ["done"], "output": 1}',
]  # fmt: skip


async def test_a_genuine_webhook_may_say_anything(provider: Provider) -> None:
    """It is answered, has no effect, and is no fault of ours."""
    await provider.listens("p-1")
    before = provider.written()
    for number, body in enumerate(ODD):
        said = await provider.post(signed(f"odd-{number}", body), body)
        assert said.status == 200, (body[:60], said.raw)
        reasons = ("not_understood", "nothing_to_say")
        assert said.json["applied"] is False, body[:60]
        assert said.json["reason"] in reasons, body[:60]
    assert provider.written() == before
    lines = provider.lines("webhook.not_understood")
    assert len(lines) == 10
    assert "ud800" not in str(lines)
    assert "p-1" not in str(lines)


async def test_what_is_not_a_number_or_is_one_that_json_does_not_know(provider: Provider) -> None:
    """What ``json`` reads and JSON does not write comes out as null, or not at all."""
    job_id = await provider.listens("p-1")
    body = b'{"id": "p-1", "status": "done", "output": NaN}'
    said = await provider.post(signed("w-1", body), body)
    assert said.json == {"applied": True}
    assert (await provider.at(job_id, "done"))["result"] == {"heard": None}


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "x"])
async def test_the_type_of_the_body_does_not_matter(provider: Provider, kind: str) -> None:
    body = saying("nobody")
    said = await provider.post([*signed("w-1", body), ("Content-Type", kind)], body)
    assert said.json == {"applied": False, "reason": "kept"}


async def test_bodies_are_limited_and_come_plain(provider: Provider) -> None:
    body = saying("x" * 300_000)
    assert (await provider.post(signed("w-1", body), body)).status == 413
    said = await provider.post([*signed("w-1", b"x"), ("Content-Encoding", "gzip")], b"x")
    assert (said.status, said.code) == (415, "UNSUPPORTED_MEDIA_TYPE")


async def test_a_source_that_nobody_brings(provider: Provider) -> None:
    body = saying("p-1")
    said = await provider.post(signed("w-1", body), body, path="/webhooks/stranger")
    assert (said.status, said.code) == (404, "NOT_FOUND")


async def test_every_answer_is_documented(provider: Provider) -> None:
    contract = await provider.contract()
    body = saying("nobody")
    for headers in (signed("w-1", body), signed("w-1", body), signed("w-1", b"other"), []):
        contract.judge("POST", PATH, await provider.post(headers, body))
    missing = await provider.post(signed("w-1", body), body, path="/webhooks/stranger")
    contract.judge("POST", "/webhooks/stranger", missing)


# ---------------------------------------------------------------- secrets


async def test_the_old_secret_is_good_while_the_new_one_is_introduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OLD_VARIABLE, secret(OLD_KEY))
    async with listening(tmp_path, (VARIABLE, OLD_VARIABLE)) as provider:
        for number, key in enumerate((KEY, OLD_KEY)):
            assert (await provider.say(f"w-{number}", "nobody", key=key))["reason"] == "kept"
    async with listening(tmp_path, (VARIABLE,)) as provider:
        body = saying("nobody")
        assert (await provider.post(signed("w-3", body, key=OLD_KEY), body)).status == 401
        assert (await provider.say("w-4", "nobody"))["reason"] == "kept"


async def test_a_source_that_signs_with_both_secrets(provider: Provider) -> None:
    """Signatures stand side by side, and one of ours among those of others is enough."""
    body = saying("nobody")
    headers, other = signed("w-1", body), signed("w-1", body, key=OLD_KEY)
    for place, parts in enumerate(
        (
            (other[2][1], headers[2][1]),
            (headers[2][1], other[2][1]),
            ("v1a,AAAA", "junk", "v1,%%%", "", headers[2][1]),
            (headers[2][1], *["v1,x"] * 9),
        )
    ):
        webhook_id = f"w-{place}"
        fresh = signed(webhook_id, body)
        ours = [part if part != headers[2][1] else fresh[2][1] for part in parts]
        said = await provider.post([*fresh[:2], ("webhook-signature", " ".join(ours))], body)
        assert said.status == 200, parts


FAULTY = [
    None, "", "whsec_", "secret", "whsec_AAAA", "whsec_%%%%" * 9, secret(b"k" * 23),
    secret(b"k" * 65), secret(KEY).removeprefix("whsec_"), secret(KEY)[:-1], "whsec_é" + "A" * 40,
]  # fmt: skip


@pytest.mark.parametrize("value", FAULTY)
async def test_a_secret_that_is_none_is_named_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    """Its webhooks are refused, whoever signs them, and the service runs."""
    if value is None:
        monkeypatch.delenv(VARIABLE)
    else:
        monkeypatch.setenv(VARIABLE, value)
    async with listening(tmp_path) as provider:
        (line,) = provider.lines("webhooks.fault")
        assert (line["level"], line["source"]) == ("error", "postman")
        assert VARIABLE in line["reasons"][0]
        assert not value or len(value) < 8 or value not in str(line)
        body = saying("p-1")
        for key in (KEY, b"", (value or "").encode()):
            assert (await provider.post(signed("w-1", body, key=key), body)).status == 401


@pytest.mark.parametrize("size", [24, 32, 64])
async def test_secrets_of_every_length_that_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setenv(VARIABLE, f" {secret(b'z' * size)}\n")
    async with listening(tmp_path) as provider:
        assert (await provider.say("w-1", "nobody", key=b"z" * size))["reason"] == "kept"


async def test_the_clock_of_a_source_may_be_a_little_off(provider: Provider) -> None:
    for number, gap_s in enumerate((-290, -60, 0, 60, 290)):
        told = await provider.say(f"w-{number}", "nobody", at=time.time() + gap_s)
        assert told["reason"] == "kept"


async def test_secrets_for_a_source_that_nobody_brings(tmp_path: Path) -> None:
    deaf = Registry()
    deaf.add(listener.listen)
    deaf.add(listener.definition)
    async with listening(tmp_path, known=deaf) as provider:
        (line,) = provider.lines("webhooks.fault")
        assert "no plugin brings a source" in line["reasons"][0]
        body = saying("p-1")
        assert (await provider.post(signed("w-1", body), body)).status == 404


def test_a_source_that_two_plugins_bring_is_nobodys() -> None:
    twice = registry()
    twice.add(listener.postman)
    assert twice.sources == {}
    assert "twice" in twice.refused["sources"]["postman"][0]


async def test_no_secret_is_in_the_file_or_the_log(provider: Provider) -> None:
    await provider.say("w-1", "nobody")
    body = saying("p-1")
    await provider.post(signed("w-1", body, key=OLD_KEY), body)
    shown = str(provider.logged) + str(provider.written())
    assert secret(KEY) not in shown
    assert "v1," not in shown
