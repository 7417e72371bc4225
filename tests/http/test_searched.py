"""The list searched by text and by parameter: found, taken literally, and by whom."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.http.serving import Caller, House, definitions, opened

pytestmark = pytest.mark.anyio
NAMES = ("cutx", "image_generation")


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder: Path = tmp_path_factory.mktemp("searched")
    async with opened(folder, registry=definitions(names=NAMES)) as house:
        yield house


@pytest.fixture(scope="module")
async def jobs(house: House) -> dict[str, str]:
    prompts = {
        "lighthouse": 'a "Lighthouse", 100%_sure!',
        "mole": "a mole",
        "ä": "ein Maulwurf, müde",
    }
    made: dict[str, str] = {}
    for name, prompt in prompts.items():
        params: dict[str, Any] = {"prompt": prompt}
        submitted = {"params": params, "labels": {"of": name}, "idempotency_key": f"k{len(made)}"}
        made[name] = (await house.ada.submit("image-generation", **submitted))["id"]
    path = f"/jobs/{made['mole']}"
    assert (await house.worker.post(f"{path}/claim")).status == 200
    lost = {
        "to": "failed",
        "failure_code": "NETWORK",
        "failure_message": "no wind",
        "retryable": False,
    }
    assert (await house.admin.post(f"{path}/transitions", lost)).status == 200
    return made


async def found(caller: Caller, **query: str) -> set[str]:
    asked = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    said = await caller.get(f"/jobs?{asked}")
    assert said.status == 200, said.raw
    return {job["id"] for job in said.json["jobs"]}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("lighthouse", ["lighthouse"]),
        ('"Lighthouse"', ["lighthouse"]),
        ("100%_sure!", ["lighthouse"]),
        ("1%sure", []),
        ("a_mole", []),
        ("müde", ["ä"]),
        ("no wind", ["mole"]),
        ("prompt", ["lighthouse", "mole", "ä"]),
    ],
)
async def test_by_text(house: House, jobs: dict[str, str], text: str, names: list[str]) -> None:
    assert await found(house.ada, text=text) == {jobs[name] for name in names}
    assert await found(house.eve, text=text) == set()


async def test_by_the_end_of_an_id(house: House, jobs: dict[str, str]) -> None:
    """Ids of one time begin alike, so their ends are what somebody reads and types."""
    for job_id in jobs.values():
        assert await found(house.ada, text=job_id[-8:]) == {job_id}
        assert await found(house.ada, text=job_id[-8:].upper()) == {job_id}
    assert await found(house.eve, text=jobs["mole"][-8:]) == set()


async def test_by_parameter(house: House, jobs: dict[str, str]) -> None:
    assert await found(house.ada, param="prompt:a mole") == {jobs["mole"]}
    assert await found(house.ada, param="prompt:a mole", label="of:ä") == set()
    assert await found(house.admin, param="prompt:a") == set()
    assert (await house.ada.get("/jobs?param=prompt")).status == 400
    assert (await house.ada.get("/jobs?text=a")).status == 400


async def test_what_is_not_shown_is_not_found_either(house: House, jobs: dict[str, str]) -> None:
    """A text that only the service knows of a job would be told by whether it is found."""
    assert await found(house.ada, text="run_id") == set()
    assert await found(house.ada, text="failure_message") == set()
