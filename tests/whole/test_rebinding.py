"""Stages that are bound otherwise from one start to the next, over HTTP and real restarts: all five
lifecycles, from outside to the house and from the house to outside, with a job in every state and
in every way in which one can rest there."""

import gzip
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner import Context, Done, Stage, app
from jobrunner.config.overrides import laid_over
from jobrunner.config.settings import Config, ServerSection, StoreSection, WorkflowSettings
from jobrunner.core.declaration.workflow import Workflow
from jobrunner.stages import Registry
from tests.http.serving import PLUGINS
from tests.standing import LIFECYCLES, Command, Post, Step, Transition
from tests.whole.process import OUTSIDE, Place, at_once, event, place, until

pytestmark = pytest.mark.anyio

IN_HOUSE = OUTSIDE.replace('"external"', '"trial.stand"')
AUDIO_MADE = f'{OUTSIDE}AUDIO_EXTRACTING = "trial.make"\n'
SPEECH_MADE = f'{AUDIO_MADE}TRANSCRIBING = "trial.make"\n'
PATIENT = """
per_user_active = {turns}
lag = 0
[workflows.image-generation.retry.running]
base = "1h"
cap = "1h"
[workflows.howera.retry.AUDIO_EXTRACTING]
base = "1h"
cap = "1h"
"""
WHY = {"failure_message": "not today"}
ONWARD = {
    "image-generation": {"queued": "running"},
    "cutx": {"pending": "processing", "queued": "processing"},
    "ss": {"queued": "running"},
    "asset-pattern": {"queued": "processing"},
    "howera": {},
}
STORED = Path(__file__).parents[1] / "store" / "stored" / "schema-2.db.gz"
MANY = 1_000
PASSED = ("AUDIO_READY", "TRANSCRIPT_READY")
STATES = [(name, state) for name, life in LIFECYCLES.items() for state in life.steps]


@pytest.fixture
async def home(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Place]:
    async with place(tmp_path, credits=500) as here:
        yield here


async def live(home: Place, bindings: str, turns: int = 200) -> None:
    """The next life, with these bindings; so many attempts may run in it."""
    configure(home, bindings, turns)
    await home.start()


def configure(home: Place, bindings: str, turns: int) -> None:
    head, _, quota = home.config.partition("[workflows.image-generation]")
    limits = f"active_jobs = {turns}\nfree_disk = 0\n"
    before = head.partition("[limits]")[0] + "[limits]\n" + limits
    quota = "[workflows.image-generation]\nquota = { open_jobs = 0, per_minute = 0 }\n"
    home.configure(before + PATIENT.format(turns=turns).lstrip() + quota + bindings)


def checked(home: Place, bindings: str) -> str:
    """What ``workflow check`` says of these bindings."""
    configure(home, bindings, 1)
    (home.folder / "config.toml").write_text(home.config)
    command = [sys.executable, "-m", "jobrunner", "workflow", "check", "--config", "config.toml"]
    done = subprocess.run(command, cwd=home.folder, capture_output=True, text=True, check=True)
    return done.stdout


async def stand(home: Place, workflow: str, state: str, **more: Any) -> str:
    """A new job of the admin's, which is taken there step by step."""
    first, *steps = LIFECYCLES[workflow].steps[state]
    assert isinstance(first, Post)
    number = len((await home.get("/jobs?limit=100"))["jobs"])
    params = first.params | ({"plan_revision": f"{number} {more}"} if workflow == "ss" else {})
    key = f"{workflow} {state} {number} {len(more)}".replace(" ", "-")
    job = await home.submit(
        workflow, job_type=first.job_type, params=params, idempotency_key=key, **more
    )
    for step in steps:
        said = await home.post(f"/jobs/{job['id']}/{path_of(step)}", body_of(step))
        assert said.status in (200, 202), (workflow, state, step, said)
    return str(job["id"])


def path_of(step: Step) -> str:
    match step:
        case Transition():
            return "transitions"
        case Command(name, _):
            return name
        case _:
            return "claim"


def body_of(step: Step) -> dict[str, Any]:
    match step:
        case Transition(to, report):
            return {"to": to, **report}
        case Command(_, fields):
            return fields
        case _:
            return {}


async def seen(home: Place, job_id: str) -> dict[str, Any]:
    """The job, with why it is not moving, and its history."""
    job: dict[str, Any] = await home.get(f"/jobs/{job_id}")
    job["why"] = await home.get(f"/jobs/{job_id}/explain")
    job["moves"] = await home.moves(job_id)
    return job


async def video(home: Place, *steps: str) -> str:
    """A film on its way, with files that the house made itself, as far as it goes by itself."""
    job_id = await stand(home, "howera", "UPLOADED")
    for step in steps:
        assert (await home.post(f"/jobs/{job_id}/{step}")).status == 202
    return job_id


def timers(job: dict[str, Any]) -> set[str]:
    return {timer["purpose"] for timer in job["why"]["timers"]}


# ---------------------------------------------------------------- to the house


async def test_from_outside_to_the_house(home: Place) -> None:
    """In every state: who rested goes on by itself, who was held stays held, the rest stays."""
    films = await films_halfway(home)
    await live(home, OUTSIDE)
    await home.user("worker", "workflow")
    jobs = {one: await stand(home, *one) for one in STATES if one not in films}
    for job_id in films.values():
        await home.post(f"/jobs/{job_id}/resume")
    by_hand, special = await moved_by_hand(home), await held_otherwise(home)
    known = jobs | films | by_hand | special
    before = {name: await seen(home, job_id) for name, job_id in known.items()}
    await home.stop()

    await live(home, IN_HOUSE)
    assert home.faults() == ()
    for (workflow, state), job_id in (jobs | films).items():
        kind = LIFECYCLES[workflow].kinds[state]
        was, target = before[workflow, state], ONWARD[workflow].get(state, "")
        target = {"AUDIO_READY": "TRANSCRIBING", "TRANSCRIPT_READY": "GENERATING"}.get(
            state, target
        )
        claimed = kind == "active" and "lease" in timers(was)
        if target or (kind == "active" and not claimed):
            await runs_here(home, job_id, target or state, was)
        else:
            assert await seen(home, job_id) == was | {"why": await why_now(home, job_id, was)}
    for (moved, state), job_id in by_hand.items():
        await runs_here(home, job_id, state, before[moved, state])
    await those_held_otherwise(home, special, before)
    await home.stop()
    assert home.faults() == ()


async def films_halfway(home: Place) -> dict[tuple[str, str], str]:
    """With the sound, and with its text, as files that verify; the second run is an
    orchestrator's. They are paused meanwhile."""
    await live(home, AUDIO_MADE)
    await home.user("conductor", "workflow")
    first = await video(home)
    called = event("first", "AUDIO_EXTRACTING", 1)
    said = await home.post(f"/internal/jobs/{first}/status", called, "conductor")
    assert said.status == 204, said
    await home.at(first, "AUDIO_READY")
    await home.post(f"/jobs/{first}/pause")
    await home.stop()
    await live(home, SPEECH_MADE)
    second = await video(home, "run")
    await home.at(second, "TRANSCRIPT_READY")
    await home.post(f"/jobs/{second}/pause")
    await home.stop()
    return {("howera", "AUDIO_READY"): first, ("howera", "TRANSCRIPT_READY"): second}


async def why_now(home: Place, job_id: str, was: dict[str, Any]) -> Any:
    """Nothing of it is any different, but what stage would come."""
    now = await home.get(f"/jobs/{job_id}/explain")
    return was["why"] | {"binding": now["binding"]}


async def runs_here(home: Place, job_id: str, state: str, was: dict[str, Any]) -> None:
    """It went on by itself: the attempt that waited, or the one behind, is at work."""
    await home.at(job_id, state)
    job = await until_running(home, job_id)
    assert job["why"]["attempt"]["runs"] == "here"
    assert job["why"]["waits_for"] == f"stage to finish {state}"
    assert not {"deadline", "lease", "lapse"} & timers(job)
    assert (job["run_id"], job["credits"]) == (was["run_id"], was["credits"])
    hops = [move["to_status"] for move in job["moves"][len(was["moves"]) :]]
    assert hops == ([] if state == was["status"] else [state])


async def until_running(home: Place, job_id: str) -> dict[str, Any]:
    for _ in range(400):
        job = await seen(home, job_id)
        attempt = job["why"]["attempt"]
        if attempt and attempt["status"] == "running":
            return job
        await home.get(f"/jobs/{job_id}?wait=1&progress=1")
    raise AssertionError(f"it does not run: {job}")


async def moved_by_hand(home: Place) -> dict[tuple[str, str], str]:
    """Where a claim usually brings a job, and nobody has claimed it."""
    jobs = {}
    for workflow, queues in ONWARD.items():
        for queue, state in queues.items():
            job_id = await stand(home, workflow, queue)
            moved = await home.post(f"/jobs/{job_id}/transitions", {"to": state})
            assert moved.status == 200, moved
            jobs[f"{workflow} {queue} by hand", state] = job_id
    return jobs


async def held_otherwise(home: Place) -> dict[tuple[str, str], str]:
    """Claimed, entered by an orchestrator's callback, in backoff, paused, and for later."""
    claimed = await stand(home, "asset-pattern", "queued")
    assert (await home.post(f"/jobs/{claimed}/claim", {}, "worker")).status == 200
    moved = await stand(home, "image-generation", "queued")
    called = event("moved", "running", 1)
    assert (await home.post(f"/internal/jobs/{moved}/status", called, "worker")).status == 204
    failed = await stand(home, "howera", "AUDIO_EXTRACTING")
    gone = await home.event(
        failed, "AUDIO_EXTRACTING", 1, **WHY, failure_code="X", failed_stage="AUDIO_EXTRACTING"
    )
    assert gone.status == 204, gone
    paused = await stand(home, "cutx", "queued")
    assert (await home.post(f"/jobs/{paused}/pause")).status == 200
    later = await stand(home, "asset-pattern", "queued", run_at="2099-01-01T00:00:00Z")
    return {("as it is", "claimed"): claimed, ("as it is", "moved"): moved,
            ("as it is", "backoff"): failed, ("as it is", "paused"): paused,
            ("as it is", "later"): later}  # fmt: skip


async def those_held_otherwise(
    home: Place, jobs: dict[tuple[str, str], str], before: dict[Any, dict[str, Any]]
) -> None:
    claimed = jobs["as it is", "claimed"]
    job = await seen(home, claimed)
    assert job["why"]["waits_for"] == "worker to finish processing"
    assert job["why"]["attempt"]["runs"] == "outside"
    said = await home.post(f"/jobs/{claimed}/transitions", {"to": "completed"}, "worker")
    assert (said.status, said.body["status"]) == (200, "completed"), said
    moved = jobs["as it is", "moved"]
    await runs_here(home, moved, "running", before["as it is", "moved"])
    late = await home.post(f"/jobs/{moved}/transitions", {"to": "completed"}, "worker")
    assert late.code == "JOB_ALREADY_RUNNING", late
    for name in ("backoff", "later"):
        was, now = before["as it is", name], await seen(home, jobs["as it is", name])
        assert (now["status"], now["next_attempt_at"]) == (was["status"], was["next_attempt_at"])
        assert (now["scheduled_at"], now["why"]["waits_for"]) == (
            was["scheduled_at"], was["why"]["waits_for"],
        )  # fmt: skip
    paused = jobs["as it is", "paused"]
    assert (await home.get(f"/jobs/{paused}"))["status"] == "queued"
    await home.post(f"/jobs/{paused}/resume")
    await runs_here(home, paused, "processing", before["as it is", "paused"])


# ---------------------------------------------------------------- to outside


async def test_from_the_house_to_outside(home: Place) -> None:
    """In line or at work when the service dies: up for a claim, with the clock of the state, in
    every state where somebody is to work; claimed, paused or ended, as it was."""
    await live(home, OUTSIDE)
    await home.user("worker", "workflow")
    jobs = {one: await stand(home, *one) for one in STATES if one[1] not in PASSED}
    by_hand = await moved_by_hand(home)
    before = {name: await seen(home, job_id) for name, job_id in (jobs | by_hand).items()}
    await home.stop()
    await live(home, IN_HOUSE, turns=1)
    assert "a free slot in this service" in await last_in_line(home, jobs)
    await home.kill()

    said = checked(home, OUTSIDE)
    ahead = "trial.stand at the last start, external from the next one on"
    assert f"processing of generation: {ahead} (2 jobs there)" in said
    assert f"TRANSCRIBING of video: {ahead} (1 job there)" in said
    await live(home, OUTSIDE)
    assert home.faults() == ()
    for name, job_id in (jobs | by_hand).items():
        was, job = before[name], await seen(home, job_id)
        if job["kind"] not in ("queued", "active") or "lease" in timers(was):
            assert (job["status"], job["version"]) == (was["status"], was["version"])
            assert job["why"]["waits_for"] == was["why"]["waits_for"]
        else:
            await is_free(home, job)
    changed = home.log("binding.changed")
    assert {(line["was"], line["stage"]) for line in changed} == {("trial.stand", "external")}
    await home.stop()
    assert home.faults() == ()

    said = checked(home, OUTSIDE)
    assert "TRANSCRIBING of video: external, trial.stand before (1 job brought along)" in said
    await live(home, OUTSIDE)
    assert home.log("binding.changed") == [], "nothing is different from the last start"


async def last_in_line(home: Place, jobs: dict[tuple[str, str], str]) -> str:
    """Why the job that was made last does not begin."""
    waiting = [await seen(home, job_id) for job_id in jobs.values()]
    line = [job for job in waiting if "queue_position" in job["why"]]
    assert len(line) >= len(ONWARD), "hardly anybody is in line"
    return str(max(line, key=lambda job: job["why"]["queue_position"])["why"]["waits_for"])


async def is_free(home: Place, job: dict[str, Any]) -> None:
    """Anybody outside can take it, who asks for it or for any."""
    assert job["why"]["waits_for"].startswith("an outside worker to claim"), job
    assert "queue_position" not in job["why"]
    assert ("deadline" in timers(job)) == (job["kind"] == "active")
    assert job["why"]["binding"]["stage"] == "external"
    assert job["why"]["binding"]["was"] == "trial.stand"
    asked = {"workflow": job["workflow"], "status": job["status"], "max": 1}
    found = (await home.post("/internal/claims", asked, "worker")).body["claims"]
    assert found, f"nobody finds {job['workflow']} {job['status']}"
    if found[0]["job"]["id"] != job["id"]:
        assert (await home.post(f"/jobs/{job['id']}/claim", {}, "worker")).status in (200, 409)
    now = await home.get(f"/jobs/{job['id']}/explain")
    assert now["waits_for"].startswith("worker to finish")


# ---------------------------------------------------------------- killed in the middle


async def test_killed_in_the_middle_of_it(home: Place) -> None:
    """Again and again, between one binding and the other: what was brought is brought, what was not
    is brought by the next start, also when that one binds as before."""
    await live(home, OUTSIDE)
    makes = [partial(home.post, "/jobs", {"workflow": "asset-pattern"})] * 20
    for _ in range(MANY // len(makes)):
        assert {said.status for said in await at_once(makes)} == {201}
    await home.stop()
    halves = []
    for bindings in (IN_HOUSE, OUTSIDE, IN_HOUSE, OUTSIDE):
        configure(home, bindings, turns=1)
        home.spawn()
        await until(lambda: under_way(home) or bool(home.log("service.ready")))
        await home.kill()
        assert home.faults() == ()
        halves.append(0 < in_line(home) < MANY)
    assert any(halves), "no start was killed in the middle"

    await live(home, IN_HOUSE, turns=1)
    await home.kill()
    assert home.faults() == ()
    assert in_line(home) >= MANY - 1, "one of them may be at work"
    await live(home, OUTSIDE)
    assert in_line(home) == 0
    asked = {"workflow": "asset-pattern", "max": 100}
    assert len((await home.post("/internal/claims", asked)).body["claims"]) == 100


def under_way(home: Place) -> bool:
    """A binding is being changed, and some jobs have heard of it."""
    return told(home, "SELECT count(*) FROM bindings WHERE settled = 0") > 0 and (
        0 < in_line(home) < MANY
    )


def in_line(home: Place) -> int:
    return told(home, "SELECT count(*) FROM jobs WHERE line_at IS NOT NULL")


def told(home: Place, question: str) -> int:
    with closing(sqlite3.connect(f"file:{home.database}?mode=ro", uri=True)) as db:
        (count,) = db.execute(question).fetchone()
    return int(count)


# ---------------------------------------------------------------- a file of before


async def test_a_file_that_never_knew_of_bindings(tmp_path: Path) -> None:
    """As schema 2 left it, with declarations of its time: nobody can tell what was bound then, so
    each job that rests there is looked at, once."""
    unpack(tmp_path)
    for expected in (True, False):
        logged: list[dict[str, Any]] = []
        async with app.running(config_in(tmp_path), into(logged), registry=standing()) as service:
            brought = [line for line in logged if line["event"] == "binding.changed"]
            assert bool(brought) == expected
            if expected:
                places = {(one["workflow"], one["status"]): one["jobs"] for one in brought}
                assert places["image-generation", "queued"] == 1
                assert places["cutx", "queued"] == places["ss", "queued"] == 1
                assert places["howera", "AUDIO_EXTRACTING"] == 1
            assert await service.store.check() == ()


async def test_a_job_that_cannot_be_read_holds_up_no_other(tmp_path: Path) -> None:
    unpack(tmp_path)
    with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as db:
        whose = "workflow = 'cutx' AND status = 'queued'"
        db.execute(f"UPDATE jobs SET rest = json_set(rest, '$.run', 5) WHERE {whose}")
    logged: list[dict[str, Any]] = []
    async with app.running(config_in(tmp_path), into(logged), registry=standing()):
        brought = [line for line in logged if line["event"] == "binding.changed"]
        places = {(one["workflow"], one["status"]): one["jobs"] for one in brought}
        assert ("cutx", "queued") not in places
        assert places["ss", "queued"] == places["cutx", "pending"] == 1


def unpack(folder: Path) -> None:
    with gzip.open(STORED) as packed, (folder / "jobs.db").open("wb") as file:
        shutil.copyfileobj(packed, file)


def config_in(folder: Path) -> Config:
    store = StoreSection(path=str(folder / "jobs.db"), assets=str(folder / "assets"))
    return Config(server=ServerSection(port=0, drain_seconds=0), store=store)


def into(lines: list[dict[str, Any]]) -> Callable[..., None]:
    def log(event: str, level: str = "info", **fields: Any) -> None:
        lines.append({"event": event, **fields})

    return log


async def stands(ctx: Context[object]) -> Done:
    await anyio.sleep_forever()
    return Done()


def standing() -> Registry:
    """The five, with a stage in every state that stays at work."""
    bound = WorkflowSettings(stages={"*": "test.stands"})

    def overlay(workflow: Workflow) -> tuple[Workflow, tuple[str, ...]]:
        return laid_over(workflow, bound)

    registry = Registry(overlay)
    registry.add(Stage("test.stands", stands))
    for name in PLUGINS:
        registry.add(import_module(f"jobrunner_{name}").definition)
    assert not registry.refused["workflows"], registry.refused["workflows"]
    return registry
