"""Stages in the loop that misuse the trust: one that does not stop, one that lets nobody else run.
Both are named, in the log and where people look."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from jobrunner import Context, Definition, Done, Stage
from jobrunner.config.settings import ServerSection
from jobrunner.stages import Registry
from tests.http.fickle import DEFINITION, FUNCTIONS, Params
from tests.http.serving import House, opened

pytestmark = pytest.mark.anyio

PROMPT = ServerSection(port=0, drain_seconds=0)


def running(run: Callable[[Context[Any]], Awaitable[Done]]) -> Registry:
    registry = Registry()
    registry.add(Stage("fickle.work", run))
    registry.add(Definition(replace(DEFINITION.workflow), FUNCTIONS, {"params": Params}))
    assert not registry.refused["workflows"], registry.refused["workflows"]
    return registry


@asynccontextmanager
async def letting_go(enough: asyncio.Event) -> AsyncIterator[None]:
    """Whatever becomes of the test: a stage that went on would keep the service from its end."""
    try:
        yield
    except BaseException:
        enough.set()
        raise


async def line(house: House, event: str) -> dict[str, Any]:
    with anyio.fail_after(120):
        while True:
            for found in house.logged:
                if found["event"] == event:
                    return found
            await anyio.sleep(0.02)


async def started(house: House) -> str:
    job = str((await house.ada.submit("fickle"))["id"])
    await house.ada.post(f"/jobs/{job}/go")
    with anyio.fail_after(120):
        while (await house.ada.get(f"/jobs/{job}")).json["status"] == "queued":
            await anyio.sleep(0.02)
    return job


async def test_a_stage_that_does_not_stop_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobrunner.actors.attempts.GRACE_S", 0.1)
    enough = asyncio.Event()

    async def deaf(ctx: Context[Any]) -> Done:
        while not enough.is_set():
            try:
                await enough.wait()
            except asyncio.CancelledError:
                continue
        return Done()

    async with opened(tmp_path, registry=running(deaf)) as house, letting_go(enough):
        job = await started(house)
        assert (await house.ada.post(f"/jobs/{job}/cancel")).json["status"] == "canceled"
        told = await line(house, "stage.deaf")
        assert (told["level"], told["stage"], told["job_id"]) == ("error", "fickle.work", job)
        unwell = await house.nobody.get("/readyz")
        assert unwell.status == 503
        assert f"fickle.work (job {job})" in unwell.raw.decode()
        why = (await house.ada.get(f"/jobs/{job}/explain")).json["waits_for"]
        assert why.startswith("stage fickle.work, which was told to stop")
        enough.set()
        with anyio.fail_after(120):
            while (await house.nobody.get("/readyz")).status != 200:
                await anyio.sleep(0.02)
    assert len([one for one in house.logged if one["event"] == "stage.deaf"]) == 1


async def test_a_stage_that_holds_up_the_stop_of_the_service_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobrunner.actors.attempts.GRACE_S", 0.1)
    began, enough, told = asyncio.Event(), asyncio.Event(), list[dict[str, Any]]()

    async def deaf(ctx: Context[Any]) -> Done:
        began.set()
        while not enough.is_set():
            try:
                await enough.wait()
            except asyncio.CancelledError:
                continue
        return Done()

    async def let_go_when_named(house: House) -> None:
        try:
            told.append(await line(house, "stage.deaf"))
        finally:
            enough.set()

    async with (
        anyio.create_task_group() as group,
        opened(tmp_path, registry=running(deaf), server=PROMPT) as house,
    ):
        job = await started(house)
        await began.wait()  # a stage that has not begun when the stop comes is not begun
        group.start_soon(let_go_when_named, house)
    assert [(one["stage"], one["job_id"]) for one in told] == [("fickle.work", job)]


async def test_what_may_have_blocked_the_loop_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobrunner.actors.keeping.health.LAG_MAX_S", 0.3)
    enough = asyncio.Event()

    async def blocking(ctx: Context[Any]) -> Done:
        threading.Event().wait(1.5)  # which is what no stage should do
        await enough.wait()
        return Done()

    async with opened(tmp_path, registry=running(blocking)) as house:
        await started(house)
        told = await line(house, "loop.blocked")
        assert told["level"] == "error"
        assert told["stages"] == ["fickle.work"]
        enough.set()
