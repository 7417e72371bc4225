"""What a stage made is not made again while its file is there and as recorded."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from jobrunner import (
    Call,
    Command,
    Context,
    Definition,
    Done,
    Edge,
    Guard,
    JobType,
    Lock,
    PermanentFailure,
    Retry,
    Stage,
    State,
    Workflow,
)
from jobrunner.stages import Registry
from tests.stages.house import attempts, until
from tests.whole.living import Living, living

pytestmark = pytest.mark.anyio

AGAIN = Retry("inside", failed=("failed",), max=2, base_s=0.01, jitter=0)
SOUND = Guard(Call("verified", {"artifact": "page_uri"}), on=("stage",))


class Nothing(Struct, frozen=True):
    """No parameters."""


PRESS = Definition(
    Workflow(
        name="press",
        version="1",
        initial="queued",
        states=(
            State("queued", "queued", onward={"*": "writing"}),
            State(
                "writing",
                "active",
                stage={"*": "press.write"},
                done="written",
                produces="page_uri",
                limit_s=60,
                retry=AGAIN,
            ),
            State(
                "written", "waiting", person=False, checkpoint="page_uri", onward={"*": "printing"}
            ),
            State(
                "printing",
                "active",
                stage={"*": "press.print"},
                done="printed",
                limit_s=60,
                retry=AGAIN,
            ),
            State("printed", "final", entry=100, ends="completed"),
            State("failed", "settled", ends="failed", fails=("failure_message",)),
        ),
        edges=(
            Edge("queued", "writing", by=("engine",)),
            Edge("writing", "written", by=("stage", "engine"), guards=(SOUND,)),
            Edge("written", "printing", by=("engine",)),
            Edge("printing", "printed", by=("stage",)),
            Edge("writing", "failed", by=("stage", "timer", "engine")),
            Edge("printing", "failed", by=("stage", "timer", "engine")),
            Edge("failed", "queued", by=("user", "admin")),
        ),
        job_types=(JobType("page", params="params"),),
        commands=(Command("again", walks={"failed": ("queued",)}, opens_run=True),),
        locks=(Lock("job", guarded=("writing", "printing"), held=("written",)),),
    ),
    structs={"params": Nothing},
)


class Press:
    """Two stages; the second one fails as long as ``jammed`` is set."""

    def __init__(self, folder: Path) -> None:
        self.assets = folder / "assets"
        self.jammed = True
        self.written = 0
        self.read: list[bytes] = []

    async def write(self, ctx: Context[Nothing]) -> Done:
        self.written += 1
        text = f"page {self.written}".encode()
        await ctx.save("page.txt", text, asset_type="page", artifact="page_uri")
        return Done()

    async def print(self, ctx: Context[Nothing]) -> Done:
        if self.jammed:
            raise PermanentFailure("JAMMED", "the press is jammed")
        self.read.append(Path(await ctx.file("page_uri")).read_bytes())
        return Done()

    def files(self) -> list[Path]:
        return sorted(path for path in self.assets.rglob("*") if path.is_file())


@asynccontextmanager
async def pressing(folder: Path) -> AsyncIterator[tuple[Living, Press]]:
    press, registry = Press(folder), Registry()
    registry.add(Stage("press.write", press.write))
    registry.add(Stage("press.print", press.print))
    registry.add(PRESS)
    assert not registry.refused["workflows"], registry.refused["workflows"]
    async with living(folder, registry) as here:
        yield here, press


async def jammed(here: Living, press: Press) -> str:
    """A job that has its page, and failed to print it."""
    job_id = str((await here.ada.post("/jobs", {"workflow": "press"})).json["id"])
    job = await here.at(job_id, "failed")
    assert job["failure_code"] == "JAMMED", job
    assert press.written == 1
    press.jammed = False
    return job_id


async def again(here: Living, job_id: str) -> Any:
    said = await here.ada.post(f"/jobs/{job_id}/again", {})
    assert said.status == 200, said
    return await here.at(job_id, "printed")


async def test_what_is_verified_is_not_made_again(tmp_path: Path) -> None:
    """H38 H39 H40 H65: the stage is skipped, and the next one has its input."""
    async with pressing(tmp_path) as (here, press):
        job_id = await jammed(here, press)
        job = await again(here, job_id)
        assert (press.written, press.read) == (1, [b"page 1"])
        outcomes = [(one["state"], one["outcome"]) for one in await attempts(here, job_id)]
        first = [("writing", "done"), ("printing", "failed")]
        assert outcomes == [*first, ("writing", "skipped"), ("printing", "done")]
        assert job["status"] == "printed"


def damaged(path: Path, damage: str) -> None:
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"page" if damage == "short" else b"PAGE 1")


@pytest.mark.parametrize("damage", ["gone", "short", "other bytes"])
async def test_what_does_not_verify_is_made_again(tmp_path: Path, damage: str) -> None:
    """H41 H43 H44: it does not count; a new version comes beside it, and nothing is deleted."""
    async with pressing(tmp_path) as (here, press):
        job_id = await jammed(here, press)
        before = press.files()
        assert len(before) == 1
        damaged(before[0], damage)
        await again(here, job_id)
        assert (press.written, press.read) == (2, [b"page 2"])
        versions = (await here.ada.get(f"/jobs/{job_id}/artifacts/page_uri")).json
        assert versions["version"] == 2
        assert len((await here.ada.get(f"/jobs/{job_id}/assets")).json["assets"]) == 2


async def test_a_damaged_input_is_found_by_who_reads_it(tmp_path: Path) -> None:
    """H47: it ends the attempt for good, with its name."""
    async with pressing(tmp_path) as (here, press):
        job_id = await jammed(here, press)
        press.jammed = True
        path = press.files()[0]

        async def spoil(ctx: Context[Nothing]) -> Done:
            path.write_bytes(b"PAGE 1")
            await ctx.file("page_uri")
            return Done()

        here.service.registry.stages["press.print"] = Stage("press.print", spoil)
        assert (await here.ada.post(f"/jobs/{job_id}/again", {})).status == 200
        job = await here.at(job_id, "failed")
        await until(lambda: len(here.lines(job_id, "job.failed")) == 2)
        job = await here.at(job_id, "failed")
        assert job["failure_code"] == "CORRUPT_INPUT", job
        assert "page_uri" in job["failure_message"]


async def test_what_nobody_speaks_of_is_swept_at_a_start(tmp_path: Path) -> None:
    """R17: a day old and without a row; younger files, and those with rows, stay."""
    async with pressing(tmp_path) as (here, press):
        job_id = await jammed(here, press)
    kept = press.files()[0]
    old, young = kept.with_name("old.txt"), kept.with_name("young.txt")
    stray = press.assets / "eve" / "0192f000-0000-7000-8000-000000000000" / "stray.txt"
    stray.parent.mkdir(parents=True)
    scratch = press.assets / ".scratch" / "left"
    scratch.mkdir(parents=True)
    for path in (old, young, stray):
        path.write_bytes(b"waste")
    for path in (old, stray, kept):
        os.utime(path, (1, 1))
    (tmp_path / "admin.token").unlink()
    async with swept(tmp_path, press) as press:
        await until(lambda: not old.exists() and not stray.exists())
        assert press.files() == sorted([kept, young])
        assert not scratch.exists()
    assert job_id


@asynccontextmanager
async def swept(folder: Path, press: Press) -> AsyncIterator[Press]:
    """The next life of the service."""
    from jobrunner import app
    from jobrunner.config.settings import Config, ServerSection, StoreSection

    registry = Registry()
    registry.add(Stage("press.write", press.write))
    registry.add(Stage("press.print", press.print))
    registry.add(PRESS)
    config = Config(
        server=ServerSection(port=0, drain_seconds=1),
        store=StoreSection(path=str(folder / "jobs.db"), assets=str(folder / "assets")),
    )
    async with app.running(config, lambda *_, **__: None, registry=registry):
        yield press
