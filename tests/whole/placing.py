"""How to stand in each of the forty states over HTTP, many at a time."""

from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import Any

import anyio

from jobrunner import app
from jobrunner.config.settings import Config, QuotaSettings, RetrySettings, WorkflowSettings
from jobrunner.stages import Registry
from tests.http.serving import Caller, House, Said
from tests.standing import LIFECYCLES, Command, Post, Step, Take, Transition

AT_ONCE = 24
ADMINS_ONLY = ("fail",)

numbers = count()


def outside(await_s: float | None = None) -> Registry:
    """Every stage is an outside worker's; a failure is not tried again by itself within the hour.
    ``await_s`` is how long CutX waits for a provider."""
    deadline = {} if await_s is None else {"processing": await_s}
    external = {"*": "external"}
    slow = RetrySettings(base=3600, cap=3600)
    quota = QuotaSettings(open_jobs=0, per_minute=0)
    settings = {name: WorkflowSettings(stages=external) for name in LIFECYCLES} | {
        "image-generation": WorkflowSettings(stages=external, retry={"running": slow}, quota=quota),
        "cutx": WorkflowSettings(stages=external, deadline=deadline),
    }
    return app.load_definitions(Config(workflows=settings))


async def at_once(do: Callable[[Any], Awaitable[None]], things: Iterable[Any]) -> None:
    """All of them, some at a time."""
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def one(thing: Any) -> None:
        async with limit:
            await do(thing)

    async with anyio.create_task_group() as group:
        for thing in things:
            group.start_soon(one, thing)


async def stand(
    house: House, owner: Caller, workflow: str, state: str, by_time: bool = False
) -> str:
    """A new job of ``owner`` that stands there. An admin may do all of it alone; ``by_time``
    leaves the last step to the job's own deadline."""
    first, *steps = LIFECYCLES[workflow].steps[state]
    assert isinstance(first, Post)
    steps = steps[:-1] if by_time else steps
    number = str(next(numbers))
    params = first.params | ({"plan_revision": number} if workflow == "ss" else {})
    job = await owner.submit(
        workflow, job_type=first.job_type, params=params, idempotency_key=f"pair-{number}"
    )
    for step in steps:
        said = await take(house, owner, job["id"], step)
        assert said.status in (200, 202), f"{workflow}, on the way to {state}, {step}: {said.raw!r}"
        assert said.status == 202 or not said.json["replayed"], f"{workflow} to {state}: {step}"
    for _ in range(30):
        job = (await house.admin.get(f"/jobs/{job['id']}")).json
        if job["status"] == state:
            break
        await house.admin.get(f"/jobs/{job['id']}?wait=1")
    assert (job["status"], job["kind"]) == (state, LIFECYCLES[workflow].kinds[state])
    return str(job["id"])


async def take(house: House, owner: Caller, job_id: str, step: Step) -> Said:
    match step:
        case Command(name, fields):
            caller = house.admin if name in ADMINS_ONLY else owner
            return await caller.post(f"/jobs/{job_id}/{name}", fields)
        case Transition(to, report):
            return await house.admin.post(f"/jobs/{job_id}/transitions", {"to": to, **report})
        case Take():
            return await house.worker.post(f"/jobs/{job_id}/claim")
        case Post():
            raise AssertionError("a job is made once")
