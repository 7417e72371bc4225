"""Outside workers and orchestrators: events, moves, progress, claims."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.http.serving import House

pytestmark = pytest.mark.anyio


def now(**shift: float) -> str:
    return (datetime.now(UTC) + timedelta(**shift)).isoformat()


async def uploaded(house: House) -> str:
    job = await house.ada.submit("howera")
    said = await house.ada.post(
        f"/jobs/{job['id']}/confirm-upload", {"video_uri": "s3://videos/1.mp4"}
    )
    assert said.status == 200, said.raw
    return str(job["id"])


def event(event_id: str, status: str = "AUDIO_EXTRACTING", **more: Any) -> dict[str, Any]:
    return {"event_id": event_id, "status": status, "occurred_at": now(), **more}


async def test_an_event_has_one_effect(house: House) -> None:
    """H10 H11 H12 H13: 204 first, then 200 with what became of it, and nothing else changes."""
    path = f"/internal/jobs/{await uploaded(house)}/status"
    first = event("e-1")
    assert (await house.worker.post(path, first)).status == 204
    job_path = path.replace("/internal", "").replace("/status", "")
    before = (await house.ada.get(job_path)).raw
    again = await house.worker.post(path, first)
    assert again.status == 200
    assert again.json == {
        "job_id": job_path.rpartition("/")[2],
        "event_id": "e-1",
        "replayed": True,
        "current_status": "AUDIO_EXTRACTING",
        "latest_applied_occurred_at": again.json["latest_applied_occurred_at"],
    }
    assert again.json["latest_applied_occurred_at"].endswith("Z")
    assert (await house.ada.get(job_path)).raw == before


async def test_what_an_event_says_counts_and_not_how(house: House) -> None:
    """Aliases, offsets, the order of keys and the place of the id make no difference."""
    path = f"/internal/jobs/{await uploaded(house)}/status"
    moment = datetime.now(UTC)
    there = moment.astimezone(timezone(timedelta(hours=5, minutes=30)))
    first = {
        "event_id": "e-1",
        "status": "FAILED",
        "occurred_at": moment.isoformat(),
        "failure_code": "X",
        "failure_message": "broken",
        "failed_stage": "TRANSCRIBING",
        "artifact_updates": {"metrics": {"a": 1, "b": 2}},
    }
    assert (await house.worker.post(path, first)).status == 204
    same = {
        "artifact_updates": {"metrics": {"b": 2.0, "a": 1}},
        "failed_stage": "TRANSCRIBING",
        "failure_reason": "broken",
        "failure_code": "X",
        "occurred_at": there.isoformat(),
        "target_status": "FAILED",
    }
    assert (await house.worker.post(path, same, X_Event_Id="e-1")).status == 200


@pytest.mark.parametrize(
    "change",
    [
        {"status": "FAILED"},
        {"message": "other"},
        {"artifact_updates": {"metrics": 1}},
        {"actor_type": "other"},
        {"correlation_id": "other"},
        {"retryable": False},
    ],
)
async def test_the_same_id_for_another_event(house: House, change: dict[str, Any]) -> None:
    path = f"/internal/jobs/{await uploaded(house)}/status"
    first = event("e-1")
    await house.worker.post(path, first)
    if "status" in change:
        change |= {
            "failure_code": "X", "failure_message": "Y", "failed_stage": "TRANSCRIBING"
        }  # fmt: skip
    said = await house.worker.post(path, {**first, **change})
    assert (said.status, said.code) == (409, "EVENT_ID_PAYLOAD_MISMATCH")


async def test_form_of_an_artifact_is_looked_at_after_the_event(house: House) -> None:
    """H14: nothing of the refused event is remembered, so it may come again as it was meant."""
    path = f"/internal/jobs/{await uploaded(house)}/status"
    wrong = event("e-1", artifact_updates={"metrics": 1})
    said = await house.worker.post(path, wrong)
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")
    assert said.json["errors"][0]["path"] == "$.artifact_updates.metrics"
    assert (await house.worker.post(path, event("e-1"))).status == 204
    assert (await house.worker.post(path, wrong)).code == "EVENT_ID_PAYLOAD_MISMATCH"


async def test_ids_of_events_are_the_jobs_own(house: House) -> None:
    """H14"""
    for _ in range(2):
        path = f"/internal/jobs/{await uploaded(house)}/status"
        assert (await house.worker.post(path, event("shared"))).status == 204


async def test_events_come_in_order(house: House) -> None:
    path = f"/internal/jobs/{await uploaded(house)}/status"
    assert (await house.worker.post(path, event("e-1"))).status == 204
    late = event("e-2", "AUDIO_READY", occurred_at=now(minutes=-1))
    said = await house.worker.post(path, late)
    assert (said.status, said.code) == (409, "CALLBACK_OUT_OF_ORDER")
    assert said.json["latest_applied_occurred_at"].endswith("Z")
    # a refused event is not remembered
    late["occurred_at"] = now()
    assert (await house.worker.post(path, late)).status == 204


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"occurred_at": None}, "$.occurred_at"),
        ({"occurred_at": "2026-01-01T00:00:00"}, "$.occurred_at"),
        ({"occurred_at": "soon"}, "$.occurred_at"),
        ({"occurred_at": lambda: now(minutes=6)}, "$.occurred_at"),
        ({"event_id": ""}, "$.event_id"),
        ({"event_id": "x" * 129}, "$.event_id"),
        ({"event_id": None}, "$.event_id"),
        ({"status": None}, "$.status"),
        ({"target_status": "DONE"}, "$.target_status"),
        ({"job_id": "other"}, "$.job_id"),
        ({"surprise": 1}, "$.surprise"),
        ({"progress": 101}, "$.progress"),
        ({"progress": -1}, "$.progress"),
        ({"artifact_updates": {"Bad Name": 1}}, "$.artifact_updates"),
        ({"assets": [{"asset_type": "image"}]}, "$.assets[0].url"),
        ({"assets": [{"asset_type": "image", "url": "u", "storage_path": "/etc"}]}, "$.assets[0]"),
        ({"assets": [{"asset_type": "image", "url": "u", "storage_path": "../a"}]}, "$.assets[0]"),
        ({"assets": [{"asset_type": "image", "url": "u", "file_size": -1}]}, "$.assets[0]"),
        ({"assets": [{"asset_type": "image", "url": "u", "sha256": "x"}]}, "$.assets[0]"),
        ({"result": []}, "$.result"),
    ],
)
async def test_events_that_cannot_be_meant(house: House, change: dict[str, Any], path: str) -> None:
    """H66"""
    job_id = await uploaded(house)
    body = {**event("e-1"), **change}
    body = {name: value() if callable(value) else value for name, value in body.items()}
    body = {name: value for name, value in body.items() if value is not None}
    said = await house.worker.post(f"/internal/jobs/{job_id}/status", body)
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")
    assert said.json["errors"][0]["path"].startswith(path)


async def test_a_status_that_the_workflow_does_not_have(house: House) -> None:
    """H66"""
    job_id = await uploaded(house)
    said = await house.worker.post(f"/internal/jobs/{job_id}/status", event("e", "NOWHERE"))
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")


async def test_a_failure_without_its_reasons(house: House) -> None:
    """H59"""
    job_id = await uploaded(house)
    for more in ({}, {"failure_code": "X", "failure_message": "Y"}):
        said = await house.worker.post(
            f"/internal/jobs/{job_id}/status", event("e", "FAILED", **more)
        )
        assert (said.status, said.code) == (400, "VALIDATION_ERROR")


async def test_an_event_id_in_two_places_must_be_one(house: House) -> None:
    """H15"""
    path = f"/internal/jobs/{await uploaded(house)}/status"
    said = await house.worker.post(path, event("a"), X_Event_Id="b")
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")
    assert (await house.worker.post(path, event("a"), X_Event_Id="a")).status == 204


async def test_who_reported_is_in_the_history(house: House) -> None:
    job_id = await uploaded(house)
    body = event("e-1", actor_type="orchestrator", job_id=job_id)
    await house.worker.post(f"/internal/jobs/{job_id}/status", body)
    last = (await house.ada.get(f"/jobs/{job_id}/history")).json["history"][-1]
    assert (last["actor"], last["event_id"], last["reason"]) == ("worker", "e-1", "orchestrator")


async def test_an_illegal_move_names_the_legal_ones(house: House) -> None:
    """H18 H20 P14"""
    job = await house.ada.submit("howera")
    said = await house.admin.post(f"/jobs/{job['id']}/transitions", {"to": "TRANSCRIBING"})
    assert (said.status, said.code) == (409, "ILLEGAL_TRANSITION")
    assert said.json["current_status"] == "CREATED"
    assert said.json["attempted_status"] == "TRANSCRIBING"
    assert said.json["allowed_next_statuses"] == ["CANCELLED", "FAILED", "UPLOADED", "UPLOADING"]


async def test_nothing_leaves_a_final_state(house: House) -> None:
    """H21 H22 H23"""
    job = await house.ada.submit("howera")
    await house.ada.post(f"/jobs/{job['id']}/cancel")
    said = await house.admin.post(f"/jobs/{job['id']}/transitions", {"to": "CREATED"})
    assert (said.status, said.code) == (409, "TERMINAL_STATE")
    assert said.json["allowed_next_statuses"] == []


async def test_a_move_that_the_role_may_not_make(house: House) -> None:
    job = await house.ada.submit("howera")
    body = {
        "to": "FAILED",
        "failure_code": "a",
        "failure_message": "b",
        "failed_stage": "EXPORTING",
    }
    said = await house.ada.post(f"/jobs/{job['id']}/transitions", body)
    assert (said.status, said.code) == (403, "FORBIDDEN")


@pytest.mark.parametrize("tag", ['"1"', '"1.9"', "*"])
async def test_if_match_compares_versions(house: House, tag: str) -> None:
    job = await house.ada.submit("howera")
    said = await house.ada.ask(
        "POST", f"/jobs/{job['id']}/transitions", {"to": "UPLOADING"}, headers={"If-Match": tag}
    )
    assert said.status == 200
    assert said.headers["ETag"] == '"2"'
    assert said.json["replayed"] is False


async def test_a_version_that_is_over(house: House) -> None:
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}/transitions"
    for headers, body in (({"If-Match": '"7"'}, {}), ({}, {"expected_version": 7})):
        said = await house.ada.ask("POST", path, {"to": "UPLOADING", **body}, headers=headers)
        assert (said.status, said.code) == (409, "JOB_VERSION_CONFLICT")
        assert said.json["current_version"] == 1
        assert said.json["current_status"] == "CREATED"


@pytest.mark.parametrize("tag", ["7", '"x"', "", '"1", "2"', 'W/"x"', 'w/"1"', '"-1"', '"1.2.3"'])
async def test_an_if_match_that_is_none_of_ours(house: House, tag: str) -> None:
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}/transitions"
    said = await house.ada.ask("POST", path, {"to": "UPLOADING"}, headers={"If-Match": tag})
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")


async def test_header_and_body_must_agree_on_the_version(house: House) -> None:
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}/transitions"
    body = {"to": "UPLOADING", "expected_version": 2}
    said = await house.ada.ask("POST", path, body, headers={"If-Match": '"1"'})
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")
    body["expected_version"] = 1
    said = await house.ada.ask("POST", path, body, headers={"If-Match": '"1"'})
    assert said.status == 200


async def in_line(house: House) -> str:
    """A job that waits for an outside worker."""
    job = await house.ada.submit("cutx", params={"product_id": "p"})
    return str(job["id"])


async def test_a_claim_is_granted_once(house: House) -> None:
    """S36: the second claimant is refused, with the run that holds the job."""
    await house.admin.post("/admin/credits/ada/grant", {"amount": 100, "reason": "tests"})
    job_id = await in_line(house)
    claimed = await house.worker.post(f"/jobs/{job_id}/claim")
    assert claimed.status == 200, claimed.raw
    assert claimed.json["status"] == "processing"
    assert claimed.json["attempt"] == 1
    assert claimed.json["lease_until"].endswith("Z")
    second = await house.worker.post(f"/jobs/{job_id}/claim", {})
    assert (second.status, second.code) == (409, "JOB_ALREADY_RUNNING")
    assert second.json["run_id"] == claimed.json["run_id"]


async def test_a_worker_that_looks_for_work(house: House) -> None:
    job_id = await in_line(house)
    found = None
    for _ in range(20):
        said = await house.worker.post("/internal/claims", {"workflow": "cutx", "max": 1})
        assert said.status == 200
        assert said.json["claims"], "the job was to be found"
        found = said.json["claims"][0]
        if found["job"]["id"] == job_id:
            break
    assert found is not None
    assert found["run_id"] == found["job"]["run_id"]
    assert found["attempt"] == 1
    none = await house.worker.post(
        "/internal/claims", {"workflow": "ss", "status": ["queued"], "wait": 0.05}
    )
    assert none.json == {"claims": []}
    for body in ({"workflow": "nothing"}, {}, {"workflow": "ss", "max": 0}):
        assert (await house.worker.post("/internal/claims", body)).status in (400, 422)


async def test_a_whole_run_by_an_outside_worker(house: House) -> None:
    """C9 C26 C47: claim, heartbeat, progress, report with files; then the files are the owner's."""
    job_id = await in_line(house)
    run_id = (await house.worker.post(f"/jobs/{job_id}/claim")).json["run_id"]
    assert (await house.worker.post(f"/jobs/{job_id}/progress")).status == 200
    beat = {"progress": 40, "message": "writing", "run_id": run_id}
    said = await house.worker.post(f"/jobs/{job_id}/progress", beat)
    assert (said.json["progress"], said.json["progress_message"]) == (40, "writing")
    assert said.headers["ETag"].count(".") == 1
    stale = await house.worker.post(f"/jobs/{job_id}/progress", {"run_id": "other"})
    assert (stale.status, stale.code) == (409, "STALE_RUN")
    early = await house.worker.post(f"/jobs/{job_id}/transitions", {"to": "completed"})
    assert (early.status, early.code) == (409, "RESULT_MISSING")
    files = [
        {"asset_type": "image", "url": "https://cdn.example/1.png", "file_size": 10,
         "sha256": "AB" * 32, "storage_path": "ada/1.png"},
        {"asset_type": "text", "url": "https://cdn.example/2.txt"},
    ]  # fmt: skip
    report = {"to": "completed", "run_id": run_id, "assets": files, "result": {"variants": ["a"]}}
    done = await house.worker.post(f"/jobs/{job_id}/transitions", report)
    assert done.status == 200, done.raw
    assert (done.json["status"], done.json["progress"]) == ("completed", 100)
    assert done.json["result"] == {"variants": ["a"]}
    assets = (await house.ada.get(f"/jobs/{job_id}/assets")).json["assets"]
    assert [one["asset_type"] for one in assets] == ["text", "image"]
    assert assets[1]["sha256"] == "ab" * 32
    one = await house.ada.get(f"/assets/{assets[0]['id']}")
    assert one.json["job_id"] == job_id
    assert (await house.eve.get(f"/assets/{assets[0]['id']}")).code == "NOT_FOUND"
    page = (await house.ada.get("/assets?limit=1")).json
    assert page["assets"][0]["id"] == assets[0]["id"]
    rest = (await house.ada.get(f"/assets?limit=1&cursor={page['next_cursor']}")).json
    assert rest["assets"][0]["id"] == assets[1]["id"]
    attempts = (await house.ada.get(f"/jobs/{job_id}/attempts")).json["attempts"]
    assert [(one["attempt"], one["status"]) for one in attempts] == [(1, "ended")]


async def test_progress_outside_work_is_ignored_with_a_warning(house: House) -> None:
    """P-r: 200, the job as it is."""
    job = await house.ada.submit("howera")
    said = await house.worker.post(f"/jobs/{job['id']}/progress", {"progress": 50})
    assert (said.status, said.json["progress"]) == (200, 0)
    assert any(line["event"] == "job.progress_ignored" for line in house.logged)


@pytest.mark.parametrize(
    "body", [{"progress": -1}, {"progress": 101}, {"progress": 1.5}, {"progress": "1"}, {"x": 1}]
)
async def test_progress_is_a_percentage(house: House, body: dict[str, Any]) -> None:
    job = await house.ada.submit("howera")
    said = await house.worker.post(f"/jobs/{job['id']}/progress", body)
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")
