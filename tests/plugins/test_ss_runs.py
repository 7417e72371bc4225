"""The ss lifecycle: freezing, agreeing, running, retrying."""

from typing import Any

import pytest
from msgspec.structs import replace

from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.job import Actor, Failure
from jobrunner.core.messages import Edit, Recovered
from jobrunner.errors import Refused
from tests.driving import ADA, ADMIN, WORKER, World, bound, code
from tests.plugins.ss_arranged import (
    CORRUPT,
    MOVES,
    QUESTIONS,
    STATUSES,
    TIMEOUT,
    WORDS,
    answer,
    at,
    definition,
    draft_ready,
    queued,
    refused,
    running,
)


@pytest.fixture
def world() -> World:
    return World(definition)


def test_plan_covers_what_was_agreed(world: World) -> None:
    """S33: fingerprint, normalised requirement, answers and the draft's version; the id is a digest
    of them all."""
    job_id = draft_ready(world)
    plan = answer(world.do(job_id, "freeze-plan", answers={"year": 2024}))
    assert plan["fingerprint"] == "f1"
    assert plan["requirement"] == "Sum the sales by region"
    assert plan["answers"] == {"year": 2024}
    assert plan["draft_version"] == 1
    assert len(plan["plan_id"]) == 64
    stored = world.jobs[job_id].value("plan")
    assert stored == {name: plan[name] for name in stored}


def test_plan_covers_an_input_that_came_later(world: World) -> None:
    """S33: without a fingerprint in the submission the one that was recorded counts; the job's key
    stays what it was."""
    job_id = world.born()
    artifacts = {"draft": "one table", "fingerprint": "f9"}
    world.move(job_id, "draft_ready", ADA, artifacts=artifacts)
    assert answer(world.do(job_id, "freeze-plan"))["fingerprint"] == "f9"
    assert code(world.submit(params={"inputs": {"fingerprint": "f9"}})) == "moved"


def test_freezing_twice(world: World) -> None:
    """S33: equal content is the same plan and no write; other content is a conflict."""
    job_id = draft_ready(world)
    first = answer(world.do(job_id, "freeze-plan", answers={"year": 2024}))
    job = world.jobs[job_id]
    again = world.do(job_id, "freeze-plan", answers={"year": 2024})
    assert code(again) == "replayed"
    assert answer(again)["plan_id"] == first["plan_id"]
    said = refused(world.do(job_id, "freeze-plan", answers={"year": 2025}))
    assert (said.code, said.status) == ("PLAN_ALREADY_FROZEN_CONFLICT", 409)
    assert said.extra["plan_id"] == first["plan_id"]
    assert code(world.do(job_id, "confirm", confirmed=True, answers={"year": 2025})) == said.code
    assert world.jobs[job_id] is job


@pytest.mark.parametrize("status", ["queued", "running", "succeeded", "failed"])
def test_frozen_content_is_replayed_anywhere(world: World, status: str) -> None:
    """S18 S33: the repeat of a freeze whose answer was lost gets its plan, wherever the job is."""
    job = at(world, status)
    said = world.do(job.id, "freeze-plan")
    assert code(said) == "replayed"
    assert answer(said)["plan_id"] == job.value("plan")["plan_id"]


def test_freezing_needs_its_answers(world: World) -> None:
    """S22 S23 S33: a blocked freeze lists what is missing and moves nothing."""
    job_id = draft_ready(world, QUESTIONS)
    job = world.jobs[job_id]
    said = refused(world.do(job_id, "freeze-plan"))
    assert (said.code, said.status) == ("PLAN_FREEZE_MISSING_REQUIRED", 400)
    assert said.extra["missing"] == ["year"]
    assert world.jobs[job_id] is job
    assert code(world.do(job_id, "freeze-plan", answers={"year": 2024})) == "noted"


@pytest.mark.parametrize(
    ("draft", "missing"),
    [
        (QUESTIONS, ["year"]),
        ({"required": ["b", "a", "b"]}, ["b", "a"]),
        ({"required": ["a"], "questions": [{"id": "b", "required": True}]}, ["a", "b"]),
        ({"questions": [{"id": "a", "required": False}, {"id": "b"}]}, []),
        ({"questions": "none", "required": {"a": 1}}, []),
        ({"questions": [1, {}, {"required": True}, {"id": 7, "required": True}]}, []),
        ("a text asks nothing", []),
    ],
)
def test_questions_of_a_draft(world: World, draft: Any, missing: list[str]) -> None:
    """S29: what a draft insists on, however it is written."""
    job_id = draft_ready(world, draft)
    said = world.do(job_id, "confirm", confirmed=True)
    if not missing:
        assert code(said) == "moved"
        return
    assert (refused(said).code, refused(said).status) == ("DRAFT_CONFIRM_BLOCKED", 400)
    assert refused(said).extra["missing"] == missing


@pytest.mark.parametrize("given", [{"year": None}, {"year": "  "}, {"unit": "EUR"}])
def test_answers_that_say_nothing(world: World, given: dict[str, Any]) -> None:
    """S29: null and blanks leave a question open; 0 and false are answers."""
    job_id = draft_ready(world, QUESTIONS)
    assert code(world.do(job_id, "confirm", confirmed=True, answers=given)) == (
        "DRAFT_CONFIRM_BLOCKED"
    )
    assert code(world.do(job_id, "confirm", confirmed=True, answers={"year": 0})) == "moved"


def test_answers_of_the_submission_count(world: World) -> None:
    """S29"""
    job_id = world.born(params={**WORDS, "answers": {"year": 2024}})
    world.do(job_id, "draft", draft=QUESTIONS)
    assert code(world.do(job_id, "run")) == "moved"
    assert world.jobs[job_id].value("plan")["answers"] == {"year": 2024}


def test_later_answers_win(world: World) -> None:
    """S29: what confirming says stands over what the submission said."""
    job_id = world.born(params={**WORDS, "answers": {"year": 2024, "unit": "EUR"}})
    world.do(job_id, "draft", draft=QUESTIONS)
    world.do(job_id, "confirm", confirmed=True, answers={"year": 2025})
    assert world.jobs[job_id].value("plan")["answers"] == {"year": 2025, "unit": "EUR"}


def test_confirming_is_one_commit(world: World) -> None:
    """S3 S4 S29 S37 S-r3 S-r5: freeze, two hops and the place in line share one version."""
    before = at(world, "draft_ready")
    said = world.do(before.id, "confirm", confirmed=True)
    assert isinstance(said, Decision)
    assert [hop.to_status for hop in said.hops] == ["confirmed", "queued"]
    assert [artifact.name for artifact in said.artifacts] == ["plan"]
    job = world.jobs[before.id]
    assert job.version == before.version + 1
    assert job.scheduled_at == world.now
    assert job.run is not None
    assert job.live


@pytest.mark.parametrize("status", STATUSES)
def test_confirming_with_a_no(world: World, status: str) -> None:
    """A no changes nothing, in no state, and is not a repeat of anything."""
    job = at(world, status)
    said = world.do(job.id, "confirm", confirmed=False)
    assert isinstance(said, NoOp)
    assert (said.answer["skipped"], said.answer["replayed"]) == (True, False)
    assert world.jobs[job.id] is job


@pytest.mark.parametrize("command", ["confirm", "run"])
def test_blocked_freeze_moves_nothing(world: World, command: str) -> None:
    """S22 S23: not to `confirmed`, not to `queued`, no run, no version."""
    job_id = draft_ready(world, QUESTIONS)
    job = world.jobs[job_id]
    said = refused(world.do(job_id, command, confirmed=True))
    assert (said.code, said.status) == ("DRAFT_CONFIRM_BLOCKED", 400)
    assert world.jobs[job_id] is job
    said = refused(world.move(job_id, "confirmed", ADA))
    assert (said.code, said.status, said.extra) == (
        "DRAFT_CONFIRM_BLOCKED",
        400,
        {"missing": ["year"]},
    )


def test_confirmed_by_hand_rests_and_wants_a_plan(world: World) -> None:
    """S4 S23 S29 S34: a job that was moved to `confirmed` is not queued without a plan."""
    job_id = draft_ready(world)
    world.move(job_id, "confirmed", ADA)
    job = world.jobs[job_id]
    said = refused(world.move(job_id, "queued", ADA))
    assert (said.code, said.status) == ("PLAN_MISSING", 409)
    assert world.jobs[job_id] is job
    assert code(world.do(job_id, "confirm", confirmed=True)) == "moved"
    assert world.jobs[job_id].value("plan") is not None


@pytest.mark.parametrize("status", ["draft_ready", "confirmed"])
def test_run_freezes_as_confirming_does(world: World, status: str) -> None:
    """S29"""
    job_id = draft_ready(world)
    if status == "confirmed":
        world.move(job_id, "confirmed", ADA)
    assert code(world.do(job_id, "run")) == "moved"
    assert world.jobs[job_id].value("plan")["draft_version"] == 1


FORGED = {
    "plan_id": "0" * 64,
    "fingerprint": "f1",
    "requirement": "Sum the sales by region",
    "answers": {"year": 1},
    "draft_version": 1,
}


@pytest.mark.parametrize("plan", ["x", {}, 0, FORGED])
@pytest.mark.parametrize("who", [ADA, WORKER, ADMIN])
def test_plan_is_frozen_and_never_brought(who: Actor, plan: Any) -> None:
    """S23 S33: whatever a report calls the plan, whoever sends it and from wherever, only freezing
    makes one."""
    for status, to in sorted(MOVES):
        world = World(definition)
        job = at(world, status)
        said = world.move(job.id, to, who, artifacts={"plan": plan}, failure_message="no")
        assert isinstance(said, Refused)
        assert code(said) in ("VALIDATION_ERROR", "FORBIDDEN", "DRAFT_MISSING"), (status, to)
        assert world.jobs[job.id] is job


@pytest.mark.parametrize("name", ["draft", "answers", "fingerprint", "input"])
def test_report_of_the_work_keeps_what_was_agreed(world: World, name: str) -> None:
    """S-r10: nor does it bring anything that the plan covers."""
    job = at(world, "running")
    brought = {name: {"text": "another"} if name in ("draft", "answers") else "another"}
    said = world.callback(job.id, "e1", "succeeded", artifacts=brought)
    assert code(said) == "VALIDATION_ERROR"
    assert world.jobs[job.id] is job
    known = {"draft": "one table", "plan": job.value("plan")}
    assert code(world.callback(job.id, "e1", "succeeded", artifacts=known)) == "moved"
    assert [one.version for one in world.jobs[job.id].artifacts.values()] == [1, 1]


@pytest.mark.parametrize("draft", ["", " ", [], 0, False, ["one table"], 1.5])
def test_draft_that_is_none(world: World, draft: Any) -> None:
    """S28: it counts as absent where one is waited for, and is refused elsewhere."""
    job = at(world, "created")
    for who in (ADA, WORKER, ADMIN):
        said = world.move(job.id, "draft_ready", who, artifacts={"draft": draft})
        assert code(said) == "DRAFT_MISSING"
    assert code(world.do(job.id, "draft", draft=draft)) == "DRAFT_MISSING"
    assert code(world.tell(job.id, Edit(ADA, "draft", draft))) == "DRAFT_MISSING"
    assert world.jobs[job.id] is job
    world.do(job.id, "draft", draft="one table")
    job = world.jobs[job.id]
    for said in (
        world.move(job.id, "confirmed", ADA, artifacts={"draft": draft}),
        world.do(job.id, "draft", draft=draft),
        world.tell(job.id, Edit(ADA, "draft", draft)),
    ):
        assert code(said) == "VALIDATION_ERROR"
    assert world.jobs[job.id] is job


@pytest.mark.parametrize("command", ["confirm", "run"])
def test_repeats_keep_everything(world: World, command: str) -> None:
    """S18 S19 S26 S38 S-r2: version, updated_at and scheduled_at stay; the run is named."""
    job_id = queued(world)
    job = world.jobs[job_id]
    said = world.do(job_id, command, confirmed=True)
    assert answer(said) == {"replayed": True, "run_id": job.run_id}
    assert world.jobs[job_id] is job


def test_claim_is_stored_before_work(world: World) -> None:
    """S5 S30 S35 S36: attempt, lock and lease are in the commit; a second claim gets the run."""
    job_id = queued(world)
    assert code(world.claim(job_id)) == "moved"
    job = world.jobs[job_id]
    assert job.attempt is not None
    assert (job.status, job.attempt.status, job.attempt.number) == ("running", "running", 1)
    assert job.lock("job") is not None
    assert job.started_at == world.now
    said = refused(world.claim(job_id))
    assert (said.code, said.extra["run_id"]) == ("JOB_ALREADY_RUNNING", job.run_id)


def test_success(world: World) -> None:
    """S6 S31: final, at 100 %, with its result; the lock is free."""
    job = at(world, "succeeded")
    assert (job.progress, job.result, job.locks) == (100, {"rows": 3}, ())
    assert job.completed_at is not None


def test_failure_says_why(world: World) -> None:
    """S7 S31: a reason is wanted, and kept."""
    job_id = running(world)
    said = refused(world.callback(job_id, "e0", "failed"))
    assert (said.code, said.status) == ("VALIDATION_ERROR", 400)
    world.callback(job_id, "e1", "failed", failure_code="BAD", failure_message="no such column")
    job = world.jobs[job_id]
    assert (job.failure_code, job.failure_message, job.locks) == ("BAD", "no such column", ())
    assert job.correlation_id == job.run_id


def failing(failure: Failure) -> tuple[World, str]:
    """A job whose stage in the house fails until the job does."""
    world = World(bound(definition))
    job_id = queued(world)
    world.start(job_id)
    while code(world.ended(job_id, "failed", failure)) == "noted":
        world.fire(job_id, "backoff")
        world.start(job_id)
    return world, job_id


def test_attempts_are_bounded() -> None:
    """S31 S35: three attempts, the job `running` all the while, then `failed`."""
    world, job_id = failing(TIMEOUT)
    job = world.jobs[job_id]
    assert (job.attempts, job.retry_count) == (3, 3)
    assert world.path(job_id)[-3:] == ["queued", "running", "failed"]
    assert (job.failure_code, job.attempt) == ("STAGE_TIMEOUT", None)


def test_permanent_error_is_not_repeated() -> None:
    """S31"""
    world, job_id = failing(CORRUPT)
    assert (world.jobs[job_id].attempts, world.jobs[job_id].failure_code) == (1, "CORRUPT_INPUT")


def test_stage_has_an_hour() -> None:
    """S31 S-r12: the run limit ends an attempt like any other failure."""
    world = World(bound(definition))
    job_id = queued(world)
    world.start(job_id)
    began = world.now
    world.fire(job_id, "limit")
    assert world.now - began >= 3_600_000
    job = world.jobs[job_id]
    assert (job.status, job.retry_count) == ("running", 1)
    assert job.timer("backoff") is not None


def test_silent_worker_loses_its_attempt(world: World) -> None:
    """S36 S-r12: an expired lease makes the attempt claimable again, and three end the run."""
    job_id = running(world)
    for _ in range(2):
        world.fire(job_id, "lease")
        assert world.jobs[job_id].status == "running"
        assert code(world.claim(job_id)) == "JOB_ALREADY_RUNNING"
        world.fire(job_id, "backoff")
        assert code(world.claim(job_id)) == "noted"
    world.fire(job_id, "lease")
    job = world.jobs[job_id]
    assert (job.status, job.failure_code) == ("failed", "HEARTBEAT_LOST")


def test_unclaimed_work_does_not_wait_for_ever(world: World) -> None:
    """Every job that waits for no person ends: an attempt that nobody takes again runs out."""
    job_id = running(world)
    world.fire(job_id, "lease")
    while world.jobs[job_id].status == "running":
        world.fire(job_id, "deadline")
    assert world.jobs[job_id].failure_code == "STAGE_TIMEOUT"


def test_crash_spends_nothing() -> None:
    """S31 S-r12: the dangling attempt is closed as interrupted, and costs nothing."""
    world = World(bound(definition))
    job_id = queued(world)
    world.start(job_id)
    said = world.tell(job_id, Recovered())
    assert isinstance(said, Decision)
    assert [one.outcome for one in said.attempts] == ["interrupted", ""]
    job = world.jobs[job_id]
    assert (job.status, job.retry_count, job.attempts) == ("running", 0, 2)


@pytest.mark.parametrize("how", ["claim", "callback", "start"])
def test_no_plan_at_pick_up(how: str) -> None:
    """S34: picked up without a plan, a job fails as PLAN_MISSING in the same commit, for good."""
    world = World(bound(definition) if how == "start" else definition)
    job_id = queued(world)
    job = world.jobs[job_id]
    world.jobs[job_id] = replace(
        job, artifacts={name: one for name, one in job.artifacts.items() if name != "plan"}
    )
    if how == "start":
        said = world.start(job_id)
    else:
        said = world.claim(job_id) if how == "claim" else world.callback(job_id, "e1", "running")
    assert isinstance(said, Decision)
    assert [hop.to_status for hop in said.hops] == ["running", "failed"]
    job = world.jobs[job_id]
    assert (job.failure_code, job.locks, job.attempt) == ("PLAN_MISSING", (), None)
    assert not job.timers
    for command in ("run", "retry"):
        assert code(world.do(job_id, command)) == "PLAN_MISSING"
    assert code(world.move(job_id, "queued")) == "PLAN_MISSING"


def test_operator_is_told_of_a_missing_plan(world: World) -> None:
    """S20 S34: by hand nothing is walked instead; the hand is refused."""
    job_id = queued(world)
    job = replace(world.jobs[job_id], artifacts={})
    world.jobs[job_id] = job
    assert code(world.move(job_id, "running")) == "PLAN_MISSING"
    assert world.jobs[job_id] is job


@pytest.mark.parametrize("command", ["run", "retry"])
def test_explicit_retry_begins_afresh(command: str) -> None:
    """S8 S32 S38 S-r4: a new run with a fresh budget, a new place in line, no trace of the
    failure; and the same plan."""
    world, job_id = failing(TIMEOUT)
    before = world.jobs[job_id]
    assert before.completed_at is not None
    said = world.do(job_id, command)
    job = world.jobs[job_id]
    assert answer(said)["run_id"] == job.run_id != before.run_id
    assert before.scheduled_at is not None
    assert job.scheduled_at is not None
    assert job.scheduled_at > before.scheduled_at
    assert (job.failure_code, job.failure_message, job.completed_at) == (None, None, None)
    assert (job.attempts, job.retry_count, job.progress) == (0, 0, 0)
    assert job.value("plan") == before.value("plan")
    world.start(job_id)
    assert world.jobs[job_id].serial == before.serial + 1


def test_nothing_retries_by_itself() -> None:
    """S8 S-r13: a failed job has no timer, no place in line and no live run."""
    world, job_id = failing(TIMEOUT)
    job = world.jobs[job_id]
    assert (job.timers, job.line_at, job.live) == ((), None, False)
    assert code(world.move(job_id, "queued", WORKER)) == "FORBIDDEN"
