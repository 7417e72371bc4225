"""What a person may ask to be written anew over HTTP, and what is answered."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.http.serving import House
from tests.plugins.test_howera_at_work import at, house, save, tell

pytestmark = pytest.mark.anyio

OUTSIDE = dict.fromkeys(("AUDIO_EXTRACTING", "TRANSCRIBING", "GENERATING"), "external")
WAY = (
    "UPLOADED", "AUDIO_EXTRACTING", "AUDIO_READY", "TRANSCRIBING", "TRANSCRIPT_READY",
    "GENERATING", "DRAFT_READY",
)  # fmt: skip
STEPS = [
    {"id": f"step-{number}", "title": f"Step {number}", "text": "You need to wait. Um, then go."}
    for number in (1, 2, 3)
]


@asynccontextmanager
async def editor(folder: Path) -> AsyncIterator[tuple[House, str]]:
    """A job whose draft was written by hand, and the stage of this package behind it."""
    async with house(folder, stages=OUTSIDE) as here:
        job_id = str((await here.ada.submit("howera"))["id"])
        for status in WAY:
            said = await here.admin.post(f"/jobs/{job_id}/transitions", {"to": status})
            assert said.status == 200, said.raw
        draft = {"title": "By hand", "steps": STEPS}
        assert (await save(here, job_id, draft, 0)).status == 200
        yield here, job_id


async def texts(here: House, job_id: str) -> list[str]:
    job = (await here.ada.get(f"/jobs/{job_id}")).json
    return [str(step["text"]) for step in job["artifacts"]["draft"]["steps"]]


@pytest.mark.parametrize(
    ("selection", "changed"),
    [
        ("step-2", [2]), (2, [2]), ("2", [2]), ([1, "step-3"], [1, 3]), ({"step": 2}, [2]),
        (None, [1, 2, 3]),
    ],
)  # fmt: skip
async def test_a_part_is_named_by_id_by_number_or_in_a_list(
    tmp_path: Path, selection: Any, changed: list[int]
) -> None:
    async with editor(tmp_path) as (here, job_id):
        await tell(here, job_id, "regenerate", selection=selection, instruction="shorter")
        await at(here, job_id, "EDITING")
        shorter = ["Wait. Then go." if n in changed else STEPS[0]["text"] for n in (1, 2, 3)]
        assert await texts(here, job_id) == shorter


@pytest.mark.parametrize("selection", [0, -1, [], [True], True, 1.5, [0], [[1]], ["x"] * 201, ""])
async def test_what_names_no_part_is_refused(tmp_path: Path, selection: Any) -> None:
    async with editor(tmp_path) as (here, job_id):
        said = await here.ada.post(f"/jobs/{job_id}/regenerate", {"selection": selection})
        assert (said.status, said.code) == (400, "VALIDATION_ERROR")


async def test_a_wish_that_is_not_understood_is_answered(tmp_path: Path) -> None:
    async with editor(tmp_path) as (here, job_id):
        before = (await here.ada.get(f"/jobs/{job_id}/artifacts/draft")).json["version"]
        await tell(here, job_id, "regenerate", instruction="in the style of a pirate")
        job = await at(here, job_id, "EDITING")
        assert job["result"]["understood"] is False
        assert "not understood" in job["result"]["message"]
        assert (await here.ada.get(f"/jobs/{job_id}/artifacts/draft")).json["version"] == before
