"""A row that cannot be read is a job that is stuck: its owner is shown what is left of it, and it
holds up nobody else."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner.config.settings import LimitsSection
from jobrunner.core.job import Actor
from jobrunner.core.messages import Do
from jobrunner.errors import Refused
from tests.http.fickle import fickle
from tests.http.serving import House, opened

pytestmark = pytest.mark.anyio

SPOILED = {
    "rest": "UPDATE jobs SET rest = '{\"progress_message\": 7}' WHERE uid = ?",
    "garbled": "UPDATE jobs SET rest = 'no json' WHERE uid = ?",
    "params": "UPDATE payloads SET params = '{' WHERE job = (SELECT id FROM jobs WHERE uid = ?)",
    "labels": "UPDATE payloads SET labels = '7x' WHERE job = (SELECT id FROM jobs WHERE uid = ?)",
}


@pytest.fixture
async def house(tmp_path: Path, anyio_backend: str) -> AsyncIterator[House]:
    """Each job is read whenever it is told something, so that what became of its row is seen."""
    limits = LimitsSection(lag=0, kept_jobs=0)
    async with opened(tmp_path, registry=fickle(), limits=limits) as house:
        yield house


def write(house: House, statement: str, *values: Any) -> list[Any]:
    """By somebody else, in the file itself."""
    connection = sqlite3.connect(house.service.store.path, timeout=20)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    try:
        with connection:
            return connection.execute(statement, values).fetchall()
    finally:
        connection.close()


async def outside(house: House) -> str:
    job = str((await house.ada.submit("fickle", labels={"a": "b"}))["id"])
    moved = await house.ada.post(f"/jobs/{job}/transitions", {"to": "outside"})
    assert moved.status == 200, moved.raw
    return job


@pytest.mark.parametrize("spoiled", SPOILED)
async def test_it_is_shown_to_its_owner_and_holds_up_nobody(house: House, spoiled: str) -> None:
    odd, even = await outside(house), await outside(house)
    write(house, SPOILED[spoiled], odd)
    seen = await house.ada.get(f"/jobs/{odd}")
    assert seen.status == 200, seen.raw
    assert (seen.json["status"], seen.json["user_id"]) == ("outside", "ada")
    assert "UNREADABLE" in seen.json["stuck"]["reason"]
    for part in ("history", "attempts", "assets", "explain"):
        assert (await house.ada.get(f"/jobs/{odd}/{part}")).status == 200
    assert (await house.eve.get(f"/jobs/{odd}")).status == 404
    for _ in range(2):
        claims = await house.worker.post("/internal/claims", {"workflow": "fickle", "max": 5})
        assert claims.status == 200, claims.raw
        even = next((one["job"]["id"] for one in claims.json["claims"]), even)
    assert even != odd
    listed = await house.ada.get("/jobs")
    if spoiled != "params":  # which lists do not look at
        assert [job["id"] for job in listed.json["jobs"]] == [even]
    for asked in (
        await house.ada.post(f"/jobs/{odd}/transitions", {"to": "canceled"}),
        await house.worker.post(f"/jobs/{odd}/claim"),
        await house.worker.post(f"/jobs/{odd}/progress", {"progress": 5}),
    ):
        assert (asked.status, asked.code) == (409, "JOB_LOCKED"), asked.raw
    assert (await house.eve.post(f"/jobs/{odd}/cancel")).status == 404
    assert not [line for line in house.logged if line["event"] == "actor.crashed"]


async def test_a_stranger_is_told_nothing_of_it(house: House) -> None:
    """Also by the job itself, whoever may have looked before: only its owner hears why."""
    job = await outside(house)
    write(house, SPOILED["rest"], job)
    for name, code in (("eve", "NOT_FOUND"), ("ada", "JOB_LOCKED")):
        with pytest.raises(Refused) as told:
            await house.service.facade.ask(job, Do(Actor(name, "user"), "cancel"))
        assert told.value.code == code


async def test_a_value_that_cannot_be_read_is_named(house: House) -> None:
    """In whatever version it stands; an old one holds up nothing but itself."""
    job = await outside(house)
    for value in ("first", "second"):
        report = {"artifact_updates": {"note": value}}
        for to in ("draft", "outside"):
            moved = await house.worker.post(f"/jobs/{job}/transitions", {"to": to, **report})
            assert moved.status == 200, moved.raw
            report = {}
    path, spoil = (
        f"/jobs/{job}/artifacts/note",
        "UPDATE artifacts SET value = '{' WHERE version = ?",
    )
    write(house, spoil, 1)
    assert (await house.ada.get(path)).json["value"] == "second"
    assert (await house.ada.get(f"/jobs/{job}")).json["stuck"] is None
    said = await house.ada.get(f"{path}?version=1")
    assert (said.status, said.code) == (409, "JOB_LOCKED")
    assert "version 1 of 'note': UNREADABLE: artifact cannot be read" in said.json["detail"]
    assert (await house.eve.get(f"{path}?version=1")).status == 404
    write(house, spoil, 2)
    assert (await house.ada.get(path)).code == "JOB_LOCKED"
    assert "UNREADABLE" in (await house.ada.get(f"/jobs/{job}")).json["stuck"]["reason"]


async def test_what_cannot_be_read_is_not_done_again(house: House) -> None:
    """Nobody knows what it was."""
    job = (await house.ada.submit("fickle"))["id"]
    assert (await house.ada.post(f"/jobs/{job}/cancel")).json["status"] == "canceled"
    write(house, SPOILED["params"], job)
    said = await house.ada.post(f"/jobs/{job}/rerun", {})
    assert (said.status, said.code) == (409, "JOB_LOCKED"), said.raw
    assert "params cannot be read" in said.json["detail"]


async def test_a_record_of_an_act_is_told_as_far_as_it_goes(house: House) -> None:
    before = (await house.admin.get("/admin/audit")).json["audit"]
    write(house, "UPDATE audit SET fields = '[' WHERE id = (SELECT max(id) FROM audit)")
    after = (await house.admin.get("/admin/audit")).json["audit"]
    assert [one["event"] for one in after] == [one["event"] for one in before]
    assert "cannot be read" in after[0]["fields"]["unreadable"]


async def test_in_line_it_is_put_aside_and_goes_on_when_it_is_mended(house: House) -> None:
    await house.admin.post("/admin/workflows/fickle/pause", {})
    job = (await house.ada.submit("fickle"))["id"]
    assert (await house.ada.post(f"/jobs/{job}/go")).json["status"] == "queued"
    ((was,),) = write(house, "SELECT rest FROM jobs WHERE uid = ?", job)
    write(house, SPOILED["rest"], job)
    await house.admin.post("/admin/workflows/fickle/resume", {})
    with anyio.fail_after(120):
        while write(house, "SELECT stuck FROM jobs WHERE uid = ?", job) == [(None,)]:
            await anyio.sleep(0.02)
    other = (await house.ada.submit("fickle"))["id"]
    await house.ada.post(f"/jobs/{other}/go")
    await done(house, other)
    assert len([line for line in house.logged if line["event"] == "job.unreadable"]) == 1
    write(house, "UPDATE jobs SET rest = ? WHERE uid = ?", was, job)
    assert (await house.admin.post(f"/admin/jobs/{job}/release", {})).status == 200
    await done(house, job)


async def done(house: House, job: str) -> None:
    with anyio.fail_after(120):
        while (await house.ada.get(f"/jobs/{job}")).json["status"] != "done":
            await anyio.sleep(0.02)


async def test_one_that_has_settled_can_be_deleted(house: House) -> None:
    job = (await house.ada.submit("fickle"))["id"]
    assert (await house.ada.post(f"/jobs/{job}/cancel")).json["status"] == "canceled"
    write(house, SPOILED["rest"], job)
    assert (await house.ada.delete(f"/jobs/{job}")).status == 204
