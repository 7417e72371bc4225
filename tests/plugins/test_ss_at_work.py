"""ss with its real stages behind real HTTP: from a table and a question to agreed results."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from jobrunner_ss.demo import QUESTION, _table

from jobrunner import app
from jobrunner.config.settings import (
    Config,
    LimitsSection,
    RetrySettings,
    ServerSection,
    WorkflowSettings,
)
from tests.http.serving import House, Said, opened

pytestmark = pytest.mark.anyio

PATIENCE_S = 120
SALES = _table().encode()
CSV = {"Content-Type": "text/csv"}


@asynccontextmanager
async def house(folder: Path) -> AsyncIterator[House]:
    soon = RetrySettings(base=0.02, cap=0.05)
    workflows = {"ss": WorkflowSettings(retry={"running": soon, "created": soon})}
    registry = app.load_definitions(Config(workflows=workflows))
    server, limits = ServerSection(port=0, drain_seconds=5), LimitsSection(free_disk=0, lag=0)
    async with opened(
        folder, registry=registry, server=server, limits=limits, workflows=workflows
    ) as here:
        yield here


async def submitted(here: House, **params: Any) -> str:
    job = await here.ada.submit("ss", params={"requirement": QUESTION, **params})
    assert job["status"] == "created"
    return str(job["id"])


async def sent(here: House, job_id: str, content: bytes = SALES) -> Said:
    path = f"/jobs/{job_id}/upload?name=sales.csv"
    return await here.ada.ask("PUT", path, data=content, headers=CSV)


async def tell(here: House, job_id: str, command: str, **fields: Any) -> Any:
    said = await here.ada.post(f"/jobs/{job_id}/{command}", fields)
    assert said.status in (200, 202), said.raw
    return said.json


async def job_of(here: House, job_id: str) -> Any:
    return (await here.ada.get(f"/jobs/{job_id}")).json


async def at(here: House, job_id: str, status: str) -> Any:
    with anyio.fail_after(PATIENCE_S):
        while True:
            job = (await here.ada.get(f"/jobs/{job_id}?wait=1")).json
            if job["status"] == status:
                return job
            assert job["kind"] not in ("final", "settled"), job["failure_message"]


async def tries(here: House, job_id: str) -> list[Any]:
    return list((await here.ada.get(f"/jobs/{job_id}/attempts")).json["attempts"])


async def drafted(here: House, content: bytes = SALES, **params: Any) -> str:
    job_id = await submitted(here, **params)
    assert (await sent(here, job_id, content)).status in (200, 201)
    assert (await here.ada.post(f"/jobs/{job_id}/draft")).status == 202
    await at(here, job_id, "draft_ready")
    return job_id


async def tidy(here: House, job_id: str) -> None:
    root = Path(here.service.facade.world.assets)
    found = (await here.ada.get(f"/jobs/{job_id}/assets?limit=100")).json["assets"]
    files = (path for path in (root / "ada" / job_id).rglob("*") if path.is_file())
    kept = {asset["storage_path"] for asset in found}
    assert {path.relative_to(root).as_posix() for path in files} == kept
    assert (await here.admin.post("/admin/db/check")).json == {"ok": True, "faults": []}


async def test_from_a_table_and_a_question_to_results(tmp_path: Path) -> None:
    """S1-S6 S23 S28-S31 S33 S35 S37 S38: each step stored before the next, and evidence of it."""
    async with house(tmp_path) as here:
        job_id = await drafted(here)
        plan = await tell(here, job_id, "freeze-plan")
        assert plan["fingerprint"] == hashlib.sha256(SALES).hexdigest()
        again = await tell(here, job_id, "freeze-plan")
        assert (again["plan_id"], again["replayed"]) == (plan["plan_id"], True)
        queued = await tell(here, job_id, "confirm", confirmed=True)
        assert queued["scheduled_at"]
        job = await at(here, job_id, "succeeded")
        assert job["scheduled_at"] == queued["scheduled_at"]
        terms = {row["term"]: row for row in job["result"]["model"]["coefficients"]}
        assert -3.1 < terms["price"]["estimate"] < -2.5
        assert job["artifacts"]["results"] == job["result"]
        hops = (await here.ada.get(f"/jobs/{job_id}/history")).json["history"]
        assert [hop["to_status"] for hop in hops] == [
            "created", "draft_ready", "confirmed", "queued", "running", "succeeded",
        ]  # fmt: skip
        (run,) = [one for one in await tries(here, job_id) if one["state"] == "running"]
        assert run["outcome"] == "done"
        assert any("240 rows" in line for line in run["log"])
        assert any(plan["fingerprint"] in line for line in run["log"])
        await tidy(here, job_id)


async def test_another_file_than_was_said_is_refused(tmp_path: Path) -> None:
    """S10 S21 S22"""
    async with house(tmp_path) as here:
        digest = hashlib.sha256(SALES).hexdigest()
        job_id = await submitted(here, inputs={"fingerprint": digest})
        assert (
            await sent(here, job_id, SALES + b"1,2,north,no,3\n")
        ).code == "FINGERPRINT_MISMATCH"
        assert (await sent(here, job_id)).status in (200, 201)
        await tidy(here, job_id)


async def test_the_same_request_is_the_same_job(tmp_path: Path) -> None:
    """S10-S13 S18: white space aside; another revision is other work."""
    async with house(tmp_path) as here:
        job_id = await submitted(here)
        spaced = {"requirement": "  " + QUESTION.replace(" ", " \n\t ") + " "}
        again = await here.ada.submit("ss", params=spaced)
        assert (again["id"], again["replayed"]) == (job_id, True)
        other = await here.ada.submit("ss", params={"requirement": QUESTION, "plan_revision": "2"})
        assert other["id"] != job_id


async def test_what_the_draft_could_not_guess_is_asked_before_anything_runs(tmp_path: Path) -> None:
    """S3 S20-S23: and the answer decides what is computed."""
    async with house(tmp_path) as here:
        job_id = await drafted(here, requirement="What is the effect of the weather?")
        blocked = await here.ada.post(f"/jobs/{job_id}/confirm", {"confirmed": True})
        assert (blocked.code, blocked.json["missing"]) == ("DRAFT_CONFIRM_BLOCKED", ["outcome"])
        assert (await job_of(here, job_id))["status"] == "draft_ready"
        answers = {"outcome": "sales", "predictors": "price, visitors"}
        await tell(here, job_id, "confirm", confirmed=True, answers=answers)
        model = (await at(here, job_id, "succeeded"))["result"]["model"]
        assert [row["term"] for row in model["coefficients"]] == ["const", "price", "visitors"]


async def test_a_draft_without_an_input_stays_where_it_is(tmp_path: Path) -> None:
    """S28: the attempt says why; with the file the same command succeeds."""
    async with house(tmp_path) as here:
        job_id = await submitted(here)
        assert (await here.ada.post(f"/jobs/{job_id}/draft")).status == 202
        with anyio.fail_after(PATIENCE_S):
            while not (found := await tries(here, job_id)) or found[0]["outcome"] is None:
                await here.ada.get(f"/jobs/{job_id}?wait=1&progress=1")
        assert found[0]["failure_code"] == "INPUT_MISSING"
        assert (await job_of(here, job_id))["status"] == "created"
        assert (await sent(here, job_id)).status in (200, 201)
        await tell(here, job_id, "draft")
        await at(here, job_id, "draft_ready")


async def test_a_plan_covers_its_draft_and_its_input(tmp_path: Path) -> None:
    """S33: neither is exchanged after it is frozen."""
    async with house(tmp_path) as here:
        job_id = await drafted(here)
        await tell(here, job_id, "freeze-plan")
        assert (
            await here.ada.post(f"/jobs/{job_id}/draft", {"draft": "other"})
        ).code == "JOB_LOCKED"
        assert (await sent(here, job_id, SALES + b"1,2,north,no,3\n")).code == "JOB_LOCKED"
        other = await here.ada.post(f"/jobs/{job_id}/freeze-plan", {"answers": {"kind": "ols"}})
        assert other.code == "PLAN_ALREADY_FROZEN_CONFLICT"
        await tidy(here, job_id)


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"PK\x03\x04\x00\x00 a workbook", "INPUT_UNREADABLE"), (b"a,b\n", "INPUT_EMPTY"),
     (b"a,b\n1,2\n3,4,5\n", "INPUT_UNREADABLE")],
)  # fmt: skip
async def test_a_file_that_is_no_table_fails_for_good_and_can_be_retried(
    tmp_path: Path, content: bytes, code: str
) -> None:
    """S7 S8 S31 S32 S35 S38: one attempt, the failure fields, and a retry is a run of its own."""
    async with house(tmp_path) as here:
        job_id = await submitted(here)
        assert (await sent(here, job_id, content)).status in (200, 201)
        await tell(here, job_id, "draft", draft="describe it")
        await tell(here, job_id, "confirm", confirmed=True)
        job = await failed(here, job_id)
        assert job["failure_code"] == code
        assert job["failure_message"]
        assert job["correlation_id"]
        assert len([one for one in await tries(here, job_id) if one["state"] == "running"]) == 1
        again = await tell(here, job_id, "retry")
        assert again["scheduled_at"] >= job["scheduled_at"]
        assert again["run_id"] != job["run_id"]
        await failed(here, job_id)
        assert len([one for one in await tries(here, job_id) if one["state"] == "running"]) == 2
        await tidy(here, job_id)


async def failed(here: House, job_id: str) -> Any:
    with anyio.fail_after(PATIENCE_S):
        while (job := await job_of(here, job_id))["status"] != "failed":
            await here.ada.get(f"/jobs/{job_id}?wait=1")
    return job


async def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    """S31: what the plan names and the input lacks."""
    async with house(tmp_path) as here:
        job_id = await drafted(here)
        answers = {"outcome": "profit"}
        await tell(here, job_id, "confirm", confirmed=True, answers=answers)
        job = await failed(here, job_id)
        assert job["failure_code"] == "CONTRACT_COLUMN_NOT_FOUND"
        assert "'profit'" in job["failure_message"]
        await tidy(here, job_id)


async def test_an_input_that_was_changed_on_the_disk_is_noticed(tmp_path: Path) -> None:
    """S31: results over another table than was agreed on would be worse than none."""
    async with house(tmp_path) as here:
        job_id = await drafted(here)
        root = Path(here.service.facade.world.assets)
        (path,) = (root / "ada" / job_id).rglob("*.csv")
        path.write_bytes(SALES.replace(b"north", b"south", 1))
        await tell(here, job_id, "confirm", confirmed=True)
        assert (await failed(here, job_id))["failure_code"] == "CORRUPT_INPUT"


async def test_in_line_without_a_plan_it_fails_unretried(tmp_path: Path) -> None:
    """S23 S34"""
    async with house(tmp_path) as here:
        job_id = await submitted(here)
        await tell(here, job_id, "draft", draft="describe it")
        moved = await here.admin.post(f"/jobs/{job_id}/transitions", {"to": "confirmed"})
        assert moved.status == 200, moved.raw
        refused = await here.admin.post(f"/jobs/{job_id}/transitions", {"to": "queued"})
        assert refused.code == "PLAN_MISSING"
        assert (await job_of(here, job_id))["status"] == "confirmed"


async def test_of_two_who_ask_for_the_same_one_writes(tmp_path: Path) -> None:
    """S9 S14-S17 S19 S24-S27 S36: around a real run, a repeat writes nothing, a stale version and
    an illegal move are refused with a code and a line in the log, and the end is the end."""
    async with house(tmp_path) as here:
        job_id = await drafted(here)
        version = (await job_of(here, job_id))["version"]
        answers: list[Said] = []

        async def confirm() -> None:
            body = {"confirmed": True, "expected_version": version}
            answers.append(await here.ada.post(f"/jobs/{job_id}/confirm", body))

        async with anyio.create_task_group() as group:
            group.start_soon(confirm)
            group.start_soon(confirm)
        assert sorted(said.status for said in answers) == [200, 409]
        assert {said.code for said in answers if said.status == 409} == {"JOB_VERSION_CONFLICT"}
        job = await at(here, job_id, "succeeded")
        path = f"/jobs/{job_id}/transitions"
        same = await here.admin.post(path, {"to": "succeeded"})
        assert (same.status, same.json["replayed"]) == (200, True)
        assert (await job_of(here, job_id))["version"] == job["version"]
        assert (await here.admin.post(path, {"to": "running"})).code == "TERMINAL_STATE"
        refused = [line for line in here.logged if line["event"] == "job.transition_denied"]
        assert {line.get("error_code") for line in refused} >= {
            "JOB_VERSION_CONFLICT", "TERMINAL_STATE",
        }  # fmt: skip
        runs = [one for one in await tries(here, job_id) if one["state"] == "running"]
        assert len(runs) == 1
        assert (await here.worker.post(f"/jobs/{job_id}/claim")).status == 409
