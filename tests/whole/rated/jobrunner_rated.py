"""Two workflows: one calls a provider with a rate, the other takes a user's jobs one at a time.
Both note in a file when they began, and the second when it was over."""

import os
import time

import anyio
from msgspec import Struct

from jobrunner import (
    Call,
    Context,
    Definition,
    Done,
    Edge,
    JobType,
    Lock,
    Retry,
    Stage,
    State,
    Workflow,
)


class Params(Struct, frozen=True):
    diary: str


def note(ctx: Context[Params], what: str) -> None:
    with open(ctx.params.diary, "a", encoding="utf-8") as diary:
        diary.write(f"{what} {time.time()} {ctx.job_id} {os.getpid()}\n")


async def calling(ctx: Context[Params]) -> Done:
    note(ctx, "called")
    return Done()


async def alone(ctx: Context[Params]) -> Done:
    note(ctx, "began")
    await anyio.sleep(0.05)
    note(ctx, "ended")
    return Done()


def declared(name: str, stage: str, one_at_a_time: Call | None = None) -> Definition:
    retry = Retry("inside", failed=("failed",), max=3)
    return Definition(
        Workflow(
            name=name,
            version="1",
            initial="queued",
            states=(
                State("queued", "queued", onward={"*": "working"}),
                State(
                    "working", "active", stage={"*": stage}, done="done", limit_s=60, retry=retry,
                    one_at_a_time=one_at_a_time,
                ),
                State("done", "final", ends="completed"),
                State("failed", "final", ends="failed"),
            ),
            edges=(
                Edge("queued", "working", by=("engine",)),
                Edge("working", "done", by=("stage",)),
                Edge("working", "failed", by=("stage", "timer", "engine")),
            ),
            job_types=(JobType("any", params="params"),),
            locks=(Lock("job", guarded=("working",)),),
        ),
        structs={"params": Params},
    )  # fmt: skip


call = Stage("rated.call", calling, rates={"there": 1}, pace={"there": "1/2s burst 8"})
single = Stage("rated.single", alone)
rated = declared("rated", "rated.call")
single_workflow = declared("single", "rated.single", Call("by_user"))
