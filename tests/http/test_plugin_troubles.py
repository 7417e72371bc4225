"""What the overview says of stages that fail as they run: those whose author has to see it."""

from pathlib import Path

import pytest
from msgspec import Struct

from jobrunner import Context, Done, one_stage, stage
from jobrunner.stages import Registry
from tests.http.serving import opened

pytestmark = pytest.mark.anyio
FAULTS = {"network": ConnectionError("nobody there"), "bug": ZeroDivisionError("of its author")}


class Grain(Struct):
    has: str


@stage("mill.grind")
async def grind(ctx: Context[Grain]) -> Done:
    raise FAULTS[ctx.params.has]


async def test_a_bug_is_named_and_what_a_stage_foresees_is_not(tmp_path: Path) -> None:
    registry = Registry()
    jobs: dict[str, str] = {}
    registry.add(grind)
    registry.add(one_stage(grind, Grain, tries=1))
    async with opened(tmp_path, registry=registry) as house:
        for fault in ("bug", "network"):
            jobs[fault] = (await house.ada.submit("mill", params={"has": fault}))["id"]
            ended = await house.ada.get(f"/jobs/{jobs[fault]}?wait=60&until=ended")
            assert ended.json["status"] == "failed", ended.json
        crashed = [line for line in house.logged if line["event"] == "stage.crashed"]
        assert [line["code"] for line in crashed] == ["STAGE_CRASHED", "NETWORK"]
        (found,) = (await house.admin.get("/overview")).json["system"]["troubles"]
        assert (found["kind"], found["name"], found["workflow"]) == ("stage", "mill.grind", "mill")
        assert found["job_id"] == jobs["bug"]
