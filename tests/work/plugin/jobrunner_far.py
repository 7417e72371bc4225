"""A workflow whose one stage does what its params say, in any of the three ways that stages run."""

import os
import threading
from typing import Any

import anyio
from msgspec import Struct, to_builtins

from jobrunner import (
    Asset,
    Command,
    Context,
    Deadline,
    Definition,
    Done,
    Edge,
    JobType,
    Lock,
    PermanentFailure,
    PlainContext,
    Rejected,
    Retry,
    RetryableFailure,
    State,
    Workflow,
    stage,
)


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """``does`` is what the stage does; ``gate`` a file that it waits for; ``diary`` one that gets a
    line for each execution; ``size`` how large its file is."""

    does: str = "work"
    gate: str = ""
    diary: str = ""
    size: int = 6


def noted(ctx: Any) -> None:
    if ctx.params.diary:
        with open(ctx.params.diary, "a", encoding="utf-8") as diary:
            diary.write(f"{ctx.job_id} {ctx.attempt} {os.getpid()}\n")


def song_of(ctx: Any) -> bytes:
    size: int = ctx.params.size
    return b"la" * (size // 2)


async def hush(ctx: Context[Params]) -> None:
    if ctx.params.diary:
        with open(ctx.params.diary, "a", encoding="utf-8") as diary:
            diary.write(f"hushed {ctx.kept}\n")


@stage("far.sing", abandon=hush)
async def sing(ctx: Context[Params]) -> Done:
    noted(ctx)
    await _goes_wrong(ctx.params.does)
    match ctx.params.does:
        case "wait":
            await ctx.progress(10, "listening")
            await _opened(ctx.params.gate)
        case "deaf":
            await _deaf(ctx.params.gate)
        case "long":
            return Done(result={"text": "x" * 1_000_000})
        case "once":
            await ctx.once("order", _order)
            await _opened(ctx.params.gate)
        case "keep_file":
            asset = Asset(**await ctx.once("song", lambda: _saved(ctx)))
            await _opened(ctx.params.gate)
            return Done(artifacts={"song": asset.url}, assets=(asset,))
    await ctx.progress(50, "singing")
    ctx.log("la la")
    asset = await ctx.save("song.txt", song_of(ctx), asset_type="audio", artifact="song")
    if ctx.params.does == "checkpoint":
        await ctx.checkpoint(verse=1)
        if ctx.attempt == 1:
            raise RetryableFailure("LATER", "after the checkpoint", retry_after_s=0)
    return Done(result={"url": asset.url, "voice": ctx.settings["voice"], "kept": ctx.kept})


async def _goes_wrong(does: str) -> None:
    match does:
        case "later":
            raise RetryableFailure("NOT_NOW", "try again", retry_after_s=3600)
        case "never":
            raise PermanentFailure("NEVER", "do not try again", excerpt="said by somebody")
        case "no":
            raise Rejected("SAFE_BLOCK", "not this")
        case "crash":
            raise ZeroDivisionError("a bug in a plugin")


async def _opened(gate: str) -> None:
    while not os.path.exists(gate):
        await anyio.sleep(0.01)


async def _deaf(gate: str) -> None:
    """It does not hear that it is told to stop."""
    while not os.path.exists(gate):
        try:
            await anyio.sleep(0.01)
        except BaseException:  # noqa: BLE001 - that is what it is for
            continue


async def _order() -> int:
    return 7


async def _saved(ctx: Context[Params]) -> Any:
    asset = await ctx.save("song.txt", song_of(ctx), asset_type="audio")
    return to_builtins(asset)


@stage("far.count")
def count(ctx: PlainContext[Params]) -> Done:
    """In a process of its own: reads the file that was made before."""
    noted(ctx)
    if ctx.params.does == "hang" and not os.path.exists(ctx.params.gate):
        threading.Event().wait()
    with open(ctx.file("song"), "rb") as song:
        size = len(song.read())
    echo = ctx.save("echo.txt", b"al" * (size // 2), asset_type="audio", artifact="echo")
    return Done(result={"size": size, "echo": echo.url})


@stage("far.show", how="thread")
def show(ctx: PlainContext[Params]) -> Done:
    known = ctx.asset(ctx.artifacts["echo"])
    with open(known.path, "rb") as echo:
        words = echo.read(2).decode()
    kept = ctx.once("said", lambda: words)
    return Done(result={"shown": kept, "count": ctx.artifact("song", 1)})


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    voice: str = "alto"


def _state(name: str, stage_name: str, done: str) -> State:
    return State(
        name,
        "active",
        stage={"*": stage_name},
        done=done,
        rejected="refused",
        limit_s=30,
        deadline=Deadline(600),
        retry=Retry("inside", failed=("failed",), max=3, base_s=0.01, jitter=0),
    )


STEPS = (
    ("queued", "singing"),
    ("singing", "sung"),
    ("sung", "counting"),
    ("counting", "counted"),
    ("counted", "showing"),
    ("showing", "done"),
)
WORK = ("singing", "counting", "showing")
EDGES = (
    *(Edge(one, other, by=("engine", "stage", "workflow")) for one, other in STEPS),
    *(Edge(state, "refused", by=("stage", "workflow")) for state in WORK),
    Edge("*", "failed", by=("stage", "timer", "engine", "workflow")),
    Edge("*", "canceled", by=("user",)),
)
OPEN = ("queued", "singing", "sung", "counting", "counted", "showing")
definition = Definition(
    Workflow(
        name="far",
        version="1",
        initial="queued",
        states=(
            State("queued", "queued", onward={"*": "singing"}),
            _state("singing", "far.sing", "sung"),
            State("sung", "waiting", person=False, onward={"*": "counting"}),
            _state("counting", "far.count", "counted"),
            State("counted", "waiting", person=False, onward={"*": "showing"}),
            _state("showing", "far.show", "done"),
            State("done", "final", entry=100, ends="completed"),
            State("refused", "final", ends="rejected"),
            State("failed", "final", ends="failed", fails=("failure_message",)),
            State("canceled", "final", ends="canceled"),
        ),
        edges=EDGES,
        commands=(Command("cancel", walks=dict.fromkeys(OPEN, ("canceled",))),),
        job_types=(JobType("song", params="params"),),
        locks=(Lock("job", guarded=WORK),),
    ),
    structs={"params": Params},
    settings=Settings,
)
