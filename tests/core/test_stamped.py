"""Nothing that a job is shown with was made in 1970."""

from typing import Any

import msgspec
import pytest

from jobrunner.core.job import Asset
from jobrunner.core.messages import Checkpoint, Report
from tests.core.workshop import WORKSHOP
from tests.driving import World

MADE = Asset("file-1", "image", "/assets/file-1/content", "ada/one/1.png", 3)


@pytest.mark.parametrize("how", ["outcome", "checkpoint", "report"])
def test_files_have_the_time_of_the_commit_that_knows_of_them(how: str) -> None:
    """Whoever made them, and whatever clock that had."""
    world = World(WORKSHOP)
    job_id = world.born("kit" if how == "report" else "chair")
    world.do(job_id, "go")
    if how == "report":
        world.claim(job_id)
        world.callback(job_id, "e1", "refused", assets=(MADE,))
    else:
        world.start(job_id)
        serial = world.jobs[job_id].serial
        if how == "checkpoint":
            world.tell(job_id, Checkpoint(serial, Report(assets=(MADE,))))
        else:
            world.ended(job_id, "done", artifacts={"pieces": 4}, assets=(MADE,))
    [(_, asset)] = world.assets
    assert asset.created_at == world.now


def test_no_time_of_a_job_is_zero() -> None:
    """A time is a moment or is missing; only counts and sizes begin at 0."""
    world = World(WORKSHOP)
    job_id = world.born()
    world.do(job_id, "go")
    world.start(job_id)
    world.ended(job_id, "done", artifacts={"pieces": 4}, assets=(MADE,))
    for one in (world.jobs[job_id], *world.attempts.values(), *(a for _, a in world.artifacts)):
        assert not zeros(msgspec.to_builtins(one)), one


def zeros(value: Any, name: str = "") -> list[str]:
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in zeros(inner, str(key))]
    if isinstance(value, list):
        return [found for inner in value for found in zeros(inner, name)]
    return [name] if name.endswith("_at") and value == 0 else []
