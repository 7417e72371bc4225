"""The howera lifecycle: the table of its edges, commands from everywhere, the video, bodies."""

from typing import Any

import msgspec
import pytest
from jobrunner_howera.params import ConfirmUpload, Export, Fail, Nothing, Regenerate
from msgspec.structs import replace

from jobrunner.check.checking import check
from jobrunner.core.decision import Decision
from jobrunner.core.job import Actor
from jobrunner.core.messages import Do, Fired
from tests.driving import ADA, ADMIN, EVE, WORKER, World, bound, code
from tests.plugins.howera_arranged import (
    FINAL,
    ILLEGAL,
    MOVES,
    OPEN,
    REPORTS,
    RETRYABLE,
    STATUSES,
    VIDEO,
    WHY,
    answer,
    at,
    audio_ready,
    created,
    definition,
    failed,
    on,
    refused,
    uploading,
)


@pytest.fixture
def world() -> World:
    return World(definition)


def test_declaration_is_sound() -> None:
    assert check(definition) == ()
    assert check(bound(definition)) == ()


def test_states_are_the_fifteen(world: World) -> None:
    """H2 H3 H8: fifteen, three of them final, and a job begins in the first."""
    assert tuple(definition.states) == STATUSES
    assert tuple(name for name, one in definition.states.items() if one.kind == "final") == FINAL
    assert world.jobs[created(world)].status == "CREATED"


def test_pairs_are_forty_two() -> None:
    """H17 H20: what the table lists is what the sheet lists."""
    listed = {(source, target) for source, row in definition.table.items() for target in row}
    assert listed == MOVES
    assert len(listed) == 42


TRIGGERS = {
    ("AUDIO_READY", "TRANSCRIBING"): "EUW",
    ("TRANSCRIPT_READY", "GENERATING"): "EUW",
    ("DRAFT_READY", "EDITING"): "EUW",
    ("AUDIO_EXTRACTING", "AUDIO_READY"): "SW",
    ("TRANSCRIBING", "TRANSCRIPT_READY"): "SW",
    ("GENERATING", "DRAFT_READY"): "SW",
    ("EXPORTING", "DONE"): "SW",
    ("REGENERATING", "EDITING"): "ESTW",
    ("EXPORTING", "EDITING"): "ESTW",
    **{(status, status): "ESTW" for status in RETRYABLE},
    **{(status, "CANCELLED"): "TUW" for status in OPEN},
    **{(status, "FAILED"): "ESTW" for status in OPEN},
}


@pytest.mark.parametrize("pair", sorted(MOVES))
def test_triggers(pair: tuple[str, str]) -> None:
    """H9 H17 H36: who may take each edge, beside an operator's hand; an orchestrator takes all."""
    by = definition.table[pair[0]][pair[1]].by
    assert "".join(sorted(one[0].upper() for one in by)) == TRIGGERS.get(pair, "UW")


@pytest.mark.parametrize("how", ["hand", "callback"])
@pytest.mark.parametrize("to", STATUSES)
@pytest.mark.parametrize("status", STATUSES)
def test_pair(world: World, how: str, status: str, to: str) -> None:
    """H4 H17-H25 H30-H36 H61-H63: 39 pairs move, three re-enter, the other 183 are refused with
    both states named and nothing changed; by an operator's hand and by a callback alike."""
    before = at(world, status)
    seen = len(world.events)
    report = REPORTS.get(to, {})
    if how == "hand":
        said = world.move(before.id, to, ADMIN, **report)
    else:
        said = world.callback(before.id, "the-event", to, **report)
    job = world.jobs[before.id]
    if (status, to) in MOVES:
        assert (code(said), job.status, job.version) == ("moved", to, before.version + 1)
        assert world.path(job.id)[-1] == to
        return
    told = refused(said)
    assert (told.code, told.status) == (
        "TERMINAL_STATE" if status in FINAL else "ILLEGAL_TRANSITION",
        409,
    )
    assert told.extra["current_status"] == status
    assert told.extra["attempted_status"] == to
    assert told.extra["allowed_next_statuses"] == sorted(b for a, b in MOVES if a == status)
    assert job is before
    assert len(world.events) == seen


BY_OWNER = {
    ("CREATED", "UPLOADING"),
    ("CREATED", "UPLOADED"),
    ("UPLOADING", "UPLOADED"),
    ("UPLOADED", "AUDIO_EXTRACTING"),
    ("AUDIO_READY", "TRANSCRIBING"),
    ("TRANSCRIPT_READY", "GENERATING"),
    ("DRAFT_READY", "EDITING"),
    ("EDITING", "REGENERATING"),
    ("EDITING", "EXPORTING"),
} | {(status, "CANCELLED") for status in OPEN}


@pytest.mark.parametrize("pair", sorted(MOVES))
def test_what_an_owner_may_take(world: World, pair: tuple[str, str]) -> None:
    """H20 H36: an owner neither reports on stages nor fails a job."""
    before = at(world, pair[0])
    report = {"artifacts": {"video_uri": VIDEO}} if pair[1] == "UPLOADED" else {}
    said = world.move(before.id, pair[1], ADA, **(report or REPORTS.get(pair[1], {})))
    assert code(said) == ("moved" if pair in BY_OWNER else "FORBIDDEN")
    assert (world.jobs[before.id] is before) == (pair not in BY_OWNER)


@pytest.mark.parametrize("status", ["ARCHIVED", "RETRY_FROM_FAILED", "VALIDATING", "created"])
def test_unknown_statuses(world: World, status: str) -> None:
    """H66: not of this version, so not known, whatever the job."""
    for job_id in (created(world), failed(world)):
        said = refused(world.callback(job_id, "e1", status))
        assert (said.code, said.status) == ("VALIDATION_ERROR", 400)


@pytest.mark.parametrize("status", STATUSES)
def test_strangers_see_nothing(world: World, status: str) -> None:
    job = at(world, status)
    for command in definition.commands:
        said = refused(world.do(job.id, command, EVE, video_uri="x", format="PDF", **WHY))
        assert (said.code, said.status) == ("NOT_FOUND", 404)
    assert code(world.move(job.id, "CANCELLED", EVE)) == "NOT_FOUND"
    assert world.jobs[job.id] is job


TERMINAL = "TERMINAL_STATE"
ENDED = dict.fromkeys(FINAL, TERMINAL)
FIELDS: dict[str, dict[str, Any]] = {
    "confirm-upload": {"video_uri": "s3://videos/other.mp4"},
    "export": {"format": "MD_ZIP"},
    "regenerate": {"client_request_id": "r2"},
    "fail": WHY,
}
CONFLICT = dict.fromkeys(STATUSES[2:], "VIDEO_URI_CONFLICT")
OUTCOMES: dict[str, dict[str, str]] = {
    "start-upload": {"CREATED": "UPLOADING", "UPLOADING": "satisfied", **ENDED},
    "confirm-upload": {"CREATED": "UPLOADED", "UPLOADING": "UPLOADED", **CONFLICT},
    "run": {
        "UPLOADED": "AUDIO_EXTRACTING",
        "AUDIO_EXTRACTING": "replayed",
        "AUDIO_READY": "replayed",
        "TRANSCRIBING": "replayed",
        "TRANSCRIPT_READY": "replayed",
        "GENERATING": "replayed",
        "DRAFT_READY": "EDITING",
        **ENDED,
    },
    "cancel": {**dict.fromkeys(OPEN, "CANCELLED"), **ENDED},
    "edit": {"DRAFT_READY": "EDITING", "EDITING": "satisfied", **ENDED},
    "regenerate": {
        "EDITING": "REGENERATING",
        "REGENERATING": "REGENERATE_IN_PROGRESS",
        **ENDED,
    },
    "export": {"EDITING": "EXPORTING", "EXPORTING": "JOB_ALREADY_RUNNING", **ENDED},
    "fail": {**dict.fromkeys(OPEN, "FAILED"), **ENDED},
}


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("command", OUTCOMES)
def test_command(world: World, command: str, status: str) -> None:
    """H26-H28 H31 H34 H42 H55 H63: what each command does from each state, and that a refused one
    changes nothing."""
    actor = ADMIN if command == "fail" else ADA
    expected = OUTCOMES[command].get(status, ILLEGAL)
    before = at(world, status)
    said = world.do(before.id, command, actor, **FIELDS.get(command, {}))
    job = world.jobs[before.id]
    if expected in STATUSES:
        assert (code(said), job.status) == ("moved", expected)
        assert job.version == before.version + 1
        return
    assert code(said) == expected
    assert job is before


@pytest.mark.parametrize("command", ["retry", "delete", "Run"])
def test_commands_that_are_not_there(world: World, command: str) -> None:
    """H21 H66: no retry, in particular none out of FAILED."""
    assert code(world.do(failed(world), command)) == "UNKNOWN_COMMAND"


@pytest.mark.parametrize(
    ("command", "actor", "status"),
    [
        ("fail", ADA, "EDITING"),
        ("fail", WORKER, "EDITING"),
        ("cancel", WORKER, "EDITING"),
        ("run", WORKER, "UPLOADED"),
        ("start-upload", ADMIN, "CREATED"),
        ("confirm-upload", ADMIN, "CREATED"),
        ("edit", ADMIN, "DRAFT_READY"),
        ("regenerate", ADMIN, "EDITING"),
        ("export", WORKER, "EDITING"),
    ],
)
def test_roles_of_commands(world: World, command: str, actor: Actor, status: str) -> None:
    job = at(world, status)
    assert code(world.do(job.id, command, actor, **FIELDS.get(command, {}))) == "FORBIDDEN"
    assert world.jobs[job.id] is job


@pytest.mark.parametrize(
    ("command", "status", "expected"),
    [
        ("start-upload", "CREATED", 200),
        ("confirm-upload", "CREATED", 200),
        ("run", "UPLOADED", 202),
        ("run", "DRAFT_READY", 200),
        ("cancel", "EDITING", 200),
        ("edit", "DRAFT_READY", 200),
        ("regenerate", "EDITING", 202),
        ("export", "EDITING", 202),
    ],
)
def test_status_of_success(world: World, command: str, status: str, expected: int) -> None:
    said = world.do(at(world, status).id, command, **FIELDS.get(command, {}))
    assert isinstance(said, Decision)
    assert said.status == expected
    assert said.answer["replayed"] is False


@pytest.mark.parametrize("command", OUTCOMES)
def test_stale_version_changes_nothing(world: World, command: str) -> None:
    """A caller that says what it saw is told when that is not so any more."""
    status = next(one for one, to in OUTCOMES[command].items() if to in STATUSES)
    job = at(world, status)
    actor = ADMIN if command == "fail" else ADA
    asked = Do(actor, command, FIELDS.get(command, {}), expected_version=99)
    said = refused(world.tell(job.id, asked))
    assert (said.code, said.extra["current_version"]) == ("JOB_VERSION_CONFLICT", job.version)
    assert world.jobs[job.id] is job
    assert code(world.tell(job.id, replace(asked, expected_version=job.version))) == "moved"


@pytest.mark.parametrize("status", [one for one in STATUSES if one not in ("CREATED", "UPLOADING")])
def test_same_video_is_replayed_in_any_state(world: World, status: str) -> None:
    """H5: the repeat of a confirmation changes nothing; leaving the address out is one too."""
    job = at(world, status)
    for fields in ({"video_uri": VIDEO}, {"video_uri": None}):
        said = world.do(job.id, "confirm-upload", **fields)
        assert code(said) == "replayed"
        assert answer(said)["replayed"] is True
    assert world.jobs[job.id] is job


@pytest.mark.parametrize("status", ["UPLOADED", "EDITING", "DONE"])
def test_another_video_is_a_conflict(world: World, status: str) -> None:
    """H5: with both addresses, also after the end."""
    said = refused(world.do(at(world, status).id, "confirm-upload", video_uri="s3://other"))
    assert (said.code, said.status) == ("VIDEO_URI_CONFLICT", 409)
    assert said.extra == {"current_video_uri": VIDEO, "submitted_video_uri": "s3://other"}


@pytest.mark.parametrize(
    ("status", "to"),
    [
        ("UPLOADED", "AUDIO_EXTRACTING"),
        ("AUDIO_EXTRACTING", "AUDIO_EXTRACTING"),
        ("AUDIO_EXTRACTING", "AUDIO_READY"),
        ("DRAFT_READY", "EDITING"),
        ("EDITING", "CANCELLED"),
    ],
)
def test_another_video_by_callback(world: World, status: str, to: str) -> None:
    """H5 H27: both doors agree; the same address is no news."""
    job = at(world, status)
    said = world.callback(job.id, "e1", to, artifacts={"video_uri": "s3://other"})
    assert refused(said).code == "VIDEO_URI_CONFLICT"
    assert refused(said).extra["current_video_uri"] == VIDEO
    assert world.jobs[job.id] is job
    assert code(world.callback(job.id, "e1", to, artifacts={"video_uri": VIDEO})) == "moved"
    assert world.jobs[job.id].artifacts["video_uri"].version == 1


def test_video_that_came_before_it_was_confirmed(world: World) -> None:
    """H5: an address that a callback brought along is the one that counts."""
    job_id = created(world)
    world.callback(job_id, "e1", "UPLOADING", artifacts={"video_uri": VIDEO})
    said = world.callback(job_id, "e2", "UPLOADED", artifacts={"video_uri": "s3://other"})
    assert refused(said).code == "VIDEO_URI_CONFLICT"
    assert code(world.callback(job_id, "e2", "UPLOADED")) == "moved"


def test_confirming_needs_an_address(world: World) -> None:
    """H5 H57"""
    job = at(world, "CREATED")
    for said in (
        world.do(job.id, "confirm-upload"),
        world.move(job.id, "UPLOADED", ADA),
        world.move(job.id, "UPLOADED", ADA, artifacts={"video_uri": " "}),
    ):
        assert (refused(said).code, refused(said).status) == ("VALIDATION_ERROR", 400)
    assert world.jobs[job.id] is job


def test_uploaded_file_is_the_video(world: World) -> None:
    """H5: after an upload through the service its address may be left out."""
    job_id = uploading(world)
    marks = {"uploaded_url": "/assets/one/content"}
    world.jobs[job_id] = replace(world.jobs[job_id], marks=marks)
    assert code(world.do(job_id, "confirm-upload")) == "moved"
    assert world.jobs[job_id].value("video_uri") == "/assets/one/content"


def test_running_needs_a_video(world: World) -> None:
    """H5 H26: brought to UPLOADED by a callback without one, a job can be told later."""
    job_id = created(world)
    world.callback(job_id, "e1", "UPLOADED")
    job = world.jobs[job_id]
    for actor in (ADA, ADMIN):
        told = refused(world.do(job_id, "run", actor))
        assert (told.code, told.status) == ("VIDEO_MISSING", 409)
    assert code(world.move(job_id, "AUDIO_EXTRACTING", ADA)) == "VIDEO_MISSING"
    assert world.jobs[job_id] is job
    said = world.do(job_id, "confirm-upload", video_uri=VIDEO)
    assert code(said) == "noted"
    assert world.jobs[job_id].status == "UPLOADED"
    assert code(world.do(job_id, "run")) == "moved"


def test_orchestrator_needs_no_video(world: World) -> None:
    """H26 H-r9: a callback is taken at its word."""
    job_id = created(world)
    world.callback(job_id, "e1", "UPLOADED")
    assert code(world.callback(job_id, "e2", "AUDIO_EXTRACTING")) == "moved"


def test_submissions_are_told_apart_by_the_clients_key(world: World) -> None:
    """H3: two jobs without a key are two jobs; a key leads to its job in every state."""
    assert created(world) != created(world)
    job_id = world.born(key="mine")
    world.do(job_id, "cancel")
    assert code(world.submit(key="mine")) == "replayed"
    assert code(world.submit(key="mine", actor=EVE)) == "moved"


def test_timers_that_come_late(world: World) -> None:
    """H1: a timer of a state that was left does nothing."""
    job_id = audio_ready(world)
    timer = world.jobs[job_id].timer("lapse")
    assert timer is not None
    on(world, job_id, "TRANSCRIBING")
    world.now = timer.due_at + 1
    assert code(world.tell(job_id, Fired("lapse", timer.due_at))) == "timer_gone"


@pytest.mark.parametrize(
    ("struct", "body"),
    [
        (Nothing, {"video_uri": VIDEO}),
        (ConfirmUpload, {"video_uri": ""}),
        (ConfirmUpload, {"video_uri": "  "}),
        (ConfirmUpload, {"video_uri": 7}),
        (Regenerate, {"base_version": 0}),
        (Regenerate, {"instruction": ""}),
        (Regenerate, {"model": "x"}),
        (Export, {}),
        (Export, {"format": "DOCX"}),
        (Export, {"format": "PDF", "version": 0}),
        (Fail, {"failure_code": "X", "failure_message": "y"}),
        (Fail, {**WHY, "failed_stage": "EDITING"}),
    ],
)
def test_bodies_that_are_not_taken(struct: type, body: dict[str, Any]) -> None:
    """H57: missing, unknown or out of range."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(body, struct)
