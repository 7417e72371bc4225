"""A client of short jobs submits and is answered with the end, in one request."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import anyio
import pytest

from jobrunner.config.settings import LimitsSection
from jobrunner.stages import Registry
from tests.http.serving import Caller, House, opened
from tests.http.uploading import until

pytestmark = pytest.mark.anyio

HELLO = {"workflow": "hello", "params": {"name": "Ada"}}
REST = {"workflow": "howera"}


@pytest.fixture(scope="module")
async def greeting(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[House]:
    registry = Registry()
    registry.load(("hello", "hello.greet"))
    async with opened(tmp_path_factory.mktemp("wait"), registry=registry) as house:
        yield house


async def test_a_submission_is_answered_with_the_end(greeting: House) -> None:
    said = await greeting.ada.post("/jobs?wait=30", HELLO)
    assert said.status == 201
    assert (said.json["kind"], said.json["replayed"]) == ("final", False)
    assert (
        said.json["result"] == (await greeting.ada.get(f"/jobs/{said.json['id']}")).json["result"]
    )
    assert said.headers["Location"] == f"/jobs/{said.json['id']}"
    assert said.headers["ETag"] == f'"{said.json["version"]}"'
    assert "Preference-Applied" not in said.headers


async def test_a_known_key_waits_for_the_end_of_the_old_job(greeting: House) -> None:
    order = {**HELLO, "idempotency_key": "once"}
    first = await greeting.ada.post("/jobs", order)
    said = await greeting.ada.post("/jobs?wait=30", order)
    assert (said.status, said.json["id"]) == (200, first.json["id"])
    assert (said.json["kind"], said.json["replayed"]) == ("final", True)


@pytest.mark.parametrize("preference", ["wait=30", "respond-async, wait=30;x", "a=b , WAIT = 30"])
async def test_the_standard_header_asks_for_the_same(greeting: House, preference: str) -> None:
    said = await greeting.ada.post("/jobs/", HELLO, Prefer=preference)
    assert said.json["kind"] == "final"
    assert said.headers["Preference-Applied"] == "wait=30"


@pytest.mark.parametrize("preference", ["wait", "wait=-1", "wait=soon", "await=30", "wait=0"])
async def test_a_preference_that_says_nothing_is_none(house: House, preference: str) -> None:
    with anyio.fail_after(120):
        said = await house.ada.post("/jobs", REST, Prefer=preference)
    assert (said.status, said.json["status"]) == (201, "CREATED")


async def test_the_query_says_it_more_clearly_than_the_header(house: House) -> None:
    with anyio.fail_after(120):
        said = await house.ada.post("/jobs?wait=0", REST, Prefer="wait=60")
    assert "Preference-Applied" not in said.headers
    assert (await house.ada.post("/jobs?wait=61", REST)).code == "VALIDATION_ERROR"
    assert (await house.ada.post("/jobs?wait=-1", REST)).code == "VALIDATION_ERROR"


async def test_when_the_time_is_up_the_job_is_shown_as_it_stands(house: House) -> None:
    said = await house.ada.post("/jobs?wait=0.05", REST)
    assert (said.status, said.json["status"]) == (201, "CREATED")


async def test_whoever_waits_is_told_of_an_end_that_somebody_else_made(house: House) -> None:
    order = {**REST, "idempotency_key": "ended-elsewhere"}
    job = (await house.ada.post("/jobs", order)).json
    async with anyio.create_task_group() as group:

        async def wait() -> None:
            said = await house.ada.post("/jobs?wait=60", order)
            assert said.json["status"] == "CANCELLED"

        group.start_soon(wait)
        await until(lambda: house.service.facade.watchers.awaited)
        assert (await house.ada.post(f"/jobs/{job['id']}/cancel")).status == 200


async def test_whoever_waits_keeps_no_place_of_a_submission(tmp_path: Path) -> None:
    """With one place, a second submission is made while the first waits for its end."""
    limits = LimitsSection(lag=0, submissions=1, patience=30)
    order = {**REST, "idempotency_key": "first"}
    async with opened(tmp_path, limits=limits) as house, anyio.create_task_group() as group:
        job = (await house.ada.post("/jobs", order)).json
        group.start_soon(house.ada.post, "/jobs?wait=60", order)
        await until(lambda: house.service.facade.watchers.awaited)
        with anyio.fail_after(120):
            assert (await house.ada.post("/jobs", REST)).status == 201
        assert (await house.ada.post(f"/jobs/{job['id']}/cancel")).status == 200


async def test_a_stop_lets_nobody_wait(tmp_path: Path) -> None:
    said = []
    async with (
        aiohttp.ClientSession() as session,
        anyio.create_task_group() as group,
        opened(tmp_path) as house,
    ):
        patient = Caller(session, house.service.url, house.contract, house.ada.token)

        async def wait() -> None:
            said.append(await patient.post("/jobs?wait=60", REST))

        group.start_soon(wait)
        await until(lambda: house.service.facade.watchers.awaited)
    assert [(one.status, one.json["status"]) for one in said] == [(201, "CREATED")]
