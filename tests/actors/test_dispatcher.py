"""Slots are handed out to everybody, whoever takes long to accept one."""

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from jobrunner import Context, Done, PermanentFailure, Stage
from jobrunner.ports import SystemChildren
from jobrunner.stages import Registry
from tests.stages.house import until
from tests.stages.test_checkpoints import PRESS
from tests.stages.unruly import definition_of
from tests.whole.living import Living, living

pytestmark = pytest.mark.anyio
T = TypeVar("T")


class SlowDisk(SystemChildren):
    """To look at the files of one job takes until the gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.job_id = ""
        self.looks = 0
        self.gate = anyio.Event()

    async def in_thread(self, function: Callable[[], T]) -> T:
        kept = inspect.getclosurevars(function).nonlocals.get("kept")
        if self.job_id and kept is not None and self.job_id in kept.path:
            self.looks += 1
            await self.gate.wait()
        return await super().in_thread(function)


class Press:
    """One page is written at a time; printing fails while it is jammed, and never ends while it is
    out of paper."""

    def __init__(self) -> None:
        self.jammed = True
        self.empty = False
        self.gate = anyio.Event()
        self.gate.set()

    async def write(self, ctx: Context[Any]) -> Done:
        await self.gate.wait()
        await ctx.save("page.txt", b"page", asset_type="page", artifact="page_uri")
        return Done()

    async def print(self, ctx: Context[Any]) -> Done:
        if self.jammed:
            raise PermanentFailure("JAMMED", "the press is jammed")
        if self.empty:
            await anyio.sleep_forever()
        return Done()


async def quick(ctx: Context[Any]) -> Done:
    return Done()


@asynccontextmanager
async def house(folder: Path, disk: SlowDisk, press: Press) -> AsyncIterator[Living]:
    registry = Registry()
    registry.add(Stage("press.write", press.write, concurrency=1))
    registry.add(Stage("press.print", press.print))
    registry.add(Stage("s.plain", quick))
    registry.add(PRESS)
    registry.add(definition_of("plain", "s.plain", limit_s=60))
    assert not registry.refused["workflows"], registry.refused["workflows"]
    async with living(folder, registry, children=disk) as here:
        yield here


async def standing_in_line(here: Living, press: Press) -> str:
    """A job that has its page from before, and stands in line behind one that is writing."""
    job = await here.ada.submit("press")
    await here.at(job["id"], "failed")
    press.jammed, press.gate = False, anyio.Event()
    other = await here.ada.submit("press")
    await here.at(other["id"], "writing")
    assert (await here.ada.post(f"/jobs/{job['id']}/again", {})).status == 200
    return str(job["id"])


async def test_a_job_with_slow_files_holds_up_nobody(tmp_path: Path) -> None:
    """R18 H38: it has its slot while they are looked at; the others go on around it, and it is
    asked once."""
    disk, press = SlowDisk(), Press()
    async with house(tmp_path, disk, press) as here:
        disk.job_id = await standing_in_line(here, press)
        press.gate.set()
        await until(lambda: disk.looks == 1)
        for user in (here.ada, here.eve, here.ada):
            other = await user.submit("plain")
            await here.at(other["id"], "done")
        why = (await here.ada.get(f"/jobs/{disk.job_id}/explain")).json
        assert "its turn has come" in why["waits_for"], why
        assert here.service.facade.stats()["running"] == 1
        assert disk.looks == 1
        disk.gate.set()
        await here.at(disk.job_id, "printed")
        await until(lambda: here.service.facade.stats()["running"] == 0)


async def test_what_begins_while_the_service_ends_is_interrupted(tmp_path: Path) -> None:
    """It was on its way to its start when all that was at work had ended."""
    disk, press = SlowDisk(), Press()
    async with house(tmp_path, disk, press) as here:
        facade = here.service.facade
        disk.job_id = await standing_in_line(here, press)
        press.gate.set()
        await until(lambda: disk.looks == 1)
        await until(lambda: facade.stats()["running"] == 1)
        press.empty = True
        async with anyio.create_task_group() as group:
            group.start_soon(facade.drain)
            await until(lambda: facade.draining)
            disk.gate.set()
        await until(lambda: facade.stats()["running"] == 0)
        job = (await here.ada.get(f"/jobs/{disk.job_id}/explain")).json
        assert job["attempt"]["status"] == "due", job
