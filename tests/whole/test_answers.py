"""What the five lifecycles answer over HTTP to each of their commands, field by field, and which of
two faults a caller is told. Every answer is also held against the service's own OpenAPI document.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.serving import Caller, House, Said, opened
from tests.standing import GAVE_UP, LIFECYCLES, WHY
from tests.whole.placing import outside, stand

pytestmark = pytest.mark.anyio

NOBODY = "/jobs/00000000-0000-7000-8000-000000000000"
THERE = object()  # a value that is there, whatever it is
VIDEO = "s3://videos/one.mp4"
OTHER_VIDEO = "s3://videos/other.mp4"
QUESTIONS = {"text": "one table", "questions": [{"id": "year", "required": True}]}


@pytest.fixture(scope="module")
async def house(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[House]:
    async with opened(tmp_path_factory.mktemp("answers"), registry=outside()) as house:
        for name in ("admin", "ada"):
            await house.admin.post(f"/admin/credits/{name}/grant", {"amount": 999, "reason": "-"})
        yield house


def caller(house: House, role: str) -> Caller:
    return {"user": house.ada, "admin": house.admin, "workflow": house.worker}[role]


def check(said: Said, status: int, wanted: dict[str, Any], where: Any) -> None:
    """A status, and members of the body: their values, or that they are there."""
    assert said.status == status, f"{where}: {said.status} {said.raw!r}"
    for name, value in wanted.items():
        assert name in said.json, f"{where}: no {name} in {sorted(said.json)}"
        if value is not THERE:
            assert said.json[name] == value, f"{where}: {name} is {said.json[name]!r}"


# ---------------------------------------------------------------- commands

FRESH: dict[str, Any] = {"replayed": False}
AGAIN: dict[str, Any] = {"replayed": True}
TERMINAL: dict[str, Any] = {
    "error_code": "TERMINAL_STATE",
    "allowed_next_statuses": [],
    "current_status": THERE,
    "attempted_status": THERE,
}
ILLEGAL: dict[str, Any] = {
    "error_code": "ILLEGAL_TRANSITION",
    "allowed_next_statuses": THERE,
    "current_status": THERE,
    "attempted_status": THERE,
}
FORBIDDEN: dict[str, Any] = {"error_code": "FORBIDDEN"}
UNKNOWN: dict[str, Any] = {"error_code": "UNKNOWN_COMMAND"}


def invalid(path: str) -> dict[str, Any]:
    return {"error_code": "VALIDATION_ERROR", "errors": [{"path": path, "message": THERE}]}


Row = tuple[str, str, str, dict[str, Any], int, dict[str, Any]]

# (status it stands in, who, command, body, HTTP status, members of the answer)
IMAGE: list[Row] = [
    ("queued", "admin", "annotate", {"note": "seen"}, 200, {**FRESH, "status": "queued"}),
    ("failed", "admin", "annotate", {"note": "seen"}, 200, {**FRESH, "status": "failed"}),
    ("dead_letter", "admin", "annotate", {"note": "seen"}, 200, {"status": "dead_letter"}),
    ("dead_letter", "user", "annotate", {"note": "seen"}, 403, FORBIDDEN),
    ("dead_letter", "admin", "annotate", {}, 400, {"error_code": "VALIDATION_ERROR"}),
    ("queued", "user", "cancel", {}, 404, UNKNOWN),
    ("failed", "user", "retry", {}, 404, UNKNOWN),
]
CUTX: list[Row] = [
    ("pending", "user", "cancel", {}, 200, {**FRESH, "status": "canceled"}),
    ("queued", "user", "cancel", {"reason": "late"}, 200, {"status": "canceled"}),
    ("processing", "admin", "cancel", {}, 200, {"status": "canceled", "run_id": THERE}),
    ("canceled", "user", "cancel", {}, 409, TERMINAL),
    ("completed", "user", "cancel", {}, 409, TERMINAL),
    ("failed", "user", "cancel", {}, 409, ILLEGAL),
    ("failed", "user", "retry", {}, 403, FORBIDDEN),
    ("failed", "admin", "retry", {}, 200, {**FRESH, "status": "queued", "run_id": THERE}),
    ("expired", "admin", "retry", {}, 200, {"status": "queued", "completed_at": None}),
    ("completed", "admin", "retry", {}, 409, TERMINAL),
    ("processing", "admin", "retry", {}, 409, ILLEGAL),
    ("completed", "admin", "refund", {"reason": "sorry"}, 200, {**FRESH, "status": "completed"}),
    ("completed", "user", "refund", {}, 403, FORBIDDEN),
    ("processing", "admin", "refund", {}, 409, ILLEGAL),
    ("pending", "user", "run", {}, 404, UNKNOWN),
]
SS: list[Row] = [
    ("created", "user", "draft", {}, 202, {**FRESH, "status": "created"}),
    ("created", "user", "draft", {"draft": "text"}, 200, {**FRESH, "status": "draft_ready"}),
    ("created", "workflow", "draft", {"draft": {"a": 1}}, 200, {"status": "draft_ready"}),
    ("draft_ready", "user", "draft", {"draft": "Sum the sales by region."}, 200, AGAIN),
    ("draft_ready", "user", "draft", {"draft": "new"}, 200, {**FRESH, "version": 3}),
    ("confirmed", "user", "draft", {"draft": "new"}, 409, {"error_code": "JOB_LOCKED"}),
    ("draft_ready", "user", "freeze-plan", {}, 200, {**FRESH, "plan_id": THERE}),
    ("created", "user", "freeze-plan", {}, 409, {"error_code": "PLAN_FREEZE_NOT_ALLOWED"}),
    (
        "confirmed",
        "user",
        "freeze-plan",
        {"answers": {"x": 1}},
        409,
        {"error_code": "PLAN_ALREADY_FROZEN_CONFLICT", "plan_id": THERE},
    ),
    ("confirmed", "user", "freeze-plan", {}, 200, {**AGAIN, "plan_id": THERE}),
    (
        "draft_ready",
        "user",
        "confirm",
        {"confirmed": True},
        200,
        {**FRESH, "status": "queued", "scheduled_at": THERE, "run_id": THERE},
    ),
    ("confirmed", "user", "confirm", {"confirmed": True}, 200, {"status": "queued"}),
    ("queued", "user", "confirm", {"confirmed": True}, 200, {**AGAIN, "status": "queued"}),
    ("succeeded", "user", "confirm", {"confirmed": True}, 200, {**AGAIN, "status": "succeeded"}),
    (
        "draft_ready",
        "user",
        "confirm",
        {"confirmed": False},
        200,
        {"skipped": True, "status": "draft_ready", "version": 2},
    ),
    ("created", "user", "confirm", {"confirmed": True}, 409, ILLEGAL),
    ("draft_ready", "user", "confirm", {}, 400, {"error_code": "VALIDATION_ERROR"}),
    (
        "draft_ready",
        "user",
        "run",
        {},
        200,
        {**FRESH, "status": "queued", "scheduled_at": THERE, "run_id": THERE},
    ),
    ("failed", "user", "run", {}, 200, {**FRESH, "status": "queued", "failure_message": None}),
    ("running", "admin", "run", {}, 200, {**AGAIN, "status": "running"}),
    ("created", "user", "run", {}, 409, ILLEGAL),
    ("failed", "user", "retry", {}, 200, {**FRESH, "status": "queued", "run_id": THERE}),
    ("failed", "admin", "retry", {}, 200, {**FRESH, "status": "queued"}),
    ("queued", "user", "retry", {}, 200, {**AGAIN, "status": "queued"}),
    ("succeeded", "user", "retry", {}, 409, TERMINAL),
    ("draft_ready", "user", "retry", {}, 409, ILLEGAL),
    ("running", "user", "cancel", {}, 404, UNKNOWN),
]
PATTERN: list[Row] = [
    ("queued", "user", "cancel", {}, 404, UNKNOWN),
    ("processing", "admin", "retry", {}, 404, UNKNOWN),
]
VIDEO_CONFLICT = {
    "error_code": "VIDEO_URI_CONFLICT",
    "current_video_uri": VIDEO,
    "submitted_video_uri": OTHER_VIDEO,
}
HOWERA: list[Row] = [
    ("CREATED", "user", "start-upload", {}, 200, {**FRESH, "status": "UPLOADING"}),
    ("UPLOADING", "user", "start-upload", {}, 200, {**AGAIN, "status": "UPLOADING"}),
    ("UPLOADED", "user", "start-upload", {}, 409, ILLEGAL),
    ("CREATED", "user", "confirm-upload", {"video_uri": VIDEO}, 200, {"status": "UPLOADED"}),
    ("UPLOADING", "user", "confirm-upload", {"video_uri": VIDEO}, 200, {"status": "UPLOADED"}),
    ("EDITING", "user", "confirm-upload", {"video_uri": VIDEO}, 200, AGAIN),
    ("DONE", "user", "confirm-upload", {"video_uri": VIDEO}, 200, {**AGAIN, "status": "DONE"}),
    ("UPLOADED", "user", "confirm-upload", {"video_uri": OTHER_VIDEO}, 409, VIDEO_CONFLICT),
    ("DONE", "user", "confirm-upload", {"video_uri": OTHER_VIDEO}, 409, VIDEO_CONFLICT),
    ("CREATED", "user", "confirm-upload", {}, 400, {"error_code": "VALIDATION_ERROR"}),
    ("UPLOADED", "user", "run", {}, 202, {**FRESH, "run_id": THERE, "status": "AUDIO_EXTRACTING"}),
    ("AUDIO_EXTRACTING", "user", "run", {}, 200, {**AGAIN, "run_id": THERE}),
    ("TRANSCRIBING", "admin", "run", {}, 200, {**AGAIN, "run_id": THERE}),
    ("DRAFT_READY", "user", "run", {}, 200, {**FRESH, "status": "EDITING"}),
    ("CREATED", "user", "run", {}, 409, ILLEGAL),
    ("EDITING", "user", "run", {}, 409, ILLEGAL),
    ("FAILED", "user", "run", {}, 409, TERMINAL),
    ("EXPORTING", "user", "cancel", {}, 200, {**FRESH, "status": "CANCELLED"}),
    ("CREATED", "admin", "cancel", {}, 200, {**FRESH, "status": "CANCELLED"}),
    ("CANCELLED", "user", "cancel", {}, 409, TERMINAL),
    ("DRAFT_READY", "user", "edit", {}, 200, {**FRESH, "status": "EDITING"}),
    ("EDITING", "user", "edit", {}, 200, {**AGAIN, "status": "EDITING"}),
    ("GENERATING", "user", "edit", {}, 409, ILLEGAL),
    (
        "EDITING",
        "user",
        "regenerate",
        {"instruction": "shorter", "client_request_id": "r1", "base_version": 1},
        202,
        {**FRESH, "task_id": THERE, "run_id": THERE, "status": "REGENERATING"},
    ),
    (
        "REGENERATING",
        "user",
        "regenerate",
        {},
        409,
        {"error_code": "REGENERATE_IN_PROGRESS", "active_task_id": THERE},
    ),
    (
        "EDITING",
        "user",
        "regenerate",
        {"base_version": 7},
        409,
        {"error_code": "ARTIFACT_VERSION_CONFLICT", "current_version": 1, "base_version": 7},
    ),
    ("DRAFT_READY", "user", "regenerate", {}, 409, ILLEGAL),
    ("EDITING", "user", "export", {"format": "MD_ZIP"}, 202, {**FRESH, "run_id": THERE}),
    ("EXPORTING", "user", "export", {"format": "PDF"}, 200, {**AGAIN, "run_id": THERE}),
    (
        "EXPORTING",
        "user",
        "export",
        {"format": "MD_ZIP"},
        409,
        {"error_code": "JOB_ALREADY_RUNNING", "run_id": THERE},
    ),
    ("DRAFT_READY", "user", "export", {"format": "PDF"}, 409, ILLEGAL),
    ("EDITING", "user", "export", {"format": "DOCX"}, 400, {"error_code": "VALIDATION_ERROR"}),
    ("EDITING", "admin", "fail", GAVE_UP, 200, {**FRESH, "status": "FAILED", **GAVE_UP}),
    ("EDITING", "user", "fail", GAVE_UP, 403, FORBIDDEN),
    ("DONE", "admin", "fail", GAVE_UP, 409, TERMINAL),
    ("EDITING", "admin", "fail", {"failure_code": "X"}, 400, {"error_code": "VALIDATION_ERROR"}),
    ("FAILED", "user", "retry", {}, 404, UNKNOWN),
]
ROWS = [
    (workflow, *row)
    for workflow, rows in (
        ("image-generation", IMAGE),
        ("cutx", CUTX),
        ("ss", SS),
        ("asset-pattern", PATTERN),
        ("howera", HOWERA),
    )
    for row in rows
]


def named(row: tuple[Any, ...]) -> str:
    workflow, state, who, command, body, status, _ = row
    said = ",".join(f"{name}={value}"[:24] for name, value in body.items())
    return f"{workflow} {state} {who} {command}({said}) {status}"


@pytest.mark.parametrize("row", ROWS, ids=named)
async def test_command(house: House, row: tuple[str, *Row]) -> None:
    """C13 C14 C29 C39-C41 I41 S8 S18 S29 S32 S33 H26-H28 H31 H34 H36 H42 H55: the status, the job,
    ``replayed``, and what is the command's own; a refusal leaves the version as it was."""
    workflow, state, who, command, body, status, wanted = row
    job_id = await stand(house, house.ada, workflow, state)
    before = (await house.ada.get(f"/jobs/{job_id}")).json
    said = await caller(house, who).post(f"/jobs/{job_id}/{command}", body)
    check(said, status, wanted, named(row))
    after = (await house.ada.get(f"/jobs/{job_id}")).json
    if status < 300:
        assert (said.json["id"], said.json["job_id"]) == (job_id, job_id)
        assert (said.json["status"], said.json["version"]) == (after["status"], after["version"])
        assert isinstance(said.json["replayed"], bool)
    if status >= 300 or said.json["replayed"]:
        assert after == before


async def test_every_declared_command_is_asked_for(house: House) -> None:
    """A command without a row above would be one that nobody looks at."""
    for workflow in LIFECYCLES:
        declared = (await house.ada.get(f"/workflows/{workflow}")).json["commands"]
        asked = {row[3] for row in ROWS if row[0] == workflow and row[5] in (200, 202)}
        assert asked == {one["name"] for one in declared}


async def test_a_second_refund_pays_nothing(house: House) -> None:
    """C32: the whole cost, once."""
    job_id = await stand(house, house.ada, "cutx", "completed")
    balance = (await house.ada.get("/credits")).json["balance"]
    for replayed in (False, True):
        said = await house.admin.post(f"/jobs/{job_id}/refund", {"reason": "sorry"})
        check(said, 200, {"replayed": replayed, "credits": {"cost": 1, "state": "refunded"}}, "")
        assert (await house.ada.get("/credits")).json["balance"] == balance + 1


async def test_a_plan_that_lacks_answers(house: House) -> None:
    """S22 S23 S29 S33: freezing and confirming name what is missing, and move nothing."""
    job = await house.ada.submit("ss", params={"requirement": "with questions"})
    path = f"/jobs/{job['id']}"
    await house.ada.post(f"{path}/draft", {"draft": QUESTIONS})
    before = (await house.ada.get(path)).json
    for command, code in (
        ("freeze-plan", "PLAN_FREEZE_MISSING_REQUIRED"),
        ("confirm", "DRAFT_CONFIRM_BLOCKED"),
        ("run", "DRAFT_CONFIRM_BLOCKED"),
    ):
        body = {"confirmed": True} if command == "confirm" else {}
        said = await house.ada.post(f"{path}/{command}", body)
        check(said, 400, {"error_code": code, "missing": ["year"]}, command)
    assert (await house.ada.get(path)).json == before
    said = await house.ada.post(f"{path}/confirm", {"confirmed": True, "answers": {"year": 2024}})
    check(said, 200, {"status": "queued", "replayed": False}, "confirm")
    past = (await house.ada.get(f"{path}/history")).json["history"]
    assert [(hop["to_status"], hop["version"], hop["hop"]) for hop in past] == [
        ("created", 1, 1), ("draft_ready", 2, 1), ("confirmed", 3, 1), ("queued", 3, 2),
    ]  # fmt: skip


async def test_scheduled_once_and_again_by_a_retry(house: House) -> None:
    """S19 S38 S-r2: a repeat keeps version, stamps and place; an explicit retry renews the place
    and opens a run with attempts of its own."""
    job_id = await stand(house, house.ada, "ss", "queued")
    path = f"/jobs/{job_id}"
    first = (await house.ada.get(path)).json
    again = await house.ada.post(f"{path}/run")
    assert again.json == {**first, "replayed": True}
    await house.worker.post(f"{path}/claim")
    await house.admin.post(f"{path}/transitions", {"to": "failed", **WHY})
    assert (await house.ada.get(path)).json["scheduled_at"] == first["scheduled_at"]
    retried = (await house.ada.post(f"{path}/retry")).json
    assert retried["scheduled_at"] > first["scheduled_at"]
    assert retried["run_id"] != first["run_id"]
    assert (retried["attempt"], retried["retry_count"], retried["progress"]) == (0, 0, 0)
    await house.worker.post(f"{path}/claim")
    tried = (await house.ada.get(f"{path}/attempts")).json["attempts"]
    assert [(one["run_id"], one["status"], one["outcome"]) for one in tried] == [
        (first["run_id"], "ended", "failed"),
        (retried["run_id"], "running", None),
    ]


async def test_what_was_exported_can_be_fetched(house: House) -> None:
    """H7 H31 H60: a job that is done says where its export is, and always will."""
    job_id = await stand(house, house.ada, "howera", "DONE")
    shown = (await house.ada.get(f"/jobs/{job_id}")).json
    assert (shown["progress"], shown["artifacts"]["export_uri"]) == (100, "s3://exports/one.pdf")
    found = (await house.ada.get(f"/jobs/{job_id}/artifacts/export_uri")).json
    assert (found["value"], found["version"]) == ("s3://exports/one.pdf", 1)


async def test_an_orchestrators_run_is_not_the_users(house: House) -> None:
    """H52 H53: 409 with the run that holds the job."""
    job = await house.ada.submit("howera")
    await house.ada.post(f"/jobs/{job['id']}/confirm-upload", {"video_uri": VIDEO})
    body = {"event_id": "e1", "status": "AUDIO_EXTRACTING", "occurred_at": "2026-01-01T00:00:00Z"}
    assert (await house.worker.post(f"/internal/jobs/{job['id']}/status", body)).status == 204
    run_id = (await house.ada.get(f"/jobs/{job['id']}")).json["run_id"]
    said = await house.ada.post(f"/jobs/{job['id']}/run")
    check(said, 409, {"error_code": "JOB_ALREADY_RUNNING", "run_id": run_id}, "run")


async def test_after_a_cancel_the_orchestrator_is_told(house: House) -> None:
    """H34 H35: its next word is refused, and nothing of it is kept."""
    job_id = await stand(house, house.ada, "howera", "TRANSCRIBING")
    await house.ada.post(f"/jobs/{job_id}/cancel")
    before = (await house.ada.get(f"/jobs/{job_id}")).json
    body = {
        "event_id": "late",
        "status": "TRANSCRIPT_READY",
        "occurred_at": "2026-01-01T00:00:00Z",
        "artifact_updates": {"transcript_uri": "s3://late"},
    }
    said = await house.worker.post(f"/internal/jobs/{job_id}/status", body)
    check(said, 409, TERMINAL, "late")
    said = await house.worker.post(f"/jobs/{job_id}/claim")
    check(said, 409, {"error_code": "TERMINAL_STATE"}, "claim")
    assert (await house.ada.get(f"/jobs/{job_id}")).json == before


async def test_a_failed_export_leads_back_to_the_editor(house: House) -> None:
    """H30 H32: the reason stays with the attempt; the job itself has not failed, and its next
    export is a run of its own."""
    job_id = await stand(house, house.ada, "howera", "EXPORTING")
    path = f"/jobs/{job_id}"
    first = (await house.ada.get(path)).json["run_id"]
    body = {
        "event_id": "e1",
        "status": "EDITING",
        "occurred_at": "2026-01-01T00:00:00Z",
        "failure_code": "NO_FONT",
        "failure_message": "the font is missing",
    }
    assert (await house.worker.post(f"/internal{path}/status", body)).status == 204
    job = (await house.ada.get(path)).json
    assert (job["status"], job["failure_code"], job["failed_stage"]) == ("EDITING", None, None)
    tried = (await house.ada.get(f"{path}/attempts")).json["attempts"][-1]
    assert (tried["state"], tried["outcome"], tried["failure_code"]) == (
        "EXPORTING", "failed", "NO_FONT",
    )  # fmt: skip
    assert tried["failure_message"] == "the font is missing"
    again = await house.ada.post(f"{path}/export", {"format": "PDF"})
    check(again, 202, FRESH, "export")
    assert again.json["run_id"] != first


async def test_an_event_out_of_order_is_told_what_came_after_it(house: House) -> None:
    """H20: when the last one happened, where the job is, and where it was to go."""
    job_id = await stand(house, house.ada, "howera", "CREATED")
    for event_id, to, at in (("e1", "UPLOADING", "10:00:00.5"), ("e2", "UPLOADED", "09:59:59")):
        body = {"event_id": event_id, "status": to, "occurred_at": f"2026-01-01T{at}Z"}
        said = await house.worker.post(f"/internal/jobs/{job_id}/status", body)
    wanted = {
        "error_code": "CALLBACK_OUT_OF_ORDER",
        "latest_applied_occurred_at": "2026-01-01T10:00:00.500Z",
        "current_status": "UPLOADING",
        "attempted_status": "UPLOADED",
    }
    check(said, 409, wanted, "late")


# ---------------------------------------------------------------- which of two faults is told


async def test_order_of_checks_of_a_transition(house: House) -> None:
    """Token, body, job, version, repeat, final, table, role, guards: with every later fault still
    there, the first one is told."""
    nobody = house.caller(None)
    job = await stand(house, house.ada, "cutx", "processing")
    path = f"/jobs/{job}/transitions"
    stale: dict[str, Any] = {"expected_version": 99}
    ladder: list[tuple[Caller, str, Any, int, str]] = [
        (nobody, f"{NOBODY}/transitions", {}, 401, "UNAUTHORIZED"),
        (house.ada, f"{NOBODY}/transitions", {}, 400, "VALIDATION_ERROR"),
        (house.ada, f"{NOBODY}/transitions", {"to": "nowhere"}, 404, "NOT_FOUND"),
        (house.eve, path, {"to": "nowhere", **stale}, 404, "NOT_FOUND"),
        (house.ada, path, {"to": "nowhere", **stale}, 400, "VALIDATION_ERROR"),
        (house.ada, path, {"to": "processing", **stale}, 409, "JOB_VERSION_CONFLICT"),
        (house.ada, path, {"to": "processing"}, 409, "ILLEGAL_TRANSITION"),
        (house.ada, path, {"to": "queued"}, 409, "ILLEGAL_TRANSITION"),
        (house.ada, path, {"to": "completed"}, 403, "FORBIDDEN"),
        (house.worker, path, {"to": "completed"}, 409, "RESULT_MISSING"),
    ]
    for who, where, body, status, code in ladder:
        check(await who.post(where, body), status, {"error_code": code}, (where, body))
    ended = await stand(house, house.ada, "cutx", "canceled")
    for to in ("canceled", "pending"):
        said = await house.ada.post(f"/jobs/{ended}/transitions", {"to": to})
        check(said, 409, {"error_code": "TERMINAL_STATE"}, to)


async def test_order_of_checks_of_a_command(house: House) -> None:
    """Token, body, job, roles, own identity, version, satisfied, final, from where, guards."""
    nobody = house.caller(None)
    regenerating = await stand(house, house.ada, "howera", "EDITING")
    wish = {"client_request_id": "same"}
    path = f"/jobs/{regenerating}/regenerate"
    assert (await house.ada.post(path, wish)).status == 202
    editing = await stand(house, house.ada, "howera", "EDITING")
    done = await stand(house, house.ada, "howera", "DONE")
    stale: dict[str, Any] = {"expected_version": 99}
    ladder: list[tuple[Caller, str, Any, int, str | None]] = [
        (nobody, f"{NOBODY}/fail", {"x": 1}, 401, "UNAUTHORIZED"),
        (house.ada, f"{NOBODY}/fail", {}, 404, "NOT_FOUND"),
        (house.eve, f"/jobs/{done}/fail", GAVE_UP | stale, 404, "NOT_FOUND"),
        (house.ada, f"/jobs/{done}/fail", {"x": 1}, 400, "VALIDATION_ERROR"),
        (house.ada, f"/jobs/{done}/fail", GAVE_UP | stale, 403, "FORBIDDEN"),
        (house.ada, path, wish | stale, 200, None),
        (house.ada, f"/jobs/{editing}/edit", stale, 409, "JOB_VERSION_CONFLICT"),
        (house.ada, f"/jobs/{editing}/edit", {}, 200, None),
        (house.admin, f"/jobs/{done}/fail", GAVE_UP, 409, "TERMINAL_STATE"),
        (house.ada, f"/jobs/{editing}/start-upload", {}, 409, "ILLEGAL_TRANSITION"),
    ]
    for who, where, body, status, code in ladder:
        wanted = {"error_code": code} if code else {"replayed": True}
        check(await who.post(where, body), status, wanted, (where, body))


async def test_order_of_checks_of_an_event(house: House) -> None:
    """Token, body, job, event id, order, final, table, guards; a refused one is not remembered."""
    nobody = house.caller(None)
    job = await stand(house, house.ada, "howera", "EXPORTING")
    path = f"/internal/jobs/{job}/status"

    def event(number: int, status: str, second: int, **more: Any) -> dict[str, Any]:
        at = f"2026-01-01T00:00:{second:02}Z"
        return {"event_id": f"e{number}", "status": status, "occurred_at": at, **more}

    first = event(1, "EDITING", 10)
    ladder: list[tuple[Caller, str, Any, int, str | None]] = [
        (nobody, f"/internal{NOBODY}/status", {}, 401, "UNAUTHORIZED"),
        (house.ada, f"/internal{NOBODY}/status", {}, 403, "FORBIDDEN"),
        (house.worker, f"/internal{NOBODY}/status", {}, 400, "VALIDATION_ERROR"),
        (house.worker, f"/internal{NOBODY}/status", first, 404, "NOT_FOUND"),
        (house.worker, path, first, 204, None),
        (house.worker, path, first, 200, None),
        (house.worker, path, event(1, "EXPORTING", 5), 409, "EVENT_ID_PAYLOAD_MISMATCH"),
        (house.worker, path, event(2, "CREATED", 5), 409, "CALLBACK_OUT_OF_ORDER"),
        (house.worker, path, event(2, "CREATED", 10), 409, "ILLEGAL_TRANSITION"),
        (house.worker, path, event(2, "FAILED", 10), 400, "VALIDATION_ERROR"),
        (house.worker, path, event(2, "EXPORTING", 10), 204, None),
        (house.worker, path, event(3, "DONE", 11), 409, "EXPORT_NOT_READY"),
        (
            house.worker,
            path,
            event(3, "DONE", 11, artifact_updates={"export_uri": "s3://e"}),
            204,
            None,
        ),
        (house.worker, path, event(4, "EDITING", 5), 409, "CALLBACK_OUT_OF_ORDER"),
        (house.worker, path, event(4, "EDITING", 12), 409, "TERMINAL_STATE"),
        (house.worker, path, first, 200, None),
    ]
    for who, where, body, status, code in ladder:
        said = await who.post(where, body)
        assert said.status == status, (body, said.raw)
        assert code is None or said.code == code, body


async def test_money_is_the_last_question(house: House) -> None:
    """C40: a retry that is not paid for is 402 with both figures; without the right to ask it is
    403 all the same."""
    made = await house.admin.post("/admin/tokens", {"name": "max", "role": "user", "credits": 40})
    poor = house.caller(made.json["token"])
    order = {"job_type": "ugc_video", "params": {"product_id": "p"}}
    job = await poor.submit("cutx", **order)
    await house.admin.post(f"/jobs/{job['id']}/transitions", {"to": "failed", **WHY})
    await poor.submit("cutx", **order)
    assert (await poor.post(f"/jobs/{job['id']}/retry")).code == "FORBIDDEN"
    for where, body in (("retry", {}), ("transitions", {"to": "pending"})):
        said = await house.admin.post(f"/jobs/{job['id']}/{where}", body)
        wanted = {"error_code": "INSUFFICIENT_CREDITS", "balance": 0, "required": 40}
        check(said, 402, wanted, where)
    assert (await poor.get(f"/jobs/{job['id']}")).json["status"] == "failed"


async def test_what_the_sheet_says_of_each_lifecycle(house: House) -> None:
    """I1 I2 C1 S1 P1 H2 H3: states, kinds, the first one, prices, and the roles of commands."""
    initial = {
        "image-generation": "queued",
        "cutx": "pending",
        "ss": "created",
        "asset-pattern": "queued",
        "howera": "CREATED",
    }
    prices = {
        "image-generation": {"image": 1},
        "cutx": {"copy": 1, "static_ad": 3, "tts": 2, "ugc_video": 40, "scrape": 0},
        "ss": {"work": 0},
        "asset-pattern": {"generation": 0, "export": 0},
        "howera": {"video": 0},
    }
    for workflow, life in LIFECYCLES.items():
        told = (await house.ada.get(f"/workflows/{workflow}")).json
        assert told["initial"] == initial[workflow]
        assert {one["name"]: one["kind"] for one in told["states"]} == life.kinds
        assert {name: one["price"] for name, one in told["job_types"].items()} == prices[workflow]
        assert told["prices"] == prices[workflow]
    roles = {
        one["name"]: sorted(one["roles"])
        for one in (await house.ada.get("/workflows/howera")).json["commands"]
    }
    assert roles == {
        "start-upload": ["user"],
        "confirm-upload": ["user"],
        "run": ["admin", "user"],
        "cancel": ["admin", "user"],
        "edit": ["user"],
        "regenerate": ["user"],
        "export": ["user"],
        "fail": ["admin"],
    }
