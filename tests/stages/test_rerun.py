"""A job done again as a new one: what holds is walked past, with files of the new job's own."""

from pathlib import Path
from typing import Any

import pytest

from tests.stages.test_checkpoints import jammed, pressing
from tests.whole.living import Living

pytestmark = pytest.mark.anyio


async def rerun(here: Living, job_id: str, **body: Any) -> Any:
    said = await here.ada.post(f"/jobs/{job_id}/rerun", body)
    assert said.status == 201, said
    return said.json


def path_of(here: Any) -> list[str]:
    return [row["to_status"] for row in here["history"]]


async def test_what_holds_is_not_made_again(tmp_path: Path) -> None:
    """From the stage that failed, without asking: the page is carried, and the press runs."""
    async with pressing(tmp_path) as (here, press):
        old = await jammed(here, press)
        made = await rerun(here, old, reason="the press is repaired")
        assert (made["forked_from"], made["from"]) == (old, "printing")
        assert made["carried"] == ["page_uri"]
        new = await here.at(made["id"], "printed")
        assert press.written == 1
        assert press.read == [b"page 1"]
        assert new["artifacts"]["page_uri"].startswith("/assets/")
        left = (await here.ada.get(f"/jobs/{old}")).json
        assert (left["status"], left["forked_from"]) == ("failed", None)
        rows = (await here.ada.get(f"/jobs/{new['id']}/history")).json
        assert path_of(rows) == ["queued", "writing", "written", "printing", "printed"]
        audit = (await here.admin.get("/admin/audit")).json["audit"]
        assert "job.rerun" in [row["event"] for row in audit]


async def test_from_the_beginning_everything_is_made_again(tmp_path: Path) -> None:
    async with pressing(tmp_path) as (here, press):
        old = await jammed(here, press)
        made = await rerun(here, old, **{"from": "queued"})
        assert made["carried"] == []
        await here.at(made["id"], "printed")
        assert press.written == 2
        assert press.read == [b"page 2"]


@pytest.mark.parametrize("first", ["old", "new"])
async def test_deleting_either_leaves_the_other_whole(tmp_path: Path, first: str) -> None:
    """One file a row: each job has a name of its own for it."""
    async with pressing(tmp_path) as (here, press):
        old = await jammed(here, press)
        new = (await here.at((await rerun(here, old))["id"], "printed"))["id"]
        assert len(press.files()) == 2
        gone, stays = (old, new) if first == "old" else (new, old)
        assert (await here.ada.delete(f"/jobs/{gone}")).status == 204
        (asset,) = (await here.ada.get(f"/jobs/{stays}/assets")).json["assets"]
        kept = press.assets / asset["storage_path"]
        assert kept.read_bytes() == b"page 1"
        assert stays in asset["storage_path"]


async def test_a_file_that_is_not_what_was_recorded_is_not_carried(tmp_path: Path) -> None:
    async with pressing(tmp_path) as (here, press):
        old = await jammed(here, press)
        (file,) = press.files()
        file.write_bytes(b"pages!")
        made = await rerun(here, old)
        assert made["carried"] == []
        await here.at(made["id"], "printed")
        assert press.written == 2


async def test_one_that_went_well_begins_behind_its_last_file(tmp_path: Path) -> None:
    async with pressing(tmp_path) as (here, press):
        old = await jammed(here, press)
        done = await here.at((await rerun(here, old))["id"], "printed")
        made = await rerun(here, done["id"])
        assert (made["from"], made["carried"]) == ("written", ["page_uri"])
        await here.at(made["id"], "printed")
        assert press.written == 1
        assert press.read == [b"page 1"] * 2


async def test_the_same_key_is_the_same_job_and_no_file_is_left(tmp_path: Path) -> None:
    async with pressing(tmp_path) as (here, press):
        old = await jammed(here, press)
        one = await rerun(here, old, idempotency_key="again-1")
        await here.at(one["id"], "printed")
        again = await here.ada.post(f"/jobs/{old}/rerun", {"idempotency_key": "again-1"})
        assert (again.status, again.json["id"], again.json["replayed"]) == (200, one["id"], True)
        assert len(press.files()) == 2


async def test_what_is_refused(tmp_path: Path) -> None:
    async with pressing(tmp_path) as (here, press):
        old = await jammed(here, press)
        for body, code in (
            ({"from": "nowhere"}, "VALIDATION_ERROR"),
            ({"from": "printed"}, "VALIDATION_ERROR"),
            ({"params": {"font": 7}, "frum": 1}, "VALIDATION_ERROR"),
        ):
            said = await here.ada.post(f"/jobs/{old}/rerun", body)
            assert said.json["error_code"] == code, said
        assert len(press.files()) == 1


async def test_a_paused_job_gets_no_slot_and_is_told_why(tmp_path: Path) -> None:
    """Paused in line, it waits; resumed, it runs. The stage's own pause does the same."""
    async with pressing(tmp_path) as (here, press):
        old = await jammed(here, press)
        await here.admin.post("/admin/stages/press.print/pause", {"reason": "cleaning"})
        held = (await rerun(here, old))["id"]
        job = await here.at(held, "written", "printing")
        why = (await here.ada.get(f"/jobs/{held}/explain")).json
        assert "stage press.print to be resumed" in why["waits_for"], why
        await here.ada.post(f"/jobs/{held}/pause")
        await here.admin.post("/admin/stages/press.print/resume")
        why = (await here.ada.get(f"/jobs/{held}/explain")).json
        assert "somebody to resume it" in why["waits_for"]
        assert press.read == []
        assert (await here.ada.get(f"/jobs/{held}")).json["status"] == job["status"]
        await here.ada.post(f"/jobs/{held}/resume")
        await here.at(held, "printed")
        assert press.read == [b"page 1"]
