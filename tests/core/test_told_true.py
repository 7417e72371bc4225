"""What a job says of itself, and what a refusal says of a job, is about now and here."""

from typing import Any

import pytest
from jobrunner_asset_pattern import definition as asset_pattern
from jobrunner_cutx import definition as cutx
from jobrunner_howera import definition as howera
from jobrunner_image_generation import definition as image_generation
from jobrunner_ss import definition as ss

from jobrunner.core.declaration.workflow import Definition, Quota
from jobrunner.core.job import STAGE, Failure
from jobrunner.core.messages import Beat, Pause, Stop
from jobrunner.errors import Refused
from tests.core.workshop import WORKSHOP
from tests.driving import ADA, ADMIN, WORKER, World, bound, code, outside, picture, varied

PROMPT = {"prompt": "a lighthouse at dusk"}
BROKEN = Failure("REMOTE_FAILED", "the provider answered 500")


def refused(said: Any) -> Refused:
    assert isinstance(said, Refused), said
    return said


# ---------------------------------------------------------------- failures


def test_completed_job_has_no_failure_of_an_earlier_try() -> None:
    """I5 I32: while it is worked on again neither; the attempt keeps it."""
    world = World(bound(image_generation))
    job_id = world.born(params=PROMPT)
    world.start(job_id)
    world.ended(job_id, "failed", BROKEN)
    assert world.jobs[job_id].failure_code == "REMOTE_FAILED"
    world.fire(job_id, "retry")
    assert world.jobs[job_id].failure_code == "REMOTE_FAILED"
    world.start(job_id)
    job = world.jobs[job_id]
    assert (job.status, job.failure_code, job.failure_message) == ("running", None, None)
    world.ended(job_id, "done", assets=(picture(),))
    job = world.jobs[job_id]
    found = (job.status, job.failure_code, job.failure_message, job.failed_stage)
    assert found == ("completed", None, None, None)
    assert world.tried(job_id)[0].failure == Failure(
        "REMOTE_FAILED", "the provider answered 500", "running"
    )


def test_end_that_names_no_reason_has_none_of_an_earlier_try() -> None:
    """I7: it was refused, and not by the network."""
    world = World(outside(image_generation))
    job_id = world.born(params=PROMPT)
    world.claim(job_id)
    world.callback(job_id, "e1", "failed", failure_code="NETWORK", failure_message="gone")
    world.fire(job_id, "retry")
    world.move(job_id, "rejected", ADMIN)
    assert world.jobs[job_id].failure_code == "REJECTED"


def test_dead_letter_keeps_the_reason_that_led_there() -> None:
    """I9: given up by hand, it is still known why it had failed."""
    world = World(outside(image_generation))
    job_id = world.born(params=PROMPT)
    world.claim(job_id)
    world.callback(job_id, "e1", "failed", failure_code="NETWORK", failure_message="gone")
    world.move(job_id, "dead_letter", ADMIN)
    assert world.jobs[job_id].failure_code == "NETWORK"


@pytest.mark.parametrize("how", ["stage", "callback", "move"])
def test_partial_without_a_code_is_the_same_from_whomever(how: str) -> None:
    """P4 P23"""
    world = World(bound(asset_pattern) if how == "stage" else outside(asset_pattern))
    job_id = world.born("export", {})
    if how == "stage":
        world.start(job_id)
        world.ended(job_id, "partial", Failure("PARTIAL", "2 of 3", retryable=False))
    else:
        world.claim(job_id)
        if how == "callback":
            world.callback(job_id, "e1", "partial", failure_message="2 of 3")
        else:
            world.move(job_id, "partial", WORKER, failure_message="2 of 3")
    job = world.jobs[job_id]
    assert (job.status, job.failure_code, job.failure_message) == ("partial", "PARTIAL", "2 of 3")


def test_other_ends_without_a_code() -> None:
    world = World(outside(image_generation))
    job_id = world.born(params=PROMPT)
    world.claim(job_id)
    world.callback(job_id, "e1", "rejected", failure_message="not this")
    assert world.jobs[job_id].failure_code == "REJECTED"


# ---------------------------------------------------------------- progress


def test_message_of_a_stage_is_not_the_next_one_s() -> None:
    world = World(WORKSHOP)
    job_id = world.born()
    world.do(job_id, "go")
    world.start(job_id)
    world.tell(job_id, Beat(STAGE, 40, "cutting"))
    world.ended(job_id, "done", artifacts={"pieces": 4}, message="all is cut", progress=90)
    job = world.jobs[job_id]
    assert (job.status, job.progress_message) == ("gluing", None)


def test_message_of_the_move_is_the_next_stage_s() -> None:
    world = World(outside(howera))
    job_id = world.born()
    world.do(job_id, "confirm-upload", video_uri="s3://v")
    world.callback(job_id, "e1", "AUDIO_EXTRACTING", message="extracting")
    assert world.jobs[job_id].progress_message == "extracting"
    world.callback(job_id, "e2", "AUDIO_READY", message="extracted")
    world.callback(job_id, "e3", "TRANSCRIBING")
    assert world.jobs[job_id].progress_message is None
    world.callback(job_id, "e4", "TRANSCRIBING", message="listening")
    assert world.jobs[job_id].progress_message == "listening"


def test_last_message_stays_with_an_end() -> None:
    world = World(outside(cutx))
    job_id = world.born("copy", {"product_id": "lamp-7"})
    world.claim(job_id)
    world.callback(job_id, "e1", "completed", result={"a": 1}, message="written")
    assert world.jobs[job_id].progress_message == "written"


# ---------------------------------------------------------------- refusals


ENDED: list[tuple[Definition, str, dict[str, Any], str]] = [
    (cutx, "copy", {"product_id": "lamp-7"}, "canceled"),
    (howera, "video", {}, "CANCELLED"),
]


@pytest.mark.parametrize(("definition", "job_type", "params", "end"), ENDED)
def test_what_is_asked_of_an_ended_job(
    definition: Definition, job_type: str, params: dict[str, Any], end: str
) -> None:
    """A claim, a pause and a stop are no moves, and are not refused as one."""
    world = World(outside(definition))
    job_id = world.born(job_type, params)
    world.do(job_id, "cancel")
    for said in (
        world.claim(job_id),
        world.tell(job_id, Pause(ADA)),
        world.tell(job_id, Stop(ADMIN)),
    ):
        told = refused(said)
        assert told.code == "TERMINAL_STATE"
        assert f"has ended as {end!r}: there is nothing to" in told.detail
        assert (told.extra["current_status"], told.extra["attempted_status"]) == (end, None)
        assert "cannot go" not in told.detail


@pytest.mark.parametrize(
    ("definition", "job_type"), [(howera, "video"), (ss, "work")], ids=["howera", "ss"]
)
def test_claim_of_a_job_that_waits_for_a_person(definition: Definition, job_type: str) -> None:
    """Nobody works on it, so nobody is in the way: there is nothing to take."""
    world = World(outside(definition))
    job = world.jobs[world.born(job_type, {})]
    told = refused(world.claim(job.id))
    assert (told.code, told.status) == ("ILLEGAL_TRANSITION", 409)
    assert told.extra["allowed_next_statuses"] == world.definition.targets(job.status)
    assert "nothing to claim" in told.detail
    assert world.jobs[job.id] is job


def test_claim_beside_a_live_run_names_it() -> None:
    """An orchestrator's run between two of its stages is under way."""
    world = World(outside(howera))
    job_id = world.born()
    world.do(job_id, "confirm-upload", video_uri="s3://v")
    world.callback(job_id, "e1", "AUDIO_EXTRACTING")
    world.callback(job_id, "e2", "AUDIO_READY", artifacts={"audio_uri": "s3://a"})
    told = refused(world.claim(job_id))
    assert (told.code, told.extra["run_id"]) == (
        "JOB_ALREADY_RUNNING",
        world.jobs[job_id].run_id,
    )


# ---------------------------------------------------------------- quotas


def test_repeat_that_takes_a_place_needs_no_other() -> None:
    """I15 I17: at the limit, the predecessor ends in the commit that makes its successor."""
    definition = varied(outside(image_generation), quota=Quota(open_jobs=1))
    world = World(definition)
    job_id = world.born(params=PROMPT)
    assert code(world.submit(params={"prompt": "another"})) == "QUOTA_EXCEEDED"
    world.claim(job_id)
    world.callback(job_id, "e1", "failed", failure_message="gone")
    again = world.submit(params=PROMPT)
    assert code(again) == "moved", again
    assert world.jobs[job_id].status == "dead_letter"
    assert code(world.submit(params={"prompt": "another"})) == "QUOTA_EXCEEDED"
