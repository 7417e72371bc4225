"""What a stage that is tried alone is answered when it asks for more than its job."""

import hashlib
from typing import Any

import pytest

from jobrunner import Context, Done, PlainContext, Reply, Stage
from jobrunner.outgoing.calls import Exchange
from jobrunner.testing import run_stage, run_stage_live
from jobrunner.testing.simulation.loop import RealWorld
from tests.stages.speaking import PNG, listening


async def awaiting(ctx: Context[Any]) -> Done:
    reply = await ctx.http.get(f"{ctx.settings['base_url']}/hello")
    file = await ctx.download(f"{ctx.settings['base_url']}/a.png", types={"image/png"})
    saved = await ctx.save("a.png", file.path, asset_type="image")
    return Done(result={"said": reply.text, "sha256": file.sha256, "url": saved.url})


def plain(ctx: PlainContext[Any]) -> Done:
    reply = ctx.http.get(f"{ctx.settings['base_url']}/hello")
    file = ctx.download(f"{ctx.settings['base_url']}/a.png", types={"image/png"})
    saved = ctx.save("a.png", file.path, asset_type="image")
    return Done(result={"said": reply.text, "sha256": file.sha256, "url": saved.url})


STAGES = [Stage("trial.awaiting", awaiting), Stage("trial.plain", plain, "thread")]


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_is_answered_by_hand(stage: Stage) -> None:
    """No time passes, and no socket is opened."""
    asked: list[str] = []

    def http(exchange: Exchange) -> Reply:
        asked.append(exchange.url)
        return Reply(200, {}, PNG if exchange.url.endswith(".png") else b"hi", exchange.url)

    tried = run_stage(stage, settings={"base_url": "https://p.test"}, http=http)
    assert tried.outcome == "done", tried
    assert tried.result["said"] == "hi"
    assert tried.files[tried.result["url"]] == PNG
    assert asked == ["https://p.test/hello", "https://p.test/a.png"]


@pytest.mark.anyio
@pytest.mark.parametrize("stage", STAGES)
async def test_a_stage_asks_a_server_of_the_test(stage: Stage) -> None:
    async with listening() as server:
        server.says("/hello", b"hi")
        server.says("/a.png", PNG)
        tried = await run_stage_live(stage, settings={"base_url": server.url})
        assert tried.result["sha256"] == hashlib.sha256(PNG).hexdigest()
        assert tried.files[tried.result["url"]] == PNG


@pytest.mark.anyio
@pytest.mark.parametrize("stage", STAGES)
async def test_the_real_guard_stands_before_other_servers(stage: Stage) -> None:
    async def away(ctx: Context[Any]) -> Done:
        return Done(result=(await ctx.http.get(ctx.params["url"])).text)

    async with listening() as server:
        server.says("/hello", b"hi")
        url = f"{server.url}/hello"
        tried = await run_stage_live(Stage("trial", away), {"url": url})
        assert tried.failure is not None
        assert tried.failure.code == "DOWNLOAD_REFUSED"
        assert server.seen == []
        opened = await run_stage_live(Stage("trial", away), {"url": url}, origins=[server.url])
        assert opened.result == "hi"


def test_failures_are_those_of_the_service() -> None:
    async def asking(ctx: Context[Any]) -> Done:
        await ctx.http.post("https://p.test/", json={"a": 1})
        return Done()

    def busy(exchange: Exchange) -> Reply:
        assert exchange.data == b'{"a":1}'
        return Reply(429, {"retry-after": "9"}, b"", exchange.url)

    tried = run_stage(Stage("trial", asking), http=busy)
    assert tried.failure is not None
    assert (tried.failure.code, tried.failure.retry_after_s) == ("RATE_LIMITED", 9)
    with pytest.raises(RealWorld, match="run_stage_live"):
        run_stage(Stage("trial", asking))


def test_files_and_library_are_given_by_hand() -> None:
    async def reading(ctx: Context[Any]) -> Done:
        held = await ctx.asset("/assets/clip/content")
        with open(held.path, "rb") as file, open(await ctx.file("audio_uri"), "rb") as audio:
            content = [file.read().decode(), audio.read().decode()]
        names = [asset.id for asset in await ctx.library("video")]
        return Done(result=[*content, names, ctx.callback_url("provider")])

    assets = {"clip": ("video", b"moving"), "still": ("image", b"standing")}
    tried = run_stage(
        Stage("trial", reading),
        assets=assets,
        files={"audio_uri": b"sounding"},
    )
    address = "http://jobrunner.test/webhooks/provider"
    assert tried.result == ["moving", "sounding", ["clip"], address], tried

    async def lost(ctx: Context[Any]) -> Done:
        await ctx.asset("nobody's")
        return Done()

    missed = run_stage(Stage("trial", lost))
    assert missed.failure is not None
    assert missed.failure.code == "ASSET_NOT_FOUND"
