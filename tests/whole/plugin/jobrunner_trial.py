"""A workflow whose stage does what its params say: wait, fail, hang, or end the whole process."""

import asyncio
import os
import signal
from contextlib import suppress

import anyio
from msgspec import Struct
from msgspec.structs import replace

from jobrunner import (
    Ask,
    Call,
    Command,
    Context,
    Definition,
    Done,
    Edge,
    Guard,
    JobType,
    Lock,
    PermanentFailure,
    Refused,
    Retry,
    RetryableFailure,
    Stage,
    State,
    Workflow,
)


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """``does``: ``work``, ``wait`` (until the file ``gate`` is there), ``hang`` (deaf to being
    cancelled), ``retry``, ``fail``, ``crash``, or what ends the service: ``die``, ``exit``,
    ``spin``. ``diary``: a file that gets a line for each execution."""

    does: str = "work"
    gate: str = ""
    diary: str = ""
    trap: str = ""


async def work(ctx: Context[Params]) -> Done:
    params = ctx.params
    if params.diary:
        with open(params.diary, "a", encoding="utf-8") as diary:
            diary.write(f"{ctx.job_id} {ctx.attempt} {ctx.idempotency_key()}\n")
    if params.does in ("wait", "hang", "spin"):
        await _wait(params)
    match params.does:
        case "retry":
            raise RetryableFailure("NOT_NOW", "try again")
        case "fail":
            raise PermanentFailure("NEVER", "do not try again")
        case "crash":
            raise ZeroDivisionError("a bug in a plugin")
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(7)
    return Done(result={"attempt": ctx.attempt})


async def _wait(params: Params) -> None:
    """Until the gate is there: politely, deaf to being cancelled, or keeping everybody waiting."""
    while not os.path.exists(params.gate):
        match params.does:
            case "wait":
                await anyio.sleep(0.01)
            case "hang":
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.01)
            case _:
                pass


async def stand(ctx: Context[object]) -> Done:
    """At work for as long as it is let, in whatever workflow."""
    await anyio.sleep_forever()
    return Done()


async def make(ctx: Context[object]) -> Done:
    """The file that a stage of the pipeline makes, whatever is in it."""
    name = {"AUDIO_EXTRACTING": "audio_uri", "TRANSCRIBING": "transcript_uri"}[ctx.state]
    await ctx.save(f"{name}.bin", b"made", asset_type="made", artifact=name)
    return Done()


def trapped(ask: Ask) -> Refused | None:
    """A guard with a bug in it, while the file named by ``trap`` is there."""
    if ask.params.get("trap") and os.path.exists(ask.params["trap"]):
        raise ZeroDivisionError("a bug in a guard")
    return None


TRAP = Guard(Call("trapped"), otherwise=("failed",), code="TRAPPED")
work_stage = Stage("trial.work", work)
stand_stage = Stage("trial.stand", stand)
make_stage = Stage("trial.make", make)

definition = Definition(
    Workflow(
        name="trial",
        version="1",
        initial="queued",
        states=(
            State("queued", "queued", onward={"*": "working"}),
            State(
                "working",
                "active",
                stage={"*": "trial.work"},
                done="done",
                limit_s=60,
                same="retry",
                retry=Retry("self_edge", failed=("failed",), max=3, base_s=0.02, jitter=0),
            ),
            State("done", "final", entry=100, ends="completed"),
            State("failed", "settled", ends="failed", fails=("failure_message",)),
            State("canceled", "final", ends="canceled"),
        ),
        edges=(
            Edge("queued", "working", by=("engine", "workflow"), guards=(TRAP,)),
            Edge("queued", "failed", by=("engine", "workflow")),
            Edge("queued", "canceled", by=("user", "admin")),
            Edge("working", "working", by=("stage", "timer", "engine", "workflow")),
            Edge("working", "done", by=("stage", "workflow")),
            Edge("working", "failed", by=("stage", "timer", "engine", "workflow")),
            Edge("working", "canceled", by=("user", "admin")),
            Edge("failed", "queued", by=("admin",)),
        ),
        job_types=(JobType("trial", params="params"),),
        commands=(
            Command("cancel", walks=dict.fromkeys(("queued", "working"), ("canceled",))),
            Command("retry", walks={"failed": ("queued",)}, roles=("admin",), opens_run=True),
        ),
        locks=(Lock("job", guarded=("working",)),),
    ),
    functions={"trapped": trapped},
    structs={"params": Params},
)

_loop = Edge("done", "nowhere", by=("engine",))
unsound = Definition(
    replace(definition.workflow, name="unsound", edges=(*definition.workflow.edges, _loop)),
    functions=definition.functions,
    structs=definition.structs,
)
