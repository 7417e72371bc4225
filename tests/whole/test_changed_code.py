"""A plugin that is upgraded under a running service: its stages in processes do not mix old code
with new, and go on after a restart."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.whole.process import PATIENCE_S, Place, place

pytestmark = pytest.mark.anyio

SOURCE = """
from msgspec import Struct
from jobrunner import Command, Definition, Done, Edge, JobType, Lock, Retry
from jobrunner import State, Workflow, stage

class Params(Struct, frozen=True):
    number: int = 0

@stage("print.press")
def press(ctx):
    return Done(result={{"by": {by!r}}})

definition = Definition(
    Workflow(
        name="print",
        version="1",
        initial="queued",
        states=(
            State("queued", "queued", onward={{"*": "pressing"}}),
            State("pressing", "active", stage={{"*": "print.press"}}, done="printed", limit_s=60,
                  retry=Retry("inside", failed=("failed",))),
            State("printed", "final", ends="completed"),
            State("failed", "final", ends="failed"),
            State("canceled", "final", ends="canceled"),
        ),
        edges=(
            Edge("queued", "pressing", by=("engine",)),
            Edge("pressing", "printed", by=("stage",)),
            Edge("pressing", "failed", by=("stage", "timer", "engine")),
            Edge("*", "canceled", by=("user",)),
        ),
        locks=(Lock("job", guarded=("pressing",)),),
        job_types=(JobType("one", params="params"),),
        commands=(Command("cancel", {{"queued": ("canceled",), "pressing": ("canceled",)}}),),
    ),
    structs={{"params": Params}},
)
"""
ENTRIES = """[jobrunner.workflows]
print = jobrunner_print:definition
[jobrunner.stages]
print.press = jobrunner_print:press
"""


def publish(folder: Path, by: str) -> None:
    about = folder / "jobrunner_print-1.0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: jobrunner-print\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    (folder / "jobrunner_print.py").write_text(SOURCE.format(by=by))


@pytest.fixture
async def home(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Place]:
    publish(tmp_path / "brought", "the old one")
    async with place(tmp_path, plugins=tmp_path / "brought") as here:
        yield here


async def held_up(home: Place, job_id: str) -> Any:
    with anyio.fail_after(PATIENCE_S):
        while True:
            job = await home.get(f"/jobs/{job_id}")
            if job["stuck"] or job["kind"] == "final":
                return job
            await anyio.sleep(0.02)


async def given_back(home: Place, job_id: str) -> Any:
    """Its attempts, when the first one has ended: what a stage lacks is told when it is found, and
    that the attempt was interrupted when that is stored."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            attempts = (await home.get(f"/jobs/{job_id}/attempts"))["attempts"]
            if attempts[0]["outcome"] is not None:
                return attempts
            await anyio.sleep(0.02)


async def test_a_stage_in_a_process_never_runs_other_code_than_was_loaded(home: Place) -> None:
    await home.start()
    first = await home.at((await home.submit("print"))["id"], "printed")
    assert first["result"] == {"by": "the old one"}
    publish(home.folder / "brought", "the new one, which is longer")
    job_id = (await home.submit("print"))["id"]
    job = await held_up(home, job_id)
    assert (job["status"], job["stuck"]["missing"]) == ("pressing", ["stage print.press"]), job
    attempts = await given_back(home, job_id)
    assert [one["outcome"] for one in attempts] == ["interrupted", None]
    (line,) = attempts[0]["log"]
    assert line.startswith("stage print.press was not run: ")
    assert line.endswith("has changed since the service was started; restart the service")
    ready = await home.get("/readyz")
    assert ready["warnings"]["stages"].startswith("the code of print.press has changed")
    assert await home.stop() == 0
    await home.start()
    done = await home.at(job_id, "printed")
    assert done["result"] == {"by": "the new one, which is longer"}
    assert done["retry_count"] == 0, "it has spent no attempt"
    assert await home.stop() == 0
    assert home.faults() == ()
