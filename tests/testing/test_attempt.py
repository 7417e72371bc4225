"""One stage, without a service around it."""

import sys
import threading

import anyio
import pytest
from msgspec import Struct

from jobrunner import Context, Done, PermanentFailure, PlainContext, RetryableFailure, Stage, stage
from jobrunner.testing import run_stage, run_stage_live
from jobrunner.testing.providers import ScriptedProvider
from jobrunner.testing.simulation.loop import RealWorld


class Params(Struct, frozen=True):
    name: str = "world"


@stage("trial.draw")
async def draw(ctx: Context[Params]) -> Done:
    await ctx.progress(10, "thinking")
    with anyio.move_on_after(3600):
        await anyio.Event().wait()
    picture = await ctx.save("one.png", b"picture", asset_type="image", artifact="picture_uri")
    ctx.log(f"drew {ctx.params.name} under {ctx.idempotency_key()}")
    return Done(result={"url": picture.url})


def test_what_a_stage_makes_and_says() -> None:
    """An hour passes, and nobody has to wait for it."""
    tried = run_stage(draw, Params("ann"), state="drawing")
    assert tried.outcome == "done"
    assert tried.failure is None
    (asset,) = tried.assets
    assert tried.result == {"url": asset.url}
    assert tried.files == {asset.url: b"picture"}
    assert tried.artifacts == {"picture_uri": asset.url}
    assert tried.progress == ((10, "thinking"),)
    assert tried.log == ("drew ann under job-1:drawing:run-1",)
    assert tried.seconds == pytest.approx(3600, abs=1)


def test_failures_are_classed_as_the_service_would() -> None:
    async def busy(ctx: Context[Params]) -> Done:
        raise RetryableFailure("RATE_LIMITED", "later", retry_after_s=7)

    async def wrong(ctx: Context[Params]) -> Done:
        raise PermanentFailure("BAD_INPUT", "never")

    async def buggy(ctx: Context[Params]) -> Done:
        raise KeyError("one")

    found = [run_stage(Stage("trial", run)) for run in (busy, wrong, buggy)]
    assert [one.outcome for one in found] == ["failed"] * 3
    failures = [one.failure for one in found if one.failure is not None]
    assert [(one.code, one.retryable) for one in failures] == [
        ("RATE_LIMITED", True),
        ("BAD_INPUT", False),
        ("STAGE_CRASHED", False),
    ]
    assert failures[0].retry_after_s == 7


def test_a_stage_that_waits_and_goes_on() -> None:
    async def asking(ctx: Context[Params]) -> Done:
        async def ask() -> str:
            return "call-7"

        key = await ctx.once("asked", ask)
        return Done(result=await ctx.await_callback(key))

    parked = run_stage(Stage("trial", asking))
    assert (parked.outcome, parked.awaits, parked.kept) == ("parked", "call-7", {"asked": "call-7"})
    done = run_stage(Stage("trial", asking), kept=parked.kept, answers={"call-7": 12})
    assert (done.outcome, done.result) == ("done", 12)


def test_a_plain_stage() -> None:
    @stage("trial.plain")
    def plain(ctx: PlainContext[Params]) -> Done:
        ctx.progress(50)
        return Done(result=ctx.once("sum", lambda: 12))

    tried = run_stage(plain, Params())
    assert (tried.outcome, tried.result, tried.kept) == ("done", 12, {"sum": 12})
    assert tried.progress == ((50, None),)


def test_no_stage_reaches_the_real_world() -> None:
    async def reaching(ctx: Context[Params]) -> Done:
        await anyio.connect_tcp("127.0.0.1", 1)
        return Done()

    with pytest.raises(RealWorld):
        run_stage(Stage("trial", reaching))


async def waiting(ctx: Context[Params]) -> Done:
    await anyio.sleep_forever()
    return Done()


def test_what_waits_for_ever_is_named_and_ended() -> None:
    """By the limit that it is given, as the service would; without one, as an error."""
    tried = run_stage(Stage("trial", waiting), seconds=90)
    assert tried.failure is not None
    assert (tried.failure.code, tried.failure.retryable) == ("STAGE_TIMEOUT", True)
    assert tried.seconds == pytest.approx(90, abs=1)
    with pytest.raises(
        AssertionError, match=r"stage trial \(.*test_attempt.py:\d+\) waits for ever"
    ):
        run_stage(Stage("trial", waiting))


def test_a_plain_stage_is_ended_by_its_limit_too() -> None:
    def late(ctx: PlainContext[Params]) -> Done:
        threading.Event().wait()
        return Done()

    failure = run_stage(Stage("trial", late), seconds=0.05).failure
    assert failure is not None
    assert failure.code == "STAGE_TIMEOUT"


def test_a_stage_that_ends_the_program_ends_its_attempt() -> None:
    async def exits(ctx: Context[Params]) -> Done:
        sys.exit(1)

    failure = run_stage(Stage("trial", exits)).failure
    assert failure is not None
    assert failure.code == "STAGE_CRASHED"


async def ordering(ctx: Context[Params]) -> Done:
    said = await ctx.http.post("https://shop.invalid/orders", json={"name": ctx.params.name})
    return Done(result=said.json())


def shop() -> ScriptedProvider:
    return ScriptedProvider({"take": ("POST", "/orders", lambda call: call.json)})


def test_a_provider_answers_a_stage_alone() -> None:
    for http in (shop(), {"https://shop.invalid": shop()}):
        assert run_stage(Stage("trial", ordering), Params("ann"), http=http).result == {
            "name": "ann"
        }


@pytest.mark.anyio
async def test_where_a_loop_is_running_one_is_told_what_to_await() -> None:
    """In a notebook, where one may await at once."""
    with pytest.raises(AssertionError, match=r"await run_stage_live\('trial', ...\)"):
        run_stage(Stage("trial", ordering), Params())
    tried = await run_stage_live(Stage("trial", ordering), Params("ann"), http=shop())
    assert tried.result == {"name": "ann"}
    late = await run_stage_live(Stage("trial", waiting), Params(), seconds=0.02)
    assert late.failure is not None
    assert late.failure.code == "STAGE_TIMEOUT"
