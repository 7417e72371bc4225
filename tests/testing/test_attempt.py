"""One stage, without a service around it."""

import anyio
import pytest
from msgspec import Struct

from jobrunner import Context, Done, PermanentFailure, PlainContext, RetryableFailure, Stage, stage
from jobrunner.testing import run_stage
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
