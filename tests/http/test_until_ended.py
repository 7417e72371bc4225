"""A client that wants the end of a job asks once, and not for every change."""

from typing import Any

import anyio
import pytest

from tests.http.serving import House
from tests.http.uploading import until

pytestmark = pytest.mark.anyio

MOVED: dict[str, Any] = {"to": "UPLOADED", "artifact_updates": {"video_uri": "file:v"}}


async def waiting(house: House) -> None:
    await until(lambda: house.service.facade.watchers.awaited)


async def test_only_the_end_is_told(house: House) -> None:
    job = await house.ada.submit("howera")
    path, heard = f"/jobs/{job['id']}", []
    async with anyio.create_task_group() as group:

        async def wait() -> None:
            heard.append((await house.ada.get(f"{path}?wait=60&until=ended")).json)

        group.start_soon(wait)
        await waiting(house)
        moved = await house.worker.post(f"{path}/transitions", MOVED)
        assert moved.status == 200
        changed = await house.ada.get(f"{path}?wait=60", If_None_Match='"1"')
        assert changed.json["version"] > job["version"]
        assert heard == []
        assert (await house.ada.post(f"{path}/cancel")).status == 200
    assert [one["status"] for one in heard] == ["CANCELLED"]


async def test_one_that_has_ended_is_told_at_once(house: House) -> None:
    """Also one that somebody may revive, which changes no more by itself."""
    job = await house.ada.submit("cutx", job_type="scrape", params={"url": "https://a.example/"})
    failed = {"to": "failed", "failure_message": "no"}
    path = f"/jobs/{job['id']}"
    for order in ({"to": "processing"}, failed):
        said = await house.worker.post(f"{path}/transitions", order)
        assert said.status == 200, said.raw
    with anyio.fail_after(120):
        said = await house.ada.get(f"{path}?wait=60&until=ended")
        assert (said.json["kind"], said.json["status"]) == ("settled", "failed")
        seen = {"If_None_Match": said.headers["ETag"]}
        assert (await house.ada.get(f"{path}?wait=60&until=ended", **seen)).status == 304


async def test_when_the_time_is_up_it_is_shown_as_it_stands(house: House) -> None:
    job = await house.ada.submit("howera")
    said = await house.ada.get(f"/jobs/{job['id']}?wait=0.05&until=ended")
    assert (said.status, said.json["status"]) == (200, "CREATED")
    said = await house.ada.get(f"/jobs/{job['id']}?until=ended")
    assert (said.status, said.json["status"]) == (200, "CREATED")


@pytest.mark.parametrize("asked", ["until=started", "until=", "until=ended&until=ended"])
async def test_what_cannot_be_meant_is_refused(house: House, asked: str) -> None:
    job = await house.ada.submit("howera")
    said = await house.ada.get(f"/jobs/{job['id']}?wait=60&{asked}")
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")


async def test_a_strangers_job_keeps_nobody_waiting(house: House) -> None:
    job = await house.ada.submit("howera")
    with anyio.fail_after(120):
        assert (await house.eve.get(f"/jobs/{job['id']}?wait=60&until=ended")).status == 404
