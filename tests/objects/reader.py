"""Workflows of one stage each that read files, in the three ways that stages run."""

import os
import threading

from msgspec import Struct

from jobrunner import Context, Done, PlainContext, one_stage, stage
from jobrunner.config.overrides import laid_over
from jobrunner.config.settings import WorkflowSettings
from jobrunner.core.declaration.workflow import Workflow
from jobrunner.stages import Registry


class ReadParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``asset`` is a file of the owner's; ``gate`` a file that is waited for before it is read."""

    asset: str = ""
    gate: str = ""


def told(path: str) -> Done:
    with open(path, "rb") as file:
        data = file.read()
    return Done(result={"size": len(data), "place": path})


@stage("loop.read")
async def in_loop(ctx: Context[ReadParams]) -> Done:
    """Also what it made itself, in the attempt before."""
    order = await ctx.once("order", _one)
    found = told((await ctx.asset(ctx.params.asset)).path)
    return Done(result={**found.result, "order": order})


async def _one() -> int:
    return 1


@stage("thread.read", how="thread")
def in_thread(ctx: PlainContext[ReadParams]) -> Done:
    path = ctx.asset(ctx.params.asset).path
    ctx.progress(50, "has it")
    while ctx.params.gate and not os.path.exists(ctx.params.gate):
        threading.Event().wait(0.01)
    return told(path)


@stage("process.read")
def in_process(ctx: PlainContext[ReadParams]) -> Done:
    return told(ctx.asset(ctx.params.asset).path)


@stage("away.read")
async def away(ctx: Context[ReadParams]) -> Done:
    """By whoever claims it, where the service says so."""
    order = await ctx.once("order", _one)
    found = told((await ctx.asset(ctx.params.asset)).path)
    return Done(result={**found.result, "order": order})


def readers(remote: str = "away") -> Registry:
    bound = WorkflowSettings(stages={"*": "remote"})

    def overlay(workflow: Workflow) -> tuple[Workflow, tuple[str, ...]]:
        return laid_over(workflow, bound if workflow.name == remote else WorkflowSettings())

    registry = Registry(overlay)
    for one in (in_loop, in_thread, in_process, away):
        registry.add(one)
        registry.add(one_stage(one, ReadParams, tries=2))
    assert not registry.refused["workflows"], registry.refused["workflows"]
    return registry
