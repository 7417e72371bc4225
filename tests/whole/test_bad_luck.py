"""What goes wrong around a stage, and in the code of a plugin that is not a stage: it costs one
attempt, or one job, and never the service."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jobrunner_asset_pattern import definition as asset_pattern
from msgspec.structs import replace

from jobrunner import Ask, Call, Context, Definition, Done, Guard, Refused, Stage
from jobrunner.errors import StorageError
from jobrunner.files.library import SCRATCH
from jobrunner.stages import Registry
from jobrunner.store.hop import Handle, open_handle
from jobrunner.store.reader import answer_all
from tests.driving import bound
from tests.whole.living import Living, living

pytestmark = pytest.mark.anyio


class Trap:
    """A guard before the good end; while it is set, it has a bug."""

    def __init__(self) -> None:
        self.is_set = False

    def __call__(self, ask: Ask) -> Refused | None:
        if self.is_set:
            raise ZeroDivisionError("a bug in a guard")
        return None


def trapped(trap: Trap) -> Definition:
    fine = bound(asset_pattern)
    edges = tuple(
        replace(edge, guards=(Guard(Call("trapped")),)) if edge.target == "completed" else edge
        for edge in fine.workflow.edges
    )
    workflow = replace(fine.workflow, edges=edges)
    return Definition(workflow, fine.functions | {"trapped": trap}, fine.structs)


@asynccontextmanager
async def house(
    folder: Path, stage: Callable[..., Any], trap: Trap | None = None, **ports: Any
) -> AsyncIterator[Living]:
    registry = Registry()
    registry.add(Stage("test.stage", stage))
    registry.add(trapped(trap or Trap()))
    assert not registry.refused["workflows"], registry.refused["workflows"]
    async with living(folder, registry, **ports) as here:
        yield here


async def quick(context: Context[Any]) -> Done:
    return Done()


def slow(context: Context[Any]) -> Done:
    return Done()


async def test_a_folder_that_cannot_be_made_costs_the_attempt(tmp_path: Path) -> None:
    """R16 R17: the disk says no before the stage begins; the job says so, the service goes on."""
    async with house(tmp_path, slow) as here:
        (tmp_path / "assets").mkdir(exist_ok=True)
        (tmp_path / "assets" / SCRATCH).write_text("in the way")
        job = await here.ada.submit("asset-pattern")
        failed = await here.at(job["id"], "failed")
        assert failed["failure_code"] == "STAGE_CRASHED"
        assert here.lines(job["id"], "stage.crashed")
        (tmp_path / "assets" / SCRATCH).unlink()
        again = await here.ada.submit("asset-pattern")
        await here.at(again["id"], "completed")


async def test_an_outcome_that_the_actor_dies_of_puts_the_job_aside(tmp_path: Path) -> None:
    """R6 R15: the attempt is over, its slot free; after the release another one does the work."""
    trap = Trap()
    async with house(tmp_path, quick, trap) as here:
        trap.is_set = True
        job = await here.ada.submit("asset-pattern")
        path = f"/jobs/{job['id']}"
        shown = {}
        for _ in range(60):
            shown = (await here.admin.get(path + "?wait=1&progress=1")).json
            if shown["stuck"] and shown["attempt"] == 2:
                break
        assert "a bug in a guard" in shown["stuck"]["reason"]
        attempts = (await here.admin.get(path + "/attempts")).json["attempts"]
        assert [one["status"] for one in attempts] == ["ended", "due"]
        trap.is_set = False
        said = await here.admin.post(f"/admin/jobs/{job['id']}/release", {})
        assert said.status == 200, said.raw
        await here.at(job["id"], "completed")


class Spoilt:
    """The way to the reader's handle; while it is spoilt, every question gets an error."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.spoilt = False

    async def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self.spoilt and function is answer_all:
            return [StorageError("the disk does not answer")] * len(arguments[0])
        return await self._handle(function, *arguments)


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Handle]:
    handle = await open_handle(str(path), make=True)
    try:
        yield handle
    finally:
        await handle.close()


async def test_questions_that_fail_do_not_end_the_service(tmp_path: Path) -> None:
    """R18: the timers ask again when the disk has come back."""
    (tmp_path / "jobs.db").touch()
    async with (
        opened(tmp_path / "jobs.db") as handle,
        house(tmp_path, quick, reader_hop=(spoilt := Spoilt(handle))) as here,
    ):
        soon = datetime.now(UTC) + timedelta(seconds=3)
        job = await here.ada.submit("asset-pattern", run_at=soon.isoformat())
        spoilt.spoilt = True
        await here.heard("", "storage.fault")
        spoilt.spoilt = False
        await here.at(job["id"], "completed")


async def test_only_the_folders_of_jobs_are_swept(tmp_path: Path) -> None:
    """R10: a folder of files that holds other things too loses none of them at a start."""
    assets = tmp_path / "assets"
    ours = assets / "ada" / "0192f000-0000-7000-8000-000000000000" / "left.png"
    others = (assets / "admin.token", assets / "photos" / "holiday.png")
    for file in (ours, *others):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("old")
        os.utime(file, (0, 0))
    async with house(tmp_path, quick) as here:
        await here.heard(ours.parent.name, "assets.swept")
        assert not ours.exists()
        assert all(file.exists() for file in others)
