"""The howera lifecycle: runs and their lock, resuming, retries, failing and cancelling."""

import pytest
from msgspec.structs import replace

from jobrunner.core.decision import Decision, StopStage
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.job import Actor, Failure
from jobrunner.core.messages import Ended, Recovered, Report
from tests.driving import ADA, ADMIN, WORKER, World, bound, code, varied
from tests.plugins.howera_arranged import (
    AT_REST,
    BAD_CODEC,
    BY_CALLBACK,
    OPEN,
    RETRYABLE,
    STATUSES,
    TIMEOUT,
    WHY,
    a_file,
    answer,
    at,
    audio_extracting,
    audio_ready,
    created,
    definition,
    draft_ready,
    editing,
    refused,
    uploaded,
)


@pytest.fixture
def world() -> World:
    return World(definition)


@pytest.mark.parametrize("actor", [ADA, ADMIN])
def test_run_takes_the_lock(world: World, actor: Actor) -> None:
    """H26 H52 H53: one commit has status, run, lock and attempt; the repeat names the same run."""
    job_id = uploaded(world)
    said = world.do(job_id, "run", actor)
    job = world.jobs[job_id]
    lock = job.lock("pipeline")
    assert job.run is not None
    assert lock is not None
    assert (job.run.opened_by, lock.run_id) == ("run", job.run_id)
    assert answer(said)["run_id"] == job.run_id
    again = world.do(job_id, "run")
    assert answer(again) == {"replayed": True, "run_id": job.run_id}
    assert world.jobs[job_id] is job


@pytest.mark.parametrize("status", BY_CALLBACK)
@pytest.mark.parametrize("how", ["callback", "hand"])
def test_run_beside_an_orchestrator(world: World, how: str, status: str) -> None:
    """H52 H53 H-r13 H-r14: whoever began owns the pipeline."""
    job_id = created(world)
    for to in BY_CALLBACK[status]:
        world.move(job_id, to, WORKER if how == "callback" else ADMIN)
    job = world.jobs[job_id]
    said = refused(world.do(job_id, "run"))
    assert (said.code, said.extra["run_id"]) == ("JOB_ALREADY_RUNNING", job.run_id)
    assert world.jobs[job_id] is job


@pytest.mark.parametrize("status", STATUSES)
def test_lock_is_held_where_it_should_be(world: World, status: str) -> None:
    """H53 H-r19: from the first stage to the draft, and again for an export; nowhere else."""
    job = at(world, status)
    held = (*STATUSES[3:8], "EXPORTING")
    assert (job.lock("pipeline") is not None) == (status in held)
    assert (job.lock("regenerate") is not None) == (status == "REGENERATING")


def test_export_is_a_run_of_its_own(world: World) -> None:
    """H31 H53 H-r19: a fresh hold, freed when it fails."""
    job_id = editing(world)
    first = world.jobs[job_id].run_id
    run_id = answer(world.do(job_id, "export", format="PDF"))["run_id"]
    lock = world.jobs[job_id].lock("pipeline")
    assert lock is not None
    assert lock.run_id == run_id != first
    world.callback(job_id, "e1", "EDITING")
    assert world.jobs[job_id].locks == ()


def test_late_word_of_an_older_run(world: World) -> None:
    """H13 H52: a report that names a run which is over is refused."""
    job_id = audio_ready(world)
    old = world.jobs[job_id].run_id
    world.fire(job_id, "lapse")
    world.do(job_id, "run")
    job = world.jobs[job_id]
    said = refused(world.callback(job_id, "e9", "TRANSCRIPT_READY", run_id=old))
    assert (said.code, said.extra["run_id"]) == ("STALE_RUN", job.run_id)
    assert world.jobs[job_id] is job
    assert code(world.callback(job_id, "e9", "TRANSCRIPT_READY", run_id=job.run_id)) == "moved"


@pytest.mark.parametrize(
    ("status", "onward"), [("AUDIO_READY", "TRANSCRIBING"), ("TRANSCRIPT_READY", "GENERATING")]
)
def test_silent_orchestrator_lapses(world: World, status: str, onward: str) -> None:
    """H38 H39 H42 H65 H-r14: after half an hour the run is closed and the status stays; `run`
    resumes behind the checkpoint, under a new run, and no earlier stage is entered again."""
    job_id = AT_REST[status](world)
    before, since = world.jobs[job_id], world.now
    assert code(world.do(job_id, "run")) == "replayed"
    world.fire(job_id, "lapse")
    assert world.now - since >= 1_800_000
    job = world.jobs[job_id]
    assert (job.status, job.live, job.locks) == (status, False, ())
    said = world.do(job_id, "run")
    assert isinstance(said, Decision)
    assert (said.status, [hop.to_status for hop in said.hops]) == (202, [onward])
    assert answer(said)["run_id"] == world.jobs[job_id].run_id != before.run_id
    assert world.path(job_id).count("AUDIO_EXTRACTING") == 1


def test_orchestrator_may_come_back(world: World) -> None:
    """H52: after a lapse its next callback opens a run of its own."""
    job_id = audio_ready(world)
    world.fire(job_id, "lapse")
    world.callback(job_id, "e9", "TRANSCRIBING")
    run = world.jobs[job_id].run
    assert run is not None
    assert (run.opened_by, run.live) == ("callback", True)


def test_resume_at_the_draft_opens_the_editor(world: World) -> None:
    """H40 H-r17: nothing is generated; the draft is what it was."""
    job_id = draft_ready(world)
    before = world.jobs[job_id]
    assert code(world.do(job_id, "run")) == "moved"
    job = world.jobs[job_id]
    assert (job.status, job.live) == ("EDITING", False)
    assert job.artifacts == before.artifacts


def test_artifacts_are_never_lost(world: World) -> None:
    """H43 H44 H60 H-r28: a value said again is no news, another one is a new version."""
    job_id = audio_extracting(world)
    world.callback(job_id, "e1", "AUDIO_EXTRACTING", artifacts={"audio_uri": "a", "metrics": {}})
    world.callback(job_id, "e2", "AUDIO_READY", artifacts={"audio_uri": "b", "metrics": None})
    artifacts = world.jobs[job_id].artifacts
    assert (artifacts["audio_uri"].version, artifacts["audio_uri"].value) == (2, "b")
    assert artifacts["metrics"].value == {}
    assert "video_uri" in artifacts


def test_ready_without_its_artifact(world: World) -> None:
    """H6 H41 H-r27: accepted from an orchestrator, whose word it is."""
    job_id = audio_extracting(world)
    assert code(world.callback(job_id, "e1", "AUDIO_READY")) == "moved"
    assert world.jobs[job_id].value("audio_uri") is None


def house() -> World:
    return World(bound(definition))


def test_pipeline_in_the_house() -> None:
    """H1 H6 H9 H26 H52: one `run`, and each stage follows the other by itself; each next one is
    lined up in the commit that ends the one before."""
    world = house()
    job_id = audio_extracting(world)
    run_id = world.jobs[job_id].run_id
    for name, onward in (("audio", "TRANSCRIBING"), ("transcript", "GENERATING")):
        assert code(world.start(job_id)) == "noted"
        assert code(world.ended(job_id, "done", **a_file(name))) == "moved"
        job = world.jobs[job_id]
        assert (job.status, job.run_id, job.line_at) == (onward, run_id, world.now)
    world.start(job_id)
    world.ended(job_id, "done", **a_file("draft"))
    job = world.jobs[job_id]
    assert (job.status, job.live, job.locks, job.line_at) == ("DRAFT_READY", False, (), None)
    assert world.path(job_id)[2:] == list(STATUSES[3:9])


@pytest.mark.parametrize("status", RETRYABLE)
def test_stage_must_leave_its_file(world: World, status: str) -> None:
    """H6 H47: `done` without the artifact is a bad answer, and those are not repeated."""
    job_id = AT_REST[status](world)
    world.definition = bound(definition)
    world.fire(job_id, "deadline")
    world.fire(job_id, "backoff")
    world.start(job_id)
    world.ended(job_id, "done")
    job = world.jobs[job_id]
    assert (job.status, job.failure_code, job.failed_stage) == ("FAILED", "RESULT_MISSING", status)


def test_callback_that_hands_over_to_the_house(world: World) -> None:
    """H38 H41 H47: nobody's word makes a stage of ours begin on a file that is not there."""
    job_id = audio_ready(world)
    world.fire(job_id, "lapse")
    world.definition = bound(definition)
    world.callback(job_id, "e9", "TRANSCRIBING")
    job = world.jobs[job_id]
    assert (job.status, job.failure_code) == ("FAILED", "CORRUPT_INPUT")


def test_callback_into_work_of_our_own() -> None:
    """H52 H53: refused, while a cancel or a failure from outside is heard."""
    world = house()
    job_id = audio_extracting(world)
    world.start(job_id)
    for to in ("AUDIO_EXTRACTING", "AUDIO_READY"):
        told = refused(world.callback(job_id, "e1", to, artifacts={"audio_uri": "x"}))
        assert told.code == "JOB_ALREADY_RUNNING"
        assert told.extra["run_id"] == world.jobs[job_id].run_id
    said = world.callback(job_id, "e1", "FAILED", **WHY)
    assert isinstance(said, Decision)
    assert StopStage(1) in said.effects


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("status", "name", "onward"),
    [("AUDIO_READY", "audio", "TRANSCRIBING"), ("TRANSCRIPT_READY", "transcript", "GENERATING")],
)
def test_resume_wants_its_input_whole(
    world: World, status: str, name: str, onward: str, whole: bool
) -> None:
    """H38 H39 H41 H47 H51 H-r15 H-r16: resumed in the house, a stage begins with a file that reads
    back as recorded, or the job fails as CORRUPT_INPUT at once, naming the stage to come."""
    job_id = AT_REST[status](world)
    world.fire(job_id, "lapse")
    job = world.jobs[job_id]
    found = replace(job.artifacts[f"{name}_uri"], asset=f"asset-{name}")
    world.jobs[job_id] = replace(job, artifacts={**job.artifacts, f"{name}_uri": found})
    if whole:
        world.assets += [(job_id, asset) for asset in a_file(name)["assets"]]
    world.definition = bound(definition)
    assert code(world.do(job_id, "run")) == "moved"
    job = world.jobs[job_id]
    if whole:
        assert (job.status, job.locks[0].scope) == (onward, "pipeline")
        return
    assert (job.status, job.failure_code) == ("FAILED", "CORRUPT_INPUT")
    assert (job.failed_stage, job.retry_count) == (onward, 0)
    assert job.correlation_id


def test_word_from_outside_is_no_file_of_ours(world: World) -> None:
    """H41 H-r16: an address that an orchestrator gave does not count for a stage in the house, not
    even with an asset that the same callback speaks of."""
    world.definition = varied_house("AUDIO_EXTRACTING")
    job_id = audio_extracting(world)
    world.callback(job_id, "e1", "AUDIO_READY", **a_file("audio"))
    job = world.jobs[job_id]
    assert (job.status, job.failure_code) == ("FAILED", "CORRUPT_INPUT")


def varied_house(*outside: str) -> Definition:
    """Everything bound in the house but these states."""
    inside = bound(definition).workflow.states
    states = (definition.states[one.name] if one.name in outside else one for one in inside)
    return varied(definition, states=tuple(states))


def test_verified_work_is_not_done_again() -> None:
    """H38 H-r15: what a stage would make is there and whole, so the stage is passed over, with an
    attempt that says so and every edge of the table walked."""
    world = house()
    job_id = uploaded(world)
    job = world.jobs[job_id]
    made = replace(job.artifacts["video_uri"], name="audio_uri", asset="asset-audio")
    world.jobs[job_id] = replace(job, artifacts={**job.artifacts, "audio_uri": made})
    world.assets += [(job_id, asset) for asset in a_file("audio")["assets"]]
    said = world.do(job_id, "run")
    assert isinstance(said, Decision)
    assert [hop.to_status for hop in said.hops] == [
        "AUDIO_EXTRACTING",
        "AUDIO_READY",
        "TRANSCRIBING",
    ]
    assert [one.outcome for one in said.attempts] == ["skipped", ""]


@pytest.mark.parametrize("status", RETRYABLE)
def test_reported_failures_spend_the_budget(world: World, status: str) -> None:
    """H24 H25 H45 H48 H49 H-r29: twice the same stage again, each time an edge and an event; the
    third failure takes the self edge and FAILED in one commit."""
    job_id = AT_REST[status](world)
    why = {**WHY, "failed_stage": status}
    for count in (1, 2):
        said = world.callback(job_id, f"r{count}", status, **why)
        assert isinstance(said, Decision)
        assert [(hop.from_status, hop.to_status) for hop in said.hops] == [(status, status)]
        job = world.jobs[job_id]
        assert (job.retry_count, job.attempts, job.failure_code) == (count, count + 1, None)
        assert len(world.logged(job_id, "job.retry_scheduled")) == count
    said = world.callback(job_id, "r3", status, **why)
    assert isinstance(said, Decision)
    assert [hop.to_status for hop in said.hops] == [status, "FAILED"]
    job = world.jobs[job_id]
    assert (job.failure_code, job.failure_message) == ("BAD_CODEC", "the video cannot be read")
    assert (job.failed_stage, job.correlation_id, job.locks) == (status, job.run_id, ())


@pytest.mark.parametrize("status", RETRYABLE)
def test_reentry_without_a_failure_is_free(world: World, status: str) -> None:
    """H24 H25 H-r20 H-r29: a sign of life, as often as it likes; own reports are no contention."""
    job_id = AT_REST[status](world)
    for count in range(5):
        assert code(world.callback(job_id, f"r{count}", status)) == "moved"
    job = world.jobs[job_id]
    assert (job.status, job.retry_count, job.attempts) == (status, 0, 1)


@pytest.mark.parametrize("status", RETRYABLE)
def test_permanent_failure_reported(world: World, status: str) -> None:
    """H47 H50: no further try."""
    job_id = AT_REST[status](world)
    world.callback(job_id, "r1", status, **{**WHY, "failed_stage": status, "retryable": False})
    assert world.path(job_id)[-2:] == [status, "FAILED"]


@pytest.mark.parametrize(("failure", "tries"), [(TIMEOUT, 3), (BAD_CODEC, 1)])
def test_failing_stage(failure: Failure, tries: int) -> None:
    """H45-H51: retryable with backoff and a logged edge each, then FAILED alone; permanent at once;
    the four fields are there either way."""
    world = house()
    job_id = audio_extracting(world)
    for count in range(1, tries + 1):
        world.start(job_id)
        said = world.ended(job_id, "failed", failure)
        assert isinstance(said, Decision)
        last = count == tries
        assert [hop.to_status for hop in said.hops] == ["FAILED" if last else "AUDIO_EXTRACTING"]
        if not last:
            assert world.jobs[job_id].line_at is None
            world.fire(job_id, "backoff")
    job = world.jobs[job_id]
    assert (job.status, job.failure_code, job.failed_stage) == (
        "FAILED",
        failure.code,
        "AUDIO_EXTRACTING",
    )
    assert job.correlation_id == job.run_id
    assert len(world.logged(job_id, "job.retry_scheduled")) == tries - 1


def test_rate_limit_is_waited_for() -> None:
    """H45 H46: what the provider asks for is what is waited, when that is longer."""
    world = house()
    job_id = audio_extracting(world)
    world.start(job_id)
    world.ended(job_id, "failed", Failure("RATE_LIMITED", "slower", retry_after_s=120))
    timer = world.jobs[job_id].timer("backoff")
    assert timer is not None
    assert timer.due_at == world.now + 120_000


def test_budget_is_per_stage() -> None:
    """H48: two failures of the first stage leave the second its three attempts."""
    world = house()
    job_id = audio_extracting(world)
    for _ in range(2):
        world.start(job_id)
        world.ended(job_id, "failed", TIMEOUT)
        world.fire(job_id, "backoff")
    world.start(job_id)
    world.ended(job_id, "done", **a_file("audio"))
    for _ in range(2):
        world.start(job_id)
        world.ended(job_id, "failed", TIMEOUT)
        assert world.jobs[job_id].status == "TRANSCRIBING"
        world.fire(job_id, "backoff")


def test_crash_spends_nothing() -> None:
    """H1 H48: the attempt that died with the process is followed by another, in place."""
    world = house()
    job_id = audio_extracting(world)
    world.start(job_id)
    hops = len(world.hops)
    world.tell(job_id, Recovered())
    job = world.jobs[job_id]
    assert (job.status, job.retry_count, job.attempts) == ("AUDIO_EXTRACTING", 0, 2)
    assert len(world.hops) == hops


@pytest.mark.parametrize("status", RETRYABLE)
def test_stage_outside_runs_out_of_time(world: World, status: str) -> None:
    """H45 H48 H49: a deadline is a retryable failure; three of them are the end."""
    job_id = AT_REST[status](world)
    for _ in range(3):
        assert world.jobs[job_id].status == status
        world.fire(job_id, "deadline")
    job = world.jobs[job_id]
    assert (job.status, job.failure_code) == ("FAILED", "STAGE_TIMEOUT")


@pytest.mark.parametrize("missing", sorted(WHY))
def test_failure_needs_its_fields(world: World, missing: str) -> None:
    """H51 H59 H-r12: each of the three is wanted."""
    job = at(world, "TRANSCRIBING")
    partly = {name: value for name, value in WHY.items() if name != missing}
    for said in (world.callback(job.id, "e1", "FAILED", **partly), world.move(job.id, "FAILED")):
        assert (refused(said).code, refused(said).status) == ("VALIDATION_ERROR", 400)
    assert world.jobs[job.id] is job


@pytest.mark.parametrize("stage", ["EDITING", "CREATED", "nowhere"])
def test_failed_stage_is_a_stage(world: World, stage: str) -> None:
    """H51"""
    job = at(world, "TRANSCRIBING")
    said = world.callback(job.id, "e1", "FAILED", **{**WHY, "failed_stage": stage})
    assert refused(said).code == "VALIDATION_ERROR"


@pytest.mark.parametrize("status", OPEN)
def test_operator_gives_up(world: World, status: str) -> None:
    """H36 H51: from every state that is not final; audited, locks and timers gone."""
    job_id = AT_REST[status](world)
    world.do(job_id, "fail", ADMIN, **WHY)
    job = world.jobs[job_id]
    assert (job.status, job.locks, job.timers, job.attempt) == ("FAILED", (), (), None)
    assert (job.failure_code, job.failure_message, job.failed_stage) == tuple(WHY.values())
    assert job.correlation_id
    assert "job.fail" in [record.event for record in world.audited(job_id)]


@pytest.mark.parametrize("status", OPEN)
def test_cancel_frees_everything(world: World, status: str) -> None:
    """H33-H35 H-r21 H-r22: from everywhere; attempt, locks, timers and run are over; what comes
    later is refused and merges nothing."""
    job_id = AT_REST[status](world)
    world.do(job_id, "cancel")
    job = world.jobs[job_id]
    assert (job.status, job.locks, job.timers, job.attempt, job.live) == (
        "CANCELLED",
        (),
        (),
        None,
        False,
    )
    late = world.callback(job_id, "late", "AUDIO_READY", artifacts={"audio_uri": "late"})
    assert refused(late).code == "TERMINAL_STATE"
    assert code(world.do(job_id, "cancel")) == "TERMINAL_STATE"
    assert world.jobs[job_id] is job


def test_cancel_stops_the_stage() -> None:
    """H35: whoever works in the house is told to stop, and its result is late."""
    world = house()
    job_id = audio_extracting(world)
    world.start(job_id)
    said = world.do(job_id, "cancel")
    assert isinstance(said, Decision)
    assert said.effects == (StopStage(1),)
    job = world.jobs[job_id]
    late = Ended(1, "done", Report(**a_file("audio")))
    assert code(world.tell(job_id, late)) == "late_result"
    assert world.jobs[job_id] is job


@pytest.mark.parametrize("status", ["CREATED", "UPLOADING"])
def test_cleanup_of_what_was_never_uploaded(status: str) -> None:
    """H34: off by default; switched on, the timer cancels."""
    world = World(definition)
    assert at(world, status).timers == ()
    states = tuple(
        replace(one, deadline=replace(one.deadline, after_s=60))
        if one.name in ("CREATED", "UPLOADING") and one.deadline
        else one
        for one in definition.workflow.states
    )
    world = World(varied(definition, states=states))
    job_id = AT_REST[status](world)
    world.fire(job_id, "deadline")
    assert world.jobs[job_id].status == "CANCELLED"
