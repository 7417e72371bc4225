"""Clients that mean no good, over real HTTP: whatever they send, they are refused or served, nobody
else notices, and nothing is lost."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from jobrunner.actors.mailbox import CAPACITY
from jobrunner.core.job import Actor
from jobrunner.core.messages import Beat, Do, Message
from jobrunner.errors import Refused
from tests.http.serving import House, definitions, opened
from tests.whole.placing import outside

pytestmark = pytest.mark.anyio

ADA, ROOT = Actor("ada", "user"), Actor("root", "admin")
BEYOND = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")


@pytest.fixture
async def house(tmp_path: Path, anyio_backend: str) -> AsyncIterator[House]:
    async with opened(tmp_path, registry=outside()) as house:
        yield house


@pytest.mark.parametrize("moment", BEYOND)
async def test_no_instant_is_taken_that_could_not_be_shown_again(house: House, moment: str) -> None:
    """R8: one job of this kind would spoil every list that it stands in, and every claim of it."""
    said = await house.ada.post("/jobs", {"workflow": "asset-pattern", "run_at": moment})
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")
    job = await house.ada.submit("howera")
    event = {"event_id": "e", "status": "UPLOADING", "occurred_at": moment}
    said = await house.worker.post(f"/internal/jobs/{job['id']}/status", event)
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")
    order = {"name": "zed", "role": "user", "expires_at": moment}
    said = await house.admin.post("/admin/tokens", order)
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")
    assert [shown["id"] for shown in (await house.admin.get("/jobs")).json["jobs"]] == [job["id"]]
    assert (await house.admin.get("/admin/tokens")).status == 200


async def test_a_label_can_be_looked_for_whatever_is_in_it(house: House) -> None:
    """Text with NUL in it would be stored and never be found."""
    labels = {"shelf": "a:b:c", "mood": "\U0001f600 \n"}
    await house.ada.submit("asset-pattern", labels=labels)
    for label in ("shelf:a:b:c", "mood:%F0%9F%98%80%20%0A"):
        assert len((await house.ada.get(f"/jobs?label={label}")).json["jobs"]) == 1, label
    said = await house.ada.post("/jobs", {"workflow": "asset-pattern", "labels": {"a": "x\0y"}})
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")


async def test_one_question_for_work_names_few_statuses(house: House) -> None:
    """R11: each status is a search of its own, by the one thread that reads."""
    wanted = {"workflow": "asset-pattern", "status": ["queued"] * 65}
    said = await house.worker.post("/internal/claims", wanted)
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")


async def test_a_job_is_deleted_as_it_was_seen(house: House) -> None:
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}"
    done = (await house.ada.post(path + "/cancel")).json
    stale = {"If-Match": f'"{job["version"]}"'}
    said = await house.ada.ask("DELETE", path, headers=stale)
    assert (said.status, said.code) == (409, "JOB_VERSION_CONFLICT")
    assert said.json["current_version"] == done["version"]
    said = await house.ada.ask("DELETE", path, headers={"If-Match": "7"})
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")
    assert (await house.ada.ask("DELETE", path, headers={"If-Match": "*"})).status == 204


async def test_what_an_admin_does_by_hand_is_on_record(house: House) -> None:
    """Not only moves and commands: also a draft that was rewritten, a job that was taken."""
    job = await house.ada.submit("ss", params={"requirement": "sums"})
    path = f"/jobs/{job['id']}"
    await house.ada.post(path + "/draft", {"draft": "mine"})
    said = await house.admin.put(path + "/artifacts/draft", {"value": "theirs"})
    assert said.status == 200, said.raw
    await house.ada.post(path + "/confirm", {"confirmed": True})
    assert (await house.admin.post(path + "/claim")).status == 200
    rows = (await house.admin.get("/admin/audit")).json["audit"]
    events = [
        row["event"] for row in rows if row["job_id"] == job["id"] and row["actor"] == "admin"
    ]
    assert events == ["job.claim", "job.edit"]


async def test_a_stranger_learns_nothing_from_a_workflow_that_is_gone(tmp_path: Path) -> None:
    """A job whose workflow is not loaded is not there for others, through any door."""
    async with opened(tmp_path, registry=outside()) as house:
        job = await house.ada.submit("howera")
    async with opened(tmp_path, registry=definitions(names=("ss",))) as house:
        for method, path, body in (
            ("POST", "transitions", {"to": "CANCELLED"}),
            ("PUT", "artifacts/draft", {"value": "x"}),
            ("POST", "cancel", {}),
        ):
            said = await house.eve.ask(method, f"/jobs/{job['id']}/{path}", body)
            assert (said.status, said.code) == (404, "NOT_FOUND"), path
            said = await house.ada.ask(method, f"/jobs/{job['id']}/{path}", body)
            assert (said.status, said.code) == (503, "WORKFLOW_UNAVAILABLE"), path


async def test_a_cancel_does_not_wait_behind_a_flood(house: House) -> None:
    """R12: a mailbox that is full refuses others, in a while; who wants to stop the job is heard
    before them."""
    job = await house.ada.submit("cutx", params={"product_id": "lamp"})
    await house.worker.post(f"/jobs/{job['id']}/claim")
    facade, told = house.service.facade, list[str]()

    async def ask(message: Message) -> None:
        try:
            await facade.ask(job["id"], message)
            told.append("heard")
        except Refused as refused:
            told.append(refused.code)

    async with anyio.create_task_group() as flood:
        for _ in range(CAPACITY + 10):
            flood.start_soon(ask, Beat(ROOT))  # each is taken, and written
        while facade.stats()["letters"] < CAPACITY - 1:
            await anyio.lowlevel.checkpoint()
        answer = await facade.ask(job["id"], Do(ADA, "cancel"))
        assert answer.job.status == "canceled"
        assert len(told) < CAPACITY // 2
    assert len(told) == CAPACITY + 10
