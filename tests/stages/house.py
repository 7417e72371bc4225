"""A service with unruly stages behind real HTTP, and a look at the processes of this machine."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from jobrunner.core.job import Actor
from jobrunner.core.messages import Answered
from jobrunner.errors import Refused
from jobrunner.stages import Registry
from tests.stages import unruly
from tests.whole.living import Living, living

WORKER = Actor("worker", "workflow")


def registry(limit_s: float = 60, tries: int = 1, thread_s: float = 60) -> Registry:
    """``thread_s`` is the time limit of the stage in a thread. Only what is to end by its limit has
    a short one: on a busy machine a process needs seconds before it begins."""
    made = Registry()
    for stage in (unruly.misbehave, unruly.misbehave_in_thread, unruly.misbehave_awaiting):
        made.add(stage)
        name = stage.name.partition(".")[2]
        most_s = thread_s if name == "thread" else limit_s
        made.add(unruly.definition_of(name, stage.name, most_s, tries))
    assert not made.refused["workflows"], made.refused["workflows"]
    return made


@asynccontextmanager
async def serving(folder: Path, **how: Any) -> AsyncIterator[Living]:
    async with living(folder, registry(**how)) as here:
        yield here


async def submitted(here: Living, does: str, workflow: str = "stage", **params: str) -> str:
    body = {"workflow": workflow, "params": {"does": does, **params}}
    said = await here.admin.post("/jobs", body)
    assert said.status == 201, said
    return str(said.json["id"])


async def over(here: Living, job_id: str) -> Any:
    return await here.at(job_id, "done", "failed", "rejected", "canceled")


async def attempts(here: Living, job_id: str) -> list[dict[str, Any]]:
    return list((await here.admin.get(f"/jobs/{job_id}/attempts")).json["attempts"])


def processes(mark: str) -> list[str]:
    """The command lines of the processes that were started for this mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if mark.encode() in line:
            found.append(line.replace(b"\0", b" ").decode())
    return found


def children() -> list[int]:
    """Of this process, zombies included."""
    return children_of(os.getpid())


def children_of(pid: int) -> list[int]:
    """Those that any of its threads has started; a thread may end while it is asked."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found


async def nothing_left(mark: str) -> None:
    await until(lambda: not processes(mark) and not children())


async def until(condition: Callable[[], bool]) -> None:
    with anyio.move_on_after(120):
        while not condition():
            await anyio.sleep(0.02)
        return
    raise AssertionError(f"waited for {condition}")


async def answer(here: Living, job_id: str, key: str, value: Any) -> str:
    """A callback to the stage of a job; the code of the refusal, if it is one."""
    try:
        await here.service.facade.ask(job_id, Answered(WORKER, key, value))
    except Refused as refused:
        return refused.code
    return ""


async def attempt_status(here: Living, job_id: str, *statuses: str) -> dict[str, Any]:
    """The last attempt, as soon as it stands like this."""
    with anyio.move_on_after(120):
        while True:
            for last in (await attempts(here, job_id))[-1:]:
                if last["status"] in statuses:
                    return last
            await anyio.sleep(0.02)
    raise AssertionError(await attempts(here, job_id))
