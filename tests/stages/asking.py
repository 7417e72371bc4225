"""A workflow whose stage asks somebody: whether a text may be printed."""

from typing import Any

import anyio
from msgspec import UNSET, Struct

from jobrunner import (
    Command,
    Context,
    Deadline,
    Definition,
    Done,
    Edge,
    JobType,
    Lock,
    PlainContext,
    Retry,
    State,
    Workflow,
    stage,
)
from jobrunner.stages import Registry

GATES: dict[str, anyio.Event] = {}


class Verdict(Struct, frozen=True, forbid_unknown_fields=True):
    approved: bool
    note: str = ""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """``gated``: the stage goes on to wait for the answer when the test says so."""

    text: str = "Print me"
    timeout_s: float = 0
    by: tuple[str, ...] = ("user",)
    default: bool | None = None
    gated: bool = False
    untyped: bool = False


def terms(params: Params) -> dict[str, Any]:
    default = UNSET if params.default is None else Verdict(params.default, "nobody said so")
    return {
        "text": f"May this be printed: {params.text}?",
        "by": params.by,
        "timeout_s": params.timeout_s,
        "default": default,
    }


def _token(url: str) -> str:
    """Without the place where the service is reached, which may be another one after a start."""
    return url.rpartition("/")[2]


@stage("press.ask", asks=[Verdict])
async def ask(ctx: Context[Params]) -> Done:
    kind = None if ctx.params.untyped else Verdict
    question = await ctx.question("approval", kind, **terms(ctx.params))
    url = question.url

    async def tell() -> str:
        return url

    told = await ctx.once("told", tell)
    ctx.log(f"token {' '.join(_token(url))}")  # what looks like one is redacted
    if ctx.params.gated:
        await GATES.setdefault(ctx.job_id, anyio.Event()).wait()
    answer = await question.answer()
    return Done(result={"answer": answer, "same": _token(told) == _token(url)})


@stage("press.plain", asks=[Verdict])
def ask_in_process(ctx: PlainContext[Params]) -> Done:
    question = ctx.question("approval", Verdict, **terms(ctx.params))
    told = ctx.once("told", lambda: question.url)
    answer = question.answer()
    return Done(result={"answer": answer, "same": _token(told) == _token(question.url)})


@stage("press.call")
async def call(ctx: Context[Params]) -> Done:
    return Done(result={"answer": await ctx.await_callback("press-1", 60)})


def definition_of(name: str, stage_name: str) -> Definition:
    """A queue, the stage, an end for every outcome."""
    return Definition(
        Workflow(
            name=name,
            version="1",
            initial="queued",
            states=(
                State("queued", "queued", onward={"*": "asking"}),
                State(
                    "asking",
                    "active",
                    stage={"*": stage_name},
                    done="done",
                    rejected="failed",
                    limit_s=120,
                    deadline=Deadline(3600),
                    retry=Retry("inside", failed=("failed",), max=2, base_s=0.01, jitter=0),
                ),
                State("done", "final", entry=100, ends="completed"),
                State("failed", "final", ends="failed", fails=("failure_message",)),
                State("canceled", "final", ends="canceled"),
            ),
            edges=(
                Edge("queued", "asking", by=("engine",)),
                Edge("queued", "canceled", by=("user", "admin")),
                Edge("asking", "done", by=("stage",)),
                Edge("asking", "failed", by=("stage", "timer", "engine")),
                Edge("asking", "canceled", by=("user", "admin")),
            ),
            job_types=(JobType("any", params="params"),),
            locks=(Lock("press", guarded=("asking",)),),
            commands=(Command("cancel", walks={"queued": ("canceled",), "asking": ("canceled",)}),),
        ),
        structs={"params": Params},
    )


press = definition_of("press", "press.ask")
plain_press = definition_of("plain-press", "press.plain")
calling_press = definition_of("calling-press", "press.call")


def registry() -> Registry:
    made = Registry()
    for one in (ask, ask_in_process, call, press, plain_press, calling_press):
        made.add(one)
    assert not made.refused["workflows"], made.refused["workflows"]
    return made
