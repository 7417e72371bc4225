"""A howera job done again: what was made and written comes along, pictures too, and belongs to the
new job alone."""

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.http.serving import House
from tests.plugins.test_howera_at_work import (
    at,
    drafted,
    editing,
    file_of,
    films,
    save,
    tell,
    tidy,
    with_provider,
)

__all__ = ["films"]

pytestmark = pytest.mark.anyio


async def exported(here: House, job_id: str) -> str:
    await tell(here, job_id, "export", format="PDF")
    await at(here, job_id, "DONE")
    return job_id


async def again(here: House, job_id: str, **body: Any) -> Any:
    said = await here.ada.post(f"/jobs/{job_id}/rerun", body)
    assert said.status == 201, said.raw
    return said.json


async def in_the_editor(here: House, job_id: str) -> Any:
    await tell(here, job_id, "confirm-upload", video_uri="https://elsewhere.invalid/film.mp4")
    await tell(here, job_id, "run")
    await at(here, job_id, "DRAFT_READY")
    return await tell(here, job_id, "edit")


async def bundle(here: House, job_id: str) -> zipfile.ZipFile:
    await tell(here, job_id, "export", format="MD_ZIP")
    job = await at(here, job_id, "DONE")
    return zipfile.ZipFile(io.BytesIO(await file_of(here, job["artifacts"]["export_uri"])))


async def same_file(here: House, job_id: str, address: str) -> None:
    """As the stage wrote it, but for the pictures: they are the new job's, each of them."""
    data = await file_of(here, address)
    told = [step["image"] for step in json.loads(data)["steps"]]
    rows = (await here.ada.get(f"/jobs/{job_id}/assets")).json["assets"]
    named = {row["url"]: row for row in rows}
    assert len(told) == 2
    for picture in told:
        assert named[picture]["asset_type"] == "frame"
        assert (await file_of(here, picture)).startswith(b"\xff\xd8")
    assert named[address]["sha256"] == hashlib.sha256(data).hexdigest()
    assert named[address]["file_size"] == len(data)


@pytest.mark.parametrize("place", [None, "DRAFT_READY", "EXPORTING"])
@pytest.mark.parametrize("edited", [False, True])
async def test_its_draft_comes_along_with_its_pictures(
    tmp_path: Path, films: Path, place: str | None, edited: bool
) -> None:
    """Also when the old job is deleted before the new one is exported."""
    async with with_provider(tmp_path) as (here, provider):
        old = await editing(here, films / "short.mp4")
        draft = (await here.ada.get(f"/jobs/{old}")).json["artifacts"]["draft"]
        if edited:
            draft["steps"][0] |= {"text": "By hand.", "image": ""}
            assert (await save(here, old, draft, 1)).status == 200
        await exported(here, old)
        asked = len(provider.calls)
        made = await again(here, old, **({"from": place} if place else {}))
        assert sorted(made["carried"]) == [
            "audio_uri", "draft", "draft_uri", "metrics", "transcript_uri",
        ]  # fmt: skip
        new = str(made["id"])
        assert (await here.ada.delete(f"/jobs/{old}")).status == 204
        job = await in_the_editor(here, new)
        steps = job["artifacts"]["draft"]["steps"]
        assert [step["text"] for step in steps] == [step["text"] for step in draft["steps"]]
        assert len(provider.calls) == asked
        await same_file(here, new, job["artifacts"]["draft_uri"])
        pictures = [name for name in (await bundle(here, new)).namelist() if "images/" in name]
        assert (len(pictures), len(steps)) == (1 if edited else 2, 2)
        await tidy(here, new)


async def test_from_its_writing_the_draft_is_written_anew(tmp_path: Path, films: Path) -> None:
    async with with_provider(tmp_path) as (here, _):
        old = await exported(here, await editing(here, films / "short.mp4"))
        made = await again(here, old, **{"from": "GENERATING"})
        assert sorted(made["carried"]) == ["audio_uri", "metrics", "transcript_uri"]


async def test_an_export_says_which_pictures_it_lacks(tmp_path: Path, films: Path) -> None:
    async with with_provider(tmp_path) as (here, _):
        job_id = await drafted(here, films / "short.mp4")
        draft = (await here.ada.get(f"/jobs/{job_id}")).json["artifacts"]["draft"]
        gone = "/assets/01900000-0000-7000-8000-000000000000/content"
        draft["steps"][0]["image"] = gone
        assert (await save(here, job_id, draft, 1)).status == 200
        await bundle(here, job_id)
        result = (await here.ada.get(f"/jobs/{job_id}")).json["result"]
        assert (result["pictures"], result["pictures_missing"]) == (1, [gone])
