"""Commands under every name they have, artifacts that people write, and the doors that workflows
bring along."""

from typing import Any

import pytest

from tests.http.serving import House

pytestmark = pytest.mark.anyio


async def test_a_command_answers_the_job_and_its_own_fields(house: House) -> None:
    """H26: run answers 202 with a run id; again, while it is live: 200, the same."""
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}"
    said = await house.ada.post(f"{path}/confirm-upload", {"video_uri": "s3://v/1"})
    assert (said.status, said.json["replayed"]) == (200, False)
    assert said.json["artifacts"]["video_uri"] == "s3://v/1"
    first = await house.ada.post(f"{path}/run")
    again = await house.ada.post(f"{path}/run", {})
    assert (first.status, again.status) == (202, 200)
    assert first.json["run_id"] == again.json["run_id"]
    assert (first.json["replayed"], again.json["replayed"]) == (False, True)
    assert first.headers["ETag"] == again.headers["ETag"]


async def test_a_command_that_the_workflow_does_not_have(house: House) -> None:
    job = await house.ada.submit("howera")
    for name in ("retry", "history", "nonsense", "%00"):
        said = await house.ada.post(f"/jobs/{job['id']}/{name}")
        assert (said.status, said.code) == (404, "UNKNOWN_COMMAND"), name
    assert "cancel" in said.json["detail"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"video_uri": ""}, "$.video_uri"),
        ({"video_uri": 1}, "$.video_uri"),
        ({"video_uri": "s3://v/1", "extra": 1}, "$.extra"),
        ({"expected_version": 0}, "$.expected_version"),
        ({"expected_version": "1"}, "$.expected_version"),
        ({"reason": "x" * 2001}, "$.reason"),
        ([], "$"),
    ],
)
async def test_fields_of_a_command_are_checked(house: House, body: Any, path: str) -> None:
    job = await house.ada.submit("howera")
    said = await house.ada.post(f"/jobs/{job['id']}/confirm-upload", body)
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")
    assert said.json["errors"][0]["path"] == path


async def test_bad_json_is_told_before_the_job_is_looked_for(house: House) -> None:
    missing = "/jobs/01900000-0000-7000-8000-000000000000/cancel"
    assert (await house.ada.ask("POST", missing, data=b"{")).status == 400
    assert (await house.ada.ask("POST", missing, data=b"{}")).status == 404


async def test_a_command_may_say_which_version_it_means(house: House) -> None:
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}/cancel"
    stale = await house.ada.ask("POST", path, headers={"If-Match": '"9"'})
    assert (stale.status, stale.code) == (409, "JOB_VERSION_CONFLICT")
    assert (await house.ada.post(path, {"expected_version": 9})).code == "JOB_VERSION_CONFLICT"
    assert (await house.ada.ask("POST", path, headers={"If-Match": '"1"'})).status == 200


async def test_a_command_for_other_roles(house: House) -> None:
    """C40: retry is for admins."""
    job = await house.ada.submit("cutx", job_type="scrape", params={"url": "https://a.example/"})
    path = f"/jobs/{job['id']}"
    assert (await house.ada.post(f"{path}/retry")).code == "FORBIDDEN"
    assert (await house.admin.post(f"{path}/retry")).code == "ILLEGAL_TRANSITION"


async def test_an_alias_means_what_the_jobs_workflow_says(house: House) -> None:
    """C39 C13: the admin's path; a workflow without it has no such command."""
    job = await house.ada.submit("cutx", job_type="scrape", params={"url": "https://a.example/"})
    alias = f"/api/admin/jobs/{job['id']}/retry"
    failed = {"to": "failed", "failure_message": "no page"}
    assert (await house.admin.post(f"/jobs/{job['id']}/transitions", failed)).status == 200
    said = await house.admin.post(alias, {"reason": "again"})
    assert said.status == 200, said.raw
    assert said.json["status"] == "queued"
    other = await house.ada.submit("howera")
    said = await house.admin.post(f"/api/admin/jobs/{other['id']}/retry")
    assert (said.status, said.code) == (404, "UNKNOWN_COMMAND")


async def editing(house: House) -> str:
    job = await house.ada.submit("howera")
    for status in (
        "UPLOADED", "AUDIO_EXTRACTING", "AUDIO_READY", "TRANSCRIBING", "TRANSCRIPT_READY",
        "GENERATING", "DRAFT_READY",
    ):  # fmt: skip
        said = await house.admin.post(f"/jobs/{job['id']}/transitions", {"to": status})
        assert said.status == 200, said.raw
    return f"/jobs/{job['id']}"


async def test_a_draft_is_written_in_versions(house: House) -> None:
    """H40 H43: the first save opens the editor; a stale base is refused."""
    path = await editing(house)
    first = await house.ada.put(f"{path}/artifacts/draft", {"value": "one"})
    assert first.status == 200, first.raw
    assert first.json["status"] == "EDITING"
    second = await house.ada.put(
        f"{path}/artifacts/draft", {"value": {"text": "two"}, "base_version": 1}
    )
    assert second.status == 200
    stale = await house.ada.put(f"{path}/artifacts/draft", {"value": "x", "base_version": 1})
    assert (stale.status, stale.code) == (409, "ARTIFACT_VERSION_CONFLICT")
    assert stale.json["base_version"] == 1
    assert stale.json["current_version"] == 2
    shown = (await house.ada.get(f"{path}/artifacts/draft")).json
    assert (shown["version"], shown["value"]) == (2, {"text": "two"})
    assert sorted(one["version"] for one in shown["versions"]) == [1, 2]
    old = (await house.ada.get(f"{path}/artifacts/draft?version=1")).json
    assert old["value"] == "one"
    for wrong in ("draft?version=9", "nothing", "%00"):
        assert (await house.ada.get(f"{path}/artifacts/{wrong}")).code == "NOT_FOUND"
    assert (await house.ada.get(f"{path}/artifacts/draft?version=0")).status == 400


async def test_large_values_are_shown_by_reference(house: House) -> None:
    path = await editing(house)
    text = "ä" * 3000
    await house.ada.put(f"{path}/artifacts/draft", {"value": text})
    job = (await house.ada.get(path)).json
    assert job["artifacts"]["draft"] == {"ref": f"{path}/artifacts/draft"}
    assert (await house.ada.get(f"{path}/artifacts/draft")).json["value"] == text


@pytest.mark.parametrize(
    "body",
    [{}, {"value": 1, "x": 1}, {"value": 1, "base_version": -1}, {"value": 1, "base_version": "1"}],
)
async def test_an_edit_has_a_value(house: House, body: dict[str, Any]) -> None:
    job = await house.ada.submit("howera")
    said = await house.ada.put(f"/jobs/{job['id']}/artifacts/draft", body)
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")


async def test_what_is_not_for_people_to_write(house: House) -> None:
    job = await house.ada.submit("howera")
    said = await house.ada.put(f"/jobs/{job['id']}/artifacts/metrics", {"value": 1})
    assert (said.status, said.code) == (403, "FORBIDDEN")


SAMPLE = {"product_id": "prod-1", "style": "lifestyle", "idempotency_key": "static-1"}


async def test_cutx_has_doors_of_its_own(house: House) -> None:
    """C19 C21: the sample body passes, the answer is flat, the job is charged and in line."""
    await house.admin.post("/admin/credits/ada/grant", {"amount": 100, "reason": "tests"})
    before = (await house.ada.get("/credits")).json["balance"]
    said = await house.ada.post("/api/generate/static-ad", SAMPLE)
    assert said.status == 200, said.raw
    assert said.json["status"] == "queued"
    assert said.json["job_id"] == said.json["id"]
    assert (said.json["credits_used"], said.json["credits_remaining"]) == (3, before - 3)
    assert said.json["replayed"] is False
    assert said.headers["Location"] == f"/jobs/{said.json['id']}"
    again = await house.ada.post("/api/generate/static-ad", SAMPLE)
    assert (again.json["id"], again.json["replayed"]) == (said.json["id"], True)
    assert again.json["credits_remaining"] == before - 3
    by_header = await house.ada.post(
        "/api/generate/static-ad",
        {"product_id": "prod-1", "style": "lifestyle"},
        Idempotency_Key="static-1",
    )
    assert by_header.json["id"] == said.json["id"]
    stored = (await house.ada.get(f"/jobs/{said.json['id']}")).json
    assert stored["params"]["product_id"] == "prod-1"
    assert "idempotency_key" not in stored["params"]


async def test_both_spellings_are_one_field(house: House) -> None:
    said = await house.ada.post("/api/generate/video", {"productId": "p", "aspectRatio": "9:16"})
    assert said.status in (200, 402)
    said = await house.ada.post(
        "/api/generate/static-ad", {"productId": "p", "product_id": "other"}
    )
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "INVALID_PARAMS"),
        ({"product_id": 5}, 400, "VALIDATION_ERROR"),
        ({"product_id": "p", "surprise": 1}, 400, "VALIDATION_ERROR"),
        ({"product_id": "p", "style": "odd"}, 422, "INVALID_PARAMS"),
        ({"product_id": "p", "prompt": "abc"}, 422, "INVALID_PARAMS"),
        ({"product_id": "p", "idempotency_key": "x" * 129}, 400, "VALIDATION_ERROR"),
    ],
)
async def test_their_bodies_are_checked_too(
    house: House, body: dict[str, Any], status: int, code: str
) -> None:
    said = await house.ada.post("/api/generate/static-ad", body)
    assert (said.status, said.code) == (status, code), said.raw


async def test_a_door_that_waits_answers_as_soon_as_it_is_done(house: House) -> None:
    """C22: copy answers with its variants when a worker finishes within the wait."""
    import anyio

    async with anyio.create_task_group() as group:

        async def order() -> None:
            said = await house.eve.post("/api/generate/copy", {"product_id": "p", "tone": "bold"})
            assert said.status == 200
            assert said.json["status"] == "completed"
            assert said.json["variants"] == ["a", "b", "c", "d", "e"]

        group.start_soon(order)
        body = {"workflow": "cutx", "job_type": "copy", "status": "pending", "wait": 10}
        claim = (await house.worker.post("/internal/claims", body)).json["claims"][0]
        assert claim["job"]["user_id"] == "eve"
        done = {"to": "completed", "result": {"variants": ["a", "b", "c", "d", "e"]}}
        said = await house.worker.post(f"/jobs/{claim['job']['id']}/transitions", done)
        assert said.status == 200


async def test_a_door_of_a_workflow_wants_a_token_too(house: House) -> None:
    assert (await house.nobody.post("/api/generate/copy", {})).code == "UNAUTHORIZED"
    assert (await house.worker.post("/api/generate/copy", {})).code == "FORBIDDEN"
