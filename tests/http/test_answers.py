"""Answers to what stages ask: given once, by whoever has the address or the role."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner.client import AsyncClient
from tests.http.serving import Caller
from tests.stages import asking
from tests.whole.living import Living, living

pytestmark = pytest.mark.anyio

YES = {"approved": True, "note": "well done"}


@pytest.fixture
async def press(tmp_path: Path) -> AsyncIterator[Living]:
    async with living(tmp_path, asking.registry()) as here:
        yield here


async def asked(here: Living, workflow: str = "press", **params: Any) -> tuple[str, str]:
    """A job whose stage has asked, and the address of its question."""
    said = await here.ada.post("/jobs", {"workflow": workflow, "params": params})
    assert said.status == 201, said
    job_id = str(said.json["id"])
    with anyio.fail_after(120):
        while True:
            kept = await _kept(here, job_id)
            if kept:
                return job_id, "/callbacks/" + kept.rpartition("/")[2]
            await anyio.sleep(0.01)


async def _kept(here: Living, job_id: str) -> str:
    job = await here.service.store.reader.job(job_id)
    assert job is not None
    return "" if job.attempt is None else str(job.attempt.kept.get("told", ""))


async def parked(here: Living, job_id: str) -> None:
    with anyio.fail_after(120):
        while True:
            job = await here.service.store.reader.job(job_id)
            if job is not None and job.attempt is not None and job.attempt.status == "parked":
                return
            await anyio.sleep(0.01)


def nobody(here: Living) -> Caller:
    return here.caller(None)


@pytest.mark.parametrize("workflow", ["press", "plain-press"])
async def test_whoever_has_the_address_answers_once(press: Living, workflow: str) -> None:
    job_id, path = await asked(press, workflow)
    await parked(press, job_id)
    said = await nobody(press).post(path, YES)
    assert (said.status, said.json) == (200, {"name": "approval", "replayed": False})
    job = await press.at(job_id, "done")
    assert job["result"] == {"answer": YES, "same": True}
    again = await nobody(press).post(path, {"note": "well done", "approved": True})
    assert (again.status, again.json["replayed"]) == (200, True)
    other = await nobody(press).post(path, {"approved": False})
    assert (other.status, other.code) == (409, "ANSWER_GIVEN")


async def test_an_answer_that_comes_before_the_job_has_parked(press: Living) -> None:
    job_id, path = await asked(press, gated=True)
    assert (await nobody(press).post(path, YES)).status == 200
    asking.GATES[job_id].set()
    assert (await press.at(job_id, "done"))["result"]["answer"] == YES
    (attempt,) = (await press.ada.get(f"/jobs/{job_id}/attempts")).json["attempts"]
    assert attempt["outcome"] == "done"


async def test_what_is_no_answer_is_refused_with_its_place(press: Living) -> None:
    job_id, path = await asked(press)
    for body, place in (({"approved": "yes"}, "$.approved"), ({}, "$.approved"), ([], "$")):
        said = await nobody(press).post(path, body)
        assert (said.status, said.code) == (400, "VALIDATION_ERROR")
        assert said.json["errors"][0]["path"] == place
    job = (await press.ada.get(f"/jobs/{job_id}")).json
    assert job["status"] == "asking"


async def test_looking_shows_what_is_asked_and_changes_nothing(press: Living) -> None:
    job_id, path = await asked(press, text="<script>", timeout_s=600)
    await parked(press, job_id)
    before = await press.seen(job_id)
    said = await nobody(press).get(path)
    assert said.json["text"] == "May this be printed: <script>?"
    assert said.json["asks"]["$defs"]["Verdict"]["required"] == ["approved"]
    page = await nobody(press).get(path, Accept="text/html,*/*")
    assert page.headers["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert b"&lt;script&gt;" in page.raw
    assert b"<script>" not in page.raw
    assert await press.seen(job_id) == before


async def test_the_owner_answers_by_name_and_others_do_not(press: Living) -> None:
    job_id, _ = await asked(press)
    where = f"/jobs/{job_id}/answers/approval"
    assert (await press.eve.post(where, YES)).status == 404
    assert (await press.worker.post(where, YES)).code == "FORBIDDEN"
    assert (await press.ada.post(f"/jobs/{job_id}/answers/nonsense", YES)).status == 404
    said = await press.ada.post(where, YES)
    assert (said.status, said.json["replayed"]) == (200, False)
    await press.at(job_id, "done")
    assert (await press.ada.post(where, YES)).json["replayed"]
    assert (await press.ada.post(where, {"approved": False})).code == "ANSWER_GIVEN"
    audit = (await press.admin.get("/admin/audit")).json["audit"]
    (entry,) = [one for one in audit if one["event"] == "answer.give"]
    assert (entry["actor"], entry["job_id"], entry["fields"]["way"]) == ("ada", job_id, "role")


async def test_open_questions_are_listed_for_those_whom_they_concern(press: Living) -> None:
    job_id, path = await asked(press, by=["workflow"])
    for caller, may in ((press.ada, False), (press.admin, True), (press.worker, True)):
        assert (await press.service.store.reader.gauges()).questions == 1
        (one,) = (await caller.get("/answers")).json["answers"]
        assert (one["job_id"], one["name"], one["may_give"]) == (job_id, "approval", may)
        assert path.rpartition("/")[2] not in str(one)
    assert (await press.eve.get("/answers")).json["answers"] == []
    assert (await press.ada.post(f"/jobs/{job_id}/answers/approval", YES)).code == "FORBIDDEN"
    assert (await press.worker.post(f"/jobs/{job_id}/answers/approval", YES)).status == 200
    assert (await press.admin.get(f"/answers?job_id={job_id}")).json["answers"] == []


async def test_the_default_is_the_answer_when_nobody_gives_one(press: Living) -> None:
    job_id, path = await asked(press, timeout_s=1, default=False)
    job = await press.at(job_id, "done")
    assert job["result"]["answer"] == {"approved": False, "note": "nobody said so"}
    late = await nobody(press).post(path, YES)
    assert (late.status, late.code) == (410, "ANSWER_OVER")
    assert (await nobody(press).get(path)).status == 410


async def test_without_a_default_the_attempt_fails(press: Living) -> None:
    job_id, path = await asked(press, timeout_s=1)
    job = await press.at(job_id, "failed")
    assert job["failure_code"] == "STAGE_TIMEOUT"
    assert (await nobody(press).post(path, YES)).status == 410


async def test_a_question_ends_with_its_job(press: Living) -> None:
    job_id, path = await asked(press)
    await parked(press, job_id)
    assert (await press.ada.post(f"/jobs/{job_id}/cancel", {})).status in (200, 202)
    assert (await nobody(press).post(path, YES)).code == "ANSWER_OVER"
    assert (await press.admin.delete(f"/jobs/{job_id}")).status in (200, 204)
    assert (await nobody(press).post(path, YES)).status == 404


async def test_a_token_that_is_none_says_nothing(press: Living) -> None:
    said = await nobody(press).post("/callbacks/jr_nonsense", YES)
    looked = await nobody(press).get("/callbacks/jr_nonsense")
    assert (said.status, looked.status) == (404, 404)
    assert said.json["detail"] == looked.json["detail"]


async def test_the_token_is_in_no_file_and_in_no_line_of_the_log(
    press: Living, tmp_path: Path
) -> None:
    """But for what the stage itself kept of it."""
    job_id, path = await asked(press)
    token = path.rpartition("/")[2]
    await nobody(press).post(path, {"approved": 1})
    await nobody(press).post(path, YES)
    await press.at(job_id, "done")
    assert token not in str(press.lines())
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as db:
        (stored,) = db.execute("SELECT digest FROM questions").fetchone()
        dump = "\n".join(line for line in db.iterdump() if 'INTO "attempts"' not in line)
    assert token not in dump
    assert stored not in path
    assert oct((tmp_path / "answers.secret").stat().st_mode)[-3:] == "600"


async def test_a_callback_of_no_source_has_a_route(press: Living) -> None:
    said = await press.ada.post("/jobs", {"workflow": "calling-press", "params": {}})
    job_id = said.json["id"]
    await parked(press, job_id)
    question, _ = await asked(press)
    for caller, may in ((press.ada, False), (press.admin, True), (press.worker, True)):
        first, second, last = await pages_of_one(caller)
        assert (first[0]["job_id"], second[0]["job_id"], last) == (question, job_id, [])
        (one,) = (await caller.get(f"/answers?job_id={job_id}")).json["answers"]
        assert (one["name"], one["by"], one["may_give"]) == ("press-1", ["workflow"], may)
        assert one == second[0]
    assert (await press.eve.get("/answers")).json["answers"] == []
    where = f"/jobs/{job_id}/answers/press-1"
    assert (await press.ada.post(where, {"ok": 1})).code == "FORBIDDEN"
    assert (await press.worker.post(where, {"ok": 1})).status == 200
    assert (await press.at(job_id, "done"))["result"] == {"answer": {"ok": 1}}
    (left,) = (await press.admin.get("/answers")).json["answers"]
    assert left["job_id"] == question


async def test_who_answers_in_the_place_of_a_program_stands_in_the_audit(press: Living) -> None:
    said = await press.ada.post("/jobs", {"workflow": "calling-press", "params": {}})
    job_id = said.json["id"]
    await parked(press, job_id)
    where = f"/jobs/{job_id}/answers/press-1"
    assert (await press.admin.post(where, {"ok": 1})).status == 200
    await press.at(job_id, "done")
    audit = (await press.admin.get("/admin/audit")).json["audit"]
    (entry,) = [one for one in audit if one["event"] == "answer.give"]
    assert (entry["actor"], entry["job_id"]) == ("admin", job_id)
    assert (entry["fields"]["name"], entry["fields"]["way"]) == ("press-1", "role")


async def pages_of_one(caller: Caller) -> list[Any]:
    """The first three pages, each of one answer."""
    found, cursor = [], ""
    for _ in range(3):
        page = (await caller.get(f"/answers?limit=1{cursor}")).json
        found.append(page["answers"])
        cursor = f"&cursor={page['next_cursor']}"
    return found


async def test_a_program_answers_by_the_client(press: Living) -> None:
    job_id, _ = await asked(press)
    async with AsyncClient(press.ada.url, press.ada.token) as client:
        (wanted,) = [one async for one in client.answers(job_id)]
        assert (wanted.name, wanted.may_give, wanted.expires_at) == ("approval", True, None)
        for replayed in (False, True):
            given = await client.give_answer(job_id, wanted.name, YES)
            assert (given.name, given.replayed) == ("approval", replayed)
    assert (await press.at(job_id, "done"))["result"]["answer"] == YES
