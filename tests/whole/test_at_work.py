"""Stages in the house, behind real HTTP and a real file: when they are called, what they may do,
and what becomes of a job when they fail, stop, wait, or are stopped."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from jobrunner import (
    Asset,
    AwaitCallback,
    Context,
    Definition,
    Done,
    Partial,
    PermanentFailure,
    Rejected,
    RetryableFailure,
    Stage,
)
from jobrunner.ports import SystemClock, SystemIds
from jobrunner.stages import Registry
from tests.driving import bound, varied
from tests.http.serving import PLUGINS
from tests.whole.living import Living, living

pytestmark = pytest.mark.anyio

Does = Callable[[Context], Awaitable[Any]]
ids = SystemIds(SystemClock())

# Of each lifecycle: the params, the status of a job at work, and where success and failure lead.
WORKS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "image-generation": ({"prompt": "a lighthouse"}, "running", "completed", "dead_letter"),
    "cutx": ({"product_id": "lamp-7"}, "processing", "completed", "failed"),
    "ss": ({"requirement": "Sum the sales"}, "running", "succeeded", "failed"),
    "asset-pattern": ({}, "processing", "completed", "failed"),
    "howera": ({}, "AUDIO_EXTRACTING", "DRAFT_READY", "FAILED"),
}
MADE = {
    "AUDIO_EXTRACTING": "audio_uri",
    "TRANSCRIBING": "transcript_uri",
    "GENERATING": "draft_uri",
}


class Provider:
    """The one stage behind every active state; it does what the test says, and keeps a diary of
    what the file said of the job at the moment it was called."""

    def __init__(self, path: Path) -> None:
        self.does: Does = done
        self.diary: list[tuple[str, str, str]] = []
        self._path = path

    async def run(self, context: Context) -> Any:
        self.diary.append((context.job_id, *self._written(context.job_id)))
        return await self.does(context)

    def _written(self, job_id: str) -> tuple[str, str]:
        """The status of the job and of its latest attempt, as they are on the disk."""
        with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as file:
            job, attempt = file.execute(
                "SELECT j.status, a.status FROM jobs j JOIN attempts a ON a.job = j.id "
                "WHERE j.uid = ? ORDER BY a.serial DESC",
                (job_id,),
            ).fetchone()
        return str(job), str(attempt)


async def done(context: Context) -> Done:
    """A file, and in howera the artifact that is to come next."""
    asset = Asset(ids.fresh(), "image", f"https://cdn.example/{context.attempt}.png")
    missing = [name for name in MADE.values() if name not in context.artifacts]
    artifacts = {missing[0]: asset.url} if "video_uri" in context.artifacts else {}
    return Done({"count": 1}, artifacts, (asset,))


def raises(error: Exception) -> Does:
    async def does(context: Context) -> Any:
        raise error

    return does


@asynccontextmanager
async def working(folder: Path) -> AsyncIterator[tuple[Living, Provider]]:
    provider, registry = Provider(folder / "jobs.db"), Registry()
    registry.add(Stage("test.stage", provider.run))
    for name in PLUGINS:
        registry.add(quick(bound(import_module(f"jobrunner_{name}").definition)))
    assert not registry.refused["workflows"], registry.refused["workflows"]
    async with living(folder, registry) as here:
        yield here, provider


def quick(definition: Definition) -> Definition:
    """Nobody waits long between two tries."""
    states = tuple(
        replace(state, retry=replace(state.retry, base_s=0.01, cap_s=0.02))
        if state.retry
        else state
        for state in definition.workflow.states
    )
    return varied(definition, states=states)


@pytest.fixture(scope="module")
async def both(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[tuple[Living, Provider]]:
    async with working(tmp_path_factory.mktemp("work")) as both:
        yield both


@pytest.fixture
def place(both: tuple[Living, Provider]) -> Living:
    return both[0]


@pytest.fixture
def provider(both: tuple[Living, Provider]) -> Provider:
    provider = both[1]
    provider.does, provider.diary = done, []
    return provider


async def order(place: Living, workflow: str, **more: Any) -> str:
    """A job of ada's, brought to where the service takes it on."""
    params = WORKS[workflow][0] | ({"plan_revision": ids.fresh()} if workflow == "ss" else {})
    key = {"idempotency_key": ids.fresh()} | more
    job = await place.ada.submit(workflow, params=params, **key)
    assert job["status"] != WORKS[workflow][1], "nothing is worked on in the request"
    assert (job["started_at"], job["attempt"]) == (None, 0)
    path = f"/jobs/{job['id']}"
    steps: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "ss": [("draft", {"draft": "a table"}), ("confirm", {"confirmed": True})],
        "howera": [("confirm-upload", {"video_uri": "s3://v"}), ("run", {})],
    }
    for command, fields in steps.get(workflow, []):
        said = await place.ada.post(f"{path}/{command}", fields)
        assert said.status in (200, 202), said.raw
    return str(job["id"])


async def statuses(place: Living, job_id: str) -> list[str]:
    past = (await place.ada.get(f"/jobs/{job_id}/history")).json["history"]
    return [hop["to_status"] for hop in past]


@pytest.mark.parametrize("workflow", WORKS)
async def test_a_stage_is_called_when_the_file_says_so(
    place: Living, provider: Provider, workflow: str
) -> None:
    """I3 I20-I24 C22 C23 C25 S5 S6 S30 P2 P3 P28 H6 H9 H26: never in the request, never before the
    status of work and the running attempt are on the disk; once for each step, and then it is
    over, with what it made."""
    job_id = await order(place, workflow)
    job = await place.at(job_id, WORKS[workflow][2])
    steps = list(MADE) if workflow == "howera" else [WORKS[workflow][1]]
    assert provider.diary == [(job_id, status, "running") for status in steps]
    assert job["started_at"] >= job["created_at"]
    assert job["heartbeat_at"] is not None
    assert len((await place.ada.get(f"/jobs/{job_id}/assets")).json["assets"]) == len(steps)
    tried = (await place.ada.get(f"/jobs/{job_id}/attempts")).json["attempts"]
    assert [(one["state"], one["outcome"]) for one in tried] == [(one, "done") for one in steps]
    if job["kind"] == "final":
        assert (job["progress"], job["result"]) == (100, {"count": 1})
        assert job["completed_at"] is not None


@pytest.mark.parametrize("workflow", WORKS)
@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (RetryableFailure("PROVIDER_ERROR", "the provider says 503"), 3),
        (RetryableFailure("RATE_LIMITED", "slow down", retry_after_s=0.01), 3),
        (PermanentFailure("BAD_CODEC", "this is no video"), 1),
        (ZeroDivisionError("a bug"), 1),
    ],
    ids=["provider", "rate limit", "permanent", "bug"],
)
async def test_tries_are_counted_by_the_class_of_the_failure(
    place: Living, provider: Provider, workflow: str, error: Exception, tries: int
) -> None:
    """I6 I8 I9 I29-I33 C10 C30-C33 C42 S7 S31 S35 P5 P22 P29 H45-H51: what may work next time is
    tried three times in all, what will not is not tried again; each try is listed with its reason,
    each further one announced, and the job says why it ended."""
    provider.does = raises(error)
    job_id = await order(place, workflow)
    job = await place.at(job_id, WORKS[workflow][3])
    code = getattr(error, "code", "STAGE_CRASHED")
    bug = "the stage raised ZeroDivisionError; admins find where among the attempts"
    detail = getattr(error, "detail", bug)
    tried = (await place.ada.get(f"/jobs/{job_id}/attempts")).json["attempts"]
    assert len(provider.diary) == len(tried) == tries
    assert {(one["status"], one["outcome"], one["failure_code"]) for one in tried} == {
        ("ended", "failed", code)
    }
    assert {one["run_id"] for one in tried} == {job["run_id"] or tried[0]["run_id"]}
    assert (job["failure_code"], job["failure_message"]) == (code, detail)
    assert job["failed_stage"] == WORKS[workflow][1]
    assert job["correlation_id"]
    assert len(await place.heard(job_id, "job.failed")) == 1
    again = place.lines(job_id, "job.retry_scheduled")
    assert [line["attempt"] for line in again] == list(range(2, tries + 1))
    past = await statuses(place, job_id)
    visible = {"image-generation": tries, "howera": tries}.get(workflow, 1)
    assert past.count(WORKS[workflow][1]) == visible
    assert not (await place.ada.get("/credits")).json["held"]


@pytest.mark.parametrize("answer", ["DONE", None, {"to": "EDITING"}, Partial("half of it")])
async def test_a_stage_cannot_invent_a_way(
    place: Living, provider: Provider, answer: object
) -> None:
    """H9 H47: what a stage says is an outcome; where that leads, the lifecycle says. An outcome
    that a status does not know is a failure for good, along the declared way."""

    async def says(context: Context) -> object:
        return answer

    provider.does = says
    job_id = await order(place, "howera")
    job = await place.at(job_id, "FAILED")
    assert (job["failure_code"], job["failed_stage"]) == ("STAGE_CRASHED", "AUDIO_EXTRACTING")
    assert await statuses(place, job_id) == ["CREATED", "UPLOADED", "AUDIO_EXTRACTING", "FAILED"]


async def test_who_works_makes_no_difference_to_the_way(
    place: Living, provider: Provider, tmp_path: Path
) -> None:
    """H1 H9: stages in the house and an orchestrator outside leave the same history."""
    inside = await order(place, "howera")
    await place.at(inside, "DRAFT_READY")
    async with living(tmp_path) as elsewhere:
        outside = await order(elsewhere, "howera")
        past = await statuses(elsewhere, outside)
        ahead = (await statuses(place, inside))[len(past) :]
        for number, status in enumerate(ahead):
            assert (await elsewhere.told(outside, f"e{number}", status)).status == 204
        assert await statuses(elsewhere, outside) == await statuses(place, inside)


async def test_a_bug_in_a_stage_is_told_with_its_place(place: Living, provider: Provider) -> None:
    """P29 P40: with a trace in the log and in the attempt, though files were made before; the words
    of the exception are for admins alone, and the log has the places without them."""
    provider.does = raises(KeyError("no such style"))
    job_id = await order(place, "asset-pattern")
    job = await place.at(job_id, "failed")
    assert "KeyError" in job["failure_message"]
    (mine,) = (await place.ada.get(f"/jobs/{job_id}/attempts")).json["attempts"]
    assert "no such style" not in str((job, mine))
    (tried,) = (await place.admin.get(f"/jobs/{job_id}/attempts")).json["attempts"]
    assert "KeyError: 'no such style'" in "\n".join(tried["log"])
    assert tried["log"][0].startswith("Traceback")
    assert "test_at_work.py" in "\n".join(tried["log"])
    (line,) = await place.heard(job_id, "stage.crashed")
    assert (line["level"], line["state"], line["attempt"]) == ("error", "processing", 1)
    assert line["traceback"].startswith("Traceback")
    assert line["traceback"].endswith("KeyError")
    assert "no such style" not in str(line)


async def test_how_far_it_is_is_seen_while_it_works(place: Living, provider: Provider) -> None:
    """P15 P16 P20 P28: 25 to be read while it works, 100 at the end, no version in between."""
    gate = asyncio.Event()

    async def by_steps(context: Context) -> Done:
        await context.progress(25, "a quarter")
        await gate.wait()
        return await done(context)

    provider.does = by_steps
    job_id = await order(place, "asset-pattern")
    job = await place.at(job_id, "processing")
    for _ in range(30):
        job = (await place.ada.get(f"/jobs/{job_id}?wait=1&progress=1")).json
        if job["progress"]:
            break
    assert (job["progress"], job["progress_message"], job["version"]) == (25, "a quarter", 2)
    gate.set()
    assert (await place.at(job_id, "completed"))["progress"] == 100
    assert await statuses(place, job_id) == ["queued", "processing", "completed"]


async def test_steps_of_an_outside_worker(tmp_path: Path) -> None:
    """P19 P28: 0, 25, 50, 75 as they are told, the files before the end, then 100 and the count;
    what comes after is ignored with a warning."""
    async with living(tmp_path) as place:
        job = (await place.ada.submit("asset-pattern"))["id"]
        path = f"/jobs/{job}"
        assert (await place.worker.post(f"{path}/claim")).json["progress"] == 0
        for figure in (25, 50, 75):
            told = await place.worker.post(f"{path}/progress", {"progress": figure})
            assert (told.json["progress"], told.json["status"]) == (figure, "processing")
            assert (await place.ada.get(path)).json["progress"] == figure
        asset = {"asset_type": "image", "url": "https://cdn.example/1.png"}
        await place.told(job, "e1", "processing", assets=[asset])
        assert len((await place.ada.get(f"{path}/assets")).json["assets"]) == 1
        await place.told(job, "e2", "completed", result={"asset_count": 1})
        end = (await place.ada.get(path)).json
        assert (end["status"], end["progress"], end["result"]) == (
            "completed", 100, {"asset_count": 1},
        )  # fmt: skip
        late = await place.worker.post(f"{path}/progress", {"progress": 10})
        assert (late.status, late.json["progress"]) == (200, 100)
        (line,) = place.lines(job, "job.progress_ignored")
        assert (line["level"], line["status"]) == ("warning", "completed")
        tried = (await place.ada.get(f"{path}/attempts")).json["attempts"]
        assert [one["outcome"] for one in tried] == ["done"]


async def test_partly_done_in_the_house(place: Living, provider: Provider) -> None:
    """P4 P23 P39: the work itself says so."""

    async def partly(context: Context) -> Partial:
        whole = await done(context)
        return Partial("one of two inputs was broken", {"count": 1}, assets=whole.assets)

    provider.does = partly
    job = await place.at(await order(place, "asset-pattern"), "partial")
    assert (job["progress"], job["result"]) == (100, {"count": 1})
    assert job["failure_message"] == "one of two inputs was broken"


async def test_what_a_provider_refuses_is_paid_for_and_kept_on_record(
    place: Living, provider: Provider
) -> None:
    """I7 I11 I34-I36: rejected, not refunded, SAFE_BLOCK in the audit and in the log."""
    provider.does = raises(Rejected("NSFW", "the provider will not draw this"))
    before = (await place.ada.get("/credits")).json
    job_id = await order(place, "image-generation")
    job = await place.at(job_id, "rejected")
    assert (job["credits"], job["failure_code"]) == ({"cost": 1, "state": "captured"}, "NSFW")
    after = (await place.ada.get("/credits")).json
    assert (after["balance"], after["held"]) == (before["balance"] - 1, 0)
    ledger = (await place.ada.get("/credits/history?limit=2")).json["history"]
    assert [(row["kind"], row["job_id"]) for row in ledger] == [
        ("capture", job_id), ("hold", job_id),
    ]  # fmt: skip
    audit = (await place.admin.get("/admin/audit?limit=20")).json["audit"]
    (record,) = [row for row in audit if row["job_id"] == job_id]
    assert (record["event"], record["fields"]) == ("SAFE_BLOCK", {"phase": "provider"})
    assert len(await place.heard(job_id, "SAFE_BLOCK")) == 1


async def test_a_job_waits_for_its_provider_where_it_is(place: Living, provider: Provider) -> None:
    """C24 C26 C27: handed over and parked, ``processing`` all the while; the callback ends it."""

    async def hands_over(context: Context) -> AwaitCallback:
        return AwaitCallback("prediction-1", 60)

    provider.does = hands_over
    job_id = await order(place, "cutx", job_type="static_ad")
    job = await place.at(job_id, "processing")
    while job["deadline_at"] is None:
        job = (await place.ada.get(f"/jobs/{job_id}?wait=1", If_None_Match='"0"')).json
    assert (await statuses(place, job_id))[-1] == "processing"
    (tried,) = (await place.ada.get(f"/jobs/{job_id}/attempts")).json["attempts"]
    assert tried["status"] == "parked"
    asset = {"asset_type": "image", "url": "https://cdn.example/ad.png"}
    assert (await place.told(job_id, "e1", "completed", assets=[asset])).status == 204
    job = (await place.ada.get(f"/jobs/{job_id}")).json
    assert (job["status"], job["credits"]["state"]) == ("completed", "charged")
    assert await statuses(place, job_id) == ["pending", "queued", "processing", "completed"]


async def test_a_provider_that_says_nothing_more(place: Living, provider: Provider) -> None:
    """C12 C28: expired in its time, refunded, and not tried again by itself."""

    async def hands_over(context: Context) -> AwaitCallback:
        return AwaitCallback("prediction-2", 0.02)

    provider.does = hands_over
    before = (await place.ada.get("/credits")).json["balance"]
    job_id = await order(place, "cutx", job_type="ugc_video")
    job = await place.at(job_id, "expired")
    assert (job["kind"], job["credits"]["state"]) == ("settled", "refunded")
    assert (await place.ada.get("/credits")).json["balance"] == before
    assert (job["next_attempt_at"], job["deadline_at"]) == (None, None)
    late = await place.told(job_id, "late", "completed", result={"url": "x"})
    assert (late.status, late.code) == (409, "ILLEGAL_TRANSITION")
    assert len(provider.diary) == 1


@pytest.mark.parametrize(("workflow", "status"), [("cutx", "canceled"), ("howera", "CANCELLED")])
async def test_a_cancel_stops_the_work(
    place: Living, provider: Provider, workflow: str, status: str
) -> None:
    """C11 C29 H34 H35: the stage is stopped where it stands; a second cancel is too late."""
    began, stopped = asyncio.Event(), asyncio.Event()

    async def endless(context: Context) -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    provider.does = endless
    job_id = await order(place, workflow)
    with anyio.fail_after(120):
        await began.wait()
        said = await place.ada.post(f"/jobs/{job_id}/cancel")
        assert (said.status, said.json["status"]) == (200, status)
        await stopped.wait()
    again = await place.ada.post(f"/jobs/{job_id}/cancel")
    assert (again.status, again.code) == (409, "TERMINAL_STATE")
    (tried,) = (await place.ada.get(f"/jobs/{job_id}/attempts")).json["attempts"]
    assert (tried["status"], tried["outcome"]) == ("ended", "left")
    assert (await place.ada.get("/credits")).json["held"] == 0
