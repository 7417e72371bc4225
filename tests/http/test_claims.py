"""Two workers with tokens of their own, over HTTP: what either may say of the other's attempt."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from tests.http.serving import Caller, House, Said, opened
from tests.standing import LIFECYCLES, Command, Post, Step, Transition

pytestmark = pytest.mark.anyio

NOON = "2026-01-01T12:00:00Z"
WHERE = [
    (name, state)
    for name, lifecycle in LIFECYCLES.items()
    for state, kind in lifecycle.kinds.items()
    if kind == "active"
]


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with opened(tmp_path_factory.mktemp("claims")) as house:
        gift = {"amount": 10_000, "reason": "tests"}
        assert (await house.admin.post("/admin/credits/admin/grant", gift)).status == 200
        yield house


async def worker(house: House, name: str) -> Caller:
    made = await house.admin.post("/admin/tokens", {"name": name, "role": "workflow"})
    assert made.status == 201, made.raw
    return house.caller(made.json["token"])


async def claimed(house: House, holder: Caller, workflow: str, state: str) -> Any:
    """The answer to a claim of a fresh job that stands there."""
    lifecycle = LIFECYCLES[workflow]
    job_id = ""
    for step in lifecycle.steps[state]:
        said = await took(house, job_id, step, workflow, holder)
        assert said.status in (200, 201, 202), f"{step}: {said.raw!r}"
        job_id = said.json["id"]
    if "claim" not in said.json:
        said = await holder.post(f"/jobs/{job_id}/claim")
        assert said.status == 200, said.raw
    assert said.json["status"] == state
    return said.json


async def took(house: House, job_id: str, step: Step, workflow: str, holder: Caller) -> Said:
    match step:
        case Post(job_type, params):
            key = {"Idempotency-Key": f"{workflow}-{next(COUNT)}"}
            if workflow == "ss":
                params = {**params, "requirement": f"Sum the sales {next(COUNT)}"}
            body = {"workflow": workflow, "job_type": job_type, "params": params}
            return await house.admin.ask("POST", "/jobs", body, headers=key)
        case Transition(to, report):
            return await house.admin.post(f"/jobs/{job_id}/transitions", {"to": to, **report})
        case Command(name, fields):
            return await house.admin.post(f"/jobs/{job_id}/{name}", fields)
        case _:
            return await holder.post(f"/jobs/{job_id}/claim")


COUNT = iter(range(1_000_000))


def told(workflow: str, job: Any, marks: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Every report that role workflow may make there: path and body."""
    lifecycle, state = LIFECYCLES[workflow], job["status"]
    said: list[tuple[str, dict[str, Any]]] = [
        (f"/jobs/{job['id']}/progress", {**marks}),
        (f"/jobs/{job['id']}/progress", {"progress": 5, **marks}),
    ]
    for to in lifecycle.kinds:
        edge = lifecycle.definition.table[state].get(to)
        if to == state and lifecycle.outcome(to, to) in ("refused", "stays"):
            continue
        if to != state and (edge is None or "workflow" not in edge.by):
            continue
        report = {**lifecycle.reports.get(to, {}), "progress": 5, **marks}
        said.append((f"/jobs/{job['id']}/transitions", {"to": to, **report}))
        event = {"status": to, "event_id": f"e{next(COUNT)}", "occurred_at": NOON, **report}
        said.append((f"/internal/jobs/{job['id']}/status", event))
    return said


@pytest.mark.parametrize(("workflow", "state"), WHERE)
async def test_reports_come_from_whoever_claimed(house: House, workflow: str, state: str) -> None:
    """With the live run's id, with the number of the claim itself, or with neither: it is the
    token that counts. Not even the clock of the other's silence moves."""
    anna, bert = await worker(house, "anna"), await worker(house, "bert")
    job = await claimed(house, anna, workflow, state)
    at_70 = {"progress": 70, "claim": job["claim"]}
    before = (await anna.post(f"/jobs/{job['id']}/progress", at_70)).json
    lease = (await house.admin.get(f"/jobs/{job['id']}/explain")).json["timers"]
    mine = {name: job[name] for name in ("run_id", "attempt", "claim")}
    for marks in ({}, {"run_id": job["run_id"]}, mine):
        for path, body in told(workflow, job, marks):
            said = await bert.post(path, body)
            assert (said.status, said.code) == (409, "STALE_RUN"), f"{path} {body}: {said.raw!r}"
            assert {name: said.json[name] for name in mine} == mine
    after = (await house.admin.get(f"/jobs/{job['id']}")).json
    for name in ("status", "version", "progress", "progress_message", "heartbeat_at", "artifacts"):
        assert after[name] == before[name], name
    assert (await house.admin.get(f"/jobs/{job['id']}/explain")).json["timers"] == lease
    again = await bert.post(f"/jobs/{job['id']}/claim")
    assert (again.status, again.code) == (409, "JOB_ALREADY_RUNNING")


@pytest.mark.parametrize(("workflow", "state"), WHERE)
async def test_the_claimant_is_taken_at_its_word(house: House, workflow: str, state: str) -> None:
    anna = await worker(house, "anna")
    job = await claimed(house, anna, workflow, state)
    marks = {name: job[name] for name in ("run_id", "attempt", "claim")}
    for name in ("run_id", "attempt", "claim"):
        wrong = {**marks, name: "another" if name == "run_id" else 99}
        for path, body in told(workflow, job, wrong):
            said = await anna.post(path, body)
            assert (said.status, said.code) == (409, "STALE_RUN"), f"{path} {body}: {said.raw!r}"
    for place in range(len(told(workflow, job, marks))):
        job = await claimed(house, anna, workflow, state)
        marks = {name: job[name] for name in ("run_id", "attempt", "claim")}
        path, body = told(workflow, job, marks)[place]
        said = await anna.post(path, body)
        assert said.status in (200, 204), f"{path} {body}: {said.raw!r}"


async def test_the_number_of_a_claim_is_unique_in_the_job(house: House) -> None:
    anna, bert = await worker(house, "anna"), await worker(house, "bert")
    job = await claimed(house, anna, "howera", "TRANSCRIBING")
    path = f"/jobs/{job['id']}"
    ready = {"to": "TRANSCRIPT_READY", "artifact_updates": {"transcript_uri": "s3://t"}}
    assert (await anna.post(f"{path}/transitions", {**ready, "claim": job["claim"]})).status == 200
    moved = await house.admin.post(f"{path}/transitions", {"to": "GENERATING"})
    assert moved.status == 200
    second = (await bert.post(f"{path}/claim")).json
    assert second["attempt"] == 1
    assert second["claim"] > job["claim"]
    late = await anna.post(f"{path}/progress", {"claim": job["claim"], "progress": 5})
    assert (late.status, late.code) == (409, "STALE_RUN")
    assert late.json["claim"] == second["claim"]


async def test_a_worker_that_looks_for_work_is_told_the_number(house: House) -> None:
    anna = await worker(house, "anna")
    made = await house.admin.submit("asset-pattern", job_type="generation")
    found = (await anna.post("/internal/claims", {"workflow": "asset-pattern", "max": 100})).json
    (mine,) = [one for one in found["claims"] if one["job"]["id"] == made["id"]]
    path = f"/jobs/{made['id']}/progress"
    assert (await anna.post(path, {"claim": mine["claim"], "progress": 5})).status == 200
    assert (await house.worker.post(path, {"claim": mine["claim"]})).code == "STALE_RUN"
    assert (await house.worker.post(path, {"claim": 0})).code == "VALIDATION_ERROR"


async def test_users_take_turns_at_the_workers(house: House) -> None:
    """Whoever brought three waits for one of another's after each, and not the other for all."""
    made, given = list[str](), list[str]()
    for caller in (house.eve, house.eve, house.eve, house.ada, house.ada):
        job = await caller.submit("cutx", job_type="copy", params={"product_id": "lamp-9"})
        made.append(job["id"])
    while len(given) < len(made):
        found = (await house.worker.post("/internal/claims", {"workflow": "cutx"})).json["claims"]
        given += [one["job"]["user_id"] for one in found if one["job"]["id"] in made]
    assert sorted(given[:2]) == sorted(given[2:4]) == ["ada", "eve"]


async def test_a_claim_is_asked_for_again_under_its_key(house: House) -> None:
    """Whoever holds it is given it again; nobody else is, and not when it is over."""
    anna, otto = await worker(house, "anna-again"), await worker(house, "otto-again")
    wish = {"workflow": "cutx", "max": 1, "key": "first"}
    params = {"product_id": "lamp-7"}
    made = [await house.admin.submit("cutx", job_type="copy", params=params) for _ in range(3)]
    ids = {one["id"] for one in made}
    first = (await anna.post("/internal/claims", wish)).json["claims"]
    again = (await anna.post("/internal/claims", wish)).json["claims"]
    assert again == first
    other = (await otto.post("/internal/claims", wish)).json["claims"]
    next_one = (await anna.post("/internal/claims", wish | {"key": "second"})).json["claims"]
    assert {one["job"]["id"] for one in (*first, *other, *next_one)} == ids
    path = f"/jobs/{first[0]['job']['id']}"
    failed = {"to": "failed", "failure_message": "no", "claim": first[0]["claim"]}
    assert (await anna.post(f"{path}/transitions", failed)).status == 200
    assert (await anna.post("/internal/claims", wish)).json["claims"] == []


async def test_a_repeat_waits_for_the_request_that_it_repeats(house: House) -> None:
    """That one may be given something at the very moment in which its line breaks."""
    anna = await worker(house, "anna-twice")
    wish = {"workflow": "cutx", "max": 1, "key": "both", "wait": 20}
    answers: list[Any] = []

    async def ask() -> None:
        answers.append((await anna.post("/internal/claims", wish)).json["claims"])

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        group.start_soon(ask)
        params = {"product_id": "lamp-8"}
        made = await house.admin.submit("cutx", job_type="copy", params=params)
    assert [[one["job"]["id"] for one in said] for said in answers] == [[made["id"]]] * 2


async def test_a_refused_event_may_be_sent_again_by_its_worker(house: House) -> None:
    """It is not remembered; and one without the new fields is what it was to earlier programs."""
    anna, bert = await worker(house, "anna"), await worker(house, "bert")
    job = await claimed(house, anna, "asset-pattern", "processing")
    event = {"status": "completed", "event_id": "the-end", "occurred_at": NOON}
    path = f"/internal/jobs/{job['id']}/status"
    assert (await bert.post(path, event)).code == "STALE_RUN"
    assert (await anna.post(path, event)).status == 204
    assert (await bert.post(path, event)).json["replayed"] is True
    other = await anna.post(path, {**event, "claim": job["claim"]})
    assert (other.status, other.code) == (409, "EVENT_ID_PAYLOAD_MISMATCH")


async def test_an_admin_moves_what_somebody_claimed(house: House) -> None:
    anna = await worker(house, "anna")
    job = await claimed(house, anna, "asset-pattern", "processing")
    said = await house.admin.post(f"/jobs/{job['id']}/transitions", {"to": "completed"})
    assert said.status == 200
    late = {"to": "failed", "failure_message": "late", "claim": job["claim"]}
    said = await anna.post(f"/jobs/{job['id']}/transitions", late)
    assert (said.status, said.code) == (409, "TERMINAL_STATE")
    ignored = await anna.post(f"/jobs/{job['id']}/progress", {"claim": job["claim"]})
    assert ignored.status == 200, "outside an active state it is ignored, with a warning"
