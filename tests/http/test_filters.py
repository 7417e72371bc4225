"""Lists narrowed by kind and by time: in the list itself and for a bulk."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.http.serving import House, definitions, opened

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder: Path = tmp_path_factory.mktemp("filters")
    async with opened(folder, registry=definitions(names=("howera",))) as house:
        yield house


@pytest.fixture(scope="module")
async def jobs(house: House) -> list[Any]:
    """The second of three is cancelled; each was made at a moment of its own."""
    made: list[Any] = []
    while len(made) < 3:
        job = await house.ada.submit("howera")
        if not made or job["created_at"] > made[-1]["created_at"]:
            made.append(job)
        else:
            await house.ada.post(f"/jobs/{job['id']}/cancel")
            await house.ada.delete(f"/jobs/{job['id']}")
    said = await house.ada.post(f"/jobs/{made[1]['id']}/cancel")
    assert said.status in (200, 202), said.raw
    return made


async def found(house: House, query: str) -> list[str]:
    said = await house.ada.get(f"/jobs?{query}")
    assert said.status == 200, said.raw
    return [job["id"] for job in reversed(said.json["jobs"])]


async def test_by_kind(house: House, jobs: list[Any]) -> None:
    ids = [job["id"] for job in jobs]
    assert await found(house, "kind=waiting") == [ids[0], ids[2]]
    assert await found(house, "kind=final") == [ids[1]]
    assert await found(house, "kind=final&kind=waiting") == ids
    assert await found(house, "kind=queued") == []
    assert (await house.ada.get("/jobs?kind=gone")).status == 400


async def test_by_time(house: House, jobs: list[Any]) -> None:
    """From is with its moment, before is without."""
    ids = [job["id"] for job in jobs]
    second = quote(jobs[1]["created_at"])
    assert await found(house, f"created_from={second}") == ids[1:]
    assert await found(house, f"created_before={second}") == ids[:1]
    both = f"created_from={second}&created_before={quote(jobs[2]['created_at'])}"
    assert await found(house, both) == [ids[1]]
    later = (datetime.fromisoformat(jobs[2]["created_at"]) + timedelta(days=1)).isoformat()
    assert await found(house, f"created_from={quote(later)}") == []
    assert await found(house, f"created_before={quote(later)}") == ids
    assert (await house.ada.get("/jobs?created_from=2026-11-19T08:00:00")).status == 400


async def test_a_page_goes_on_in_the_same_time(house: House, jobs: list[Any]) -> None:
    query = f"created_from={quote(jobs[0]['created_at'])}&kind=waiting&limit=1"
    first = (await house.ada.get(f"/jobs?{query}")).json
    then = (await house.ada.get(f"/jobs?{query}&cursor={first['next_cursor']}")).json
    assert [job["id"] for page in (first, then) for job in page["jobs"]] == [
        jobs[2]["id"],
        jobs[0]["id"],
    ]


async def test_a_bulk_takes_the_same(house: House, jobs: list[Any]) -> None:
    order = {"command": "cancel", "dry_run": True}
    for which, total in (
        ({"kind": ["waiting"]}, 2),
        ({"created_before": jobs[1]["created_at"]}, 1),
        ({"created_from": jobs[1]["created_at"], "kind": ["final"]}, 1),
    ):
        said = await house.admin.post("/admin/bulk", order | {"filter": which})
        assert (said.status, said.json["total"]) == (200, total), said.raw
    said = await house.admin.post("/admin/bulk", order | {"filter": {"kind": []}})
    assert said.status == 400
