"""Submitting, reading, waiting, listing, deleting."""

import re
from typing import Any

import anyio
import pytest

from jobrunner.core.questions import DoorFacts, DoorQuestion
from jobrunner.store.reader import StoreReader
from tests.http.serving import House

pytestmark = pytest.mark.anyio

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
DESIGNED = {
    "id", "workflow", "workflow_version", "job_type", "user_id", "status", "kind", "version",
    "progress", "progress_message", "attempt", "retry_count", "run_id", "params", "result",
    "artifacts", "failure_code", "failure_message", "failed_stage", "correlation_id",
    "idempotency_key", "priority", "labels", "credits", "created_at", "updated_at", "started_at",
    "completed_at", "scheduled_at", "heartbeat_at", "next_attempt_at", "deadline_at",
    "result_url", "allowed",
}  # fmt: skip


async def test_a_job_is_made(house: House) -> None:
    """H3 C44 I14: 201, Location, ETag, the job, both spellings of its id."""
    said = await house.ada.post(
        "/jobs", {"workflow": "howera", "labels": {"team": "a"}, "priority": 5}
    )
    job = said.json
    assert said.status == 201
    assert said.headers["Location"] == f"/jobs/{job['id']}"
    assert said.headers["ETag"] == f'"{job["version"]}"'
    assert job.keys() >= DESIGNED
    assert job["job_id"] == job["id"]
    assert (job["status"], job["kind"], job["version"]) == ("CREATED", "waiting", 1)
    assert (job["user_id"], job["replayed"], job["priority"]) == ("ada", False, 5)
    assert job["labels"] == {"team": "a"}
    assert STAMP.fullmatch(job["created_at"])
    assert "cancel" in job["allowed"]["commands"]
    assert (await house.ada.get(said.headers["Location"])).json["id"] == job["id"]


async def test_only_what_may_decide_is_read(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that costs nothing and has no key depends on nothing that is stored. Of a new key and a
    price the commit sees; only what came before is asked about."""
    asked: list[str] = []
    read = StoreReader.door

    async def door(self: StoreReader, question: DoorQuestion) -> DoorFacts:
        asked.append(question.workflow)
        return await read(self, question)

    monkeypatch.setattr(StoreReader, "door", door)
    assert (await house.ada.post("/jobs", {"workflow": "howera"})).status == 201
    assert asked == []
    keyed = {"workflow": "howera", "idempotency_key": "k-0"}
    assert (await house.ada.post("/jobs", keyed)).status == 201
    assert asked == []
    assert (await house.ada.post("/jobs", keyed)).status == 200
    assert asked == ["howera"]
    paid = {"workflow": "cutx", "job_type": "static_ad", "params": {"product_id": "lamp"}}
    assert (await house.ada.post("/jobs", paid)).status == 201
    assert asked == ["howera"]


async def test_a_trailing_slash_and_the_other_name_of_params(house: House) -> None:
    """P31: an older client's path and field."""
    body = {
        "workflow": "asset-pattern",
        "job_type": "generation",
        "parameters": {"prompt": "tiles"},
    }
    made = await house.ada.post("/jobs/", body)
    assert made.status in (201, 422)
    both = await house.ada.post("/jobs", {**body, "params": {"prompt": "other"}})
    assert (both.status, both.code) == (400, "VALIDATION_ERROR")


async def test_the_same_key_leads_to_the_same_job(house: House) -> None:
    first = await house.ada.post("/jobs", {"workflow": "howera", "idempotency_key": "k-1"})
    again = await house.ada.post("/jobs", {"workflow": "howera"}, Idempotency_Key="k-1")
    assert (first.status, again.status) == (201, 200)
    assert again.json["id"] == first.json["id"]
    assert again.json["replayed"] is True
    other = await house.eve.post("/jobs", {"workflow": "howera", "idempotency_key": "k-1"})
    assert other.status == 201


async def test_the_same_key_with_another_body_says_so(house: House) -> None:
    order = {"workflow": "cutx", "job_type": "scrape", "idempotency_key": "k-2"}
    first = await house.ada.post("/jobs", {**order, "params": {"url": "https://a.example/"}})
    again = await house.ada.post("/jobs", {**order, "params": {"url": "https://b.example/"}})
    assert again.json["id"] == first.json["id"]
    assert again.json["idempotency_mismatch"] is True


@pytest.mark.parametrize("key", ["", " ", "a b", "ä", "x" * 256, "a\n"])
async def test_keys_that_are_none(house: House, key: str) -> None:
    said = await house.ada.post("/jobs", {"workflow": "howera", "idempotency_key": key})
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")


async def test_a_workflow_may_want_shorter_keys(house: House) -> None:
    """C34: CutX takes 128 characters."""
    order: dict[str, Any] = {
        "workflow": "cutx",
        "job_type": "scrape",
        "params": {"url": "https://a.example/"},
    }
    said = await house.ada.post("/jobs", {**order, "idempotency_key": "x" * 129})
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")
    assert (await house.ada.post("/jobs", {**order, "idempotency_key": "x" * 128})).status == 201


async def test_header_and_body_must_agree_on_the_key(house: House) -> None:
    said = await house.ada.post(
        "/jobs", {"workflow": "howera", "idempotency_key": "a"}, Idempotency_Key="b"
    )
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")


async def test_what_there_is_no_workflow_or_type_for(house: House) -> None:
    said = await house.ada.post("/jobs", {"workflow": "howhera"})
    assert (said.status, said.code) == (422, "UNKNOWN_WORKFLOW")
    assert "howera" in said.json["detail"]
    said = await house.ada.post("/jobs", {"workflow": "cutx", "job_type": "movie"})
    assert (said.status, said.code) == (422, "UNKNOWN_JOB_TYPE")
    assert "ugc_video" in said.json["detail"]


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({}, "$.params.url"),
        ({"url": 5}, "$.params.url"),
        ({"url": "ftp://x/"}, "$.params.url"),
        ({"url": "https://a.example/", "more": 1}, "$.params.more"),
        ([], "$.params"),
        (None, "$.params"),
    ],
)
async def test_params_are_checked_with_their_place(house: House, params: Any, path: str) -> None:
    """C20: order of the door: params before credits."""
    said = await house.ada.post(
        "/jobs", {"workflow": "cutx", "job_type": "scrape", "params": params}
    )
    assert (said.status, said.code) == (422, "INVALID_PARAMS")
    assert said.json["errors"][0]["path"] == path


async def test_the_first_job_type_is_the_default_and_defaults_are_filled_in(house: House) -> None:
    job = await house.ada.submit("cutx", params={"product_id": "p-1"})
    assert job["job_type"] == "copy"
    assert job["params"]["platform"] == "universal"


async def test_nobody_spends_more_than_there_is(house: House) -> None:
    """C38: 402 names what is there and what is needed."""
    said = await house.ada.post(
        "/jobs", {"workflow": "cutx", "job_type": "ugc_video", "params": {"product_id": "p"}}
    )
    assert (said.status, said.code) == (402, "INSUFFICIENT_CREDITS")
    assert said.json["required"] == 40
    assert said.json["balance"] == (await house.ada.get("/credits")).json["balance"]


@pytest.mark.parametrize(
    "wish",
    [
        {"priority": 101},
        {"run_at": "2026-01-01T00:00:00"},
        {"run_at": "tomorrow"},
        {"labels": {"a": 1}},
        {"labels": {"a:b": "c"}},
        {"labels": {str(number): "" for number in range(17)}},
        {"notify_url": "file:///etc/passwd"},
        {"notify_url": "https://"},
    ],
)
async def test_wishes_that_cannot_be_meant(house: House, wish: dict[str, Any]) -> None:
    said = await house.ada.post("/jobs", {"workflow": "howera", **wish})
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")


async def test_a_later_start_is_kept_and_shown(house: House) -> None:
    job = await house.ada.submit("howera", run_at="2999-01-01T01:00:00+01:00")
    assert job["run_at"] == "2999-01-01T00:00:00.000Z"


async def test_an_etag_that_still_fits_is_answered_with_304(house: House) -> None:
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}"
    tag = (await house.ada.get(path)).headers["ETag"]
    for known in (tag, f'"99", {tag}', f"W/{tag}", "*"):
        said = await house.ada.get(path, If_None_Match=known)
        assert (said.status, said.raw, said.headers["ETag"]) == (304, b"", tag)
    for unknown in ('"99"', "nonsense", '"1.7"'):
        assert (await house.ada.get(path, If_None_Match=unknown)).status == 200


async def test_waiting_ends_with_the_next_decision(house: House) -> None:
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}"
    async with anyio.create_task_group() as group:

        async def wait() -> None:
            said = await house.ada.get(f"{path}?wait=30")
            assert said.json["status"] == "CANCELLED"

        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert (await house.ada.post(f"{path}/cancel")).status == 200


async def test_waiting_behind_the_times_is_not_waiting(house: House) -> None:
    job = await house.ada.submit("howera")
    await house.ada.post(f"/jobs/{job['id']}/start-upload")
    with anyio.fail_after(120):
        said = await house.ada.get(f"/jobs/{job['id']}?wait=60", If_None_Match='"1"')
    assert said.json["status"] == "UPLOADING"


async def test_nobody_waits_for_what_has_ended(house: House) -> None:
    job = await house.ada.submit("howera")
    await house.ada.post(f"/jobs/{job['id']}/cancel")
    tag = (await house.ada.get(f"/jobs/{job['id']}")).headers["ETag"]
    said = await house.ada.get(f"/jobs/{job['id']}?wait=60", If_None_Match=tag)
    assert said.status == 304


async def test_waiting_may_be_in_vain(house: House) -> None:
    job = await house.ada.submit("howera")
    said = await house.ada.get(f"/jobs/{job['id']}?wait=0.05")
    assert said.json["status"] == "CREATED"
    said = await house.ada.get(f"/jobs/{job['id']}?wait=0.05", If_None_Match='"1"')
    assert said.status == 304
    assert (await house.ada.get(f"/jobs/{job['id']}?wait=61")).status == 400


async def test_progress_is_worth_waiting_for_when_asked(house: House) -> None:
    """A cancel with If-Match does not lose to a progress bar: progress is no new version."""
    job = await house.ada.submit("asset-pattern", job_type="export", params=await _export(house))
    path = f"/jobs/{job['id']}"
    claimed = (await house.worker.post(f"{path}/claim")).json
    async with anyio.create_task_group() as group:

        async def wait() -> None:
            said = await house.ada.get(f"{path}?wait=30&progress=1")
            assert said.json["progress"] == 40
            assert said.headers["ETag"] == f'"{claimed["version"]}.1"'

        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        said = await house.worker.post(f"{path}/progress", {"progress": 40})
        assert said.json["version"] == claimed["version"]


async def test_progress_that_was_missed_is_told_at_once(house: House) -> None:
    job = await house.ada.submit("asset-pattern", job_type="export", params=await _export(house))
    path = f"/jobs/{job['id']}"
    tag = (await house.worker.post(f"{path}/claim")).headers["ETag"]
    await house.worker.post(f"{path}/progress", {"progress": 10})
    with anyio.fail_after(120):
        said = await house.ada.get(f"{path}?wait=60&progress=1", If_None_Match=tag)
    assert said.json["progress"] == 10


async def _export(house: House) -> dict[str, Any]:
    schema = (await house.ada.get("/workflows/asset-pattern")).json["job_types"]["export"]
    return example_of(schema["params_schema"])


def example_of(schema: dict[str, Any]) -> dict[str, Any]:
    """The least that satisfies a params schema of this tree."""
    whole = schema["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return {name: _example(whole["properties"][name]) for name in whole.get("required", ())}


def _example(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "array":
        return [_example(schema.get("items", {}))] * max(schema.get("minItems", 0), 1)
    return {"integer": 1, "object": {}, "boolean": True}.get(schema.get("type", ""), "01234567")


async def test_lists_are_newest_first_and_own(house: House) -> None:
    made = [(await house.eve.submit("howera", labels={"set": "list"}))["id"] for _ in range(5)]
    page = (await house.eve.get("/jobs?label=set:list&limit=2")).json
    assert [job["id"] for job in page["jobs"]] == made[:2:-1]
    assert "params" not in page["jobs"][0]
    rest = (await house.eve.get(f"/jobs?label=set:list&cursor={page['next_cursor']}")).json
    assert [job["id"] for job in rest["jobs"]] == made[2::-1]
    assert rest["next_cursor"] is None
    oldest = (await house.eve.get("/jobs/?label=set:list&order=oldest&offset=1&limit=1")).json
    assert oldest["jobs"][0]["id"] == made[1]
    assert not (await house.ada.get("/jobs?label=set:list")).json["jobs"]


async def test_lists_are_narrowed(house: House) -> None:
    job = await house.eve.submit("howera", labels={"set": "n", "b": "c"})
    await house.eve.post(f"/jobs/{job['id']}/cancel")
    await house.eve.submit("howera", labels={"set": "n"})

    async def count(query: str) -> int:
        return len((await house.eve.get(f"/jobs?{query}")).json["jobs"])

    assert await count("label=set:n") == 2
    assert await count("label=set:n&label=b:c") == 1
    assert await count("label=set:n&status=CANCELLED") == 1
    assert await count("label=set:n&status=CANCELLED,CREATED") == 2
    assert await count("label=set:n&status=CANCELLED&status=CREATED") == 2
    assert await count("label=set:n&workflow=ss") == 0
    assert await count("label=set:n&job_type=nothing") == 0


async def test_lists_include_what_is_asked_for(house: House) -> None:
    await house.ada.submit("cutx", params={"product_id": "p-9"}, labels={"set": "inc"})
    jobs = (await house.ada.get("/jobs?label=set:inc&include=params,artifacts")).json["jobs"]
    assert jobs[0]["params"]["product_id"] == "p-9"
    assert jobs[0]["artifacts"] == {}
    assert "result" not in jobs[0]


async def test_insiders_see_all_jobs_or_those_of_one(house: House) -> None:
    job = await house.eve.submit("howera", labels={"set": "in"})
    for insider in (house.admin, house.worker):
        jobs = (await insider.get("/jobs?label=set:in&user_id=eve")).json["jobs"]
        assert [one["id"] for one in jobs] == [job["id"]]
        assert not (await insider.get("/jobs?label=set:in&user_id=ada")).json["jobs"]
    assert (await house.ada.get("/jobs?user_id=eve")).code == "FORBIDDEN"
    assert (await house.ada.get("/jobs?stuck=1")).code == "FORBIDDEN"
    assert (await house.admin.get("/jobs?stuck=1")).json["jobs"] == []


async def test_a_job_is_deleted_once_it_has_ended(house: House) -> None:
    job = await house.ada.submit("howera", idempotency_key="gone")
    path = f"/jobs/{job['id']}"
    refused = await house.ada.delete(path)
    assert (refused.status, refused.code) == (409, "JOB_NOT_SETTLED")
    await house.ada.post(f"{path}/cancel")
    assert (await house.ada.delete(path)).status == 204
    for again in (await house.ada.get(path), await house.ada.delete(path)):
        assert (again.status, again.code) == (404, "NOT_FOUND")
    said = await house.ada.post("/jobs", {"workflow": "howera", "idempotency_key": "gone"})
    assert (said.status, said.code) == (410, "JOB_GONE")
    assert said.json["job_id"] == job["id"]


async def test_its_past_is_told_oldest_first(house: House) -> None:
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}"
    await house.ada.post(f"{path}/cancel", {"reason": "changed my mind"})
    birth, end = (await house.ada.get(f"{path}/history")).json["history"]
    assert (birth["from_status"], birth["to_status"], birth["version"]) == (None, "CREATED", 1)
    assert (end["from_status"], end["to_status"], end["version"]) == ("CREATED", "CANCELLED", 2)
    assert (end["actor"], end["reason"]) == ("ada", "changed my mind")
    assert STAMP.fullmatch(end["at"])
    assert (await house.ada.get(f"{path}/attempts")).json["attempts"] == []
    assert (await house.ada.get(f"{path}/assets")).json == {"assets": [], "next_cursor": None}


async def test_a_job_that_does_not_move_is_explained(house: House) -> None:
    job = await house.ada.submit("howera")
    told = (await house.ada.get(f"/jobs/{job['id']}/explain")).json
    assert told["status"] == "CREATED"
    assert told["waits_for"]


async def test_jobs_are_found_by_the_beginning_of_their_ids(house: House) -> None:
    """A stranger's stays unknown, however little of its id is given."""
    mine = (await house.ada.post("/jobs", {"workflow": "howera"})).json["id"]
    other = (await house.ada.post("/jobs", {"workflow": "howera"})).json["id"]
    whole = (await house.ada.get(f"/jobs?id={mine}")).json["jobs"]
    assert [job["id"] for job in whole] == [mine]
    begun = (await house.ada.get(f"/jobs?id={mine[:8]}")).json["jobs"]
    assert {mine, other} <= {job["id"] for job in begun}
    assert (await house.eve.get(f"/jobs?id={mine}")).json["jobs"] == []
