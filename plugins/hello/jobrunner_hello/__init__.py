"""The smallest workflow there is: a queue, one stage, two ways to end."""

from msgspec import Struct

from jobrunner import (
    Context,
    Deadline,
    Definition,
    Done,
    Edge,
    JobType,
    Lock,
    Retry,
    State,
    Workflow,
    stage,
)


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """Whom to greet."""

    name: str = "world"


@stage("hello.greet")
async def greet(ctx: Context[Params]) -> Done:
    await ctx.progress(50, "clearing its throat")
    return Done(result={"greeting": f"Hello, {ctx.params.name}!"})


definition = Definition(
    Workflow(
        name="hello",
        version="1",
        initial="queued",
        states=(
            State("queued", "queued", onward={"*": "greeting"}),
            State(
                "greeting",
                "active",
                stage={"*": "hello.greet"},
                done="greeted",
                limit_s=10,
                deadline=Deadline(60),
                retry=Retry("inside", failed=("failed",)),
            ),
            State("greeted", "final", entry=100, ends="completed"),
            State("failed", "final", ends="failed", fails=("failure_message",)),
        ),
        edges=(
            Edge("queued", "greeting", by=("engine", "workflow")),
            Edge("greeting", "greeted", by=("stage", "workflow")),
            Edge("greeting", "failed", by=("stage", "timer", "engine", "workflow")),
        ),
        job_types=(JobType("greeting", params="params"),),
        locks=(Lock("job", guarded=("greeting",)),),
    ),
    structs={"params": Params},
)
