"""A bug of ours costs the job that it befell, and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from jobrunner.core.decide import decide
from jobrunner.core.messages import Start
from jobrunner.stages import Registry
from tests.whole.living import living

pytestmark = pytest.mark.anyio


def hello() -> Registry:
    registry = Registry()
    registry.load(("hello", "hello.greet"))
    return registry


async def test_a_job_whose_actor_crashes_three_times_is_put_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R6 R16: nobody else notices; a person releases it, and it ends as it should."""
    befallen = {"Ada"}

    def buggy(definition: Any, job: Any, message: Any, facts: Any, moment: Any) -> Any:
        if isinstance(message, Start) and job.params["name"] in befallen:
            raise ZeroDivisionError("a bug of the engine")
        return decide(definition, job, message, facts, moment)

    monkeypatch.setattr("jobrunner.actors.actor.decide", buggy)
    async with living(tmp_path, hello()) as here:
        job = await here.ada.submit("hello", params={"name": "Ada"})
        await here.heard(job["id"], "job.put_aside")
        assert len(here.lines(job["id"], "actor.crashed")) == 3
        explained = (await here.admin.get(f"/jobs/{job['id']}/explain")).json
        assert "3 times" in explained["stuck"]
        assert (await here.admin.get(f"/jobs/{job['id']}")).json["status"] == job["status"]
        other = await here.ada.submit("hello", params={"name": "Eve"})
        await here.at(other["id"], "greeted")
        befallen.clear()
        assert (await here.admin.post(f"/admin/jobs/{job['id']}/release")).status == 200
        await here.at(job["id"], "greeted")
