"""What an attempt saved and did not deliver goes with it."""

from pathlib import Path

import anyio
import pytest
from msgspec import Struct

from jobrunner import Context, Definition, Done, Edge, JobType, Lock, Retry, Stage, State, Workflow
from jobrunner.actors.keeping.leftovers import clear_leavings
from jobrunner.errors import Rejected
from jobrunner.stages import Registry
from tests.http.serving import opened
from tests.stages.house import attempt_status, over, registry, serving, submitted, until
from tests.whole.living import living

pytestmark = pytest.mark.anyio


def lying(folder: Path, job_id: str) -> list[str]:
    return sorted(path.name for path in folder.glob(f"**/{job_id}/*"))


@pytest.mark.parametrize("workflow", ["stage", "thread"])
@pytest.mark.parametrize("end", ["never", "refuse"])
async def test_of_a_failed_attempt_stays_what_it_made_sure_of(
    tmp_path: Path, workflow: str, end: str
) -> None:
    async with serving(tmp_path) as here:
        job_id = await submitted(here, "litter", workflow, mark=end)
        await over(here, job_id)
        await until(lambda: lying(tmp_path, job_id) == ["sure.txt"])
        assets = (await here.admin.get(f"/jobs/{job_id}/assets")).json["assets"]
        assert len(assets) == 1


@pytest.mark.parametrize("end", ["vanish", "segfault", "hang"])
async def test_also_when_the_stage_says_nothing_any_more(tmp_path: Path, end: str) -> None:
    """It dies without a word, or is ended for taking too long; not before it left something."""
    async with serving(tmp_path, limit_s=10 if end == "hang" else 60) as here:
        job_id = await submitted(here, "litter", mark=end)
        await over(here, job_id)
        await until(lambda: lying(tmp_path, job_id) == ["sure.txt"])


async def test_of_each_try(tmp_path: Path) -> None:
    async with serving(tmp_path, tries=3) as here:
        job_id = await submitted(here, "litter", mark="retry")
        assert (await over(here, job_id))["retry_count"] == 3
        assets = (await here.admin.get(f"/jobs/{job_id}/assets")).json["assets"]
        assert len(assets) == 3
        await until(lambda: len(lying(tmp_path, job_id)) == 3)


async def test_what_is_done_is_delivered_whole(tmp_path: Path) -> None:
    async with serving(tmp_path) as here:
        job_id = await submitted(here, "litter", mark="work")
        await over(here, job_id)
        assert len(lying(tmp_path, job_id)) == 3
        assert len((await here.admin.get(f"/jobs/{job_id}/assets")).json["assets"]) == 3


async def test_a_parked_attempt_keeps_its_files_until_its_end(tmp_path: Path) -> None:
    async with serving(tmp_path) as here:
        job_id = await submitted(here, "litter", mark="call_back")
        await attempt_status(here, job_id, "parked")
        with anyio.fail_after(120):
            while here.service.facade.stats()["running"]:
                await anyio.sleep(0.01)
        assert len(lying(tmp_path, job_id)) == 3
        assert (await here.admin.post(f"/admin/jobs/{job_id}/stop")).status == 200


async def test_an_interrupted_attempts_go_with_the_next(tmp_path: Path) -> None:
    """The service stops under it; then they are there until the one that follows has ended."""
    gate, params = tmp_path / "gate", {"does": "litter", "mark": "wait"}
    body = {"workflow": "stage", "params": {**params, "gate": str(gate)}}
    async with opened(tmp_path, registry=registry(limit_s=30)) as here:
        job_id = (await here.admin.post("/jobs", body)).json["id"]
        await until(lambda: len(lying(tmp_path, job_id)) == 3)
    assert len(lying(tmp_path, job_id)) == 3
    async with opened(tmp_path, registry=registry(limit_s=30)) as here:
        await until(lambda: len(lying(tmp_path, job_id)) > 4)
        gate.touch()
        for _ in range(20):
            job = (await here.admin.get(f"/jobs/{job_id}?wait=1")).json
            if job["status"] == "done":
                break
        assets = (await here.admin.get(f"/jobs/{job_id}/assets")).json["assets"]
        assert len(assets) == 3
        await until(lambda: len(lying(tmp_path, job_id)) == len(assets))


async def test_a_file_that_is_just_coming_in_is_let_be(tmp_path: Path) -> None:
    """It has a second name until its row is there."""
    async with serving(tmp_path) as here:
        job_id = await submitted(here, "litter", mark="never")
        await over(here, job_id)
        await until(lambda: lying(tmp_path, job_id) == ["sure.txt"])
        (known,) = tmp_path.glob(f"**/{job_id}/sure.txt")
        coming, part = known.with_name("coming.txt"), tmp_path / "coming.part"
        part.write_bytes(b"whole")
        coming.hardlink_to(part)
        world = here.service.facade.world
        job = await world.reader.job(job_id)
        assert job is not None
        await clear_leavings(world, job, 1, interrupted=False)
        assert coming.exists()
        part.unlink()
        await clear_leavings(world, job, 1, interrupted=False)
        assert not coming.exists()


async def test_what_another_try_saves_meanwhile_is_let_be(tmp_path: Path) -> None:
    """What an attempt left is cleared when the next may already be at work in the same folder."""
    gate = tmp_path / "gate"
    async with serving(tmp_path) as here:
        job_id = await submitted(here, "litter", mark="wait", gate=str(gate))
        await until(lambda: len(lying(tmp_path, job_id)) == 3)
        world = here.service.facade.world
        job = await world.reader.job(job_id)
        assert job is not None
        assert job.attempt is not None
        await clear_leavings(world, job, job.attempt.serial - 1, interrupted=False)
        assert len(lying(tmp_path, job_id)) == 3
        gate.touch()
        assert (await over(here, job_id))["status"] == "done"


class Nothing(Struct, frozen=True):
    pass


async def spill(ctx: Context[Nothing]) -> Done:
    await ctx.save("lost.txt", b"lost", asset_type="text")
    raise Rejected("POLICY", "not this way")


async def stay_dry(ctx: Context[Nothing]) -> Done:
    return Done()


def detour() -> Registry:
    """A stage that is rejected leads to another one, which begins in its slot."""
    retry = Retry("inside", failed=("failed",))
    states = (
        State("queued", "queued", onward={"*": "short"}),
        State(
            "short", "active", stage={"*": "way.short"}, done="done", rejected="long", limit_s=60,
            retry=retry,
        ),
        State("long", "active", stage={"*": "way.long"}, done="done", limit_s=60, retry=retry),
        State("done", "final", ends="completed"),
        State("failed", "final", ends="failed"),
    )  # fmt: skip
    edges = (
        Edge("queued", "short", by=("engine",)),
        *(
            Edge(*way, by=("stage",))
            for way in (("short", "long"), ("short", "done"), ("long", "done"))
        ),
        *(Edge(name, "failed", by=("stage", "timer", "engine")) for name in ("short", "long")),
    )
    workflow = Workflow(
        name="detour", version="1", initial="queued", states=states, edges=edges,
        job_types=(JobType("any", params="params"),),
        locks=(Lock("job", guarded=("short", "long")),),
    )  # fmt: skip
    registry = Registry()
    for one in (Stage("way.short", spill), Stage("way.long", stay_dry)):
        registry.add(one)
    registry.add(Definition(workflow, structs={"params": Nothing}))
    assert not registry.refused["workflows"], registry.refused["workflows"]
    return registry


async def test_the_next_in_the_same_slot_clears_what_the_one_before_left(tmp_path: Path) -> None:
    """It saves nothing itself, and while it was at work the files could not be told from its."""
    async with living(tmp_path, detour()) as here:
        job_id = (await here.admin.post("/jobs", {"workflow": "detour"})).json["id"]
        assert (await over(here, job_id))["status"] == "done"
        kept = (await here.admin.get(f"/jobs/{job_id}/attempts")).json["attempts"]
        assert [one["outcome"] for one in kept] == ["rejected", "done"]
        await until(lambda: lying(tmp_path, job_id) == [])
