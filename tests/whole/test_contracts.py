"""What the five source contracts promise to a client and to whoever reads the log, over real HTTP,
with the service's own log written to a text and read back."""

import json
import re
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner.store.hop import open_handle
from tests.http.serving import Said
from tests.standing import EXPORTED, GAVE_UP, PICTURE, RESULT, WHY
from tests.whole.living import Living, living

pytestmark = pytest.mark.anyio

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
NOBODY = "00000000-0000-7000-8000-000000000000"
BATCH: dict[str, Any] = {"workflow": "asset-pattern", "job_type": "generation"}
PICTURE_URL = "https://pictures.example/1.png"


async def batch(place: Living) -> str:
    """A job of ada's that an outside worker has taken."""
    job = await place.ada.submit(**BATCH)
    assert (await place.worker.post(f"/jobs/{job['id']}/claim")).status == 200
    return str(job["id"])


@pytest.fixture(scope="module")
async def place(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[Living]:
    async with living(tmp_path_factory.mktemp("contracts")) as place:
        yield place


# ---------------------------------------------------------------- the log


async def test_every_line_is_an_object_with_time_event_and_job(place: Living) -> None:
    """C17 C43 C44 C45 C47 I28 P37: one JSON object a line; times in UTC with milliseconds, never
    backwards; every hop of the history is one line with both its statuses."""
    order = {"product_id": "lamp-7", "custom_instructions": "no adjectives"}
    made = await place.ada.submit("cutx", job_type="copy", params=order)
    await place.worker.post(f"/jobs/{made['id']}/claim")
    assert (await place.moved(made["id"], "completed", **RESULT, **PICTURE)).status == 200
    lines = place.lines()
    for line in lines:
        assert list(line)[:3] == ["ts", "level", "event"]
        assert STAMP.fullmatch(line["ts"])
        if line["event"].startswith(("job.", "asset.")):
            assert line["job_id"]
    stamps = [line["ts"] for line in lines]
    assert stamps == sorted(stamps)
    assert "no adjectives" not in json.dumps(lines)
    mine = place.lines(made["id"])
    assert [line["event"] for line in mine] == [
        "job.created", "credits.charged", "job.transition", "asset.created", "job.transition",
        "job.completed",
    ]  # fmt: skip
    assert (mine[0]["job_type"], mine[0]["credits_cost"]) == ("copy", 1)
    assert (mine[-1]["status"], mine[-1]["asset_types"]) == ("completed", {"image": 1})
    hops = (await place.ada.get(f"/jobs/{made['id']}/history")).json["history"]
    assert [(hop["from_status"], hop["to_status"]) for hop in hops[1:]] == [
        (line["from_status"], line["to_status"]) for line in mine if "from_status" in line
    ]
    assert {line["user_id"] for line in mine} == {"ada"}


async def test_a_failure_is_logged_with_its_reasons_and_its_refund(place: Living) -> None:
    """C30 C33 C48 P29: the four failure fields, and what was given back."""
    made = await place.ada.submit("cutx", job_type="static_ad", params={"product_id": "lamp-7"})
    await place.worker.post(f"/jobs/{made['id']}/claim")
    report = {"failure_code": "BAD_INPUT", "failure_message": "no picture", "failed_stage": "draw"}
    assert (await place.moved(made["id"], "failed", **report)).status == 200
    (line,) = place.lines(made["id"], "job.failed")
    assert {name: line[name] for name in report} == report
    assert line["refund"] == 3
    assert line["correlation_id"]
    assert (await place.ada.get(f"/jobs/{made['id']}")).json["failure_message"] == "no picture"


async def test_every_refusal_about_a_job_is_one_line_and_nothing_else(place: Living) -> None:
    """C16 C46 S15 S16 S17 S21 S22: by the table, by role, by a guard, by version, by a command, by
    an event; each told once, each with the code that the client got."""
    job = (await place.ada.submit("cutx", params={"product_id": "lamp-7"}))["id"]
    await place.worker.post(f"/jobs/{job}/claim")
    path = f"/jobs/{job}/transitions"
    asked: dict[str, Callable[[], Awaitable[Said]]] = {
        "ILLEGAL_TRANSITION": lambda: place.admin.post(path, {"to": "queued"}),
        "FORBIDDEN": lambda: place.ada.post(path, {"to": "failed", **WHY}),
        "RESULT_MISSING": lambda: place.worker.post(path, {"to": "completed"}),
        "JOB_VERSION_CONFLICT": lambda: place.admin.post(
            path, {"to": "failed", "expected_version": 99, **WHY}
        ),
        "STALE_RUN": lambda: place.worker.post(path, {"to": "failed", "run_id": "old", **WHY}),
        "VALIDATION_ERROR": lambda: place.worker.post(path, {"to": "failed"}),
        "JOB_ALREADY_RUNNING": lambda: place.worker.post(f"/jobs/{job}/claim"),
        "NOT_FOUND": lambda: place.eve.post(path, {"to": "canceled"}),
    }
    before = await place.seen(job)
    for code, ask in asked.items():
        known = len(place.lines(job))
        said = await ask()
        assert said.code == code, said.raw
        (line,) = place.lines(job)[known:]
        assert (line["event"], line["error_code"]) == ("job.transition_denied", code)
        assert line["current_status"] == "processing"
        assert await place.seen(job) == before, code
    await place.ada.post(f"/jobs/{job}/cancel")
    known = len(place.lines(job))
    assert (await place.ada.post(f"/jobs/{job}/cancel")).code == "TERMINAL_STATE"
    (line,) = place.lines(job)[known:]
    assert (line["error_code"], line["attempted_status"]) == ("TERMINAL_STATE", "cancel")


# ---------------------------------------------------------------- howera: callbacks, checkpoints


async def test_the_status_callback_is_a_door_for_workflows_alone(place: Living) -> None:
    """H10 H11 H15 H16 H56 H57: POST, role ``workflow``, the three required fields, an id that is
    text of whatever making; 204 without a body."""
    job = (await place.ada.submit("howera"))["id"]
    path = f"/internal/jobs/{job}/status"
    whole = {"event_id": "e1", "status": "UPLOADING", "occurred_at": "2026-01-01T00:00:00Z"}
    assert (await place.caller(None).post(path, whole)).status == 401
    assert (await place.ada.post(path, whole)).status == 403
    assert (await place.ada.get(path)).status == 405
    for name in whole:
        less = {other: value for other, value in whole.items() if other != name}
        said = await place.worker.post(path, less)
        assert (said.status, said.code) == (400, "VALIDATION_ERROR"), name
        assert said.json["errors"][0]["path"] == f"$.{name}"
    for wrong in (7, "", None, ["e1"], "x" * 129):
        said = await place.worker.post(path, {**whole, "event_id": wrong})
        assert (said.status, said.code) == (400, "VALIDATION_ERROR"), wrong
    nowhere = await place.worker.post(f"/internal/jobs/{NOBODY}/status", whole)
    assert (nowhere.status, nowhere.code) == (404, "NOT_FOUND")
    first = await place.worker.post(path, whole)
    assert (first.status, first.raw) == (204, b"")
    assert (await place.ada.get(f"/jobs/{job}")).json["status"] == "UPLOADING"
    ids = ("018f2b5e-7c1d-7a3e-9f00-0123456789ab", "01J8ZQ4T0K9W3M5X7Y2B6C8D1F")
    for event_id, status in zip(ids, ("UPLOADED", "AUDIO_EXTRACTING"), strict=True):
        less = {"status": status, "occurred_at": whole["occurred_at"]}
        assert (await place.worker.post(path, less, X_Event_Id=event_id)).status == 204
    past = (await place.ada.get(f"/jobs/{job}/history")).json["history"]
    assert [hop["event_id"] for hop in past] == [None, "e1", *ids]


async def test_artifact_updates_are_an_optional_map_and_recorded(place: Living) -> None:
    """H43 H44 H58 H60: any JSON by name; what is not said stays, what is said anew is a new
    version, and the old one can still be read."""
    job = (await place.ada.submit("howera"))["id"]
    path = f"/jobs/{job}"
    for wrong in ("a", ["a"], 1, {"Bad Name": 1}):
        said = await place.told(job, "e0", "UPLOADED", artifact_updates=wrong)
        assert (said.status, said.code) == (400, "VALIDATION_ERROR"), wrong
    assert (await place.told(job, "e1", "UPLOADED")).status == 204
    assert (await place.ada.get(path)).json["artifacts"] == {}
    known = {
        "video_uri": "s3://v",
        "audio_uri": "s3://a",
        "transcript_uri": "s3://t",
        "draft_uri": "s3://d",
        "export_uri": "s3://e",
        "metrics": {"duration_s": 61.5, "tokens": {"in": 12, "out": 7}},
        "pages": [1, None, True],
    }
    said = await place.told(job, "e2", "AUDIO_EXTRACTING", artifact_updates=known)
    assert said.status == 204
    assert (await place.ada.get(path)).json["artifacts"] == known
    anew = {"metrics": {"duration_s": 62}, "audio_uri": None}
    assert (await place.told(job, "e3", "AUDIO_READY", artifact_updates=anew)).status == 204
    now = (await place.ada.get(path)).json["artifacts"]
    assert now == known | {"metrics": {"duration_s": 62}}
    metrics = (await place.ada.get(f"{path}/artifacts/metrics")).json
    assert (metrics["version"], metrics["value"]) == (2, {"duration_s": 62})
    assert [one["version"] for one in metrics["versions"]] == [1, 2]
    old = (await place.ada.get(f"{path}/artifacts/metrics?version=1")).json
    assert old["value"] == known["metrics"]


async def test_a_refused_or_repeated_event_brings_no_artifacts(place: Living) -> None:
    """H12 H13 H20 H64: artifacts come with the move or not at all; of twice the same event one has
    an effect, one line of the log and one row of the history."""
    job = (await place.ada.submit("howera"))["id"]
    brings = {"artifact_updates": {"metrics": {"tokens": 1}}}
    assert (await place.told(job, "e1", "TRANSCRIBING", **brings)).code == "ILLEGAL_TRANSITION"
    assert (await place.ada.get(f"/jobs/{job}")).json["artifacts"] == {}
    assert (await place.told(job, "e1", "UPLOADING", **brings)).status == 204
    before = await place.seen(job)
    again = await place.told(job, "e1", "UPLOADING", **brings)
    assert (again.status, again.json["replayed"]) == (200, True)
    assert await place.seen(job) == before
    assert (await place.ada.get(f"/jobs/{job}/artifacts/metrics")).json["version"] == 1
    assert len(place.lines(job, "job.transition")) == 1
    (replay,) = place.lines(job, "callback.replayed")
    assert replay["event_id"] == "e1"


CHECKPOINTS = {
    "AUDIO_READY": ("TRANSCRIBING", 202),
    "TRANSCRIPT_READY": ("GENERATING", 202),
    "DRAFT_READY": ("EDITING", 200),
}
PIPELINE = ("AUDIO_EXTRACTING", "AUDIO_READY", "TRANSCRIBING", "TRANSCRIPT_READY", "GENERATING")


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
async def test_a_run_resumes_from_a_checkpoint(place: Living, checkpoint: str) -> None:
    """H37-H40 H42 H43 H65: once nobody is at work any more, ``run`` goes on behind the checkpoint
    under a new run; what lies before it is not done again, and nothing that it made is lost."""
    job = (await place.ada.submit("howera"))["id"]
    await place.ada.post(f"/jobs/{job}/confirm-upload", {"video_uri": "s3://v"})
    first = (await place.ada.post(f"/jobs/{job}/run")).json["run_id"]
    stops = (*PIPELINE[1:], "DRAFT_READY")
    for stop in stops[: stops.index(checkpoint) + 1]:
        name = f"{stop.partition('_')[0].lower()}_uri"
        uri = {"artifact_updates": {name: "s3://x"}} if stop.endswith("READY") else {}
        assert (await place.told(job, stop, stop, **uri)).status == 204
    made = (await place.ada.get(f"/jobs/{job}")).json["artifacts"]
    said = await resumed(place, job)
    assert (said.json["status"], said.status) == CHECKPOINTS[checkpoint], said.raw
    assert said.json["replayed"] is False
    if said.status == 202:
        assert said.json["run_id"] != first
    assert said.json["artifacts"] == made
    hops = (await place.ada.get(f"/jobs/{job}/history")).json["history"]
    past = [hop["to_status"] for hop in hops]
    assert len(past) == len({*past}), "no stage was entered twice"


async def resumed(place: Living, job: str) -> Said:
    """``run``, as soon as the old one is closed: until then it is the old one's echo."""
    for _ in range(200):
        said = await place.ada.post(f"/jobs/{job}/run")
        if said.status != 200 or not said.json["replayed"]:
            return said
        await place.ada.get(f"/jobs/{job}?wait=1")
    raise AssertionError("the run is live for ever")


async def test_nothing_else_is_a_checkpoint(place: Living) -> None:
    """H37 H42: where a person edits, a stage works, or all is over, ``run`` starts nothing."""
    codes = {}
    for state, steps in ELSEWHERE.items():
        job = (await place.ada.submit("howera"))["id"]
        for step, report in steps:
            said = await place.moved(job, step, **report)
            assert said.status == 200, (state, step, said.raw)
        codes[state] = (await place.ada.post(f"/jobs/{job}/run")).code
        assert (await place.ada.get(f"/jobs/{job}")).json["status"] == state
    assert codes == {
        "CREATED": "ILLEGAL_TRANSITION",
        "UPLOADING": "ILLEGAL_TRANSITION",
        "UPLOADED": "VIDEO_MISSING",
        "AUDIO_EXTRACTING": "JOB_ALREADY_RUNNING",
        "EDITING": "ILLEGAL_TRANSITION",
        "REGENERATING": "JOB_ALREADY_RUNNING",
        "EXPORTING": "JOB_ALREADY_RUNNING",
        "DONE": "TERMINAL_STATE",
        "FAILED": "TERMINAL_STATE",
        "CANCELLED": "TERMINAL_STATE",
    }


Steps = list[tuple[str, dict[str, Any]]]
_working: Steps = [("UPLOADED", {}), ("AUDIO_EXTRACTING", {})]
_editing: Steps = [*_working, *((name, {}) for name in (*PIPELINE[1:], "DRAFT_READY", "EDITING"))]
ELSEWHERE: dict[str, Steps] = {
    "CREATED": [],
    "UPLOADING": [("UPLOADING", {})],
    "UPLOADED": [("UPLOADED", {})],
    "AUDIO_EXTRACTING": _working,
    "EDITING": _editing,
    "REGENERATING": [*_editing, ("REGENERATING", {})],
    "EXPORTING": [*_editing, ("EXPORTING", {})],
    "DONE": [*_editing, ("EXPORTING", {}), ("DONE", EXPORTED)],
    "FAILED": [("FAILED", GAVE_UP)],
    "CANCELLED": [("CANCELLED", {})],
}


# ---------------------------------------------------------------- the pattern: reading


@pytest.mark.parametrize("job_id", [NOBODY, "1", "not-a-job", "%00", "a" * 300])
async def test_an_unknown_job_is_not_found_whatever_is_asked(place: Living, job_id: str) -> None:
    """P11 P13: reading, moving, reporting, claiming, deleting."""
    path = f"/jobs/{job_id}"
    event = {"event_id": "e", "status": "failed", "occurred_at": "2026-01-01T00:00:00Z"}
    for method, where, body in [
        ("GET", path, None),
        ("GET", f"{path}/assets", None),
        ("GET", f"{path}/history", None),
        ("POST", f"{path}/transitions", {"to": "completed"}),
        ("POST", f"{path}/progress", {"progress": 1}),
        ("POST", f"{path}/claim", {}),
        ("POST", f"{path}/cancel", {}),
        ("POST", f"/internal{path}/status", event),
        ("DELETE", path, None),
    ]:
        said = await place.admin.ask(method, where, body)
        assert (said.status, said.code) == (404, "NOT_FOUND"), (method, where)


async def test_a_list_is_ones_own_narrowed_and_newest_first(place: Living) -> None:
    """P24: no filter, by status, by type, by both; 20 at a time, from the newest on."""
    token = (await place.admin.post("/admin/tokens", {"name": "lea", "role": "user"})).json
    lea = place.caller(token["token"])
    kinds = ("generation", "export")
    made = [
        (await lea.submit("asset-pattern", job_type=kinds[number % 2]))["id"]
        for number in range(23)
    ]
    for job in made[:4]:
        await place.worker.post(f"/jobs/{job}/claim")

    async def listed(query: str = "") -> list[str]:
        return [job["id"] for job in (await lea.get(f"/jobs{query}")).json["jobs"]]

    newest = made[::-1]
    assert await listed() == newest[:20]
    assert await listed("?offset=0&limit=20") == newest[:20]
    assert await listed("?offset=20") == newest[20:]
    assert await listed("?limit=3&offset=1") == newest[1:4]
    assert await listed("?status=processing") == made[3::-1]
    assert await listed("?job_type=export&limit=100") == newest[1::2]
    assert await listed("?status=processing&job_type=generation") == [made[2], made[0]]
    assert await listed("?status=completed") == []
    others = (await place.eve.get("/jobs?limit=100")).json["jobs"]
    assert not {job["id"] for job in others} & {*made}
    shown = (await lea.get("/jobs?limit=1")).json["jobs"][0]
    assert shown.keys() >= {"id", "job_type", "status", "progress", "created_at"}


async def test_what_is_told_about_a_job(place: Living) -> None:
    """P9 P31 P32: at birth, at the end, and what a failure says of itself."""
    born = await place.ada.submit(**BATCH)
    assert born["job_id"] == born["id"]
    assert (born["status"], born["progress"]) == ("queued", 0)
    shown = (await place.ada.get(f"/jobs/{born['id']}")).json
    assert (shown["failure_message"], shown["result"], shown["completed_at"]) == (None, None, None)
    assert shown["created_at"] == shown["updated_at"] == born["created_at"]
    await place.worker.post(f"/jobs/{born['id']}/claim")
    await place.moved(born["id"], "completed", result={"asset_count": 2})
    done = (await place.ada.get(f"/jobs/{born['id']}")).json
    assert (done["status"], done["progress"], done["result"]) == (
        "completed", 100, {"asset_count": 2},
    )  # fmt: skip
    assert done["created_at"] <= done["completed_at"] == done["updated_at"]
    job = await batch(place)
    await place.worker.post(f"/jobs/{job}/progress", {"progress": 50})
    await place.moved(job, "failed", failure_message="no such format")
    lost = (await place.ada.get(f"/jobs/{job}")).json
    assert (lost["status"], lost["progress"], lost["result"]) == ("failed", 50, None)
    assert lost["failure_message"] == "no such format"
    assert lost["completed_at"] is not None


async def test_partly_done_is_a_whole_answer(place: Living) -> None:
    """P4 P16 P18 P23 P39: 100 %, a result, a message, or neither of the two."""
    for report in (
        {"result": {"asset_count": 1}, "failure_message": "2 of 3 are missing"},
        {"result": {"asset_count": 1}},
        {"failure_message": "2 of 3 are missing"},
        {},
    ):
        job = await batch(place)
        said = await place.moved(job, "partial", **report)
        assert said.status == 200, said.raw
        shown = (await place.ada.get(f"/jobs/{job}")).json
        assert (shown["status"], shown["progress"]) == ("partial", 100)
        assert shown["result"] == report.get("result")
        assert shown["failure_message"] == report.get("failure_message")
        assert shown["completed_at"] is not None
        again = (await place.moved(job, "partial", result={"asset_count": 9})).json
        assert (again["replayed"], again["result"]) == (True, report.get("result"))


# ---------------------------------------------------------------- the pattern: files

FILES: list[dict[str, Any]] = [
    {"asset_type": "image", "url": "https://cdn.example/out/1.png?sig=s3cr3t", "file_size": 10},
    {"asset_type": "image", "url": "https://cdn.example/more/1.png", "sha256": "AB" * 32},
    {"asset_type": "text", "url": "https://cdn.example/../notes"},
]


async def test_a_file_has_an_id_an_owner_a_job_and_a_place(place: Living) -> None:
    """P25 P30 P33 P37: many to a job, each with all that is known of it; the path holds owner and
    job, and no two share one."""
    job = await batch(place)
    assert (await place.moved(job, "completed", assets=FILES)).status == 200
    listed = (await place.ada.get(f"/jobs/{job}/assets")).json["assets"]
    assert [one["url"] for one in listed] == [one["url"] for one in reversed(FILES)]
    assert [one["storage_path"] for one in listed] == [
        f"ada/{job}/notes-3", f"ada/{job}/1-2.png", f"ada/{job}/1.png",
    ]  # fmt: skip
    for one, sent in zip(listed, reversed(FILES), strict=True):
        assert (one["asset_type"], one["job_id"]) == (sent["asset_type"], job)
        assert one["file_size"] == sent.get("file_size")
        assert STAMP.fullmatch(one["created_at"])
        assert (await place.ada.get(f"/assets/{one['id']}")).json == one
    assert len({one["id"] for one in listed}) == 3
    told = place.lines(job, "asset.created")
    assert [line["asset_id"] for line in told] == [one["id"] for one in reversed(listed)]
    assert "s3cr3t" not in json.dumps(told)
    file = sqlite3.connect(f"file:{place.service.store.path}?mode=ro", uri=True)
    owners = file.execute("SELECT DISTINCT user_id FROM assets WHERE uid = ?", (listed[0]["id"],))
    assert owners.fetchall() == [("ada",)]
    file.close()


async def test_what_a_provider_made_lies_under_originals(place: Living) -> None:
    """I5 I25 I26 I27: the picture in the library and its address on the job, before it is done."""
    job = (await place.ada.submit("image-generation", params={"prompt": "a lighthouse"}))["id"]
    await place.worker.post(f"/jobs/{job}/claim")
    assert (await place.moved(job, "completed")).code == "RESULT_MISSING"
    done = await place.moved(job, "completed", **PICTURE)
    assert done.json["result_url"] == PICTURE_URL
    (picture,) = (await place.ada.get(f"/jobs/{job}/assets")).json["assets"]
    assert picture["storage_path"] == f"originals/ada/{job}/1.png"
    assert picture["url"] == PICTURE_URL
    (kept,) = (await place.ada.get("/assets?limit=1")).json["assets"]
    assert kept == picture


async def test_files_are_shown_to_whom_the_job_is_shown(place: Living) -> None:
    """P12 P27: ownership comes first, whether there are files or not; the newest come first."""
    job = await batch(place)
    for _ in range(2):
        refused = await place.eve.get(f"/jobs/{job}/assets")
        assert (refused.status, refused.code) == (403, "FORBIDDEN")
        await place.told(job, "e1", "processing", assets=FILES[:1])
    await place.told(job, "e2", "processing", assets=FILES[1:2])
    await place.told(job, "e3", "completed", assets=FILES[2:])
    for caller in (place.ada, place.worker, place.admin):
        listed = (await caller.get(f"/jobs/{job}/assets")).json["assets"]
        assert [one["url"] for one in listed] == [one["url"] for one in reversed(FILES)]
    assert (await place.eve.get(f"/assets/{listed[0]['id']}")).code == "NOT_FOUND"
    assert (await place.eve.get("/assets")).json["assets"] == []


async def test_files_go_with_their_job(place: Living) -> None:
    """P36: by its owner, once it has ended; the files of other jobs stay."""
    job, other = await batch(place), await batch(place)
    for one in (job, other):
        await place.moved(one, "completed", assets=FILES)
    listed = (await place.ada.get(f"/jobs/{job}/assets")).json["assets"]
    kept = (await place.ada.get(f"/jobs/{other}/assets")).json["assets"]
    assert (await place.eve.delete(f"/jobs/{job}")).code == "FORBIDDEN"
    assert (await place.ada.delete(f"/jobs/{job}")).status == 204
    for one in listed:
        assert (await place.ada.get(f"/assets/{one['id']}")).code == "NOT_FOUND"
    library = (await place.ada.get("/assets?limit=100")).json["assets"]
    assert not {one["id"] for one in library} & {one["id"] for one in listed}
    assert (await place.ada.get(f"/jobs/{other}/assets")).json["assets"] == kept
    file = sqlite3.connect(f"file:{place.service.store.path}?mode=ro", uri=True)
    marks = ",".join("?" * len(listed))
    found = file.execute(
        f"SELECT count(*) FROM assets WHERE uid IN ({marks})", [one["id"] for one in listed]
    ).fetchone()
    file.close()
    assert found == (0,)
    assert await place.service.store.check() == ()


# ---------------------------------------------------------------- what cannot be written


def _no_room(connection: sqlite3.Connection) -> None:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")


def _room(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA max_page_count = 1073741823")


async def test_what_is_not_written_is_an_error_and_not_there(tmp_path: Path) -> None:
    """P10 P26: a job or a file that cannot be stored is a plain no; nothing of it is to be seen,
    and the same request succeeds when there is room again."""
    long = "x" * 2000
    order = {**BATCH, "params": {"inputs": [long] * 50}, "idempotency_key": "again"}
    files = [{"asset_type": "image", "url": f"https://cdn.example/{long}{n}"} for n in range(50)]
    writer = await open_handle(str(tmp_path / "jobs.db"), make=True)
    try:
        async with living(tmp_path, writer_hop=writer) as place:
            job = await batch(place)
            before = await place.seen(job)
            await writer(_no_room)
            said = await place.ada.post("/jobs", order)
            assert (said.status, said.code) == (503, "STORAGE_FULL")
            assert "Retry-After" in said.headers
            lost = await place.moved(job, "completed", assets=files)
            assert (lost.status, lost.code) == (503, "STORAGE_FULL")
            assert await place.seen(job) == before
            assert len((await place.ada.get("/jobs")).json["jobs"]) == 1
            assert (await place.ada.get("/assets")).json["assets"] == []
            assert [line for line in place.lines() if line["event"] == "asset.created"] == []
            await writer(_room)
            made = await place.ada.post("/jobs", order)
            assert (made.status, made.json["replayed"]) == (201, False)
            assert (await place.moved(job, "completed", assets=files)).status == 200
            assert len((await place.ada.get(f"/jobs/{job}/assets")).json["assets"]) == 50
            assert await place.service.store.check() == ()
    finally:
        with anyio.CancelScope(shield=True):
            await writer.close()
