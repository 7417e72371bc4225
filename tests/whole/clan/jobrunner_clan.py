"""A workflow whose jobs submit jobs of it: a ``fan`` submits as many leaves as its params say, and
waits for them."""

import asyncio
import os

import anyio
from msgspec import Struct

from jobrunner import (
    Birth,
    ChildWorkflow,
    Command,
    Context,
    Definition,
    Done,
    Edge,
    JobType,
    Lock,
    PermanentFailure,
    PlainContext,
    Retry,
    Stage,
    State,
    Workflow,
)

AT_ONCE = 50


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """``leaves`` of a fan do what ``does`` says: ``work``, ``fail``, or ``wait`` until the file
    ``gate`` is there. It waits for ``at_least`` of them (0: all), ``until`` as of await_jobs; not
    at all with ``awaits`` false. ``deep``: its children are fans themselves, so many generations.
    """

    leaves: int = 3
    does: str = "work"
    gate: str = ""
    at_least: int = 0
    until: str = "ended"
    awaits: bool = True
    deep: int = 0
    timeout_s: float = 0


async def fan(ctx: Context[Params]) -> Done:
    params = ctx.params
    kind, given = _child(params)
    ids: list[str] = []
    for first in range(0, params.leaves, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, params.leaves))
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(ctx.submit("clan", given, key=f"leaf-{one}", job_type=kind))
                for one in numbers
            ]
        ids += [task.result() for task in tasks]
    if not params.awaits:
        return Done(result={"ids": sorted(ids)})
    ended = await ctx.await_jobs(
        ids,
        at_least=params.at_least or None,
        until=params.until,  # type: ignore[arg-type]
        timeout_s=params.timeout_s,
    )
    return Done(result=_told([one.ended_as for one in ended]))


def plain(ctx: PlainContext[Params]) -> Done:
    """The same from a process of its own."""
    params = ctx.params
    kind, given = _child(params)
    numbers = range(params.leaves)
    ids = [ctx.submit("clan", given, key=f"leaf-{one}", job_type=kind) for one in numbers]
    ended = ctx.await_jobs(ids, at_least=params.at_least or None)
    return Done(result=_told([one.ended_as for one in ended]))


async def leaf(ctx: Context[Params]) -> Done:
    params = ctx.params
    while params.does == "wait" and not os.path.exists(params.gate):
        await anyio.sleep(0.01)
    if params.does == "fail":
        raise PermanentFailure("WITHERED", "as it was told")
    return Done(result={"of": ctx.job_id})


def _child(params: Params) -> tuple[str, Params]:
    given = Params(leaves=params.leaves, does=params.does, gate=params.gate, deep=params.deep - 1)
    return ("fan" if params.deep else "leaf"), given


def _told(ends: list[str]) -> dict[str, int]:
    return {name or "open": ends.count(name) for name in sorted(set(ends))}


fan_stage = Stage("clan.fan", fan)
plain_stage = Stage("clan.plain", plain, how="process")
thread_stage = Stage("clan.thread", plain, how="thread")
leaf_stage = Stage("clan.leaf", leaf)
STAGES = {"fan": "clan.fan", "plain": "clan.plain", "thread": "clan.thread", "leaf": "clan.leaf"}


def clan(
    child: ChildWorkflow, name: str = "clan", kinds: tuple[str, ...] = tuple(STAGES)
) -> Definition:
    """The price is held when a job is born, and settled at every end."""
    return Definition(
        Workflow(
            name=name,
            version="1",
            initial="queued",
            states=(
                State("queued", "queued", onward={"*": "working"}),
                State(
                    "working",
                    "active",
                    stage={kind: STAGES[kind] for kind in kinds},
                    done="done",
                    limit_s=600,
                    retry=Retry("inside", failed=("failed",), max=3, base_s=0.1, jitter=0),
                ),
                State("done", "final", entry=100, ends="completed"),
                State("failed", "settled", ends="failed", fails=("failure_message",)),
                State("canceled", "final", ends="canceled"),
            ),
            edges=(
                Edge("queued", "working", by=("engine", "workflow")),
                Edge("queued", "canceled", by=("user", "admin"), money="release"),
                Edge("working", "done", by=("stage", "workflow"), money="capture"),
                Edge(
                    "working", "failed", by=("stage", "timer", "engine", "workflow"),
                    money="release",
                ),
                Edge("working", "canceled", by=("user", "admin"), money="release"),
                Edge("failed", "queued", by=("user", "admin"), money="hold"),
            ),
            job_types=tuple(JobType(one, params="params", price=2) for one in kinds),
            commands=(
                Command("cancel", walks=dict.fromkeys(("queued", "working"), ("canceled",))),
                Command("retry", walks={"failed": ("queued",)}, opens_run=True),
            ),
            birth=Birth(money="hold"),
            locks=(Lock("job", guarded=("working",)),),
            children=(child,),
        ),
        structs={"params": Params},
    )  # fmt: skip


definition = clan(ChildWorkflow("clan"))
