"""A workflow whose stage awaits one webhook, and the source that brings it."""

import json
import os
from collections.abc import Mapping
from typing import Any

import anyio
from msgspec import Struct

from jobrunner import (
    Command,
    Context,
    Definition,
    Done,
    Edge,
    Heard,
    JobType,
    Lock,
    Retry,
    Source,
    State,
    Workflow,
    stage,
)


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """``keys``: what each attempt awaits, and the last one also those after it. ``timeout_s``: for
    how long, and ``then_s`` for how long those after the first, if not the same. ``gate``: a file
    before which nothing is awaited. ``diary``: a file that gets a line for each answer."""

    keys: list[str]
    timeout_s: float = 0
    then_s: float = 0
    gate: str = ""
    diary: str = ""


@stage("listener.listen")
async def listen(ctx: Context[Params]) -> Done:
    params = ctx.params
    while params.gate and not os.path.exists(params.gate):
        await anyio.sleep(0.01)
    key = params.keys[min(ctx.attempt, len(params.keys)) - 1]
    timeout_s = params.then_s if params.then_s and ctx.attempt > 1 else params.timeout_s
    heard = await ctx.await_callback(key, timeout_s, source="postman")
    if params.diary:
        with open(params.diary, "a", encoding="utf-8") as diary:
            diary.write(f"{ctx.job_id} {ctx.attempt} {json.dumps(heard)}\n")
    return Done(result={"heard": heard})


def read(body: bytes, headers: Mapping[str, str]) -> Heard | None:
    """``{"id", "status", "output"}``; one that says ``raise`` finds a bug in here."""
    said: dict[str, Any] = json.loads(body)
    if said["status"] == "raise":
        raise ZeroDivisionError("a bug in a reader")
    if said["status"] == "nonsense":
        return {"key": "k"}  # type: ignore[return-value]
    return Heard(said["id"], said.get("output")) if said["status"] == "done" else None


postman = Source("postman", read)

definition = Definition(
    Workflow(
        name="listener",
        version="1",
        initial="queued",
        states=(
            State("queued", "queued", onward={"*": "listening"}),
            State(
                "listening",
                "active",
                stage={"*": "listener.listen"},
                done="done",
                limit_s=60,
                retry=Retry("inside", failed=("failed",), max=2, base_s=0.02, jitter=0),
            ),
            State("done", "final", entry=100, ends="completed"),
            State("failed", "settled", ends="failed", fails=("failure_message",)),
            State("canceled", "final", ends="canceled"),
        ),
        edges=(
            Edge("queued", "listening", by=("engine", "workflow")),
            Edge("queued", "failed", by=("engine", "workflow")),
            Edge("queued", "canceled", by=("user", "admin")),
            Edge("listening", "done", by=("stage", "workflow")),
            Edge("listening", "failed", by=("stage", "timer", "engine", "workflow")),
            Edge("listening", "canceled", by=("user", "admin")),
        ),
        job_types=(JobType("listener", params="params"),),
        commands=(Command("cancel", walks=dict.fromkeys(("queued", "listening"), ("canceled",))),),
        locks=(Lock("job", guarded=("listening",)),),
    ),
    structs={"params": Params},
)
