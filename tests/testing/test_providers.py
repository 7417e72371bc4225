"""The fake providers: what they answer, what befalls their answers, and what they remember."""

import hmac
import json
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import aiohttp
import anyio
import pytest
from aiohttp import web
from yarl import URL

from jobrunner.errors import PermanentFailure, RetryableFailure
from jobrunner.outgoing.calls import Patience
from jobrunner.outgoing.exchange import OutgoingClient, OutgoingGate
from jobrunner.outgoing.rules import Rules, origin_of
from jobrunner.ports import SystemConnector
from jobrunner.testing.providers import (
    Cut,
    Delivery,
    Endless,
    Fault,
    Hang,
    Nonsense,
    OpenAILike,
    Page,
    Plan,
    Provider,
    Redirected,
    Refusal,
    ReplicateLike,
    Slow,
    Status,
    busy,
    picture,
)

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n"
IMAGES = "/v1/images/generations"
CHAT = "/v1/chat/completions"
WISH = {"prompt": "a lighthouse"}
SHORT = Patience(connect_s=1, idle_s=0.3, total_s=0.5)


@asynccontextmanager
async def calling(provider: Provider) -> AsyncIterator[OutgoingClient]:
    """As a stage calls it whose settings name the provider."""
    async with aclosing(OutgoingGate(SystemConnector(), Rules())) as gate:
        yield OutgoingClient(gate, [origin_of(URL(provider.url))])


async def asked(provider: Provider, path: str, json: Any = None, key: str = "", **how: Any) -> Any:
    """Status, headers and the whole body of an answer."""
    headers = {"Idempotency-Key": key} if key else {}
    how.setdefault("method", "POST" if json is not None or how.get("data") else "GET")
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            url=provider.url + path, json=json, headers=headers, allow_redirects=False, **how
        ) as answer,
    ):
        body = await answer.read()
        told = _json(body) if "json" in answer.content_type else body
        return answer.status, answer.headers, told


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body


# ---------------------------------------------------------------- what is like OpenAI


async def test_pictures_inside_and_beside(openai_like: OpenAILike) -> None:
    _, _, inside = await asked(openai_like, IMAGES, WISH)
    assert b64decode(inside["data"][0]["b64_json"]).startswith(PNG)
    _, _, beside = await asked(openai_like, IMAGES, {**WISH, "response_format": "url", "n": 2})
    for one in beside["data"]:
        _, headers, file = await asked(openai_like, one["url"].removeprefix(openai_like.url))
        assert file.startswith(PNG)
        assert headers["Content-Type"] == "image/png"


async def test_pictures_are_the_same_for_the_same_wish() -> None:
    assert picture(WISH) == picture(dict(WISH)) != picture({"prompt": "a storm"})


async def test_chat_and_transcripts() -> None:
    async with OpenAILike(reply=lambda said: said["model"].upper()) as provider:
        _, _, told = await asked(provider, CHAT, {"model": "m1", "messages": [{"content": "x"}]})
        assert told["choices"][0]["message"]["content"] == "M1"
        for kind, words in (("verbose_json", ["segments", "end"]), ("json", ["text"])):
            form = aiohttp.FormData({"model": "w1", "response_format": kind})
            form.add_field("file", b"RIFF", filename="a.wav")
            _, _, told = await asked(provider, "/v1/audio/transcriptions", data=form)
            assert all(word in json.dumps(told) for word in words)
        (call, _) = provider.calls.of("transcriptions")
        assert (call.form["file"], call.form["file.filename"]) == (b"RIFF", "a.wav")


async def test_errors_have_the_real_shape() -> None:
    async with OpenAILike(token="secret") as provider:
        status, _, told = await asked(provider, IMAGES, WISH)
        assert (status, told["error"]["code"]) == (401, "invalid_api_key")
    async with OpenAILike() as provider:
        provider.script("images", busy(7), Status(500), Refusal("moderation_blocked"), None)
        status, headers, told = await asked(provider, IMAGES, WISH)
        assert (status, headers["Retry-After"]) == (429, "7")
        assert told["error"]["code"] == "rate_limit_exceeded"
        status, _, told = await asked(provider, IMAGES, WISH)
        assert (status, told["error"]["type"]) == (500, "server_error")
        status, _, told = await asked(provider, IMAGES, WISH)
        assert (status, told["error"]["code"]) == (400, "moderation_blocked")
        assert (await asked(provider, IMAGES, WISH))[0] == 200
        status, _, told = await asked(provider, IMAGES, {"prompt": 7})
        assert (status, told["error"]["param"]) == (400, "prompt")
        provider.script("chat", Refusal(spoken=True))
        _, _, told = await asked(provider, CHAT, {"messages": [{"content": "x"}]})
        assert told["choices"][0]["finish_reason"] == "content_filter"


# ---------------------------------------------------------------- what goes wrong on the way


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Hang(), "NETWORK_TIMEOUT"),
        (Hang(done=True), "NETWORK_TIMEOUT"),
        (Status(500), "REMOTE_FAILED"),
        (busy(9), "RATE_LIMITED"),
        (Nonsense(), "REMOTE_FAILED"),
        (Redirected(), "REMOTE_REFUSED"),
        (Slow(), "NETWORK_TIMEOUT"),
        (Endless(), "DOWNLOAD_TOO_LARGE"),
        (Cut(), "NETWORK_ERROR"),
        (Cut(after=20), "NETWORK_ERROR"),
        (Refusal(), "REMOTE_REFUSED"),
    ],
    ids=repr,
)
async def test_a_stage_sees_each_fault_as_what_it_is(fault: Fault, code: str) -> None:
    """H45 H46 I29: retryable or not, by what happened; and the next call goes well."""
    async with OpenAILike() as provider, calling(provider) as client:
        provider.script("images", fault)
        url = provider.url + IMAGES

        async def ask() -> Any:
            patience = SHORT if code == "NETWORK_TIMEOUT" else Patience()
            reply = await client.post(url, json=WISH, patience=patience, max_size=10**6)
            return reply.json()

        with pytest.raises((RetryableFailure, PermanentFailure)) as failed:
            await ask()
        assert failed.value.code == code
        if code == "RATE_LIMITED":
            assert getattr(failed.value, "retry_after_s", 0) == 9
        assert (await client.post(url, json=WISH)).json()["data"]
        assert [call.fault for call in provider.calls] == [type(fault).__name__, ""]


async def test_a_page_where_a_picture_belongs(openai_like: OpenAILike) -> None:
    openai_like.script("images", Page(), None)
    openai_like.script("files", Page("image/png"))
    _, _, told = await asked(openai_like, IMAGES, WISH)
    assert b64decode(told["data"][0]["b64_json"]).startswith(b"<!doctype html>")
    _, _, told = await asked(openai_like, IMAGES, {**WISH, "response_format": "url"})
    path = told["data"][0]["url"].removeprefix(openai_like.url)
    _, headers, body = await asked(openai_like, path)
    assert (headers["Content-Type"], body[:15]) == ("image/png", b"<!doctype html>")
    assert (await asked(openai_like, path))[2].startswith(PNG)


async def test_a_redirect_leads_inside_and_is_not_followed(openai_like: OpenAILike) -> None:
    openai_like.always("models", Redirected())
    async with calling(openai_like) as client:
        with pytest.raises(PermanentFailure, match="DOWNLOAD_REFUSED"):
            await client.get(f"{openai_like.url}/v1/models")
    openai_like.always("models", None)
    assert (await asked(openai_like, "/v1/models"))[0] == 200


async def test_a_script_for_a_route_that_is_not_there(openai_like: OpenAILike) -> None:
    with pytest.raises(AssertionError, match="there are images, chat"):
        openai_like.script("image", Hang())


# ---------------------------------------------------------------- what it remembers


async def test_a_key_is_answered_as_the_first_time(openai_like: OpenAILike) -> None:
    """The answer that was lost comes under the same key, and nothing is done again."""
    openai_like.script("images", Cut(done=True))
    with pytest.raises(aiohttp.ClientError):
        await asked(openai_like, IMAGES, WISH, key="k1")
    _, _, second = await asked(openai_like, IMAGES, WISH, key="k1")
    _, _, third = await asked(openai_like, IMAGES, WISH, key="k1")
    assert second == third
    assert [call.worked for call in openai_like.calls] == [True, False, False]
    assert [call.replayed for call in openai_like.calls] == [False, True, True]
    assert openai_like.calls.keys("images") == ["k1"]
    openai_like.never_twice("images")
    assert (await asked(openai_like, IMAGES, {"prompt": "a storm"}, key="k1"))[0] == 409


@pytest.mark.parametrize("keys", [("k1", "k2"), ("", ""), ("k1", ""), ("",)])
async def test_one_wish_under_two_keys_is_told(keys: tuple[str, ...]) -> None:
    async with OpenAILike() as provider:
        await asked(provider, IMAGES, {"prompt": "something else"}, key="k0")
        provider.never_twice("images")
        for key in keys:
            await asked(provider, IMAGES, WISH, key=key)
        with pytest.raises(AssertionError, match="a lighthouse"):
            provider.never_twice("images")


async def test_it_starts_again_on_its_port_and_knows_nothing() -> None:
    async with ReplicateLike() as provider:
        url = provider.url
        _, _, told = await asked(provider, "/v1/predictions", {"input": {}}, key="k1")
        await provider.over(told["id"])
        path = f"/v1/predictions/{told['id']}"
        assert (await asked(provider, path))[0] == 200
        await provider.restart()
        assert provider.url == url
        assert (await asked(provider, path))[0] == 404
        _, _, again = await asked(provider, "/v1/predictions", {"input": {}}, key="k1")
        assert again["id"] != told["id"]
        assert [call.status for call in provider.calls] == [201, 200, 404, 201]


async def test_whoever_hangs_is_let_go_when_it_stops() -> None:
    async with OpenAILike() as provider:
        provider.script("images", Hang())
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                with pytest.raises(aiohttp.ClientError):
                    await asked(provider, IMAGES, WISH)

            group.start_soon(ask)
            await provider.called("images")
            await provider.stop()


# ---------------------------------------------------------------- what is like Replicate


class Inbox:
    """Takes webhooks, and says of each whether its signature is right."""

    def __init__(self, secret: str) -> None:
        self.url = ""
        self.secret = secret
        self.came: list[tuple[str, bool, dict[str, Any]]] = []
        self.refuse = 0

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        webhook_id, at = request.headers["webhook-id"], request.headers["webhook-timestamp"]
        key = b64decode(self.secret.removeprefix("whsec_"))
        mac = hmac.digest(key, f"{webhook_id}.{at}.".encode() + body, "sha256")
        version, _, told = request.headers["webhook-signature"].partition(",")
        self.came.append((webhook_id, version == "v1" and b64decode(told) == mac, _json(body)))
        self.refuse, status = max(self.refuse - 1, 0), 503 if self.refuse else 204
        return web.Response(status=status)


@asynccontextmanager
async def inbox(secret: str) -> AsyncIterator[Inbox]:
    box = Inbox(secret)
    app = web.Application()
    app.router.add_post("/hook", box.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    box.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    yield box
    await runner.cleanup()


async def predicted(provider: Provider, box: Inbox | None = None, **more: Any) -> dict[str, Any]:
    hook = {"webhook": box.url, "webhook_events_filter": ["completed"]} if box else {}
    body = {"version": "v9", "input": {"prompt": "a lighthouse"}, **hook, **more}
    status, _, told = await asked(provider, "/v1/predictions", body)
    assert status == 201, told
    return dict(told)


async def test_a_prediction_ends_and_calls_back(replicate_like: ReplicateLike) -> None:
    async with inbox(replicate_like.secret) as box:
        made = await predicted(replicate_like, box)
        assert (made["status"], made["output"], made["version"]) == ("starting", None, "v9")
        await replicate_like.delivered()
        ((_, right, told),) = box.came
        assert right
        assert (told["id"], told["status"]) == (made["id"], "succeeded")
        path = told["output"].removeprefix(replicate_like.url)
        assert (await asked(replicate_like, path))[2].startswith(PNG)
        _, _, polled = await asked(replicate_like, f"/v1/predictions/{made['id']}")
        assert polled == told
        _, _, secret = await asked(replicate_like, "/v1/webhooks/default/secret")
        assert secret == {"key": replicate_like.secret}


async def test_all_events_unless_they_are_chosen(replicate_like: ReplicateLike) -> None:
    async with inbox(replicate_like.secret) as box:
        body = {"input": {}, "webhook": box.url}
        await asked(replicate_like, "/v1/models/a/b/predictions", body)
        await replicate_like.delivered(2)
        assert [told["status"] for _, _, told in box.came] == ["processing", "succeeded"]
        assert {told["model"] for _, _, told in box.came} == {"a/b"}
        assert len({webhook_id for webhook_id, _, _ in box.came}) == 2


async def test_what_it_makes_is_the_tests_to_say() -> None:
    async with ReplicateLike(produce=lambda given: [picture(given), picture("x")]) as provider:
        made = await predicted(provider)
        await provider.over(made["id"])
        _, _, told = await asked(provider, f"/v1/predictions/{made['id']}")
        assert len(told["output"]) == 2
    async with ReplicateLike(produce=lambda given: {"text": given["prompt"]}) as provider:
        made = await predicted(provider)
        await provider.over(made["id"])
        _, _, told = await asked(provider, f"/v1/predictions/{made['id']}")
        assert told["output"] == {"text": "a lighthouse"}


async def test_lost_and_doubled_webhooks(replicate_like: ReplicateLike) -> None:
    async with inbox(replicate_like.secret) as box:
        replicate_like.plan(Plan(webhook=Delivery(times=0)), Plan(webhook=Delivery(times=3)))
        lost = await predicted(replicate_like, box)
        await replicate_like.over(lost["id"])
        doubled = await predicted(replicate_like, box)
        await replicate_like.delivered(3)
        assert {told["id"] for _, _, told in box.came} == {doubled["id"]}
        assert len({webhook_id for webhook_id, _, _ in box.came}) == 1


async def test_a_webhook_before_the_answer(replicate_like: ReplicateLike) -> None:
    async with inbox(replicate_like.secret) as box:
        replicate_like.plan(Plan(webhook=Delivery(early=True)))
        made = await predicted(replicate_like, box)
        assert [told["id"] for _, _, told in box.came] == [made["id"]]
        assert made["status"] == "starting"


async def test_a_webhook_that_comes_late(replicate_like: ReplicateLike) -> None:
    """Later than that of a prediction which was made after it."""
    async with inbox(replicate_like.secret) as box:
        replicate_like.plan(Plan(webhook=Delivery(held=True)))
        first = await predicted(replicate_like, box)
        await replicate_like.over(first["id"])
        second = await predicted(replicate_like, box)
        await replicate_like.delivered()
        assert [told["id"] for _, _, told in box.came] == [second["id"]]
        replicate_like.release()
        await replicate_like.delivered(2)
        assert [told["id"] for _, _, told in box.came] == [second["id"], first["id"]]


@pytest.mark.parametrize("forged", ["secret", "body", "old"])
async def test_forged_webhooks(forged: Any, replicate_like: ReplicateLike) -> None:
    async with inbox(replicate_like.secret) as box:
        replicate_like.plan(Plan(webhook=Delivery(forged=forged)))
        await predicted(replicate_like, box)
        await replicate_like.delivered()
        (_, first, lie), (_, second, truth) = box.came
        assert (first, second) == (forged == "old", True)
        assert lie["status"] == ("succeeded" if forged == "old" else "failed")
        assert truth["status"] == "succeeded"
        assert [one.forged for one in replicate_like.sent] == [True, False]


async def test_it_tries_until_it_is_heard(replicate_like: ReplicateLike) -> None:
    async with inbox(replicate_like.secret) as box:
        box.refuse = 2
        replicate_like.usually(Plan(webhook=Delivery(tries=5, pause_s=0)))
        await predicted(replicate_like, box)
        await replicate_like.delivered(3)
        assert [one.answered for one in replicate_like.sent] == [503, 503, 204]
        assert len({one.id for one in replicate_like.sent}) == 1


async def test_predictions_that_fail_hang_or_are_canceled(replicate_like: ReplicateLike) -> None:
    async with inbox(replicate_like.secret) as box:
        replicate_like.script("create", None, Refusal())
        replicate_like.plan(Plan("failed", "out of memory"))
        for error in ("out of memory", "NSFW content detected"):
            made = await predicted(replicate_like)
            await replicate_like.over(made["id"])
            _, _, told = await asked(replicate_like, f"/v1/predictions/{made['id']}")
            assert told["status"] == "failed"
            assert error in told["error"]
        replicate_like.plan(Plan("never"))
        made = await predicted(replicate_like, box)
        path = f"/v1/predictions/{made['id']}"
        _, _, told = await asked(replicate_like, f"{path}/cancel", method="POST")
        assert told["status"] == "canceled"
        await replicate_like.delivered()
        assert box.came[-1][2]["status"] == "canceled"


async def test_it_calls_nobody_but_loopback(replicate_like: ReplicateLike) -> None:
    for hook in ("https://example.org/hook", "http://169.254.169.254/", "http://[", "x"):
        body: dict[str, Any] = {"input": {}, "webhook": hook}
        status, _, told = await asked(replicate_like, "/v1/predictions", body)
        assert (status, told["title"]) == (422, "Input validation failed")
    assert not replicate_like.predictions


async def test_replicates_errors_have_their_shape() -> None:
    async with ReplicateLike(token="secret") as provider:
        status, _, told = await asked(provider, "/v1/predictions/none")
        assert (status, told["status"], told["title"]) == (401, 401, "Unauthenticated")
    async with ReplicateLike() as provider:
        assert (await asked(provider, "/v1/predictions/none"))[0] == 404
        assert (await asked(provider, "/v1/predictions", {"input": 7}))[0] == 422
        provider.script("create", busy(3))
        status, headers, _ = await asked(provider, "/v1/predictions", {"input": {}})
        assert (status, headers["Retry-After"]) == (429, "3")
