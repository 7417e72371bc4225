"""The howera lifecycle: a transcript that somebody looks at before it is used."""

from typing import Any

import pytest

from jobrunner.check.checking import check
from jobrunner.core.access import needs_person
from jobrunner.core.messages import Edit
from tests.driving import ADA, World, bound, code, varied
from tests.plugins.howera_arranged import a_file, at, audio_extracting, definition, on, refused

REVIEW = {"auto_edit": False, "review_transcript": True}
HERE = varied(bound(definition), settings=REVIEW)
HEARD = {"segments": [{"start_s": 0.0, "end_s": 2.0, "text": "Plug the machine.", "doubtful": [0]}]}
RIGHT = {"segments": [{"start_s": 0.0, "end_s": 2.0, "text": "Unplug the machine."}]}


def heard(world: World, **more: Any) -> str:
    """Its own stages have brought it as far as the transcript."""
    job_id = audio_extracting(world)
    for name in ("audio", "transcript"):
        world.start(job_id)
        brought = a_file(name)
        brought["artifacts"] |= more if name == "transcript" else {}
        world.ended(job_id, "done", **brought)
    return job_id


@pytest.fixture
def world() -> World:
    return World(HERE)


def test_the_declaration_holds_with_the_setting() -> None:
    assert check(HERE) == ()
    assert check(varied(definition, settings=REVIEW)) == ()


def test_the_transcript_waits_for_a_person(world: World) -> None:
    job = world.jobs[heard(world, transcript=HEARD)]
    assert (job.status, job.live) == ("TRANSCRIPT_READY", True)
    assert needs_person(HERE, job)


def test_without_the_setting_nobody_is_waited_for() -> None:
    world = World(bound(definition))
    job = world.jobs[heard(world)]
    assert job.status == "GENERATING"
    assert not needs_person(bound(definition), job)


def test_what_was_heard_wrong_is_corrected_there_and_run_resumes(world: World) -> None:
    job_id = heard(world, transcript=HEARD)
    run_id = world.jobs[job_id].run_id
    assert code(world.tell(job_id, Edit(ADA, "transcript", RIGHT, base_version=1))) == "noted"
    assert world.jobs[job_id].status == "TRANSCRIPT_READY"
    assert code(world.do(job_id, "run")) == "moved"
    job = world.jobs[job_id]
    assert (job.status, job.run_id, job.value("transcript")) == ("GENERATING", run_id, RIGHT)
    assert code(world.do(job_id, "run")) == "replayed"


@pytest.mark.parametrize(
    "wrong",
    [{}, {"segments": []}, {"segments": "x"}, {"segments": [{"text": "no times"}]},
     {"segments": [{"start_s": "0", "end_s": 1, "text": "x"}]}],
)  # fmt: skip
def test_what_the_next_stage_could_not_read_is_not_taken(world: World, wrong: Any) -> None:
    job = world.jobs[heard(world, transcript=HEARD)]
    said = refused(world.tell(job.id, Edit(ADA, "transcript", wrong)))
    assert (said.code, said.extra["errors"][0]["path"]) == ("VALIDATION_ERROR", "$.value")
    assert world.jobs[job.id] is job


@pytest.mark.parametrize("status", ["AUDIO_READY", "GENERATING", "EDITING", "DONE"])
def test_elsewhere_it_is_locked(status: str) -> None:
    world = World(definition)
    job = at(world, status)
    assert code(world.tell(job.id, Edit(ADA, "transcript", RIGHT))) == "JOB_LOCKED"
    assert world.jobs[job.id] is job


def test_a_person_may_take_longer_than_a_run(world: World) -> None:
    """The run lapses, the status stays, and run begins another one from there."""
    job_id = heard(world, transcript=HEARD)
    before = world.jobs[job_id].run_id
    world.fire(job_id, "lapse")
    job = world.jobs[job_id]
    assert (job.status, job.live) == ("TRANSCRIPT_READY", False)
    assert code(world.do(job_id, "run")) == "moved"
    assert world.jobs[job_id].status == "GENERATING"
    assert world.jobs[job_id].run_id != before


def test_whoever_works_outside_is_not_started_beside() -> None:
    world = World(varied(definition, settings=REVIEW))
    job_id = on(world, audio_extracting(world), "AUDIO_READY", "TRANSCRIBING", "TRANSCRIPT_READY")
    assert code(world.do(job_id, "run")) == "replayed"
    assert world.jobs[job_id].status == "TRANSCRIPT_READY"
