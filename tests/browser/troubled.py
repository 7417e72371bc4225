"""Workflows that are in trouble for as long as a file says so, one kind of trouble each."""

import os
from pathlib import Path
from typing import Any

from msgspec import Struct

from jobrunner import (
    Call,
    Command,
    Context,
    Deadline,
    Definition,
    Done,
    Edge,
    Guard,
    JobType,
    Lock,
    Retry,
    RetryableFailure,
    State,
    Workflow,
    one_stage,
    stage,
)

ENTRIES = """[jobrunner.workflows]
mill = jobrunner_troubled:mill
oven = jobrunner_troubled:oven
bellows = jobrunner_troubled:bellows
sieve = jobrunner_troubled:sieve
proof = jobrunner_troubled:proof

[jobrunner.stages]
mill.grind = jobrunner_troubled:grind
oven.bake = jobrunner_troubled:bake
bellows.blow = jobrunner_troubled:blow
sieve.shake = jobrunner_troubled:shake
"""


class Params(Struct, frozen=True):
    name: str = "x"


def is_broken(what: str) -> bool:
    return (Path(os.environ["TROUBLES"]) / what).exists()


@stage("mill.grind")
async def grind(ctx: Context[Params]) -> Done:
    """Ask a provider that is away."""
    if is_broken("provider"):
        raise RetryableFailure("PROVIDER_AWAY", "the wind has gone")
    return Done(result={"ground": ctx.params.name})


@stage("oven.bake")
async def bake(ctx: Context[Params]) -> Done:
    return Done(result={"baked": ctx.params.name})


@stage("bellows.blow")
async def blow(ctx: Context[Params]) -> Done:
    """Wait for a word that was lost on its way."""
    if is_broken("post"):
        await ctx.await_callback(ctx.params.name, 3600)
    return Done(result={"blown": ctx.params.name})


@stage("sieve.shake")
async def shake(ctx: Context[Params]) -> Done:
    return Done(result={"shaken": ctx.params.name})


def through(ask: Any) -> None:
    if is_broken("guard"):
        raise RuntimeError("the sieve has a hole")


mill = one_stage(grind, Params, tries=20, pause_s=1)
oven = one_stage(bake, Params)
bellows = one_stage(blow, Params)
sieve = Definition(
    Workflow(
        name="sieve",
        version="1",
        initial="shaking",
        states=(
            State("shaking", "active", stage={"*": "sieve.shake"}, done="done", limit_s=60,
                  deadline=Deadline(3600), retry=Retry("inside", failed=("failed",))),
            State("done", "final", ends="completed"),
            State("failed", "final", ends="failed"),
        ),
        edges=(
            Edge("shaking", "done", by=("stage",), guards=(Guard(Call("through")),)),
            Edge("shaking", "failed", by=("stage", "timer", "engine")),
        ),
        job_types=(JobType("any", params="params"),),
        locks=(Lock("sieve", guarded=("shaking",)),),
    ),
    structs={"params": Params},
    functions={"through": through},
)  # fmt: skip
proof = Definition(
    Workflow(
        name="proof",
        version="1",
        initial="review",
        states=(
            State("review", "waiting"),
            State("printed", "final", ends="completed"),
        ),
        edges=(Edge("review", "printed", by=("user", "admin")),),
        job_types=(JobType("any", params="params"),),
        commands=(Command("approve", {"review": ("printed",)}, roles=("user", "admin")),),
    ),
    structs={"params": Params},
)
