"""What a job shows of its parameters: what was given, where its workflow says so."""

from typing import Any

import pytest

from tests.http.serving import House

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("workflow", "job_type", "params"),
    [
        ("asset-pattern", "generation", None),
        ("asset-pattern", "export", {}),
        ("asset-pattern", "export", {"format": "zip", "manifest": True}),
        ("asset-pattern", "generation", {"sizes": [], "title": "x"}),
        ("image-generation", "image", {"prompt": "a lighthouse at dusk, as it was given"}),
        ("image-generation", "image", {"prompt": "a lamp", "size": "1024x1024", "seed": None}),
    ],
)
async def test_what_was_left_out_is_not_shown(
    house: House, workflow: str, job_type: str, params: dict[str, Any] | None
) -> None:
    said = {} if params is None else {"params": params}
    made = await house.ada.submit(workflow, job_type=job_type, **said)
    assert made["params"] == (params or {})
    assert (await house.ada.get(f"/jobs/{made['id']}")).json["params"] == (params or {})
    listed = await house.ada.get(f"/jobs?workflow={workflow}&include=params")
    shown = {job["id"]: job["params"] for job in listed.json["jobs"]}
    assert shown[made["id"]] == (params or {})


async def test_defaults_are_the_same_work_all_the_same(house: House) -> None:
    """Left out, or given as it would be without: one job."""
    first = await house.ada.submit("image-generation", params={"prompt": "the same work"})
    full = {"prompt": "the same work", "size": "1024x1024", "options": {}}
    again = await house.ada.submit("image-generation", params=full)
    assert (again["id"], again["replayed"]) == (first["id"], True)


async def test_done_again_it_shows_what_was_corrected(house: House) -> None:
    job = await house.ada.submit("asset-pattern", job_type="export", params={"title": "one"})
    for to in ("processing", "failed"):
        moved = await house.admin.post(
            f"/jobs/{job['id']}/transitions", {"to": to, "failure_message": "by hand"}
        )
        assert moved.status in (200, 409), moved.raw
    made = await house.ada.post(f"/jobs/{job['id']}/rerun", {"params": {"format": "tar.gz"}})
    assert made.status == 201, made.raw
    assert made.json["params"] == {"title": "one", "format": "tar.gz"}
